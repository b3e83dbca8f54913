package queue_job_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

var (
	ctx  = context.Background()
	jobs *queue_job.Jobs // of queue_job.Open
)

var reminder = queue_job.AddModelJob{JobType: mailType, JobParams: mail{To: "anna@example.com", Subject: "Your order is not paid"}}

// A job can fall due at a time, or after a delay.
func ExampleAddModelJob_With() {
	tomorrow := time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, job := range []queue_job.AddModelJob{
		reminder.With(queue_job.At(tomorrow)),
		reminder.With(queue_job.After(30 * time.Minute)),
		reminder.With(queue_job.WithKey("order-4711"), queue_job.WithPriority(queue_job.PriorityHigh), queue_job.WithMaxRetries(queue_job.Unlimited)),
	} {
		fmt.Println(job.StartTime, job.Delay, job.Key, job.Priority)
	}
	// Output:
	// 1803888000 0s  normal
	// 0 30m0s  normal
	// 0 0s order-4711 high
}

// A code that is valid for ten minutes is of no use later: if it could not be sent by then, the job is cancelled.
func ExampleExpires() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.Expires(time.Now().Add(10*time.Minute))))
	if err != nil {
		log.Print(err)
	}
}

func ExampleAt() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.At(time.Now().Add(24*time.Hour))))
	if err != nil {
		log.Print(err)
	}
}

func ExampleAfter() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.After(15*time.Minute)))
	if err != nil {
		log.Print(err)
	}
}

// A job with a business key is found, cancelled and changed by it.
func ExampleWithKey() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.WithKey("order-4711"), queue_job.After(15*time.Minute)))
	if err != nil {
		log.Print(err)
	}
	// Later, when the order is paid:
	if _, err := jobs.Cancel(ctx, db, queue_job.Key(mailType, "order-4711")); err != nil {
		log.Print(err)
	}
}

func ExampleWithPriority() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.WithPriority(queue_job.PriorityUrgent)))
	if err != nil {
		log.Print(err)
	}
}

// A document is edited again and again; of the jobs that bring it into the search, only the latest is of use.
func ExampleReplaceWaiting() {
	edited := func(document int, text string) error {
		added, err := jobs.AddUnique(ctx, db, queue_job.AddModelJob{JobType: 9, JobParams: text}.With(
			queue_job.UniqueKey(fmt.Sprintf("document-%d", document), queue_job.UniqueWhileWaiting),
			queue_job.ReplaceWaiting(), queue_job.After(10*time.Second)))
		log.Printf("job %d brings the latest text; it waited already: %t", added.Id, added.Replaced)
		return err
	}
	if err := edited(4711, "the latest text"); err != nil {
		log.Print(err)
	}
}

// The mails of a customer go out in order (Config.OrderedByKey), and the mail about one order can be cancelled by its own key.
func ExampleWithGroup() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.WithGroup("customer-17"), queue_job.WithKey("order-4711")))
	if err == nil {
		_, err = jobs.Cancel(ctx, db, queue_job.Key(mailType, "order-4711"))
	}
	if err != nil {
		log.Print(err)
	}
}

// Every job that is added through these jobs says for which tenant: handlers read job.Meta.
func ExampleOnAdd() {
	type tenant struct{}
	jobs, err := queue_job.Open(db, queue_job.OnAdd(func(ctx context.Context, job *queue_job.AddModelJob) error {
		name, ok := ctx.Value(tenant{}).(string)
		if !ok {
			return errors.New("the context has no tenant")
		}
		job.Meta["tenant"] = name
		return nil
	}))
	if err == nil {
		_, err = jobs.Add(context.WithValue(ctx, tenant{}, "north"), db, reminder)
	}
	if err != nil {
		log.Print(err)
	}
}

// The job is retried however often it fails.
func ExampleWithMaxRetries() {
	_, err := jobs.Add(ctx, db, reminder.With(queue_job.WithMaxRetries(queue_job.Unlimited)))
	if err != nil {
		log.Print(err)
	}
}

// However often the customer presses the button, one mail is on its way.
func ExampleJobs_AddUnique() {
	added, err := jobs.AddUnique(ctx, db, reminder.With(queue_job.UniqueKey("order-4711", queue_job.UniqueWhilePending)))
	switch {
	case err != nil:
		log.Print(err)
	case added.Existed:
		log.Printf("already there, id %d", added.Id)
	default:
		log.Printf("added, id %d", added.Id)
	}
}

// One report for each customer on each day, whoever asks for it.
func ExampleOnce() {
	added, err := jobs.AddUnique(ctx, db, reminder.With(queue_job.Once("customer-17", queue_job.EachDay(time.UTC))))
	if err == nil && added.Existed {
		log.Printf("job %d has made today's", added.Id)
	}
}

