// Package cluster says which leases are this instance's. It takes and gives leases, and tells members when they have one. It knows
// nothing of jobs: a member does, and how one works is its own affair.
//
//	shedlock_tab ──look──► snapshot: leases, layouts, limits, pauses
//	                          │
//	            types: what the application gives, within the limits
//	                          ▼
//	            reconcile: seats that no type needs any more retire, missing ones are made
//	                          ▼
//	            share: which leases to give, to take, to ask for ──► keeper
//
//	A seat, and its lease (state):
//
//	             take             give up             nothing starts any more            all is written
//	  offered ─────────► serving ─────────► giving up ─────────────────────► draining ────────────────► ended
//	     ▲                  └───── lost, or the process stops ──────────────────┘ │                       │
//	     └───────────── unless it retires ────────────────────────────────────────┘           Member.End, if it has
//	                                                                                          retired, and was the last
//
// # One loop
//
// There is a Coordinator for each database. Twice a second, or every 20 ms while a lease is about to change hands, it looks at all
// leases with one statement (coordinator.go), and acts on what it has seen. Which types and seats there are, and which leases are taken and
// given, is decided in its goroutine alone; a Change is an order to it. What takes longer has a goroutine of its own: each lease while
// members serve under it and drain, the end of a pause, the look for work of dormant types. pace.go says how long until the next look.
//
// # A seat for each lease
//
// What a member is made for never changes: type, configuration, layout, shard (Spec). After each look, reconcile compares the seats with
// what the types are to be. A seat retires in one way, whatever the reason: it gives its lease up, and ends when the outcomes of its jobs are
// written. The reason only says what becomes of the lease: it is free, closed until a later layout opens it, or laid down.
//
// # A lease that is given away
//
// A seat is offered its next lease as soon as nothing starts under the last one, though that may drain for hours. If somebody waits
// for it, the lease lives on under another name, as a rest, and its name goes to whoever asks (handover.go). The rest says how many
// handlers run and which keys they have; the next holder's member heeds that (Remains), as it heeds what retired members here still run.
//
// # A type without work
//
// If a type has had nothing to do for its DormantAfter, its holder lays it down: the row of the lease gets another name, so nobody takes the
// lease or looks at it. The first instance that sees a job of the type gives the row its name back (dormancy.go).
//
// # Pauses
//
// Each look says which types are paused, and members that serve hear it before anything else is sent. If looks are late, a loop of its own
// asks, through the connections for jobs, so no lease that takes long to be taken hides a pause (pauses.go).
//
// # What it asks of others
//
// Process has the tables, the keeper that renews the leases, and what the process wants to hear. Members makes a Member for each
// seat; the engine has them. Package share has the rules of sharing, and the proof that leases come to rest.
package cluster
