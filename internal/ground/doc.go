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
// It tells the Errlog, waits and tries again. Most loops double the wait with a Backoff, up to a second. One loop asks for all types if it
// can; only lines have loops of their own. The Errlog has a line for the log every ten seconds, for all loops and types together. If a
// statement fails, no loop ends, no job fails, and nobody concludes that there is no row, or that it is another's: these are answers.
//
// # Whose clock
//
// The database's clock alone says what is due and what has expired. Clock estimates it, and is never ahead, unless that clock was
// set back since the last reading. How long something has taken, and how long to wait, is measured by this process's monotonic clock.
package ground
