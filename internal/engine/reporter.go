package engine

import (
	"context"
	"reflect"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	reportEvery = 10 * time.Second // what has changed
	reportAgain = time.Minute      // what has not: then a reader knows that it is still so
	linesKept   = 24 * time.Hour   // of types that nobody holds any more

	failingMax = 300 // characters of an error
)

// Lines is what the engine needs of the tables to tell what its lines have in memory. *store.Store has it.
type Lines interface {
	TellLines(ctx context.Context, lines []store.Line) error
	DropLines(ctx context.Context, before int64) error
}

// reporter writes, every now and then, what the held lines have in memory and what they run, for those who look at the database from
// outside. Nothing waits for it, and nothing hangs on what it writes.
type reporter struct {
	*database
	looks ground.Looks
	told  map[string]report // by lease
}

// report is what a line told last.
type report struct {
	term  int64
	state store.LineState
	at    time.Time
}

func newReporter(d *database) *reporter { return &reporter{database: d, told: map[string]report{}} }

func (r *reporter) loop(ctx context.Context) {
	tidied := false
	for wait := time.Second; ground.Sleep(ctx, wait); wait = reportEvery {
		err := r.report()
		if err == nil && !tidied {
			err = r.look(func(ctx context.Context) error {
				return r.tables.Lines.DropLines(ctx, r.clock.Surely()/1000-int64(linesKept/time.Second))
			})
			tidied = err == nil
		}
		r.errlog.On(ctx, "tell what waits and runs", err)
	}
}

// report tells what is another than it was, and now and then the rest.
func (r *reporter) report() error {
	now, told := time.Now(), map[string]report{}
	var news []store.Line
	since, latest := r.failing()
	for _, h := range r.heldLines() {
		next := report{h.lease.Term, h.state(r.clock.Now()), now}
		next.state.FailingSince, next.state.Failing = since, latest
		next.state.Minutes = h.errors.minutes(h.lease.Term)
		last, known := r.told[h.lease.Name]
		if known && last.term == next.term && now.Sub(last.at) < reportAgain && reflect.DeepEqual(last.state, next.state) {
			told[h.lease.Name] = last
			continue
		}
		told[h.lease.Name] = next
		news = append(news, store.Line{Lease: h.lease.Name, Term: next.term, LineState: next.state})
	}
	if len(news) == 0 {
		r.told = told
		return nil
	}
	err := r.look(func(ctx context.Context) error { return r.tables.Lines.TellLines(ctx, news) })
	if err == nil {
		r.told = told
	}
	return err
}

// failing says since when statements fail, in unix seconds, and how the last of them did.
func (r *reporter) failing() (since int64, latest string) {
	lasts, latest := r.errlog.Failing()
	if lasts == 0 {
		return 0, ""
	}
	return (r.clock.Now() - lasts.Milliseconds()) / 1000, cut(latest, failingMax)
}

func (r *reporter) look(statement func(context.Context) error) error {
	holding := r.holding(r.heldLines())
	return unlessOver(holding, r.looks.Look(holding, statement))
}

// state is what the line has in memory, and what it runs.
func (l *line) state(now int64) store.LineState {
	workers := l.workers.seen(time.Now())
	waiting, parked, soon, overdue := l.queue.numbers(now)
	gate := workers.gate
	switch {
	case parked > 0 && parked >= waiting-soon && workers.ready == 0: // another worker, or a higher rate, would start none of them
		gate = store.Gate{Limit: store.HeldByKeys}
	case overdue == 0 && workers.ready == 0:
		gate = store.Gate{}
	case gate.Limit == "":
		gate = l.heldByPool()
	}
	return store.LineState{
		Soon: soon + workers.early, Gate: &gate, PutOff: l.putOffs.tell(now),
		Waiting: waiting, Parked: parked, Marked: workers.early + workers.ready, Running: workers.alive, Elsewhere: workers.elsewhere, Workers: l.cfg.WorkerPoolCapacity,
		Overdue: overdue.Milliseconds(), Behind: l.backlog.behind.Load(), LeftAlone: int(l.backlog.leftAlone.Load()), Runs: l.ranUnderLease(),
	}
}

// heldByPool says whether the statements that start jobs have to wait for a connection.
func (l *line) heldByPool() (gate store.Gate) {
	if most := l.errlog.Full(); most > 0 {
		gate = store.Gate{Limit: store.HeldByConnections, Most: most}
	}
	return gate
}
