package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

type Document struct{ ID int64 }

func (d Document) key() string { return fmt.Sprintf("document-%d", d.ID) }

var DeleteDocument = queue_job.Define[Document](3, "delete-document")

// Delete only promises to: there are 24 hours in which the user may take it back. A second deletion starts no second job.
func Delete(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, d Document) error {
	_, err := DeleteDocument.Add(ctx, jobs, tx, d, queue_job.UniqueKey(d.key(), queue_job.UniqueWhilePending), queue_job.After(24*time.Hour))
	return err
}

var ErrTooLate = errors.New("the document is deleted already")

// TakeBack says whether it came in time: Cancel returns how many jobs it has taken back.
func TakeBack(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, d Document) error {
	n, err := jobs.Cancel(ctx, tx, DeleteDocument.Key(d.key()))
	if err == nil && n == 0 {
		err = ErrTooLate
	}
	return err
}

func HandleDelete(remove func(context.Context, Document) error) queue_job.Config {
	return DeleteDocument.Handle(func(ctx context.Context, job *queue_job.Job, d Document) error { return remove(ctx, d) })
}
