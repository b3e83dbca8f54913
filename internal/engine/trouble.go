package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

// tellEvery is how often the log hears that statements fail.
const tellEvery = 10 * time.Second

// trouble tells the log that statements fail on a database. All loops of the process that use it tell their errors here, and
// try again. With hundreds of types, each would say the same, so the log gets one line in tellEvery: the latest error, and how
// many others there were. When no statement has failed for calmFor, it hears that the database answers again.
type trouble struct {
	log   logger.Logger
	about context.Context

	full func() (most int) // see Tables; nil: the pool does not say

	any    atomic.Bool // something is to be told when it succeeds again; so that success costs nothing
	recent atomic.Bool // no statement has succeeded since the last failure was calmFor ago

	mu          sync.Mutex
	first, last time.Time // errors; zero: the database answers
	latest      string    // what failed last, and how
	told        time.Time
	untold      int
	usedUp      bool                   // the latest failed since the pool was used up
	stuck       map[string]*standstill // of vital
}

// standstill is that all statements of a loop fail, one after the other.
type standstill struct {
	since, last time.Time
	err         error
}

// vital are the statements without which no job of a database starts or ends, or not on time. A single row may be locked, so one
// that waits for a single row is not vital.
var vital = map[string]bool{
	"look for new jobs": true, "look for due jobs": true, "load jobs": true, "look for pauses": true, "look for cancellations": true,
	"mark jobs": true, "read back marked jobs": true, "read long parameters": true, "write outcomes": true,
}

// stuckFor is how long a loop that fails takes at most until it fails again; if it does not, it has nothing to do anymore.
const stuckFor = 2 * lookLongest

// calmFor is how long no statement may fail until the database answers again: while some do, others succeed.
const calmFor = 3 * time.Second

func newTrouble(log logger.Logger, about context.Context, full func() int) *trouble {
	return &trouble{log: log, about: about, full: full, stuck: map[string]*standstill{}}
}

// on notes the error of a loop's statement, or its success, and reports whether it was an error. Doing says in a few words
// what the loop does, for the log. The log does not hear of errors after the end of ctx.
func (t *trouble) on(ctx context.Context, doing string, err error) bool {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.failed(doing, err)
	case t.any.Load():
		t.succeeded(doing)
	}
	return err != nil
}

// blame adds to an error what it is due to, if that is not the database: while a pool has no connection to lend, a statement is not
// even sent.
func (t *trouble) blame(err error) (_ error, usedUp bool) {
	if t.full == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err, false
	}
	most := t.full()
	if most == 0 {
		return err, false
	}
	return fmt.Errorf("all connections of the pool are in use, as by handlers (MaxOpenConns is %d), and none came free in time; give the Runner a handle of its own (WithDB), or raise SetMaxOpenConns: %w", most, err), true
}

// stuckLongest says which vital statements have failed for longest, all of them, since when, and how; nil: none fail.
func (t *trouble) stuckLongest() (doing string, f *standstill) {
	if !t.any.Load() {
		return "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, g := range t.stuck {
		if time.Since(g.last) < stuckFor && g.last.After(g.since) && (f == nil || g.since.Before(f.since)) {
			doing, f = other, &standstill{g.since, g.last, g.err}
		}
	}
	return doing, f
}

// lately reports whether a statement has failed that may have brought the process to another server.
func (t *trouble) lately() bool { return t.recent.Load() }

// failingFor is how long statements must have failed before others than the log hear of it: a deadlock now and then is no news.
const failingFor = 5 * time.Second

// failing says for how long statements have failed, and how the last of them did. Zero: none has, for failingFor.
func (t *trouble) failing() (lasts time.Duration, latest string) {
	if !t.recent.Load() {
		return 0, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first.IsZero() || t.last.Sub(t.first) < failingFor {
		return 0, ""
	}
	return time.Since(t.first), t.latest
}

func (t *trouble) failed(doing string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.any.Store(true)
	t.recent.Store(true)
	err, t.usedUp = t.blame(err)
	t.last, t.latest = time.Now(), doing+": "+err.Error()
	t.note(doing, err)
	if t.first.IsZero() {
		t.first = t.last
	}
	if t.last.Sub(t.told) < tellEvery {
		t.untold++
		return
	}
	others := ""
	if t.untold > 0 {
		others = fmt.Sprintf(" (and %d more errors since the last of these lines)", t.untold)
	}
	t.told, t.untold = t.last, 0
	t.log.Warn(logger.With(t.about, slog.String("doing", doing)), strings.ReplaceAll(err.Error(), "\n", "; ")+"; trying again"+others)
}

// remains notes that statements still fail, of which the log need not hear again.
func (t *trouble) remains(doing string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err, _ = t.blame(err)
	t.note(doing, err)
}

// note notes the error of a vital statement. The caller holds the lock.
func (t *trouble) note(doing string, err error) {
	if !vital[doing] {
		return
	}
	t.any.Store(true)
	now := time.Now()
	if f := t.stuck[doing]; f != nil && now.Sub(f.last) < stuckFor {
		f.last, f.err = now, err
	} else {
		t.stuck[doing] = &standstill{now, now, err}
	}
}

func (t *trouble) succeeded(doing string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.stuck, doing)
	maps.DeleteFunc(t.stuck, func(_ string, f *standstill) bool { return time.Since(f.last) >= stuckFor })
	if time.Since(t.last) < calmFor {
		return
	}
	t.recent.Store(false)
	if len(t.stuck) > 0 { // some still fail, each after a long wait
		return
	}
	t.any.Store(false)
	if t.first.IsZero() {
		return
	}
	again := "the database answers again"
	if t.usedUp {
		again = "the pool has connections again"
	}
	t.log.Info(t.about, fmt.Sprintf("%s after %v", again, t.last.Sub(t.first).Round(time.Millisecond)))
	t.first, t.untold, t.usedUp = time.Time{}, 0, false
}

// losses tells the log which leases were lost, those of a moment in one line: they are renewed together, and lost together.
type losses struct {
	log   logger.Logger
	about context.Context

	mu    sync.Mutex
	names []string
	cause error
	timer *time.Timer
}

// losesTogether is how far apart the losses of a line may be.
const losesTogether = 200 * time.Millisecond

func (l *losses) add(name string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.cause = append(l.names, name), cause
	if len(l.names) == 1 {
		l.timer = time.AfterFunc(losesTogether, l.tell)
	}
}

// tell tells at once.
func (l *losses) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 5
	if len(l.names) == 0 {
		return
	}
	l.timer.Stop()
	slices.Sort(l.names)
	text := strings.Join(l.names[:min(len(l.names), most)], ", ")
	if more := len(l.names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	l.log.Warn(l.about, fmt.Sprintf("lost leases %s: %v; another instance may take over", text, l.cause))
	l.names = nil
}
