package queuetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest/internal/sqlite"
)

// World is a case for [CrashEverywhere]: what happens in it, and how it must end. What outlives a process belongs to the function that makes the
// World, such as a fake of the bank. What a process has in its memory belongs to Start.
type World struct {
	// Start begins a process: it makes the handlers, and calls [Queue.Handle]. It is called again after a death, so that nothing which they
	// have kept in memory is there any more. Required.
	Start func(q *Queue)
	// Begin happens once, and nobody dies in it: it creates tables of yours, and adds the job or the flow. Required.
	Begin func(q *Queue)
	// Play has the jobs run: with RunDue, Advance, or a Signal in between. The process dies in RunDue and RunOne only. Another one takes over
	// there and then: the time is moved on by LockSecond and one second, and what is due by then has run when they return. Default: all that is
	// due runs, and the time is moved on to whatever waits for it, until nothing does.
	Play func(q *Queue)
	// Check fails the test if the end is not as it must be. Required.
	Check func(q *Queue)

	// DB is a database of yours; the tables of the queue get names of their own there, as by [Apart], and tables of yours must be new in each
	// World. Default: a temporary SQLite database for each World.
	DB *sql.DB
	// Most is how many places there may be; default 500. Each is a pass.
	Most int
}

// Nested is a test that can have tests inside: *testing.T is one.
type Nested[S any] interface {
	T
	Name() string
	Failed() bool
	Run(name string, test func(S)) bool
}

// CrashEverywhere plays a case once for each place at which its process can die, and demands the same end each time. It first plays it without a
// death, and counts the places. Then there is one pass, a subtest, for each of them: a new World, whose process dies there. Its memory is gone, what
// it had not committed is rolled back, and another process goes on, as in production: what was lost runs again.
//
//	queuetest.CrashEverywhere(t, func(t *testing.T) queuetest.World {
//		bank := &fakeBank{}
//		return queuetest.World{
//			Start: func(q *queuetest.Queue) { q.Handle(orders(q.DB, q.Jobs, bank)) },
//			Begin: func(q *queuetest.Queue) { … q.Jobs.Add(t.Context(), q.DB, Order.New(…)) … },
//			Check: func(q *queuetest.Queue) {
//				if bank.charged != 1 {
//					t.Errorf("charged %d times", bank.charged)
//				}
//			},
//		}
//	})
//
// The places are on both sides of all that is written to the database, by the engine, by a step or by the handler: before it, so that nothing has
// happened, and after it, so that it has and nobody has heard of it. In a transaction, that is its commit. Between them, there are places before a
// step's function, before and after the handler, and before each change in a transaction of the handler. Code that does two things outside of the
// database, one after the other, has no place between them: call [Place] there, best in the fakes.
//
// The engine and its statements are those of production. A [queue_job.Step] whose process dies after its function and before its record is done
// again, so an effect outside of the database happens twice, unless the other side knows the request by [queue_job.Job.StepKey]. So let fakes count
// what happens, as the other side would. One that counts calls, and knows no keys, demands what no queue can keep.
//
// A failure names the place, and the command that runs its pass alone. One process dies in each pass, once. The places must be the same in each pass:
// if a handler draws lots, goes through a map or has goroutines that write, the pass is tried twice more, and then the test fails and says where the
// places differ.
//
// A process ends by the end of the goroutine that has come to the place. What that has deferred runs, without a database. Other goroutines end when
// they write to the database, or come to a Place. A handle from before the death is dead, so use q.DB and q.Jobs each time, and keep them only in
// what Start makes. The connections stand before the driver's own, so [sql.Conn.Raw] does not lead to those.
func CrashEverywhere[S Nested[S]](t S, world func(t S) World) {
	t.Helper()
	places, most := pass(t, world, nil, 0)
	switch {
	case t.Failed():
		return
	case len(places) == 0:
		t.Fatalf("queuetest: nothing has run, so there is no place to die at; Begin adds a job, and Play runs it")
	case len(places) > most:
		t.Fatalf("queuetest: there are %d places at which the process can die, more than World.Most, %d; make the case smaller, or Most larger",
			len(places), most)
	}
	t.Logf("queuetest: there are %d places at which the process can die", len(places))
	digits := len(fmt.Sprint(len(places)))
	for i, place := range places {
		number := fmt.Sprintf("%0*d", digits, i+1)
		alone := fmt.Sprintf("go test -run '^%s$/^%s_'", strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^"), number)
		t.Run(number+" died "+strings.ReplaceAll(place, "/", "|"), func(t S) {
			t.Helper()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("queuetest: the process died %s: place %d of %d. This pass alone: %s", place, i+1, len(places), alone)
				}
			})
			pass(t, world, places, i+1)
		})
	}
}

