// Package pipeline marks the rows of a job type that are due, runs their jobs and settles them. Somebody else finds the rows, and says which
// leases are held.
//
//	rows are offered
//	       │
//	       ▼
//	     queue ──────► dispatcher ──────► workers ──────► runner ──────► settler
//	     levels, keys  admissions, mark   gate, places    the handler    statements, log
//	       ▲                                                               │
//	       └─────────────────── runs again within 3 seconds ───────────────┘
//
// The states of a row in memory are drawn above type queue.
//
// # One lease, one line
//
// A Line is made for one configuration of a type, one layout and one shard, and none of these ever changes. It has one lease after the other,
// each with Hold and Serve. A dispatcher works for one lease; the workers and the settler go on when a lease ends: what runs, runs on, and its
// outcome is written if no later term has taken the row over. Bears says for how long that is. Process has what the lines of a database share.
// A line has a Backlog, which hears of rows that are not in memory and are to run. It is told whether its type is paused (Hear), and what still
// runs elsewhere (Heed).
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
// is one too many, and its outcome is dropped. Pauses and cancellations are asked for twice a second (cancels.go), and a worker asks for the
// answers last of all, right before it calls the handler (mayStart).
//
// # Limits
//
// One process dispatches all jobs of a type, or of a shard with its part of the limits. So limits are numbers in its memory; they are
// exact over all instances. Each is explained where it is kept: priorities in queue.go, keys in keys.go, workers of the process in quota.go,
// the rate and batches in admission.go, how far to mark ahead of busy workers in workers.go. What a type limits is an admission of the
// dispatcher, and a plain type has none.
package pipeline
