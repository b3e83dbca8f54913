package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// Event is what other systems hear of a customer.
type Event struct {
	Customer int64
	What     string
}

var Publish = queue_job.Define[Event](5, "publish")

// Rename changes a customer and writes what is to be published, in one transaction: there is never one without the other.
func Rename(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, customer int64, name string) error {
	if _, err := tx.ExecContext(ctx, "UPDATE customers SET name = ? WHERE id = ?", name, customer); err != nil {
		return err
	}
	_, err := Publish.Add(ctx, jobs, tx, Event{customer, "renamed to " + name}, queue_job.WithKey(fmt.Sprintf("customer-%d", customer)))
	return err
}

// HandlePublish sends the events of one customer in their order. Customers do not wait for each other. If the broker is away,
// HandlePublish tries until the broker takes the event, and the next event of this customer waits.
func HandlePublish(send func(ctx context.Context, e Event, messageID string) error) queue_job.Config {
	return Publish.Handle(func(ctx context.Context, job *queue_job.Job, e Event) error {
		return send(ctx, e, job.IdempotencyKey()) // by which the receiver knows what it has already
	}, queue_job.Retries(queue_job.Unlimited, nil), func(c *queue_job.Config) { c.OrderedByKey = true })
}
