package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// slowly is a handler whose runs from the second on take until they are let go. The first ends as told.
type slowly struct {
	runs
	first error
	goOn  chan struct{}
}

func newSlowly(t *testing.T, first error) *slowly {
	s := &slowly{first: first, goOn: make(chan struct{})}
	t.Cleanup(func() {
		select {
		case <-s.goOn:
		default:
			close(s.goOn)
		}
	})
	return s
}

func (s *slowly) handler(ctx context.Context, job *queue_job.Job) error {
	s.note(job)
	if len(s.of(job.Id)) == 1 && s.first != nil {
		return s.first
	}
	select {
	case <-s.goOn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wantEnd lets the run under way end, and holds that it was the last, and the job has succeeded.
func (s *slowly) wantEnd(t *testing.T, d dbtest.Database, attempts int) {
	t.Helper()
	close(s.goOn)
	awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (1, 2)")
	if n := number(t, d.DB, succeeded); n != 1 {
		t.Error("the job has not succeeded")
	}
	if n := len(s.all()); n != attempts {
		t.Errorf("%d runs, want %d", n, attempts)
	}
	if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts = ? AND lost = 0", attempts); n != 1 {
		t.Errorf("the row does not say %d runs, none lost", attempts)
	}
}

// Nobody knows what became of a statement when its connection breaks, so it is sent again. The first one may arrive after
// the second, when the next run is under way.
func TestAPutBackThatArrivesLateTakesNoJobFromItsNextRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for outcome, first := range map[string]error{"a retry": queue_job.RetryAfter(0, errors.New("no luck")), "a snooze": queue_job.Snooze(0), "a deferred run": queue_job.Defer(0)} {
			t.Run(outcome, func(t *testing.T) {
				execute(t, d.DB, "DELETE FROM async_job_tab")
				line, work := newWire(t, d), newSlowly(t, first)
				r := start(t, line, queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: work.handler})
				late := line.lose(aPutBack)
				add(t, d.DB, 1, 0)
				awaitRuns(t, &work.runs, 2)
				late.deliver(t)
				work.wantEnd(t, d, 2)
				stop(t, r)
			})
		}
	})
}

func TestAFailureThatArrivesLateEndsNoJobThatWasRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		line, work := newWire(t, d), newSlowly(t, queue_job.Fail(errors.New("no luck")))
		start(t, line, queue_job.Config{HandleJobFunc: work.handler})
		late := line.lose(aFailure)
		add(t, d.DB, 1, 0)
		id := uint64(0)
		await(t, func() string { return "the job has not failed" }, func() bool {
			id = uint64(number(t, d.DB, "SELECT COALESCE(MAX(id), 0) FROM async_job_tab WHERE job_status = 2"))
			return id != 0
		})
		if retried, err := open(t, d.DB).Retry(t.Context(), d.DB, queue_job.ID(id)); err != nil || retried.Jobs != 1 {
			t.Fatal(retried, err)
		}
		awaitRuns(t, &work.runs, 2)
		late.deliver(t)
		work.wantEnd(t, d, 2)
	})
}

// A rate has rows marked a little ahead; a pause has those marks taken back.
func TestAnUnmarkingThatArrivesLateTakesNoJobFromItsRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const jobs = 40
		line, work := newWire(t, d), newSlowly(t, nil)
		start(t, line, queue_job.Config{RatePerSecond: 20, RateBurst: 1, HandleJobFunc: work.handler})
		late := line.lose(anUnmarking)
		add(t, d.DB, jobs, 0)
		awaitRuns(t, &work.runs, 3)
		pause(t, d.DB, 1)
		late.awaitSent(t)
		awaitNumber(t, d.DB, int64(len(work.all())), "SELECT COUNT(*) FROM async_job_tab WHERE term <> 0") // sent again, it is in effect
		resume(t, d.DB, 1)
		awaitRuns(t, &work.runs, jobs)
		late.deliver(t)
		close(work.goOn)
		awaitNumber(t, d.DB, jobs, succeeded)
		if n := len(work.all()); n != jobs {
			t.Errorf("%d runs of %d jobs", n, jobs)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n != 0 {
			t.Errorf("%d rows do not say one run, none lost", n)
		}
	})
}

// The mark was given up, and sent again. The first one arrives when the job has run and waits for its next time.
func TestAMarkThatArrivesLateMarksNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		line, work := newWire(t, d), newSlowly(t, queue_job.Snooze(time.Hour))
		late := line.lose(aMark)
		start(t, line, queue_job.Config{HandleJobFunc: work.handler})
		add(t, d.DB, 1, 0)
		awaitRuns(t, &work.runs, 1)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 3 AND term = 0")
		late.deliver(t)
		changed(t, 1)(open(t, d.DB).Reschedule(t.Context(), d.DB, queue_job.ID(1), time.Now())) // in flight, it could not be
		if t.Failed() {
			return
		}
		awaitRuns(t, &work.runs, 2)
		work.wantEnd(t, d, 2)
	})
}