// One mail for each customer, all or none.
func ExampleJobs_AddMany() {
	inform := func(ctx context.Context, customers []string) error {
		list := make([]queue_job.AddModelJob, len(customers))
		for i, customer := range customers {
			list[i] = queue_job.AddModelJob{JobType: mailType, JobParams: mail{To: customer, Subject: "New prices"}}
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		added, err := jobs.AddMany(ctx, tx, list)
		if err != nil {
			return err
		}
		log.Printf("the first job is %d", added[0].Id)
		return tx.Commit()
	}
	if err := inform(ctx, []string{"anna@example.com", "bert@example.com"}); err != nil {
		log.Print(err)
	}
}

// PaidMsg has the parameters of a job of the type PaidNotice.
type PaidMsg struct {
	Order int `json:"order"`
}

// PaidNotice is declared once; the code that adds the jobs and the code that runs them share it.
var PaidNotice = queue_job.Define[PaidMsg](1, "send-paid-notice")

func ExampleDefine() {
	job := PaidNotice.New(PaidMsg{Order: 4711}, queue_job.WithKey("order-4711"))
	params, _ := json.Marshal(job.JobParams)
	fmt.Println(job.JobType, string(params), job.Key)
	// Output: 1 {"order":4711} order-4711
}

func ExampleDefinition_New() {
	_, err := jobs.AddMany(ctx, db, []queue_job.AddModelJob{
		PaidNotice.New(PaidMsg{Order: 4711}),
		PaidNotice.New(PaidMsg{Order: 4712}, queue_job.After(time.Minute)),
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleDefinition_Add() {
	if _, err := PaidNotice.Add(ctx, jobs, db, PaidMsg{Order: 4711}, queue_job.After(time.Minute)); err != nil {
		log.Print(err)
	}
}

// The order is taken back, and with it what would have been told of it.
func ExampleDefinition_Key() {
	if _, err := jobs.Cancel(ctx, db, PaidNotice.Key("order-4711")); err != nil {
		log.Print(err)
	}
}

func ExampleDefinition_Decode() {
	msg, err := PaidNotice.Decode(&queue_job.JobInfo{Id: 17, JobType: 1, JobParams: `{"order": 4711}`})
	fmt.Println(msg.Order, err)
	_, err = PaidNotice.Decode(&queue_job.JobInfo{Id: 18, JobType: 2})
	fmt.Println(err)
	// Output:
	// 4711 <nil>
	// job 18 is of type 2, and "send-paid-notice" is type 1
}

// A receiver takes many notices in one call, and says which of them it did not take.
func ExampleDefinition_HandleBatch() {
	cfg := PaidNotice.HandleBatch(func(ctx context.Context, batch []queue_job.Typed[PaidMsg]) error {
		failed := queue_job.JobErrors{}
		for _, job := range batch {
			if job.Params.Order == 4712 {
				failed[job.Id] = errors.New("no such order")
			}
		}
		return failed
	}, queue_job.Workers(2), func(c *queue_job.Config) { c.BatchSize, c.BatchWait = 500, time.Second })

	// What a Runner does with two jobs:
	fmt.Println(cfg.HandleBatchFunc(ctx, []*queue_job.Job{{Id: 1, JobParams: `{"order": 4711}`}, {Id: 2, JobParams: `{"order": 4712}`}}))
	// Output: 1 of 2 jobs ended with an error; the first: no such order
}

func ExampleJSON() {
	fmt.Println(jobs.Add(ctx, db, queue_job.AddModelJob{JobType: 1, JobParams: queue_job.JSON(`{"order": 4711}`)}))
}

// If the parameters of a job do not decode, that is an error, and the job is retried: another version of the program may have added it.
func ExampleDefinition_Handle() {
	cfg := PaidNotice.Handle(func(ctx context.Context, job *queue_job.Job, msg PaidMsg) error {
		fmt.Println("order", msg.Order, "is paid")
		return nil
	}, queue_job.Retries(5, queue_job.Exponential(time.Second, time.Minute)), queue_job.Timeout(20*time.Second))
	fmt.Println(cfg.ServiceName, cfg.JobType, cfg.MaxRetries)

	// What a Runner does with two jobs:
	fmt.Println(cfg.HandleJobFunc(ctx, &queue_job.Job{JobParams: `{"order": 4711}`}))
	fmt.Println(cfg.HandleJobFunc(ctx, &queue_job.Job{JobParams: `{"order": "many"}`}) != nil)
	// Output:
	// send-paid-notice 1 5
	// order 4711 is paid
	// <nil>
	// true
}

// One mail for each line of a file of any length. The jobs of the first lines run while the last ones are read.
func ExampleJobs_AddSeq() {
	inform := func(ctx context.Context, customers io.Reader) error {
		lines := bufio.NewScanner(customers)
		sum, err := jobs.AddSeq(ctx, db, func(yield func(queue_job.AddModelJob) bool) {
			for lines.Scan() {
				job := queue_job.AddModelJob{JobType: mailType, JobParams: mail{To: lines.Text(), Subject: "New prices"}}
				if !yield(job.With(queue_job.UniqueKey("prices-2027-"+lines.Text(), queue_job.UniqueForever))) {
					return
				}
			}
		})
		log.Printf("%d customers, %d of which had their mail already", sum.Jobs, sum.Existed)
		return errors.Join(err, lines.Err())
	}
	if err := inform(ctx, strings.NewReader("anna@example.com\nbert@example.com\n")); err != nil {
		log.Print(err)
	}
}
