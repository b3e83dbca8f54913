// Package keeper takes named leases and keeps them. A [Keeper] renews all leases of one process on one database at
// every third of the shortest lease's length, the leases of one length in one statement. The engine keeps a lease for
// each job type with it, package shedlock a single lease.
//
//	       Take             Move: the row gets another name, and the old name is free
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
// is trusted; [Lease.Trusted] is asked before every act that only the holder may do.
//
// # An instance
//
// A keeper is one instance: its identity stands in the owner of each of its leases. It can see the leases of all instances
// ([Keeper.Look]), ask for one ([Keeper.Ask]), and give the name of a lease away while what runs under the lease runs on
// ([Keeper.Move]). If a look shows that a lease was broken, it is lost at once; without a look, the next renewal says so.
//
// # What is not known
//
// If the outcome of a taking is unknown, the keeper gives the leases back under the owner that only this taking has used; if the taking
// takes effect later, the next look ends it (unsure.go). If a renewal takes effect after its lease has ended, [Keeper.Run] gives the row
// back, so that others need not wait for it to expire. A lease that was written by a clock that was ahead is ended by whoever has seen it
// unrenewed for longer than its length (overdue.go).
//
// # Rows that somebody has locked
//
// All statements about leases of a process share a connection. If one of them waited for a row that a transaction has locked, as a
// transaction that breaks a lease does, the renewals would wait, too. So takings and renewals leave such a row out, and a statement that
// gives a lease back is sent again until the lock is gone. (Servers that cannot pass over rows wait: MySQL before 8.0.1, MariaDB before
// 10.6, TiDB.)
package keeper
