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
//   - It waits for the sender's turn, if the database has one writer (turn.go), or the connection is one that the store has reserved.
//   - It takes the connection beyond the pool's limit, if the pool is full, so that handlers that hold all of its connections keep no
//     lease from being renewed (reserve.go).
//   - It commits, where sessions run with autocommit off (session.go).
//   - To SQLite, it sends a write until nobody else writes (busy.go).
//   - It names the remedy in an error that has one: tables that are missing, a pooler that mixes up prepared statements.
//
// It sends no statement twice on its own account, but on a reserved connection that was found to be broken, and in
// [Sender.InSpiteOfDeadlocks].
package conn
