package queuetest

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest/internal/mortal"
)

// Place is a place at which the process of a handler can die, in [CrashEverywhere]. The context is the handler's. Anywhere else, it does nothing.
//
//	func (b *fakeBank) Charge(ctx context.Context, key string) error {
//		b.charged[key]++
//		queuetest.Place(ctx, "the bank has charged")
//		return nil
//	}
func Place(ctx context.Context, name string) {
	if at, ok := ctx.Value(runKey{}).(*where); ok {
		at.life.place(fmt.Sprintf("at %q, in %s", name, at.what))
	}
}

// crash is a pass of [CrashEverywhere].
type crash struct {
	start  func(*Queue)
	base   *sql.DB
	prefix string
	first  []string // the places of the first pass
	dieAt  int      // 1 is the first of them; 0: nobody dies

	mu      sync.Mutex
	seen    []string // the places, up to the death
	differ  string   // how they differ from the first pass
	armed   bool     // something runs
	died    bool
	inside  int  // calls of handlers
	changed bool // something may have happened since the last place
}

// differs says how the places of a pass differ from those of the first one; empty: not at all.
func (c *crash) differs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.differ == "" && c.dieAt > 0 && !c.died {
		return fmt.Sprintf("place %d was %q, and did not come again", c.dieAt, c.first[c.dieAt-1])
	}
	return c.differ
}

// life is the life of a process.
type life struct {
	crash  *crash
	handle *mortal.Handle
	dead   bool // of crash.mu
	over   bool // and nothing of it is on its way to an end any more
}

// begin begins a process.
func (c *crash) begin(q *Queue) {
	q.t.Helper()
	l := &life{crash: c}
	l.handle = mortal.Open(c.base, l)
	q.life = l
	q.t.Cleanup(l.handle.Close)
	q.start(l.handle.DB)
	c.start(q)
}

// living does something that the process may die of. If it does, another process takes over, and does it again.
func (q *Queue) living(act func(again bool)) {
	q.t.Helper()
	if q.life == nil || q.life.crash.arm(true) {
		act(false)
		return
	}
	for again := false; !q.life.do(func() { act(again) }); again = true {
		crash, lost := q.life.crash, q.lostFor()
		q.stop()
		q.life.handle.Kill()
		q.Advance(lost)
		crash.begin(q)
		crash.arm(true)
	}
}

// arm has places count, or not. It returns whether they did.
func (c *crash) arm(now bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.armed = c.armed, now
	c.changed = c.changed || now && !before
	return before
}

// do returns whether the process has done it, and lives.
func (l *life) do(act func()) bool {
	done, finished := make(chan struct{}), false
	go func() {
		defer close(done)
		act()
		finished = true
	}()
	<-done
	l.crash.arm(false)
	l.crash.mu.Lock()
	l.over = l.dead
	l.crash.mu.Unlock()
	if !finished && !l.over {
		runtime.Goexit() // as the test did in there
	}
	return !l.over
}

// lostFor is how long it takes until what a process has run, runs again: its leases have to end.
func (q *Queue) lostFor() (d time.Duration) {
	for i := range q.configs {
		d = max(d, time.Duration(q.configs[i].LockSecond+1)*time.Second)
	}
	return d
}

// place is where the process may die.
func (l *life) place(name string) {
	c := l.crash
	c.mu.Lock()
	if !c.armed || c.died || c.inside == 0 && !c.changed {
		dying := l.dead && !l.over
		c.mu.Unlock()
		if dying {
			runtime.Goexit()
		}
		return
	}
	c.changed = false
	c.seen = append(c.seen, name)
	n := len(c.seen)
	if n <= c.dieAt && c.differ == "" && c.first[n-1] != name {
		c.differ = fmt.Sprintf("place %d was %q, and is %q", n, c.first[n-1], name)
	}
	dies := n == c.dieAt && c.differ == ""
	if dies {
		c.died, l.dead = true, true
	}
	c.mu.Unlock()
	if dies {
		l.handle.Kill()
		runtime.Goexit()
	}
}

// touched notes that something has happened that the database may not show.
func (l *life) touched() {
	l.crash.mu.Lock()
	defer l.crash.mu.Unlock()
	l.crash.changed = true
}

func (l *life) isDead() (dead, over bool) {
	l.crash.mu.Lock()
	defer l.crash.mu.Unlock()
	return l.dead, l.over
}

type runKey struct{}

// where is what has the context of a run.
type where struct {
	life *life
	what string // the job
}

