// Package keeper takes named leases and keeps them. A [Keeper] renews all its leases at every third of the shortest one's length, the leases
// of one length in one statement. The engine has a keeper for each database, for leases of job types or their shards, of presence, of rests and of
// turns of upkeep; package shedlock has a keeper for each lock that is held.
//
//	       Take             Move: the lease gets another row; its name is free (after MinLock), or closed for a layout
//	free ────────► held ────────────────────────────────────────────────────► moved
//	  ▲             │ renewed                                                    │ renewed
//	  │             │                                                            │
//	  ├─────────────┴───────────────── Release: ErrReleased ─────────────────────┤
//	  │             │   (after Close and LayDown, it is free when somebody       │
//	  │             │    opens it for a layout, or wakes its type)               │
//	  │             └── trust has ended, or somebody else has the row: ErrLost ──┘
//	  │                        │ if a renewal may have taken effect all the same
//	  └────────────────────────┘ late: given back when it would have expired
//
// A release and a loss end [Lease.Context], and so does the end of the keeper's parent context. Package lease says until when a lease
// is trusted; [Lease.Trusted] is asked before an act that only the holder may do.
//
// # An instance
//
// A keeper is one instance: its identity stands in the owner of each of its leases. It can see the leases of all instances ([Keeper.Look]),
// ask for one ([Keeper.Ask]), and give the name of a lease away while what runs under the lease runs on ([Keeper.Move]). If a look shows that
// somebody has broken a lease, it is lost at once, unless it was taken within the last second; without a look, the next renewal says so.
//
// # A lease of a job type has two ends
//
// What must stop soon when a process dies is starting. What must not be cut short is running. So an instance says each second that it lives
// (life.go), and jobs start only as long as its last beat counts. Others bury whoever they have not heard of (burial.go), and take its leases,
// under later terms. What it may still run is left alone until the leases would have ended.
//
//	                 last beat    killed, frozen or cut off
//	jobs start        ├──────────────✕·········─┤ .9 S               then it is buried, and others start jobs
//	others see it       ├─────────────────────────── S ─┤ bury ─ copy ─ free ─ take ────────────────────────────►
//	jobs run    ────────────────────────────────────────────────────────────── if it is frozen: until the long end ─┤
//
//	row         its instance writes                      anybody else writes
//	live-1f2e…  rise, beat; deletes it when it stops     bury: a compare-and-set on owner and term, as the last look has shown them
//	job-7       as above                                 free: after a look has shown the burial and the rest
//	rest-7-16…  moves the lease there                    copy: owner, term and end of the lease, unless the row is there
//
// Starts never overlap: to take a lease, it must be free; to be freed, its owner must be buried; to be buried, the last beat must count no more,
// by the database's clock, and must have been the last one for S of the clock of whoever buries. A step of one clock is not enough. What other
// faults do is drawn in life.go, and what is known of the dead in identity.go. A lease below four seconds, or without beats, has one end.
//
// # What is not known
//
// Each taking has its own owner text. If the outcome of a taking is unknown, the keeper gives back exactly what has that owner, now and at the
// next looks, if the taking takes effect later (unsure.go). If a renewal takes effect after its lease has ended, [Keeper.Run] gives the row back,
// so that others need not wait for it to expire. What could not be given back, such as the name of a lease that was moved half, the next look gives
// back (owed.go). If the database's clock was ahead, whoever sees a lease unrenewed for longer than its length ends it (overdue.go).
//
// # Rows that somebody has locked
//
// The statements of all keepers on a pool share a connection. If one of them waited for a row that a transaction has locked, as a transaction
// that breaks a lease does, the renewals would wait, too. So takings and renewals leave such a row out. A statement that releases, closes or
// lays down a lease does not wait either, and is sent again until the lock is gone; the engine gives up after two seconds, in a Move after one.
// Statements wait, for two seconds at most, about rows that hardly anybody locks, such as those of rests and dormant types, and in three rare
// cases about leases of job types: their taking is in doubt, they are overdue, or a layout opens them. (Servers that cannot pass over rows
// wait: MySQL before 8.0.1, MariaDB before 10.6, TiDB.)
package keeper
