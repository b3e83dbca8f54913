package engine

import (
	"context"
	"fmt"
	"log/slog"
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

	any atomic.Bool // so that success costs nothing

	mu          sync.Mutex
	first, last time.Time // errors; zero: the database answers
	latest      string    // what failed last, and how
	told        time.Time
	untold      int
}

// calmFor is how long no statement may fail until the database answers again: while some do, others succeed.
const calmFor = 3 * time.Second

func newTrouble(log logger.Logger, about context.Context) *trouble {
	return &trouble{log: log, about: about}
}

// on notes the error of a loop's statement, or its success, and reports whether it was an error. Doing says in a few words
// what the loop does, for the log. The log does not hear of errors after the end of ctx.
func (t *trouble) on(ctx context.Context, doing string, err error) bool {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.failed(doing, err)
	case t.any.Load():
		t.succeeded()
	}
	return err != nil
}

// lately reports whether a statement has failed that may have brought the process to another server.
func (t *trouble) lately() bool { return t.any.Load() }

// failingFor is how long statements must have failed before others than the log hear of it: a deadlock now and then is no news.
const failingFor = 5 * time.Second

// failing says for how long statements have failed, and how the last of them did. Zero: none has, for failingFor.
func (t *trouble) failing() (lasts time.Duration, latest string) {
	if !t.any.Load() {
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
	t.last, t.latest = time.Now(), doing+": "+err.Error()
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
	t.log.Warn(logger.With(t.about, slog.String("doing", doing)), err.Error()+"; trying again"+others)
}

func (t *trouble) succeeded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first.IsZero() || time.Since(t.last) < calmFor {
		return
	}
	t.log.Info(t.about, fmt.Sprintf("the database answers again after %v", t.last.Sub(t.first).Round(time.Millisecond)))
	t.first, t.untold = time.Time{}, 0
	t.any.Store(false)
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
