// Package upkeep does what is done once in a while. No job waits for it, and none of it has to be done by this instance: what one
// instance does not get to, another does, or the same one later.
//
//	          Task: every …                        ┌─► Snapshot     what lines have in memory ─► async_job_now_tab
//	               │                               ├─► Connections  does the pool open connections all the time?
//	each instance ─┤                               │
//	               ├─► do ─► Errlog ─► wait ─► …  ─┘
//	one of all ────┤   ▲
//	(a turn: a     │   └─ what there is to do is a decision about what the table and the lines say, and the clock
//	 lease)        │
//
// # One loop
//
// A [Task] says when it is done and what it does; the loop is Task.Run. It waits, takes the turn if the cluster has one for all, does
// the task, tells the Errlog, and waits again. What a task does is a tick: it can be called by itself. If there was nothing to do, it
// returns errIdle, since no statement was sent.
//
// # What it knows of the engine
//
// Nothing but the interfaces [Instance], [Line] and [Turn], the clock and the log. The engine fills them in its file upkeep.go.
//
// # Why nothing breaks if it is done twice
//
// A turn saves work, and protects nothing. Each statement finds what there is: a row is deleted only if it is final and old at that
// moment, a minute is written by the lease and term that ran it, a time of a schedule has a job with a unique key.
package upkeep
