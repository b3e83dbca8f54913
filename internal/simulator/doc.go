// Package simulator lets the real engine, several instances of it, work tables in memory under virtual time, while
// things go wrong that follow from a seed.
//
// # What is simulated
//
//	plan     what happens when: producers, starts, stops, faults; drawn from the seed
//	world    lives through the plan, then waits in calm weather until every job is done
//	link     one instance's way to the tables: what becomes of each statement
//	Table    the tables: each statement of package store in one step, by the database's clock
//	judge    hears of every change and every run, and knows what may happen (check.go); what is written about it (history.go, reason.go)
//	trace    what happened
//
// A statement takes a while to arrive, and its answer to come back. It can be refused, take effect and be answered with
// an error, or arrive after its sender has given up. An instance can be stopped, killed, frozen (SIGSTOP: it neither
// sends nor reads nor notices that time passes) or cut off, one way or both, at any moment, and in the middle of a
// statement on purpose. Transactions commit late, out of order or never; ids jump; somebody finishes, deletes or
// truncates by hand, meddles with a lease, sets the database's clock.
//
// In half of the worlds, others decide too (steer.go): they pause types, cancel jobs in flight and retry them before anybody
// has looked, change priorities, and hold rows locked, so that marks and outcomes wait. Statements arrive when their sender
// has sent them again and the row has run since, under the same term. Holders are frozen beyond their lease and come back
// while their successor has rows in memory. Handlers complete their jobs in transactions of their own (complete.go), and
// give up while a commit is under way. Some tables are slow in everything for a while.
//
// Half of the worlds are gentle: errors and unknown outcomes, starts and stops in good order, and so no job may be lost
// or run twice. The others are rough: there a run may be repeated, but only if whoever made it was struck.
//
// # What is not
//
// Locks, isolation and SQL are not: each statement is atomic. Those belong to the tests on real databases, which also
// hold Table against package store. Nor are clocks that drift, bytes that get lost inside a statement, or a process that
// is frozen in the middle of a computation: it stands still when it next sends, reads an answer, or ends a handler.
//
// # A seed brings the same world
//
// Every choice is drawn from the seed and from what it is about, never from a common stream, so it does not matter who
// comes first; nearly everything takes a time to the nanosecond, so nearly nothing happens at the same moment. The
// goroutines run on one processor and without the garbage collector. What is left to chance is the order of timers that
// fire in the same nanosecond, and the choice of a select that has several: about one world in a thousand is affected.
//
//	go test ./internal/simulator                                      some hundred worlds
//	PQ_SIM_SEEDS=10000 go test -run NothingIsLost ./internal/simulator   ten thousand
//	PQ_SIM_SEED=267 go test -run NothingIsLost -v ./internal/simulator   one, with all that happens in it
//	PQ_SIM_MUTANTS=1 go test -run KnownFailures -v ./internal/simulator  does it find failures that are put in?
package simulator
