package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func atOnce(int, error) time.Duration { return 0 }

// endIn has a handler end its job in a transaction that is committed, or not.
func endIn(ctx context.Context, t *testing.T, begin beginner, commits bool, end func(queue_job.Executor) error) error {
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1, 1)"); err != nil {
		t.Error(err)
	}
	if err := end(tx); err != nil || !commits {
		return err
	}
	return tx.Commit()
}

func TestAHandlerEndsItsJobInItsOwnTransactionHoweverItEnds(t *testing.T) {
	t.Parallel()
	const reason = "the card was refused"
	for name, c := range map[string]struct {
		end    func(ctx context.Context, job *queue_job.Job, tx queue_job.Executor) error
		status queue_job.JobStatus
		result string
		reason string
		dead   bool
	}{
		"FailTx": {func(ctx context.Context, job *queue_job.Job, tx queue_job.Executor) error {
			return job.FailTx(ctx, tx, reason)
		},
			queue_job.JobStatusFailed, "", reason, true},
		"CancelTx": {func(ctx context.Context, job *queue_job.Job, tx queue_job.Executor) error {
			return job.CancelTx(ctx, tx, reason)
		},
			queue_job.JobStatusCancelled, "", reason, false},
		"CancelTx without a reason": {func(ctx context.Context, job *queue_job.Job, tx queue_job.Executor) error {
			return job.CancelTx(ctx, tx, "")
		},
			queue_job.JobStatusCancelled, "", "", false},
		"CompleteTx with a result": {func(ctx context.Context, job *queue_job.Job, tx queue_job.Executor) error {
			return job.CompleteTx(ctx, tx, queue_job.Result("42"))
		}, queue_job.JobStatusSuccess, "42", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
				effects(t, d)
				var settled, dead, finished atomic.Value
				config := queue_job.Config{
					NeedRetry: true, MaxRetries: 5, RetryTiming: atOnce,
					HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
						err := endIn(ctx, t, begin, job.Attempt > 1, func(tx queue_job.Executor) error { return c.end(ctx, job, tx) })
						if err == nil && job.Attempt == 3 {
							err = errors.New("what happens after the commit changes nothing")
						}
						return err
					},
					OnFinished: func(_ context.Context, job *queue_job.Job, f queue_job.Finished) {
						if job.Attempt == 2 {
							finished.Store(fmt.Sprintf("%v %v %v", f.Status, f.Err, f.Dropped))
						}
					},
				}
				note := func(into *atomic.Value) func(context.Context, []queue_job.Settled) {
					return func(_ context.Context, all []queue_job.Settled) {
						last := all[len(all)-1]
						into.Store(fmt.Sprintf("%v %v", last.Status, last.Err))
					}
				}
				r := newRunnerWith(t, []persistent_queue.Option{persistent_queue.WithOnDead(note(&dead)), persistent_queue.WithOnSettled(note(&settled))}, d.DB, config)
				if err := r.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { stop(t, r) })
				jobs := open(t, d.DB)
				add(t, d.DB, 1, 0)
				awaitNumber(t, d.DB, 1, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_status = %d", c.status))

				job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(1))
				if err != nil || job.Result != c.result || job.Retries != 1 {
					t.Errorf("%+v, %v", job, err)
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM effects"); n != 1 {
					t.Errorf("%d effects, want that of the transaction that was committed", n)
				}
				err = nil
				if c.reason != "" {
					err = errors.New(c.reason)
				}
				want := fmt.Sprintf("%v %v", c.status, err)
				await(t, func() string { return fmt.Sprintf("%v was settled, want %s", settled.Load(), want) }, func() bool { return settled.Load() == want })
				await(t, func() string { return fmt.Sprint("OnFinished heard of ", finished.Load()) },
					func() bool { return finished.Load() == want+" false" })
				if c.dead {
					await(t, func() string { return fmt.Sprintf("%v is dead", dead.Load()) }, func() bool { return dead.Load() == want })
				}
				attempts, err := jobs.Attempts(t.Context(), d.DB, 1)
				var told []string
				for _, a := range attempts {
					told = append(told, fmt.Sprintf("%d %s %s", a.Attempt, a.Outcome, a.Error))
					if a.Instance == "" || a.Started.IsZero() || a.Finished.Before(a.Started) {
						t.Errorf("the log has %+v", a)
					}
				}
				if log := strings.Join(told, "\n"); strings.Count(log, c.status.String()+" "+reason) != map[bool]int{true: 1}[c.reason != ""] ||
					!strings.Contains(log, "was not committed") || err != nil {
					t.Errorf("the log of runs is, %v:\n%s", err, log)
				}
			})
		})
	}
}

func TestAnEndInATransactionIsRefusedThatSaysTooLittleOrTooMuch(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		effects(t, d)
		told := make(chan error, 3)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			for _, end := range []func(queue_job.Executor) error{
				func(tx queue_job.Executor) error { return job.FailTx(ctx, tx, " ") },
				func(tx queue_job.Executor) error {
					return job.CompleteTx(ctx, tx, queue_job.Result(strings.Repeat("x", 1025)))
				},
				func(tx queue_job.Executor) error { return job.FailTx(ctx, d.DB, "no transaction") },
			} {
				told <- endIn(ctx, t, bySQL(d.DB), false, end)
			}
			return nil
		}})
		add(t, d.DB, 1, 0)
		for _, want := range []string{"the reason is empty", "1025 characters", "is no transaction"} {
			if err := <-told; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		awaitNumber(t, d.DB, 1, succeeded) // nothing has marked it
	})
}

func TestARunKnowsWhetherItIsTheLastAndWhereTheLastOneCameTo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		type run struct {
			last     bool
			progress string
		}
		runs := map[int32]chan run{}
		var configs []queue_job.Config
		for jobType, c := range map[int32]queue_job.Config{1: {}, 2: {NeedRetry: true, MaxRetries: 2}, 3: {NeedRetry: true, MaxRetries: queue_job.Unlimited}} {
			came := make(chan run, 10)
			runs[jobType] = came
			if c.JobType = jobType; c.NeedRetry {
				c.RetryTiming = atOnce
			}
			c.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
				text, err := job.Progress(ctx)
				if err != nil {
					t.Error(err)
				}
				came <- run{job.LastTry(), text}
				if job.Attempt == 4 {
					return nil
				}
				return errors.Join(errors.New("no luck"), job.SetProgress(ctx, fmt.Sprint("part ", job.Attempt)))
			}
			configs = append(configs, c)
		}
		start(t, d.DB, configs...)
		jobs, most := open(t, d.DB), 1
		for _, job := range []queue_job.AddModelJob{{JobType: 1}, {JobType: 2}, {JobType: 3}} {
			if _, err := jobs.Add(t.Context(), d.DB, job); err != nil {
				t.Fatal(err)
			}
		}
		for jobType, lasts := range map[int32][]bool{1: {true}, 2: {false, false, true}, 3: {false, false, false, false}} {
			for i, last := range lasts {
				want := run{last, ""}
				if i > 0 {
					want.progress = fmt.Sprint("part ", i)
				}
				if got := <-runs[jobType]; got != want {
					t.Errorf("type %d, run %d: %+v, want %+v", jobType, i+1, got, want)
				}
			}
		}
		if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 2, MaxRetries: &most}); err != nil {
			t.Fatal(err)
		}
		if first, second := <-runs[2], <-runs[2]; first.last || !second.last {
			t.Errorf("a job with one retry of its own: %v, %v", first, second)
		}
	})
	if !new(queue_job.Job).LastTry() {
		t.Error("a job without a Runner has a retry left")
	}
}
