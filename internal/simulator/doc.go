// Package simulator runs several real engines on tables in memory, under virtual time. A seed decides what goes wrong.
//
// # What is simulated
//
//	plan     what happens when: producers, starts, stops, faults; drawn from the seed
//	world    lives through the plan, then waits in calm weather until every job is done
//	link     one instance's way to the tables, with the fate of each statement
//	Table    the tables: each statement of package store in one step, by the database's clock
//	judge    is told of every change and run, and knows what may happen (check.go) and be written (history.go, reason.go)
//	trace    what happened
//
// A statement takes a while to arrive, and so does its answer. It can be refused, take effect and be answered with an
// error, or arrive after its sender has given up. An instance can be stopped, killed, frozen (SIGSTOP: it neither sends
// nor reads nor notices that time passes) or cut off, one way or both, at any moment, and on purpose in the middle of a
// statement. Transactions commit late, out of order or never; ids jump; somebody finishes, deletes or truncates by
// hand, edits a lease, sets the database's clock.
//
// In half of the worlds, others decide too (steer.go): they pause types, cancel jobs in flight and retry them before an
// instance has noticed, change priorities, and hold rows locked, so that marks and outcomes wait. A statement can
// arrive after its sender has sent it again and the row has run again under the same term. Holders are frozen for
// longer than their lease and come back while their successor has rows in memory. Handlers complete their jobs in
// transactions of their own (complete.go), and give up while a commit is under way. Sometimes all statements to the
// tables of jobs are slow.
//
// Somebody breaks leases, also in transactions of seconds (breaks.go). Handlers go on for seconds when their jobs are final, while the lease
// of their key moves (outlive.go). Callers add, cancel, retry and delete jobs of a few unique keys, and restore jobs that a holder has in
// memory as they once were (unique.go). In almost a third of the worlds, leases are long, and instances say that they live (lives.go): they are
// killed, frozen, cut off and not heard of, the tables stand still, or answer everybody late (slow.go), and older versions run beside them. Some
// are started again in their place with the same identity, and operators say that instances are dead (dead.go). In one world of eleven, handlers
// get several jobs in one call (batches.go): calls are full, and somebody cancels jobs of a call, or all. In one of 26, types are fair by
// group, and a few jobs of one group come behind a long backlog of another (fair.go); in another of 26, jobs have an end in time
// (expires.go); in another of 26, handlers have steps, also in transactions of their own, and sleep (steps.go); in another of 26, they wait for
// signals, which others send (signals.go). In one of 27, other jobs follow their runs (followers.go). In one of 28, jobs are of flows, which others
// cancel, retry, undo, signal and hold (flows.go); one test has such worlds alone. In one of 29, the jobs of each key start at a rate
// (key_rate.go).
//
// Half of the worlds are gentle: with errors and unknown outcomes, but with clean starts and stops, so no job may be
// lost or run twice. In the others, which are rough, a run may be repeated, but only if its instance was struck.
//
// # What is not
//
// Locks, isolation and SQL are not simulated: each statement is atomic. The tests on real databases cover them, and
// compare Table with package store. Clocks do not drift, and no bytes get lost inside a statement. A frozen process
// does not stop inside a computation, but when it next sends, reads an answer, or ends a handler.
//
// # A seed brings the same world
//
// Every choice is drawn from the seed and the choice's subject, never from a common stream, so the order of choices
// does not matter. Durations are drawn to the nanosecond, so hardly any two events happen at the same moment. The
// goroutines run on one processor and without the garbage collector. Chance still decides the order of timers that fire
// in the same nanosecond, and the choice of a select with several ready cases: in about three of a hundred seeds.
//
//	go test ./internal/simulator                                      some hundred worlds
//	PQ_SIM_SEEDS=10000 go test -run NothingIsLost ./internal/simulator   ten thousand
//	PQ_SIM_SEED=267 go test -run NothingIsLost -v ./internal/simulator   one, with all that happens in it
//	PQ_SIM_MUTANTS=1 go test -run KnownFailures -v ./internal/simulator  does it find failures that are put in?
package simulator
