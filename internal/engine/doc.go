// Package engine holds the loops: it marks due rows, runs them and settles them, for the job types whose leases this process
// holds. Package find finds the rows for it, package cluster says which leases it holds, and package upkeep does what is done once in a
// while.
//
//	find:       tail, sweep, loader: each row is offered
//	                                      │
//	                                      ▼
//	line:       schedule adds jobs      queue ──► dispatcher ──► workers ──► settler
//	                                    offer     mark           run         settle
//	                                      ▲                                    │
//	                                      └─── runs again within 3 seconds ────┘
//
// The states of a row in memory are drawn above type queue.
//
// # One lease, one line
//
// The engine has a database for each database that the configurations name, and the database has a line for each job type, or for each
// shard of it. A line has a bounded queue in memory and its actors. Dispatcher, loader and schedule work for one lease; the workers and
// the settler go on when a lease ends: what runs, runs on, and its outcome is written if no later term has taken the row over.
//
// # Why nothing is overwritten
//
// A mark writes the lease's term into the row, and raises the row's number of attempts. A settle says WHERE term = mine AND attempts =
// this run. So a holder that was frozen finds its successor's term, a late statement of the same holder finds a later attempt, and neither
// changes anything. A run that ended with Defer keeps its number; handlers are told the number less the row's deferred runs. A row with an
// earlier term was in flight when its process died: that is how losses are counted. What a mark asks besides stands above type marker, and
// what becomes of an outcome that is not written above type failures.
//
// # What is trusted, and when it is asked
//
// A mark is sent, and a handler started, only while the lease is trusted. Between the two answers and the act lies the margin
// of package lease. Everything that is written later carries the term, and needs no trust: a holder that has lost its lease
// settles only rows that no later term has marked, and that is right, for the work was done. If a process is frozen between
// the answer and the act for longer than the lease, it acts when it wakes, and nothing on its side can prevent that: the start
// is one too many, and its outcome is dropped. Pauses and cancellations are asked for twice a second (watch.go).
//
// # Limits
//
// One process dispatches all jobs of a type, or of a shard with its part of the limits. So limits are numbers in its memory; they are
// exact over all instances. Each is explained where it is kept: priorities in queue.go, keys in keys.go and turns.go, the rate in gate.go,
// workers of the process in quota.go, batches in admission.go, how far to mark ahead of busy workers in workers.go.
//
// # Goroutines
//
// The code that starts a goroutine stops it and waits for it: Engine.Stop returns nil only when none is left.
//
//	database    its keeper and its coordinator with two more loops, the finder's tail and sweep, the watch of cancellations; now and then
//	            a first look, the end of a pause, the registry, and the mending of what was put off while the database's clock was ahead
//	line        the settler; for each lease one that serves and then gives it away; while it serves, dispatcher, loader and schedule
//	workers     from a pool that all types of a database with the same WorkerExpirySecond share
//	task        each of package upkeep; each operation on many jobs that is carried out here
//	hook        of OnSettled, of OnDead and of observers of leases, for the whole engine
package engine
