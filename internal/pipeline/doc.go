// Package pipeline marks the rows of a job type that are due, runs their jobs and settles them. Others find the rows, and say which leases are held.
// A plain job goes through queue.go, dispatcher.go, workers.go, run.go and settler.go; process.go makes the job for its handler. Others have what
// some jobs need. Mostly, a file uses earlier ones of task, process, queue, admission, workers, quota, counts, verdict, long_params, attempts,
// unwritten, followers, settler, doubts, key_rate, keys, fair, by_turns, dispatcher, locked, apart, run, expires, line, cancels.
//
//	rows are offered
//	       │
//	       ▼
//	     queue ──────► dispatcher ──────► workers ──────► runner ──────► settler
//	     levels, keys  admissions, mark   gate, quota     the handler    statements, log
//	       ▲                                                               │
//	       └─────────────────── runs again within 3 seconds ───────────────┘
//
// # One lease, one line
//
// A row in memory is a task; its states are drawn above type queue. A Line is made for one configuration of a type, one layout (into how
// many shards the type is divided) and one shard. None of these ever changes. The line has one lease after the other: after Hold, rows are
// offered to it; Serve starts jobs until the lease ends. Each lease has a dispatcher of its own, the loop that picks rows from the queue and
// has them marked. The workers and the settler belong to the line: when a lease ends, what runs, runs on, and its outcome is written if no
// later term has the row. Until then, the line still owes work under that lease (Bears). The line tells its Backlog of rows that are to run
// and are not in memory. It is told whether its type is paused (Hear), and what still runs under earlier leases, here or elsewhere (Heed).
//
// # Why nothing is overwritten
//
// A mark writes the lease's term into the row, and raises the row's number of attempts. A settle says WHERE term = mine AND attempts =
// this run (an unmark: AND changes, too). So if a holder was frozen, its settle finds the successor's term, and changes nothing; if a statement
// of the same holder comes late, it finds a later attempt, or other changes. Job.Attempt leaves runs out that ended with Defer.
//
// If a pending row has an earlier term, it was in flight when its process died, and the next holder counts that as a loss. (If it was lost too
// often, the row is failed WHERE term = that earlier one.) The holder leaves the row alone if jobs still run under that term, the term of a
// rest or, for two seconds, of a broken lease; or if a retired line of this process has it. A row that was cancelled and retried has no term,
// and a handler may have it: the queue, a retired line or the holder of a rest knows (notRunning). More stands above Store.Mark and type failures.
//
// # What is trusted, and when it is asked
//
// Trust ends earlier than the lease, by the margin and the rounding of package lease: at most so long may pass between asking Trusted and
// acting. The dispatcher asks before each turn, and a worker right before a run. If a turn is held up, its mark may still be sent half a second after
// trust has ended; a mark changes no row that a later term has. Everything that is written later carries the term, and needs no trust: a
// holder that has lost its lease settles only rows that no later term has marked, and that is right, for the work was done.
//
// If a process is frozen between the question and the start for longer than the rest of its lease, it starts the job when it wakes, and
// nothing on its side can prevent that. Then the job may run twice; if the next holder has marked the row, the first run's outcome is dropped.
//
// Twice a second, package cluster asks for pauses, and engine/watch.go for cancellations while something is marked (cancels.go). A worker checks
// the last answers right before a run (runner.begin); then observers hear of the run, and the handler is called.
//
// # Limits
//
// One process dispatches all jobs of a type, or of a shard with its part of the limits. So limits are numbers in its memory, and exact over
// all instances; only handlers that outlast a lost lease are not counted. Where a limit belongs depends on what it decides:
//
//	which row is next     queue.pick   priorities (queue.go); groups (fair.go); slots, MaxPerKey for each key: a row without a slot is parked (keys.go)
//	whose key may start   queue.pick   tokens, RatePerKey for each key: a row without one is parked; a start spends it (key_rate.go)
//	how many are marked   workers      the capacity, and how far ahead of busy workers (workers.go)
//	which may be marked   admission    full batches (admission.go); places, one for each worker of the process (quota.go); turns in a key (keys.go)
//	when a call starts    gate         it holds marked jobs back: the rate, and how many jobs a call has (admission.go)
//	what runs alone       Permit       the engine has one, for suspects: rows that were lost twice, or LostLimit-1 times if that is less (apart.go)
//
// If LostLimit is 1 or less, no row is a suspect. A plain type has no gate, and no admission unless its process has a quota.
package pipeline
