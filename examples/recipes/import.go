package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// Import is a large file that is written into a table.
type Import struct {
	ID   int64
	File string
}

var ImportFile = queue_job.Define[Import](18, "import-file")

// ReadLines returns up to a number of lines of a file, and none at its end.
type ReadLines func(ctx context.Context, file string, from, most int) ([]string, error)

// HandleImport writes a part at a time. If a deploy or a crash ends the run, the next run goes on with the part that was not committed.
func HandleImport(db *sql.DB, read ReadLines) queue_job.Config {
	return ImportFile.Handle(func(ctx context.Context, job *queue_job.Job, im Import) error {
		for from := 0; ; {
			n, err := importPart(ctx, db, job, im, from, read)
			if err != nil || n == 0 {
				return err
			}
			from += n
			if err := job.SetProgress(ctx, fmt.Sprintf("%d lines", from)); err != nil { // for people
				return err
			}
		}
	})
}

// importPart commits the lines of a part together with the record that they are there, and returns how many they are.
func importPart(ctx context.Context, db *sql.DB, job *queue_job.Job, im Import, from int, read ReadLines) (int, error) {
	const most = 1000
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	n, err := queue_job.StepTx(ctx, job, tx, fmt.Sprintf("from-%d", from), func(ctx context.Context) (int, error) {
		lines, err := read(ctx, im.File, from, most)
		for i := 0; err == nil && i < len(lines); i++ {
			_, err = tx.ExecContext(ctx, "INSERT INTO imported (import_id, line, text) VALUES (?, ?, ?)", im.ID, from+i, lines[i])
		}
		return len(lines), err
	})
	if err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
