package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// A report is made of parts, which run side by side; when the last one is done, they are put together.
type (
	Report struct {
		ID    int64
		Parts int
	}
	Part struct{ Report, Number int64 }
)

var (
	MakeReport = queue_job.Define[Report](8, "make-report")
	MakePart   = queue_job.Define[Part](9, "make-part")
	JoinParts  = queue_job.Define[Report](10, "join-parts")
)

// HandleReport writes down how many parts there are, and adds them: once, for that is the transaction that completes the job.
func HandleReport(db *sql.DB, jobs *queue_job.Jobs) queue_job.Config {
	return MakeReport.Handle(func(ctx context.Context, job *queue_job.Job, r Report) error {
		return completeWith(ctx, db, job, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO reports (id, parts_left) VALUES (?, ?)", r.ID, r.Parts); err != nil {
				return err
			}
			parts := make([]queue_job.AddModelJob, r.Parts)
			for i := range parts {
				parts[i] = MakePart.New(Part{r.ID, int64(i)}, queue_job.WithKey(fmt.Sprintf("report-%d", r.ID)))
			}
			_, err := jobs.AddMany(ctx, tx, parts)
			return err
		})
	})
}

// HandlePart counts down with its own success. The row of the report lets one part after the other do so, and the last one adds
// what follows.
func HandlePart(db *sql.DB, jobs *queue_job.Jobs, work func(context.Context, Part) error) queue_job.Config {
	return MakePart.Handle(func(ctx context.Context, job *queue_job.Job, p Part) error {
		if err := work(ctx, p); err != nil {
			return err
		}
		return completeWith(ctx, db, job, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE reports SET parts_left = parts_left - 1 WHERE id = ?", p.Report); err != nil {
				return err
			}
			var left int
			if err := tx.QueryRowContext(ctx, "SELECT parts_left FROM reports WHERE id = ?", p.Report).Scan(&left); err != nil || left > 0 {
				return err
			}
			_, err := JoinParts.Add(ctx, jobs, tx, Report{ID: p.Report})
			return err
		})
	})
}

func HandleJoin(join func(context.Context, Report) error) queue_job.Config {
	return JoinParts.Handle(func(ctx context.Context, job *queue_job.Job, r Report) error { return join(ctx, r) })
}
