// Package engine joins the five rooms: cluster says which leases are mine, find offers their rows, a pipeline marks, runs and settles
// them, flow moves flows forward, and upkeep does what is done once in a while. None of the five knows another.
//
//	Engine ──┬── quota (how many workers), permit (to run a job that may kill the process), hooks (to tell the application): for all databases
//	         │
//	         └── database, one for each that the configurations name
//	               ├── cluster.Coordinator ── takes and gives leases, makes and ends members
//	               ├── find.Finder ────────── tails and sweeps, for all members whose leases are held
//	               ├── flow.Counter ───────── counts the ends of jobs of flows, and adds the next ones
//	               ├── upkeep.Task ────────── one for each thing that is done once in a while
//	               └── member, one for each shard of each job type that is awake, and retired ones that still run something
//	                     ├── pipeline.Line ──── marks, runs, settles
//	                     ├── find.Backlog ───── says what is not in memory
//	                     └── upkeep.Schedule ── adds jobs
//
// A member (member.go) joins a line, its backlog and its schedule: the coordinator gives it leases, the finder offers it rows, and upkeep asks
// it what it does. A database (database.go) has all this; open.go joins it, and starts and stops it in order. It also watches for cancelled
// jobs (watch.go), and corrects start times that were written while the database's clock was ahead (ahead.go).
//
// # Goroutines
//
// The code that starts a goroutine stops it and waits for it: when Engine.Stop returns nil, no loop and no handler is left. Nobody waits for a
// call that takes no heed of its context: a statement on a handle without contexts, or an archive function that takes too long.
//
//	database    its keeper and its coordinator with two more loops, the finder's tail and sweep, the counter of flows, the watch of
//	            cancellations; now and then
//	            a first look, the end of a pause, steps to another layout, the registry, and the correction of start times
//	line        the settler; for each lease one that serves and then gives it away; while it serves, dispatcher, loader and schedule;
//	            when it retires, one that waits until its last outcomes are written (Member.End)
//	workers     from a pool that all types of a database with the same WorkerExpirySecond share
//	task        each of package upkeep; each operation on many jobs that is carried out here
//	hook        a function of the application that is told something: OnSettled, OnDead, observers of leases; for the whole engine
package engine
