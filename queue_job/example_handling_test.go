package queue_job_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// If an order is not paid yet, the job looks again in a minute, as often as it has to. That is no retry.
func ExampleSnooze() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		if !paid(ctx, job) {
			return queue_job.Snooze(time.Minute)
		}
		return nil
	}}
}

// Two jobs need the same machine. A run that finds it in use has done nothing, so the next one is told the same number.
func ExampleDefer() {
	var machine sync.Mutex
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		if !machine.TryLock() {
			return queue_job.Defer(10 * time.Second)
		}
		defer machine.Unlock()
		if job.Attempt > 1 && paid(ctx, job) {
			return nil // by an earlier run, whose outcome was lost
		}
		_, err := callPartner(ctx)
		return err
	}}
}

// What was done is not done again, however often the job runs. The bank knows a repeated request by its key.
func ExampleStep() {
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		receipt, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (string, error) {
			return chargeOnce(ctx, job.StepKey("charge"))
		})
		if err != nil {
			return err
		}
		if err := job.Sleep(ctx, "cooling off", 14*24*time.Hour); err != nil {
			return err
		}
		_, err = queue_job.Step(ctx, job, "ship", func(ctx context.Context) (string, error) { return shipTo(ctx, receipt) })
		return err
	}}
}

func chargeOnce(ctx context.Context, key string) (receipt string, err error) { return key, nil }

func shipTo(ctx context.Context, receipt string) (parcel string, err error) { return receipt, nil }

// Somebody approves the order, within three days. Whoever does sends a signal.
func ExampleAwait() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		by, came, err := queue_job.Await[string](ctx, job, "approval", 3*24*time.Hour)
		switch {
		case err != nil:
			return err // it may only be the end of this run
		case !came:
			return queue_job.Cancel(errors.New("nobody has approved it in time"))
		}
		return job.SetProgress(ctx, "approved by "+by)
	}}
}

// The approval and its signal are committed together. The job is found by its key.
func ExampleJobs_Signal() {
	approve := func(ctx context.Context, tx *sql.Tx, order string) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET approved_by = 'ann' WHERE id = ?", order)
		if err != nil {
			return err
		}
		err = jobs.Signal(ctx, tx, queue_job.Key(7, "order-"+order), "approval", "ann")
		if errors.Is(err, queue_job.ErrSignalLate) || errors.Is(err, queue_job.ErrEnded) {
			return errors.New("it is too late: the order was given up")
		}
		return err
	}
	_ = approve
}

// The mail and the clean-up follow the order exactly once, if it has succeeded.
func ExampleJobs_Then() {
	mail, tidyUp := queue_job.Define[string](8, "mail"), queue_job.Define[string](9, "tidy-up")
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		receipt, err := chargeOnce(ctx, job.IdempotencyKey())
		if err != nil {
			return err
		}
		return jobs.Then(ctx, job, mail.New(receipt), tidyUp.New(receipt, queue_job.After(24*time.Hour)))
	}}
}

// Goods are reserved exactly once: a run that has not the job any more cannot commit.
func ExampleStepTx() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		_, err = queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (int64, error) {
			result, err := tx.ExecContext(ctx, "UPDATE goods SET reserved = reserved + 1 WHERE id = 7")
			if err != nil {
				return 0, err
			}
			return result.RowsAffected()
		})
		if err != nil {
			return err
		}
		return tx.Commit()
	}}
}

// The other side says when to come back. The job is retried then, not after WaitTime.
func ExampleRetryAfter() {
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		wait, err := callPartner(ctx)
		if errors.Is(err, errTooManyRequests) {
			return queue_job.RetryAfter(wait, err)
		}
		return err
	}}
}

// No retry helps if a card has expired. The reason is in async_job_log_tab.
func ExampleFail() {
	err := fmt.Errorf("order 4711: %w", queue_job.Fail(errExpired))
	fmt.Println(err)
	fmt.Println(errors.Is(err, errExpired))
	// Output:
	// order 4711: card expired
	// true
}

// A handler cancels its own job if the job is not wanted any more.
func ExampleCancel() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		if unsubscribed(ctx, job) {
			return queue_job.Cancel(errors.New("the customer has unsubscribed"))
		}
		return nil
	}}
}

// Six waits, of which the last one repeats.
func ExampleWaits() {
	timing := queue_job.Waits(5*time.Second, 15*time.Second, 30*time.Second, 3*time.Minute, time.Hour, 2*time.Hour)
	_ = queue_job.Config{NeedRetry: true, MaxRetries: queue_job.Unlimited, RetryTiming: timing}
	for _, retries := range []int{0, 3, 5, 99} {
		fmt.Println(timing(retries, nil))
	}
	// Output:
	// 5s
	// 3m0s
	// 2h0m0s
	// 2h0m0s
}

// Up to 2, 4, 8 … seconds, at most half an hour.
func ExampleExponential() {
	timing := queue_job.Exponential(2*time.Second, 30*time.Minute)
	wait := timing(2, nil)
	fmt.Println(wait > 4*time.Second && wait <= 8*time.Second)
	fmt.Println(timing(40, nil) <= 30*time.Minute)
	// Output:
	// true
	// true
}

// A timing of your own: a partner that is closed at night is not called before the morning.
func ExampleRetryTiming() {
	timing := func(retries int, err error) time.Duration {
		if errors.Is(err, errClosed) {
			return 8 * time.Hour
		}
		return time.Duration(retries+1) * time.Minute
	}
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 10, RetryTiming: timing}
	fmt.Println(timing(0, errClosed), timing(1, nil))
	// Output: 8h0m0s 2m0s
}

