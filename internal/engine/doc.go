// Package engine holds the loops: it finds due rows, marks them, runs them and settles them, for the job types whose
// leases this process holds.
//
// # One lease, one line
//
// For each database there is a database, for each of its job types a line. The database keeps the leases, and finds
// work for all held types at once; a line has a bounded queue in memory, a dispatcher that marks, workers that run, and
// a settler that writes outcomes. A line serves one lease after another; what runs when a lease ends, runs on, and its
// outcome is written if no later term has taken the row over. For a type that has a schedule, the line also adds the
// jobs (schedule.go).
//
//	            tail ── by id, fast ──────┐
//	database:   sweep ─ by index, sure ───┤
//	            loader ─ a backlog ───────┤         (one for each line)
//	                                      ▼
//	line:                               queue ──► dispatcher ──► workers ──► settler
//	                                             mark            run         settle
//
// # What is trusted, and when it is asked
//
// A mark is sent, and a handler started, only while the lease is trusted. Between the two answers and the act lies the
// margin of package lease. Everything that is written later carries the term, and needs no trust: a settle by a holder
// that no longer is one changes only rows that no later term has marked, and that is right, for the work was done. A
// process that is frozen between the answer and the act, for longer than the lease, acts when it wakes, and nothing on
// its side can prevent that: the start is one too many, its outcome is dropped.
//
// # What every loop does with an error
//
// It says so once in a while, waits and tries again. No error of the database ends a loop, fails a job or is taken for
// an answer: "not mine" and "nothing there" are answers.
package engine
