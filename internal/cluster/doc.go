// Package cluster says which leases are this instance's. It takes and gives leases, and tells members when they have one. It handles no
// jobs. A member does, which the engine makes of a line of package pipeline.
//
//	shedlock_tab ──look──► snapshot: leases, layouts, limits, ended pauses; the pauses go straight to the members
//	                          ▼
//	            Picture.Take (package share): which free leases fall to this instance
//	                          ▼
//	            reconcile: seats that no type needs any more retire, missing ones are made
//	                          ▼
//	            Picture.Give: which leases to give; Picture.Ask, if nothing was taken: which to ask for ──► keeper
//
//	A lease (state):
//	             take             give up             nothing starts any more            all is written
//	  offered ─────────► serving ─────────► giving up ─────────────────────► draining ────────────────► ended
//	                        └───── lost, or the process stops ──────────────────┘
//	Its seat:
//	  may take a lease ──► has one under which jobs start ──► may take the next one, while the last one drains
//	        if it retires, and all of its leases have ended ──► Member.End
//
// # One loop
//
// There is a Coordinator for each database. It looks at all leases with one statement (look.go), and acts on what it has seen: twice a
// second, or sooner (pace.go), such as every 20 ms while a lease is about to change hands, for ten seconds at most. Only its goroutine
// decides which types and seats there are, and which leases are taken and given; a caller changes types by sending it a Change. What takes
// longer has a goroutine of its own: each lease while members serve under it and drain, the end of a pause, the steps to another layout, the
// look for work of dormant types.
//
// # A seat for each lease
//
// What a member is made for never changes: type, configuration, layout (into how many shards the type is divided), shard. After each look,
// reconcile compares the seats with what the types are to be. A seat retires in one way, whatever the reason: it gives its lease up, and ends
// when the outcomes of its jobs are written. Afterwards, the lease is free; or closed, if the type is divided anew; or dormant.
//
// # A lease that is given away
//
// A seat can take its next lease when nothing starts under the last one any more, though jobs of the last lease may run for hours. If somebody
// asks for a lease, its holder gives it up; if the holder does not stop, MinLockSecond has to be over first. If jobs then run for more than
// 30 ms, the lease lives on under another name, as a rest, and its name goes to whoever asks (handover.go). The rest says how many handlers
// run; which jobs and keys they have stands in async_job_now_tab (rest_runs.go). The next holder's member heeds both (Remains), as it heeds
// what retired members here still run.
//
// # A type without work
//
// If a type has had nothing to do for its DormantAfter, its holder lays it down: the row of the lease gets another name, so nobody takes the
// lease or looks at it. The first instance that sees a job of the type gives the row its name back (dormancy.go).
//
// # Pauses
//
// Each look says which types are paused, and members that serve hear it before anything else is sent. If looks are late, a loop of its own
// asks, through the connections for jobs: so members learn of a pause even if taking leases is slow (pauses.go).
//
// # What it asks of others
//
// The struct Process has the tables, the keeper that renews the leases, and what the process wants to hear. Members makes a Member for each
// seat; the engine has them. Package share has the rules of sharing, and the proof that instances stop giving.
package cluster