// A run that takes longer than half a minute ends, if its handler reacts to its context.
func ExampleConfig_timeout() {
	_ = queue_job.Config{
		Timeout: 30 * time.Second,
		HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://partner.example/orders", nil)
			if err != nil {
				return queue_job.Fail(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err // a time-out too: it is retried, if the configuration says so
			}
			return response.Body.Close()
		},
	}
}

// Middleware has the same shape as in net/http. The first middleware is the outermost.
func ExampleMiddleware() {
	logged := func(next queue_job.Handler) queue_job.Handler {
		return func(ctx context.Context, job *queue_job.Job) error {
			err := next(ctx, job)
			fmt.Printf("job %d, attempt %d: %v\n", job.Id, job.Attempt, err)
			return err
		}
	}
	noCards := func(next queue_job.Handler) queue_job.Handler {
		return func(ctx context.Context, job *queue_job.Job) error {
			if err := next(ctx, job); errors.Is(err, errExpired) {
				return queue_job.Fail(err)
			} else {
				return err
			}
		}
	}
	charge := func(context.Context, *queue_job.Job) error { return errExpired }
	_ = queue_job.Config{HandleJobFunc: charge, Middleware: []queue_job.Middleware{logged, noCards}}

	handler := logged(noCards(charge)) // what the runner calls
	_ = handler(context.Background(), &queue_job.Job{Id: 17, Attempt: 1})
	// Output: job 17, attempt 1: card expired
}

// OnFinished logs each run after which the job runs again.
func ExampleFinished() {
	_ = queue_job.Config{OnFinished: func(ctx context.Context, job *queue_job.Job, f queue_job.Finished) {
		if f.RunsAgain() {
			log.Printf("job %d took %v and runs again in %v: %v", job.Id, f.Took, f.Wait, f.Err)
		}
	}}
}

// If an outside system compares terms, it refuses the requests of a holder that has been replaced. If it remembers
// keys, it does nothing twice.
func ExampleJob_IdempotencyKey() {
	job := &queue_job.Job{Id: 17, JobType: mailType, CreateTime: 1_700_000_000, Attempt: 2, Term: 1_700_000_123_456}
	request, _ := http.NewRequest(http.MethodPost, "https://partner.example/orders", nil)
	request.Header.Set("Idempotency-Key", "shop-"+job.IdempotencyKey())
	request.Header.Set("Fencing-Token", fmt.Sprint(job.Term))
	fmt.Println(request.Header.Get("Idempotency-Key"))
	// Output: shop-7-17-1700000000
}

// A long job stores its progress and its result, for Jobs.Get to read.
func ExampleJob_SetProgress() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		const pages = 300
		for page := range pages {
			if err := printPage(ctx, page); err != nil {
				return err
			}
			if page%10 == 0 {
				if err := job.SetProgress(ctx, fmt.Sprintf("page %d of %d", page, pages)); err != nil {
					return err // ErrNotOurs: another run prints it by now
				}
			}
		}
		return job.SetResult(ctx, "https://files.example/catalogue.pdf")
	}}
}

func ExampleJob_SetResult() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		invoice, err := writeInvoice(ctx, job)
		if err != nil {
			return err
		}
		return job.SetResult(ctx, invoice)
	}}
}

// The money moves and the job is done in one transaction: exactly once, however often the job runs.
func ExampleJob_CompleteTx() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := move(ctx, tx, "anna", "ben", 100); err != nil {
			return err
		}
		if err := job.CompleteTx(ctx, tx); err != nil {
			return err // ErrNotOurs: another run does it, and this one rolls back
		}
		return tx.Commit()
	}}
}

// The last try fails: the goods go back on the shelf and the job has failed, in one transaction.
func ExampleJob_FailTx() {
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		refused := charge(ctx, job)
		if refused == nil || !job.LastTry() {
			return refused
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := giveBack(ctx, tx, job.Key); err != nil {
			return err
		}
		if err := job.FailTx(ctx, tx, refused.Error()); err != nil {
			return err
		}
		return tx.Commit()
	}}
}

// A retry goes on where the last run has come to.
func ExampleJob_Progress() {
	_ = queue_job.Config{NeedRetry: true, MaxRetries: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		text, err := job.Progress(ctx)
		if err != nil {
			return err
		}
		done, _ := strconv.Atoi(text) // none: from the first page on
		for page := done + 1; page <= 100; page++ {
			if err := printPage(ctx, page); err != nil {
				return err
			}
			if err := job.SetProgress(ctx, strconv.Itoa(page)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// If a job is cancelled with Jobs.Cancel, the context of its handler ends within a second.
func ExampleConfig_cancelled() {
	_ = queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		err := printPage(ctx, 1)
		if errors.Is(context.Cause(ctx), queue_job.ErrCancelled) {
			clearUp() // the returned error does not matter any more
		}
		return err
	}}
}

var (
	errTooManyRequests = errors.New("too many requests")
	errExpired         = errors.New("card expired")
	errClosed          = errors.New("closed until the morning")
)

func paid(context.Context, *queue_job.Job) bool                            { return true }
func unsubscribed(context.Context, *queue_job.Job) bool                    { return false }
func callPartner(context.Context) (wait time.Duration, err error)          { return 0, nil }
func giveBack(context.Context, *sql.Tx, string) error                      { return nil }
func charge(context.Context, *queue_job.Job) error                         { return nil }
func printPage(context.Context, int) error                                 { return nil }
func writeInvoice(context.Context, *queue_job.Job) (url string, err error) { return "", nil }
func move(context.Context, *sql.Tx, string, string, int) error             { return nil }
func clearUp()                                                             {}
