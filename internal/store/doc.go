// Package store holds the statements that the engine sends, those that add jobs, and the changes by people that have to agree with what the
// engine writes (steer.go: cancel, retry, pause). Package record has the others: what is noted beside the jobs, what people read, and the rest
// of what they change. Of what a row means, both know only what conditions need: which statuses are pending or final, which terms come later,
// which rows belong to a shard.
//
//	verbs        Mark, Settle, Tail, TakeLeases …    mostly a statement each; they never ask which database it is
//	  │ words │ text and arguments
//	  ▼       ▼
//	package conn                                     what differs between databases, and how a statement is sent
//
// testdata has the SQL of each verb of both, as it is sent to each database if the tables are empty and no row is locked: mysql.sql, mariadb.sql,
// postgresql.sql, sqlite.sql, and tidb.sql with what differs from MySQL's. A test compares them with the code, and writes them with -update.
//
// # Each statement carries its contract
//
// The comment of each verb says what it needs, what it changes, and what it means if fewer rows come back, or are written, than asked.
// Three rules hold for all of them:
//
//   - It can be sent again. If a connection breaks after sending, nobody knows whether the statement took effect, so
//     reading back or repeating must be harmless. [Store.AddJob], [Store.AddJobs] and record.Store.NoteAct are the exceptions, since each
//     sending adds rows; nothing here sends them twice, unless the first sending was rolled back.
//   - An UPDATE changes a value in every row that it matches, so the number of affected rows is the same whether the
//     connection counts found or changed rows (clientFoundRows). If it may write the values that are there already, as
//     in two renewals within a second, the rows are read back.
//   - A statement whose values are all numbers has them in its text: without arguments it costs one round trip, with
//     arguments three (prepare, execute, close). On PostgreSQL, the reads that recur have arguments all the same
//     (conn/postgres.go says why).
//
// # Rows that somebody has locked
//
// A transaction of the application may have locked rows that are due. A mark leaves them out: MySQL locks the rows first with NOWAIT, MariaDB
// is told not to wait, PostgreSQL gives up after five milliseconds, and then the mark is sent again without the locked rows. MySQL before
// 8.0.1, MariaDB before 10.6 and TiDB cannot leave rows out; there, the mark waits, and the engine cuts it after three seconds.
package store