const (
	placesUsual = 500
	worldsMost  = 3 // for a pass whose places are not those of the first one
)

// pass plays the case once. The process dies at a place, which are counted from 1; 0: it does not. It returns the places that it has come to.
func pass[S Nested[S]](t S, world func(t S) World, first []string, dieAt int) (places []string, most int) {
	t.Helper()
	for try := 1; ; try++ {
		w := world(t)
		if w.Start == nil || w.Begin == nil || w.Check == nil {
			t.Fatalf("queuetest: a World needs Start, Begin and Check")
		}
		c := &crash{start: w.Start, base: w.DB, first: first, dieAt: dieAt}
		q := c.open(t)
		w.Begin(q)
		if w.Play == nil {
			w.Play = (*Queue).playOut
		}
		w.Play(q)
		if differs := c.differs(); differs == "" {
			t.Cleanup(func() {
				if t.Failed() {
					q.tellJobs()
				}
			})
			w.Check(q)
			if most = w.Most; most == 0 {
				most = placesUsual
			}
			return c.seen, most
		} else if try == worldsMost {
			t.Fatalf("queuetest: the places at which the process can die must be the same in each pass: %s. "+
				"The case may draw lots, go through a map, have goroutines that write, or put what changes into the text of a statement", differs)
		}
	}
}

// open makes the queue of a world, and starts its first process.
func (c *crash) open(t T) *Queue {
	t.Helper()
	prefix := ""
	if c.base == nil {
		c.base = sqlite.Open(filepath.Join(t.TempDir(), "queue.db"), "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(OFF)")
		t.Cleanup(func() { c.base.Close() })
	} else {
		prefix = tablesApart(t, c.base)
	}
	c.prefix = prefix
	q := open(t, c.base, prefix, nil)
	q.stop()
	c.begin(q)
	return q
}

const (
	playMost   = 200              // times that the time is moved on
	countAfter = 11 * time.Second // the ends of some jobs of flows are counted ten seconds later
)

// playOut runs what is due, and moves the time on to what waits for it, until nothing does.
func (q *Queue) playOut() {
	q.t.Helper()
	for range playMost {
		q.RunDue()
		next := q.next()
		if next.IsZero() {
			return
		}
		q.Advance(max(time.Second, next.Sub(q.Now())))
	}
	q.t.Fatalf("queuetest: after the time was moved on %d times, something still waits, for a signal perhaps; let World.Play say what happens", playMost)
}

// next is when something falls due that waits for the time; zero: nothing does.
func (q *Queue) next() (at time.Time) {
	q.t.Helper()
	now := q.Now()
	jobs, err := q.Jobs.List(q.ctx, q.DB, queue_job.Filter{
		Statuses: []queue_job.JobStatus{queue_job.JobStatusInit, queue_job.JobStatusContinue, queue_job.JobStatusRetry}, Limit: 10_000,
	})
	q.must(err)
	for i := range jobs {
		if due := jobs[i].Due; due.After(now) && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	flows, err := q.Jobs.Flows(q.ctx, q.DB, queue_job.FlowFilter{
		States: []queue_job.FlowState{queue_job.FlowOpen, queue_job.FlowStopping, queue_job.FlowUndoing}, Limit: 1000,
	})
	q.must(err)
	for i := range flows {
		if f := &flows[i]; f.State == queue_job.FlowStopping || at.IsZero() && !f.Stuck {
			return now.Add(countAfter)
		}
	}
	return at
}

// tellJobs writes to the log how the jobs stand, as far as that can be read.
func (q *Queue) tellJobs() {
	const most = 20
	jobs, err := q.Jobs.List(q.ctx, q.DB, queue_job.Filter{Limit: most})
	for i := range jobs {
		q.t.Logf("queuetest: %s", told(&jobs[i]))
	}
	if err != nil {
		q.t.Logf("queuetest: %v", err)
	}
}