// watched puts places around the handler of a configuration.
func (l *life) watched(cfg queue_job.Config) queue_job.Config {
	if cfg.HandleBatchFunc != nil {
		cfg.BatchMiddleware = slices.Concat([]queue_job.BatchMiddleware{func(next queue_job.BatchHandler) queue_job.BatchHandler {
			return func(ctx context.Context, jobs []*queue_job.Job) error {
				ids := make([]uint64, len(jobs))
				for i, job := range jobs {
					ids[i] = job.Id
				}
				return l.call(ctx, jobsOf(ids), func(ctx context.Context) error { return next(ctx, jobs) })
			}
		}}, cfg.BatchMiddleware)
	} else {
		cfg.Middleware = slices.Concat([]queue_job.Middleware{func(next queue_job.Handler) queue_job.Handler {
			return func(ctx context.Context, job *queue_job.Job) error {
				return l.call(ctx, jobsOf([]uint64{job.Id}), func(ctx context.Context) error { return next(ctx, job) })
			}
		}}, cfg.Middleware)
	}
	if told := cfg.OnFinished; told != nil {
		cfg.OnFinished = func(ctx context.Context, job *queue_job.Job, f queue_job.Finished) {
			if dead, _ := l.isDead(); !dead {
				told(ctx, job, f)
				l.touched()
			}
		}
	}
	return cfg
}

func (l *life) call(ctx context.Context, what string, handler func(context.Context) error) error {
	l.place("before the handler of " + what)
	returned := false
	l.inside(1)
	defer func() {
		l.inside(-1)
		if !returned {
			l.touched()
		}
	}()
	err := handler(context.WithValue(ctx, runKey{}, &where{l, what}))
	l.place("after the handler of " + what + " had returned, before its outcome was written")
	returned = true
	return err
}

func (l *life) inside(more int) {
	l.crash.mu.Lock()
	defer l.crash.mu.Unlock()
	l.crash.inside += more
}

// Before and After are [mortal.Watch].
func (l *life) Before(ctx context.Context, act *mortal.Act) {
	if dead, over := l.isDead(); dead {
		if !over && !act.Quiet {
			runtime.Goexit()
		}
		return // it is told that the handle is dead
	}
	before, _ := l.named(ctx, act)
	if before != "" {
		l.place(before)
	}
}

func (l *life) After(ctx context.Context, act *mortal.Act) {
	if _, after := l.named(ctx, act); after != "" {
		l.touched()
		l.place(after)
	}
}

// named says what an act is to those who look for a fault; empty: there is no place.
func (l *life) named(ctx context.Context, act *mortal.Act) (before, after string) {
	does, _ := ctx.Value(verbKey{}).(*verb)
	at, _ := ctx.Value(runKey{}).(*where)
	inside := act.Tx != nil && act.Kind != mortal.Commit // a transaction: if it does not come to its commit, nothing of it has happened
	switch {
	case act.Kind == mortal.Other || act.Kind == mortal.Read:
		return "", ""
	case inside && does != nil:
		act.Tx.Note(does.part)
		return "", ""
	case does != nil:
		return does.before, does.after
	case inside && (at == nil || act.Quiet):
		return "", ""
	}
	who, text := "somebody", l.shortened(act.Query)
	if at != nil {
		who = at.what
	}
	switch {
	case act.Kind == mortal.Commit:
		with := ""
		if act.Tx != nil && len(act.Tx.Notes) > 0 {
			with = " with " + strings.Join(act.Tx.Notes, " and ")
		}
		return fmt.Sprintf("before the commit of %s%s", who, with), fmt.Sprintf("after the commit of %s%s, before it heard of that", who, with)
	case act.Tx != nil:
		return fmt.Sprintf("before %s sent, in a transaction, %s", who, text), ""
	default:
		return fmt.Sprintf("before %s sent %s", who, text), fmt.Sprintf("after %s had sent %s, before it heard of that", who, text)
	}
}

// shortened is the text of a statement, for the name of a place.
func (l *life) shortened(query string) string {
	const most = 70
	if l.crash.prefix != "" {
		query = strings.ReplaceAll(query, l.crash.prefix, "")
	}
	text := []rune(strings.Join(strings.Fields(query), " "))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}

func jobsOf(ids []uint64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = fmt.Sprint(id)
	}
	if len(list) == 1 {
		return "job " + list[0]
	}
	return "jobs " + strings.Join(list, ", ")
}
