package queue_job_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// The order and its mail are cancelled together, or neither is.
func ExampleJobs_Cancel() {
	cancelOrder := func(ctx context.Context, order int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'cancelled' WHERE id = ?", order); err != nil {
			return err
		}
		n, err := jobs.Cancel(ctx, tx, queue_job.Key(mailType, fmt.Sprintf("order-%d", order)))
		if err != nil {
			return err
		}
		if n == 0 {
			log.Printf("order %d: the mail has been sent already", order)
		}
		return tx.Commit()
	}
	if err := cancelOrder(ctx, 4711); err != nil {
		log.Print(err)
	}
}

func ExampleID() {
	fmt.Println(queue_job.ID(17), "·", queue_job.ID(17, 18), "·", queue_job.Key(7, "order-4711"))
	// Output: job 17 · 2 jobs by id · jobs of type 7 with key "order-4711"
}

func ExampleKey() {
	job, err := jobs.Get(ctx, db, queue_job.Key(mailType, "order-4711"))
	if err != nil {
		log.Print(err)
		return
	}
	log.Print(job.Status)
}

func ExampleJobs_Reschedule() {
	n, err := jobs.Reschedule(ctx, db, queue_job.Key(mailType, "order-4711"), time.Now().Add(time.Hour))
	switch {
	case errors.Is(err, queue_job.ErrInFlight):
		log.Print("too late: it is being sent")
	case err != nil:
		log.Print(err)
	case n == 0:
		log.Print("too late: it has been sent, or there is none")
	}
}

func ExampleJobs_SetParams() {
	_, err := jobs.SetParams(ctx, db, queue_job.ID(17), mail{To: "anna@example.org", Subject: "Thank you for your order"})
	if errors.Is(err, queue_job.ErrInFlight) {
		log.Print("too late: it is being sent to the old address")
	} else if err != nil {
		log.Print(err)
	}
}

func ExampleJobs_SetPriority() {
	if _, err := jobs.SetPriority(ctx, db, queue_job.Key(mailType, "order-4711"), queue_job.PriorityUrgent); err != nil {
		log.Print(err)
	}
}

func ExampleJobs_Retry() {
	retried, err := jobs.Retry(ctx, db, queue_job.ID(17, 18))
	if err != nil {
		log.Print(err)
	}
	for _, id := range retried.Taken {
		log.Printf("job %d was added anew meanwhile", id)
	}
}

// The mail server was away last night.
func ExampleJobs_RetryAll() {
	night := time.Date(2027, 3, 1, 2, 0, 0, 0, time.UTC)
	retried, err := jobs.RetryAll(ctx, db, queue_job.RetryRange{JobType: mailType, From: night, To: night.Add(3 * time.Hour)})
	if err != nil {
		log.Print(err)
	}
	log.Printf("%d mails are sent again", retried.Jobs)
}

// Nobody works this type any more, so no Runner deletes its rows.
func ExampleJobs_Delete() {
	which := queue_job.DeleteRange{JobTypes: []int32{mailType}, Before: time.Now().AddDate(0, -1, 0)}
	for n := 1; n > 0; {
		var err error
		if n, err = jobs.Delete(ctx, db, which); err != nil {
			log.Print(err)
			return
		}
		log.Printf("%d jobs deleted", n)
	}
}

// A customer has gone, and what is known of the customer goes as well: jobs that wait are cancelled first.
func ExampleJobs_DeleteJobs() {
	which := queue_job.Key(mailType, "customer-4711")
	if _, err := jobs.Cancel(ctx, db, which); err != nil {
		log.Print(err)
		return
	}
	n, err := jobs.DeleteJobs(ctx, db, which)
	log.Printf("%d jobs deleted: %v", n, err)
}

// Jobs go to a file before they are deleted. Some of them are wanted again.
func ExampleJobs_Restore() {
	var file bytes.Buffer // in truth a file, which is synced before Archive returns
	which := queue_job.DeleteRange{JobTypes: []int32{mailType}, Before: time.Now().AddDate(0, -1, 0)}
	which.Archive = func(_ context.Context, some []queue_job.Archived) error {
		return json.NewEncoder(&file).Encode(some)
	}
	if _, err := jobs.Delete(ctx, db, which); err != nil {
		log.Print(err)
		return
	}
	var some []queue_job.Archived // the first ones
	if err := json.NewDecoder(&file).Decode(&some); err != nil {
		log.Print(err)
		return
	}
	n, err := jobs.Restore(ctx, db, some)
	if err != nil {
		log.Print(err)
	}
	log.Printf("%d jobs are back", n)
}

func ExampleJobs_Get() {
	job, err := jobs.Get(ctx, db, queue_job.ID(17))
	switch {
	case errors.Is(err, queue_job.ErrNoJob):
		log.Print("there is none")
	case err != nil:
		log.Print(err)
	default:
		log.Printf("%v, due %v, %d runs, progress %q, result %q", job.Status, job.Due, job.Attempts, job.Progress, job.Result)
	}
}

// The newest hundred failed jobs of a type.
func ExampleJobs_List() {
	filter := queue_job.Filter{JobTypes: []int32{mailType}, Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed}, NewestFirst: true}
	page, err := jobs.List(ctx, db, filter)
	if err != nil {
		log.Print(err)
		return
	}
	for _, job := range page {
		log.Printf("job %d, %s, added %v", job.Id, job.Key, job.Created)
	}
}

// All failed jobs of a type.
func ExampleJobs_All() {
	failed := queue_job.Filter{JobTypes: []int32{mailType}, Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed}}
	for job, err := range jobs.All(ctx, db, failed) {
		if err != nil {
			log.Print(err)
			return
		}
		var m mail
		if err := job.Decode(&m); err != nil {
			log.Print(err)
			continue
		}
		log.Printf("job %d, to %s, added %v", job.Id, m.To, job.Created)
	}
}

// How long the queues are.
func ExampleJobs_Counts() {
	counts, err := jobs.Counts(ctx, db, queue_job.CountFilter{Statuses: queue_job.PendingStatuses()})
	if err != nil {
		log.Print(err)
	}
	for _, c := range counts {
		log.Printf("type %d: %v", c.JobType, c.ByStatus)
		if !c.Paused.IsZero() {
			log.Printf("type %d is paused since %v", c.JobType, c.Paused)
		}
	}
}

// Why a job failed.
func ExampleJobs_Attempts() {
	attempts, err := jobs.Attempts(ctx, db, 17)
	if err != nil {
		log.Print(err)
	}
	for _, a := range attempts {
		log.Printf("run %d on %s: %s: %s", a.Attempt, a.Instance, a.Outcome, a.Error)
	}
}

// No mails while the mail server is repaired.
func ExampleJobs_Pause() {
	if _, err := jobs.Pause(ctx, db, mailType); err != nil {
		log.Print(err)
	}
	// Later, from any process:
	if _, err := jobs.Resume(ctx, db, mailType); err != nil {
		log.Print(err)
	}
}

// The bank closes for two hours. If the repair takes longer, another end replaces this one.
func ExampleJobs_PauseUntil() {
	ctx := queue_job.WithActor(ctx, "anna", "the bank closes for two hours")
	if _, err := jobs.PauseUntil(ctx, db, mailType, time.Now().Add(2*time.Hour)); err != nil {
		log.Print(err)
	}
}

func ExampleJobs_Paused() {
	paused, err := jobs.Paused(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for jobType, since := range paused {
		log.Printf("type %d is paused since %v", jobType, since)
	}
}
