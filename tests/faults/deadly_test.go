package faults

import (
	"context"
	"strings"
	"testing"
	"time"
)

const (
	crashesMax = 3 // of one job; then it has failed
	diedReason = "process died while running it"
)

func TestAJobThatKillsItsProcessFailsAndTakesNoNeighbourWithIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  string
		deadly []deadlyJob
	}{
		{"a job that calls os.Exit", []deadlyJob{{1, "exit"}}},
		{"a job that dies of a fatal error", []deadlyJob{{1, "fatal"}}},
		{"a job that runs out of memory", []deadlyJob{{1, "memory"}}},
		{"two deadly jobs of one type", []deadlyJob{{1, "exit"}, {1, "fatal"}}},
		{"two deadly jobs of two types", []deadlyJob{{1, "exit"}, {2, "fatal"}}},
	}[:repeat(5, 1)] {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			eachServerInShortToo(t, func(x *trial) { x.amongGoodOnes(c.fault, c.deadly) })
		})
	}
}

type deadlyJob struct {
	jobType int32
	way     string // a name in deeds
}

// amongGoodOnes puts deadly jobs into the middle of good ones.
func (x *trial) amongGoodOnes(fault string, deadly []deadlyJob) {
	x.Helper()
	good, quick := repeat(1000, 200), work{MS: 20}
	x.addMany(1, good/2, quick)
	var ids []uint64
	for _, job := range deadly {
		ids = append(ids, x.addOne(job.jobType, work{Do: job.way}))
	}
	x.addMany(1, good/2, quick)

	bound := lock + time.Second
	began := time.Now()
	crashes, worst := x.superviseUntilDone(workerSettings{Types: []int32{1, 2}, Capacity: 20})
	x.withinDuring(window{began, time.Now()}, worst, bound, "work went on")
	o := x.check()
	x.stopWorkers()

	if most := crashesMax * len(deadly); crashes > most {
		x.Errorf("%d processes died, want at most %d", crashes, most)
	}
	if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1"); n != int64(good) {
		x.Errorf("%d good jobs succeeded, want %d: %s", n, good, x.describe("job_status <> 1"))
	}
	rows := x.rows()
	for _, id := range ids {
		if want := (row{status: 2, lost: crashesMax, attempts: crashesMax}); rows[id] != want {
			x.Errorf("deadly job %d: %+v, want %+v", id, rows[id], want)
		}
		if reason := x.failure(id); !strings.Contains(reason, diedReason) {
			x.Errorf("deadly job %d failed for the reason %q, want %q", id, reason, diedReason)
		}
	}
	x.tell(fault+", among good ones", 1, o, worst, bound, "%d good ones, %d processes died", good, crashes)
}

// superviseUntilDone starts a worker again whenever it dies, as Kubernetes would, until no runnable row is left. It
// returns how often that was, and the longest time until a job started again or nothing was left to start.
func (x *trial) superviseUntilDone(s workerSettings) (crashes int, worst time.Duration) {
	x.Helper()
	const pending = "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 3, 4)"
	w := x.startWorker(s)
	var died time.Time // zero: work has gone on since
	x.await(5*time.Minute, "rows are left", func() bool {
		done := x.number(pending) == 0
		if starts := w.started(); !died.IsZero() && (done || len(starts) > 0) {
			wentOn := time.Now()
			if len(starts) > 0 {
				wentOn = starts[0].at
			}
			worst = max(worst, wentOn.Sub(died))
			died = time.Time{}
		}
		if w.gone() {
			crashes++
			if crashes > 10*crashesMax {
				x.Fatalf("%d processes died", crashes)
			}
			died = time.Now()
			w = x.startWorker(s)
		}
		return done
	})
	return crashes, worst
}

// failure is what the log of attempts says of a job that failed.
func (x *trial) failure(id uint64) (reason string) {
	x.row("SELECT error FROM async_job_log_tab WHERE job_id = ? AND outcome = 'failed'", id).Scan(&reason)
	return reason
}

// addOne adds a job and returns its id.
func (x *trial) addOne(jobType int32, w work) uint64 {
	x.Helper()
	ctx := context.Background()
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		x.Fatal(err)
	}
	defer tx.Rollback()
	ids, err := x.insert(ctx, tx, jobType, 1, w)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		x.Fatal(err)
	}
	return ids[0]
}
