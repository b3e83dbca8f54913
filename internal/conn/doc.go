// Package conn is the way to the database: how a statement is sent, and what differs between the five databases. It knows the names of the
// tables, and no verb.
//
//	a verb of the store ──► Exec, Read, Together …           send.go, session.go
//	  │ asks for words          │ text and arguments
//	  ▼                         ▼
//	Dialect                   Sender: the handle             a pool, a transaction, or a connection of our own (reserve.go)
//	mysql.go  tidb.go           │
//	postgres.go  sqlite.go      ▼
//	                          what an error says             answers.go, missing.go, pooler.go
//
// A [Dialect] has the words that differ, as fragments of SQL. A verb puts them together, and never asks which database it is. Where no words
// would do, a flag says what the database can do, as Arrays.
//
// A [Sender] sends statements to one set of tables in one database. What it does for each of them:
//
//   - It waits for the sender's turn, if the database has one writer (turn.go), or the connection is reserved: that can run one statement.
//   - It picks the connection (reserve.go). Statements about leases always have one of their own, beyond the pool's limit, so handlers that
//     hold all others keep no lease from being renewed. If the pool is full, most other statements of the engine share a second such
//     connection, and what handlers write a third.
//   - It commits, where sessions run with autocommit off (session.go).
//   - To SQLite, it sends a write until nobody else writes (busy.go).
//   - It names the remedy in an error that has one: tables that are missing, a pooler that mixes up prepared statements.
//
// It repeats a statement by itself only in these cases: the reserved connection was found to be broken; another connection writes to SQLite; a
// deadlock has undone the whole transaction, and the verb has asked for that ([Sender.InSpiteOfDeadlocks], [SendAgain]).
package conn
