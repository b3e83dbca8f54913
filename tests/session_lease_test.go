package tests

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// watch looks at the lease of job type 1 again and again, from outside and in UTC.
type watch struct {
	end   context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	looks []look
}

// look is what the table said. Times are unix seconds by the session's clock.
type look struct {
	until, now float64
	holder     string
	answered   time.Time
}

// held is not said of a row that has just been made, for somebody to take: it names nobody.
func (l look) held() bool { return l.until > l.now && l.holder != "" }

// span is the length that a taking or a renewal gave the lease, as far as two looks, before and after it, can tell.
type span struct {
	least, most float64
	seen        time.Time
}

func watchLease(t *testing.T, s *stage) *watch {
	t.Helper()
	until, now, dsn := "UNIX_TIMESTAMP(lock_until)", "UNIX_TIMESTAMP(NOW(6))", s.DSN
	switch s.Name {
	case "PostgreSQL":
		until, now = "EXTRACT(EPOCH FROM lock_until)", "EXTRACT(EPOCH FROM clock_timestamp())"
	case "SQLite":
		until, now = "unixepoch(lock_until)", "unixepoch('subsec')"
	default:
		dsn = withParams(dsn, map[string]string{"time_zone": "'+00:00'"})
	}
	const lease = "FROM shedlock_tab WHERE lock_name = 'job-1'"
	query := s.query(fmt.Sprintf("SELECT COALESCE((SELECT %s %s), 0), %s, COALESCE((SELECT locked_by %s), '')", until, lease, now, lease))

	ctx, end := context.WithCancel(t.Context())
	w := &watch{end: end, ended: make(chan struct{})}
	db := dbtest.Open(t, s.Database.Driver, dsn)
	go func() {
		defer close(w.ended)
		w.look(t, ctx, db, query, s.ahead)
	}()
	t.Cleanup(w.stop)
	return w
}

func (w *watch) look(t *testing.T, ctx context.Context, db *sql.DB, query string, ahead time.Duration) {
	const every = 40 * time.Millisecond
	for ; ctx.Err() == nil; sleep(ctx, every) {
		var l look
		err := db.QueryRowContext(ctx, query).Scan(&l.until, &l.now, &l.holder)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("look at the lease: %v", err)
			return
		}
		l.now += ahead.Seconds()
		l.answered = time.Now()
		w.mu.Lock()
		w.looks = append(w.looks, l)
		w.mu.Unlock()
	}
}

func (w *watch) stop() {
	w.end()
	<-w.ended
}

func (w *watch) all() []look {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks[:len(w.looks):len(w.looks)]
}

// spans are the lengths of all takings and renewals so far.
func (w *watch) spans() (list []span) {
	looks := w.all()
	for i := 1; i < len(looks); i++ {
		if l, before := looks[i], looks[i-1]; l.held() && l.until != before.until {
			list = append(list, span{l.until - l.now, l.until - before.now, l.answered})
		}
	}
	return list
}

// await waits until the lease has been taken and renewed so many times.
func (w *watch) await(t *testing.T, times int) {
	t.Helper()
	await(t, func() string { return "the lease is not taken, or not renewed" }, func() bool { return len(w.spans()) >= times })
}

// judge sees that every taking and renewal was within a second of the lease's length, and that nobody had the lease but its
// holder from the moment the holder knew of it (before, a holder gives back what the server answered too late) until it was
// stopped. What the machine's pulse allows is time in which a renewal was written and could not be seen yet.
func (w *watch) judge(t *testing.T, p *pulse, length time.Duration, since, stopping time.Time) {
	t.Helper()
	var figures []string
	for _, s := range w.spans() {
		figures = append(figures, fmt.Sprintf("%.2f to %.2f", s.least, s.most))
		within := p.allows(time.Second, s.seen.Add(-length/4), s.seen)
		if want := length.Seconds(); s.least > want+1 || s.most < want-within.Seconds() {
			t.Errorf("a lease of %v lasts between %.2f s and %.2f s", length, s.least, s.most)
		}
	}
	t.Logf("seconds that a taking or renewal gave the lease of %v: %s", length, strings.Join(figures, ", "))

	var first look
	for _, l := range w.all() {
		switch {
		case l.answered.Before(since):
		case !first.held():
			first = l
		case l.answered.After(stopping):
			return
		case !l.held() || l.holder != first.holder:
			t.Fatalf("before it was stopped, %s lost the lease to %q: until %.2f, at %.2f", first.holder, l.holder, l.until, l.now)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
