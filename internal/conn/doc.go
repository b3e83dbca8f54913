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
//
// # A slow database
//
// Whoever gives a statement up loses its connection, and a login takes three to six answers. So if all answers take long, giving up too soon is what
// keeps anything from being answered. What has a patience is patient enough from the second time on:
//
//	a login to a reserved connection    3 s, then 12 s for all of a pool, and every 2 s another try begins beside it: a login that the server
//	                                    has forgotten must not keep the next one waiting. It goes on when whoever wanted it has given up (opening.go).
//	a statement on such a connection    It is not sent if whoever sends it gives up sooner than the last answer came (inTime).
//	a look at the leases                1 s, then a sixth of the shortest lease, until looks are quick again (cluster/patience.go)
//	a beat                              0.6 s, then until the connection of the leases answers: then only its own is dead (keeper/life.go).
//	                                    It counts for three to five answers longer, so that a mark can be answered in that time.
//	a renewal                           a sixth of the shortest lease, or four answers, up to half of that lease (keeper.go)
//	another look                        3 s, then twice as long each time, or four times as long as the last one, up to 30 s (ground.Looks)
//	a mark                              3 s, or three times as long as the last one, up to 10 s (pipeline/doubts.go)
//
// The first time costs a connection each. So jobs may stand still for as long as a few logins take, and go on then.
package conn
