package tests

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What tells the statements apart that go over a wire.
const (
	aMark       = "attempts = attempts + 1"
	anUnmarking = "attempts = attempts - 1"
	aPutBack    = "retries = retries + "
	aFailure    = "SET job_status = 2, update_time"
	aLastLoss   = "SET lost = lost + 1, term"
	aLogRow     = "INTO async_job_log_tab"
)

var errBroken = errors.New("the connection broke")

// wire is a handle to a database on which a test decides when statements arrive. It has no more methods than a handle
// needs, so every statement goes over it.
type wire struct {
	db *sql.DB

	mu      sync.Mutex
	whole   chan struct{} // closed unless the wire is cut
	delayed []*delayed
	failing map[string]int // how many statements that contain the text are refused
}

// newWire opens a wire to the database. Who cuts it mends it before Runners on it are stopped.
func newWire(t *testing.T, d dbtest.Database) *wire {
	w := &wire{db: dbtest.Open(t, d.Driver, d.DSN), whole: make(chan struct{}), failing: map[string]int{}}
	close(w.whole)
	return w
}

// cut holds every statement up from now on, until the sender gives it up or the wire is mended.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
	default:
		close(w.whole)
	}
}

// refuse has as many statements that contain the text end with an error, and do nothing.
func (w *wire) refuse(text string, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing[text] = times
}

// willRefuse is how many more statements that contain the text will be refused.
func (w *wire) willRefuse(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing[text]
}

// delayed is a statement that takes its time to arrive.
type delayed struct {
	text   string
	lost   bool          // the sender is told at once that the connection broke; else it waits
	sent   chan struct{} // closed when it was sent
	arrive chan struct{} // closed when it may arrive
	done   chan struct{} // closed when the database has answered
	err    error         // the answer; after done
}

// delay holds up the next statement that contains the text. Its sender waits for the answer.
func (w *wire) delay(text string) *delayed { return w.hold(&delayed{text: text}) }

// lose is delay for a statement whose sender is told that the connection broke, and does not know that it will arrive.
func (w *wire) lose(text string) *delayed { return w.hold(&delayed{text: text, lost: true}) }

func (w *wire) hold(s *delayed) *delayed {
	s.sent, s.arrive, s.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delayed = append(w.delayed, s)
	return s
}

// awaitSent waits until the statement was sent.
func (s *delayed) awaitSent(t *testing.T) {
	t.Helper()
	s.await(t, s.sent, "no statement was sent with "+s.text)
}

// deliver lets the statement arrive and waits for the database to answer.
func (s *delayed) deliver(t *testing.T) {
	t.Helper()
	s.awaitSent(t)
	close(s.arrive)
	s.await(t, s.done, "no answer to the statement with "+s.text)
	if s.err != nil {
		t.Error(s.err)
	}
}

func (s *delayed) await(t *testing.T, what chan struct{}, missing string) {
	t.Helper()
	await(t, func() string { return missing }, func() bool {
		select {
		case <-what:
			return true
		default:
			return false
		}
	})
}

// send sends a statement as the test wants it.
func send[T any](ctx context.Context, w *wire, query string, statement func(context.Context) (T, error)) (answer T, err error) {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	select {
	case <-whole:
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	refused, held := w.meet(query)
	switch {
	case refused:
		return answer, errBroken
	case held != nil && held.lost:
		go func() {
			defer close(held.done)
			<-held.arrive
			_, held.err = statement(context.WithoutCancel(ctx))
		}()
		close(held.sent)
		return answer, errBroken
	case held != nil:
		close(held.sent)
		defer close(held.done)
		select {
		case <-held.arrive:
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
	return statement(ctx)
}

// meet says what the test wants of a statement.
func (w *wire) meet(query string) (refused bool, held *delayed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for text, times := range w.failing {
		if times > 0 && strings.Contains(query, text) {
			w.failing[text]--
			return true, nil
		}
	}
	for i, s := range w.delayed {
		if strings.Contains(query, s.text) {
			w.delayed = slices.Delete(w.delayed, i, i+1)
			return false, s
		}
	}
	return false, nil
}

func (w *wire) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return send(ctx, w, query, func(ctx context.Context) (sql.Result, error) { return w.db.ExecContext(ctx, query, args...) })
}

func (w *wire) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return send(ctx, w, query, func(ctx context.Context) (*sql.Rows, error) { return w.db.QueryContext(ctx, query, args...) })
}

func (w *wire) Exec(query string, args ...any) (sql.Result, error) {
	return w.ExecContext(context.Background(), query, args...)
}

func (w *wire) Query(query string, args ...any) (*sql.Rows, error) {
	return w.QueryContext(context.Background(), query, args...)
}

func (w *wire) Ping() error { return w.db.Ping() }

func (w *wire) Close() error { return errors.New("the handle is not the library's to close") }
