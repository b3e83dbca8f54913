// Package ground is what the engine's rooms stand on: what time it is, how to wait, and what to do with an error.
//
//	                 the database's clock                    the application's log
//	                          │                                       ▲
//	                  Clock.Reading                                Errlog: a line in ten seconds, for all loops and types
//	                          ▼                                       │
//	a loop:  Wait or Sleep ─► Clock.Now ─► Looks.Look ─► Errlog.On ───┤
//	               ▲                          a read that            failed     ok
//	               │                          has its limit           │         │
//	               ├──────── Backoff.Next ◄───────────────────────────┘         │
//	               └──────── Backoff.Reset ◄────────────────────────────────────┘
//
//	an act that must succeed:  Errlog.Retry does all that until it does
//
// # What every loop does with an error
//
// It tells the Errlog, waits and tries again. The wait doubles, by one Backoff, so that a database that is away is not asked more
// often the more types there are. The Errlog tells the log once in a while, for all loops and types together. No error of the
// database ends a loop, fails a job or is taken for an answer: "not mine" and "nothing there" are answers.
//
// # Whose clock
//
// The database's clock alone says what is due and what has expired. Clock estimates it and is never ahead. How long something has
// taken, and how long to wait, is measured by this process's monotonic clock.
package ground
