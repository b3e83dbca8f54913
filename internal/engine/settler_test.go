package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// settled notes when its statements come, and how many jobs they are for.
type settled struct {
	Jobs
	statements, jobs atomic.Int64
}

func (s *settled) Finish(_ context.Context, ids []uint64, _ int64, _ int32) (int, error) {
	s.statements.Add(1)
	s.jobs.Add(int64(len(ids)))
	return len(ids), nil
}

// settling returns a line whose settler runs until the test ends, in virtual time.
func settling(t *testing.T) (*line, *settled) {
	l, table := lineAt(5_000_000), &settled{}
	l.jobs, l.about = table, t.Context()
	go l.settler.run(t.Context())
	synctest.Wait()
	return l, table
}

func (l *line) succeed(jobs int) {
	for range jobs {
		l.settler.add(&task{Row: store.Row{Term: 7}, lease: lease, run: &run{}}, verdict{status: queue_job.JobStatusSuccess}, 0)
	}
	synctest.Wait()
}

func TestOutcomesThatFollowEachOtherShareAStatementAndTheFirstDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := settling(t)
		if l.succeed(1); table.jobs.Load() != 1 {
			t.Fatal("the first after a pause waits")
		}
		for range 4 {
			time.Sleep(settleEvery / 8)
			if l.succeed(1); table.jobs.Load() != 1 {
				t.Fatal("the next has not waited")
			}
		}
		time.Sleep(settleEvery / 2)
		if synctest.Wait(); table.statements.Load() != 2 || table.jobs.Load() != 5 {
			t.Errorf("%d outcomes by %d statements", table.jobs.Load(), table.statements.Load())
		}
	})
}

func TestOutcomesThatFillAStatementDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := settling(t)
		l.succeed(1)
		if l.succeed(3 * batchRowsMax); table.jobs.Load() != 1+3*batchRowsMax {
			t.Errorf("%d are written", table.jobs.Load())
		}
		l.succeed(1)
		if l.succeed(1); table.jobs.Load() != 1+3*batchRowsMax {
			t.Error("then one that is alone has not waited")
		}
	})
}

func TestAnOutcomeForWhichTheNextJobOfAKeyWaitsIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := settling(t)
		l.queue.keys = newKeys(1, false, 10)
		l.succeed(1)
		if l.succeed(1); table.statements.Load() != 2 {
			t.Errorf("%d are written", table.jobs.Load())
		}
	})
}
