package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

var errRefused = errors.New("the table is locked")

// partly is a database that answers about leases, and refuses one kind of statements.
type partly struct {
	vanishing
	refuses atomic.Value // its name
	waits   bool         // it does not refuse; the statement waits until its time is over
}

func (p *partly) is(ctx context.Context, kind string) error {
	switch {
	case p.refuses.Load() != kind:
		return nil
	case p.waits:
		<-ctx.Done()
		return ctx.Err()
	}
	return errRefused
}

func (p *partly) Tail(ctx context.Context, _ uint64, _ []store.Gap, _ []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	return nil, p.is(ctx, "tail")
}
func (p *partly) SweepAll(ctx context.Context, _ []int32, _ int64, _ int) (rows []store.Row, more bool, err error) {
	for id := range uint64(2) {
		rows = append(rows, store.Row{ID: id + 1, JobType: 1, CreateTime: time.Now().Unix(), MaxRetries: store.NotSet})
	}
	return rows, false, p.is(ctx, "sweep")
}
func (p *partly) Mark(ctx context.Context, ids []uint64, _ int64, _ store.Version, _, _ int64) (int, error) {
	return len(ids), p.is(ctx, "mark")
}
func (p *partly) Settle(ctx context.Context, ids []uint64, _ store.Outcome) (int, error) {
	return len(ids), p.is(ctx, "settle")
}
func (p *partly) Paused(ctx context.Context) ([]int32, error) { return nil, p.is(ctx, "pauses") }
func (p *partly) Fleet(ctx context.Context, prefixes []string) (store.Fleet, error) { // it says so, too
	if err := p.is(ctx, "pauses"); err != nil {
		return store.Fleet{}, err
	}
	return p.vanishing.Fleet(ctx, prefixes)
}

// runPartly runs jobs on the database, and stops when the test is over.
func runPartly(t *testing.T, p *partly, full func() int, log logger.Logger) *Engine {
	t.Helper()
	p.refuses.Store("")
	configs := []queue_job.Config{{
		ServiceName: "test", JobType: 1, LockSecond: 10, WorkerPoolCapacity: 2, WorkerExpirySecond: 60, QueueMaxSize: 100, LoadLimit: 100,
		HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil },
	}}
	e, err := Start(t.Context(), func(context.Context, queue_job.Config) (Tables, error) {
		return Tables{Jobs: p, Leases: p, Full: full, Close: func() {}}, nil
	}, configs, Options{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.refuses.Store("")
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(5 * time.Second)
	return e
}

func TestHealthSaysThatJobsDoNotStartOrEndThoughTheLeasesAreKept(t *testing.T) {
	for _, kind := range []string{"tail", "sweep", "mark", "settle", "pauses"} {
		for _, waits := range []bool{false, true} {
			t.Run(kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &partly{waits: waits}
					e := runPartly(t, p, nil, silent{})
					if err := e.Health(); err != nil {
						t.Errorf("before: %v", err)
					}
					p.refuses.Store(kind)
					time.Sleep(9 * time.Second)
					if err := e.Health(); err != nil {
						t.Errorf("too soon: %v", err)
					}
					time.Sleep(16 * time.Second) // the first of them may have waited for its time to be over
					want := errRefused
					if waits {
						want = context.DeadlineExceeded
					}
					if err := e.Health(); !errors.Is(err, want) || !strings.Contains(err.Error(), " has succeeded for ") {
						t.Errorf("while it fails: %v", err)
					}
					p.refuses.Store("")
					time.Sleep(45 * time.Second) // a statement may wait for thirty, after some that waited
					if err := e.Health(); err != nil {
						t.Errorf("afterwards: %v", err)
					}
				})
			})
		}
	}
}

func TestTheLogBlamesThePoolThatIsUsedUpAndNotTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var most atomic.Int64
		e := runPartly(t, &partly{waits: true}, func() int { return int(most.Load()) }, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))})
		p := e.databases()[0].tables.Jobs.(*partly)
		most.Store(20)
		p.refuses.Store("tail")
		time.Sleep(30 * time.Second)
		const used = "all connections of the pool are in use, as by handlers (MaxOpenConns is 20)"
		if err := e.Health(); err == nil || !strings.Contains(err.Error(), used) {
			t.Error(err)
		}
		p.refuses.Store("")
		time.Sleep(time.Minute)
		synctest.Wait() // all are asleep: nobody writes to the log
		if said := text.String(); !strings.Contains(said, used) || strings.Count(said, "the pool has connections again after") != 1 || strings.Contains(said, "the database answers") {
			t.Error(said)
		}
	})
}
