// Package engine holds the loops: it marks due rows, runs them and settles them, for the job types whose leases this process
// holds. Package find finds the rows for it.
//
// # One lease, one line
//
// The engine has a database for each database that the configurations name, and the database has a line for each job type.
// The database keeps the leases, and its finder finds work for all types whose leases it holds. A line has a bounded queue in memory
// and its actors. Dispatcher, loader and schedule work for one lease; the workers and the settler go on when a lease ends: what
// runs, runs on, and its outcome is written if no later term has taken the row over.
//
//	            tail ── by id, fast ──────┐
//	find:       sweep ─ by index, sure ───┤
//	            loader ─ a backlog ───────┤
//	                                      ▼
//	line:       schedule adds jobs      queue ──► dispatcher ──► workers ──► settler
//	                                    offer     mark           run         settle
//
// The states of a row in memory are drawn above type queue.
//
// # What is trusted, and when it is asked
//
// A mark is sent, and a handler started, only while the lease is trusted. Between the two answers and the act lies the margin
// of package lease. Everything that is written later carries the term, and needs no trust: a holder that has lost its lease
// settles only rows that no later term has marked, and that is right, for the work was done. If a process is frozen between
// the answer and the act for longer than the lease, it acts when it wakes, and nothing on its side can prevent that: the start
// is one too many, and its outcome is dropped.
//
// What every loop does with an error stands in package ground.
package engine
