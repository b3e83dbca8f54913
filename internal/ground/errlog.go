package ground

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

// tellEvery is how often the log hears that statements fail.
const tellEvery = 10 * time.Second

// Errlog tells the log that statements fail on a database. All loops of the process that use it tell their errors here, and
// try again. With hundreds of types, each would say the same, so the log gets one line in tellEvery: the latest error, and how
// many others there were. When no statement has failed for calmFor, it hears that the database answers again.
type Errlog struct {
	log   logger.Logger
	about context.Context

	full func() (most int)

	any    atomic.Bool // something is to be told when it succeeds again; so that success costs nothing
	recent atomic.Bool // no statement has succeeded since the last failure was calmFor ago

	mu          sync.Mutex
	first, last time.Time // errors; zero: the database answers
	latest      string    // what failed last, and how
	told        time.Time
	untold      int
	usedUp      bool                   // the latest failed since the pool was used up
	stuck       map[string]*Standstill // of vital
}

// Standstill is that all statements of a loop fail, one after the other.
type Standstill struct {
	Since, Last time.Time
	Err         error
}

// vital are the statements without which no job of a database starts or ends, or not on time. A single row may be locked, so one
// that waits for a single row is not vital.
var vital = map[string]bool{
	"look for new jobs": true, "look for due jobs": true, "load jobs": true, "look for pauses": true, "look for cancellations": true,
	"mark jobs": true, "read back marked jobs": true, "read long parameters": true, "write outcomes": true,
}

// stuckFor is how long a loop that fails takes at most until it fails again; if it does not, it has nothing to do anymore.
const stuckFor = 2 * LookLongest

// calmFor is how long no statement may fail until the database answers again: while some do, others succeed.
const calmFor = 3 * time.Second

// NewErrlog tells log, under the context about. Full says how many connections the pool has, if all are in use, and 0 if not; nil: the pool
// does not say.
func NewErrlog(log logger.Logger, about context.Context, full func() int) *Errlog {
	return &Errlog{log: log, about: about, full: full, stuck: map[string]*Standstill{}}
}

// Blame adds to an error what it is due to, if that is not the database: while a pool has no connection to lend, a statement is not
// even sent.
func (e *Errlog) Blame(err error) (_ error, usedUp bool) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err, false
	}
	most := e.Full()
	if most == 0 {
		return err, false
	}
	return fmt.Errorf("all connections of the pool are in use, as by handlers (MaxOpenConns is %d), and none came free in time; "+
		"give the Runner a handle of its own (WithDB), or raise SetMaxOpenConns: %w", most, err), true
}

// Full says how many connections the pool has, if all are in use. Zero: some are free, or the pool does not say.
func (e *Errlog) Full() (most int) {
	if e.full != nil {
		most = e.full()
	}
	return most
}

// StuckLongest says which vital statements have failed for longest, all of them, since when, and how; nil: none fail.
func (e *Errlog) StuckLongest() (doing string, f *Standstill) {
	if !e.any.Load() {
		return "", nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for other, g := range e.stuck {
		if time.Since(g.Last) < stuckFor && g.Last.After(g.Since) && (f == nil || g.Since.Before(f.Since)) {
			doing, f = other, &Standstill{g.Since, g.Last, g.Err}
		}
	}
	return doing, f
}

// Lately reports whether a statement has failed that may have brought the process to another server.
func (e *Errlog) Lately() bool { return e.recent.Load() }

// failingFor is how long statements must have failed before others than the log hear of it: a deadlock now and then is no news.
const failingFor = 5 * time.Second

// Failing says for how long statements have failed, and how the last of them did. Zero: none has, for failingFor.
func (e *Errlog) Failing() (lasts time.Duration, latest string) {
	if !e.recent.Load() {
		return 0, ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first.IsZero() || e.last.Sub(e.first) < failingFor {
		return 0, ""
	}
	return time.Since(e.first), e.latest
}

func (e *Errlog) failed(doing string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.any.Store(true)
	e.recent.Store(true)
	err, e.usedUp = e.Blame(err)
	e.last, e.latest = time.Now(), doing+": "+err.Error()
	e.note(doing, err)
	if e.first.IsZero() {
		e.first = e.last
	}
	if e.last.Sub(e.told) < tellEvery {
		e.untold++
		return
	}
	others := ""
	if e.untold > 0 {
		others = fmt.Sprintf(" (and %d more errors since the last of these lines)", e.untold)
	}
	e.told, e.untold = e.last, 0
	e.log.Warn(logger.With(e.about, slog.String("doing", doing)), strings.ReplaceAll(err.Error(), "\n", "; ")+"; trying again"+others)
}

// Remains notes that statements still fail, of which the log need not hear again.
func (e *Errlog) Remains(doing string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err, _ = e.Blame(err)
	e.note(doing, err)
}

// note notes the error of a vital statement. The caller holds the lock.
func (e *Errlog) note(doing string, err error) {
	if !vital[doing] {
		return
	}
	e.any.Store(true)
	now := time.Now()
	if f := e.stuck[doing]; f != nil && now.Sub(f.Last) < stuckFor {
		f.Last, f.Err = now, err
	} else {
		e.stuck[doing] = &Standstill{now, now, err}
	}
}

func (e *Errlog) succeeded(doing string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.stuck, doing)
	maps.DeleteFunc(e.stuck, func(_ string, f *Standstill) bool { return time.Since(f.Last) >= stuckFor })
	if time.Since(e.last) < calmFor {
		return
	}
	e.recent.Store(false)
	if len(e.stuck) > 0 { // some still fail, each after a long wait
		return
	}
	e.any.Store(false)
	if e.first.IsZero() {
		return
	}
	again := "the database answers again"
	if e.usedUp {
		again = "the pool has connections again"
	}
	e.log.Info(e.about, fmt.Sprintf("%s after %v", again, e.last.Sub(e.first).Round(time.Millisecond)))
	e.first, e.untold, e.usedUp = time.Time{}, 0, false
}
