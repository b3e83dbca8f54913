package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// stood is a table in which the rows stand like this.
type stood struct {
	Jobs
	rows []store.Standing
}

func (s stood) Standings(context.Context, []uint64) ([]store.Standing, error) { return s.rows, nil }

func (s stood) FinishThrough(context.Context, store.Handle, uint64, int64, int32) (bool, error) {
	return true, nil
}

func (s stood) SetProgress(context.Context, uint64, int64, string) (bool, error) { return true, nil }
func (s stood) SetResult(context.Context, uint64, int64, string) (bool, error)   { return true, nil }

// someTx is what a handler passes as its transaction.
type someTx struct{ queue_job.Executor }

func (someTx) Commit() error   { return nil }
func (someTx) Rollback() error { return nil }

// free is a table of leases in which every lease can be had, with term 7.
type free struct{ keeper.Leases }

func (free) SeeLeases(_ context.Context, names []string) ([]store.Seen, error) {
	return []store.Seen{{Name: names[0], Free: true}}, nil
}

func (free) TakeLeases(_ context.Context, names []string, _ string, _ int64) (map[string]int64, error) {
	return map[string]int64{names[0]: 7}, nil
}

func leaseIn(t *testing.T) *keeper.Lease {
	t.Helper()
	taken, err := keeper.New(t.Context(), free{}, "test", nil).Take(t.Context(), []keeper.Want{{Name: "job-1", Lock: time.Minute}})
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	return taken[0]
}

// atWork returns a line with one task at work for so long, and the context of its handler.
func atWork(t *testing.T, jobs stood, since time.Duration) (l *line, ctx context.Context) {
	t.Helper()
	l = lineOf(10)
	l.jobs = jobs
	ctx, cancel := context.WithCancelCause(t.Context())
	one := &task{Row: store.Row{ID: 1, Term: 7}, lease: leaseIn(t), run: &run{cancel: cancel, started: time.Now().Add(-since), job: queue_job.Job{Id: 1, Term: 7}}}
	one.job.Through(jobs)
	l.ready = []*task{one}
	l.nextReady(false)
	one.begun.Store(true)
	return l, ctx
}

func TestOnlyWhatIsCertainlyNotOursAnyMoreIsCancelled(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []store.Standing
		cause error
	}{
		{"ours", []store.Standing{{ID: 1, Term: 7}}, nil},
		{"ours, and retried before", []store.Standing{{ID: 1, Term: 7, Status: 4}}, nil},
		{"read from a server that lags behind", []store.Standing{{ID: 1}}, nil},
		{"read from one that lags, lost before", []store.Standing{{ID: 1, Term: 5}}, nil},
		{"cancelled", []store.Standing{{ID: 1, Term: 7, Status: 5}}, queue_job.ErrCancelled},
		{"finished by hand", []store.Standing{{ID: 1, Term: 7, Status: 1}}, queue_job.ErrCancelled},
		{"a later term's", []store.Standing{{ID: 1, Term: 8}}, keeper.ErrLost},
		{"deleted", nil, queue_job.ErrCancelled},
	} {
		l, ctx := atWork(t, stood{rows: c.rows}, time.Second)
		if err := l.endCancelled(l.longAtWork()); err != nil {
			t.Fatal(err)
		}
		if got := context.Cause(ctx); got != c.cause || l.atWork[0].gone.Load() != (c.cause != nil) {
			t.Errorf("%s: the context has ended with %v, want %v", c.name, got, c.cause)
		}
	}
}

func TestAJobThatItsHandlerCompletesIsNotCancelled(t *testing.T) {
	l, ctx := atWork(t, stood{rows: []store.Standing{{ID: 1, Term: 7, Status: 1}}}, time.Second)
	if err := l.atWork[0].job.CompleteTx(ctx, someTx{}); err != nil {
		t.Fatal(err)
	}
	if err := l.endCancelled(l.longAtWork()); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
}

func TestYoungRunsAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := atWork(t, stood{}, watchFrom/2)
		if tasks := l.longAtWork(); len(tasks) > 0 {
			t.Fatalf("%d", len(tasks))
		}
	})
}

func TestWhoLeavesWorkLeavesTheOthersThere(t *testing.T) {
	l := lineOf(10)
	var tasks []*task
	for i := range 5 {
		tasks = append(tasks, &task{Row: store.Row{ID: uint64(i)}})
	}
	l.makeReady(tasks)
	for range tasks {
		l.nextReady(false)
	}
	for n, i := range []int{2, 4, 0, 3, 1} {
		l.leave(tasks[i])
		if len(l.atWork) != len(tasks)-n-1 {
			t.Fatalf("%d are at work", len(l.atWork))
		}
		for place, left := range l.atWork {
			if left.place != place || left == tasks[i] {
				t.Errorf("after %d has left, %d is at place %d and believes %d", i, left.ID, place, left.place)
			}
		}
	}
}

func TestWhatBecomesOfAJobThatItsHandlerCompleted(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		rows    []store.Standing
		set     queue_job.JobStatus
		err     error
		want    queue_job.JobStatus
		dropped bool
	}{
		{"committed", []store.Standing{{ID: 1, Term: 7, Status: 1}}, 0, nil, queue_job.JobStatusSuccess, true},
		{"committed, and an error after it", []store.Standing{{ID: 1, Term: 7, Status: 1}}, 0, boom, queue_job.JobStatusSuccess, true},
		{"not committed", []store.Standing{{ID: 1, Term: 7}}, 0, nil, queue_job.JobStatusRetry, false},
		{"not committed, and called a success", []store.Standing{{ID: 1, Term: 7}}, queue_job.JobStatusSuccess, nil, queue_job.JobStatusRetry, false},
		{"not committed, and put off", []store.Standing{{ID: 1, Term: 7}}, queue_job.JobStatusContinue, nil, queue_job.JobStatusContinue, false},
		{"not committed, for an error", []store.Standing{{ID: 1, Term: 7}}, 0, queue_job.Fail(boom), queue_job.JobStatusFailed, false},
		{"cancelled before", []store.Standing{{ID: 1, Term: 7, Status: 5}}, 0, queue_job.ErrNotOurs, queue_job.JobStatusCancelled, true},
		{"taken over", []store.Standing{{ID: 1, Term: 8}}, 0, queue_job.ErrNotOurs, queue_job.JobStatusRetry, true},
		{"deleted", nil, 0, queue_job.ErrNotOurs, queue_job.JobStatusRetry, true},
	} {
		l, ctx := atWork(t, stood{rows: c.rows}, time.Second)
		l.cfg.NeedRetry, l.cfg.MaxRetries = true, 3
		one := l.atWork[0]
		one.MaxRetries = store.NotSet
		one.job.Status = c.set
		if err := one.job.CompleteTx(ctx, someTx{}); err != nil {
			t.Fatal(err)
		}
		v, dropped := l.judge(one, &one.job, nil, c.err)
		if v.status != c.want || dropped != c.dropped {
			t.Errorf("%s: %v, dropped %v; want %v, %v", c.name, v.status, dropped, c.want, c.dropped)
		}
	}
}

// broken is an error that cannot say what it is, when it is a nil pointer.
type broken struct{ text string }

func (b *broken) Error() string { return b.text }

func TestAnErrorThatCannotBeReadIsAFailedRun(t *testing.T) {
	l := lineOf(1)
	l.handler = func(context.Context, *queue_job.Job) error {
		var b *broken
		return b
	}
	if err := l.call(t.Context(), &queue_job.Job{}); err == nil || len(err.Error()) == 0 {
		t.Fatal(err)
	}
}

func TestARetryTimingThatPanicsLeavesItAtWaitTime(t *testing.T) {
	cfg := &queue_job.Config{WaitTime: time.Minute, RetryTiming: func(int, error) time.Duration { panic("boom") }}
	if wait := waitBefore(cfg, 0, nil); wait != time.Minute {
		t.Fatal(wait)
	}
	cfg.RetryTiming = func(int, error) time.Duration { return 1 << 62 }
	if wait := waitBefore(cfg, 0, nil); wait != bounded(1<<62) || wait > 11*365*24*time.Hour {
		t.Fatal(wait)
	}
}
