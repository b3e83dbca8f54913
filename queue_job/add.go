package queue_job

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// ParamsMax is how many characters the column params holds.
const ParamsMax = 4096

// AddModelJob is a job to be added.
type AddModelJob struct {
	JobType int32
	// JobParams is stored as JSON, in at most ParamsMax characters; nil is stored as null. Text that is JSON already is
	// passed as json.RawMessage.
	JobParams any
	// StartTime is when the job falls due, in unix seconds. 0: at once.
	StartTime uint32
}

// Execer is what Add needs: *sql.DB, *sql.Tx, *sql.Conn and the handles of most ORMs have it. With GORM, pass
// tx.Statement.ConnPool inside a transaction; tx.DB() leads out of it.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Add adds a job through the handle and returns its id. Inside a transaction, the job exists if and only if the
// transaction commits: use that to tie a job to the business change that asks for it.
func Add(ctx context.Context, ex Execer, job AddModelJob) (id uint64, err error) {
	return add(job, func(query string, args ...any) (sql.Result, error) { return ex.ExecContext(ctx, query, args...) })
}

// AddAsyncJob adds a job in a statement of its own. To add one inside a transaction, use Add.
func AddAsyncJob(session DB, modelJob AddModelJob) error {
	_, err := add(modelJob, session.Exec)
	return err
}

func add(job AddModelJob, exec func(query string, args ...any) (sql.Result, error)) (uint64, error) {
	params, err := encode(job.JobParams)
	if err != nil {
		return 0, fmt.Errorf("add job of type %d: %w", job.JobType, err)
	}
	now := time.Now().Unix()
	result, err := exec(store.AddJob, params, job.JobType, job.StartTime, now, now)
	if err != nil {
		return 0, fmt.Errorf("add job of type %d: %w", job.JobType, err)
	}
	wake.Notify()
	id, err := result.LastInsertId()
	if err != nil {
		return 0, fmt.Errorf("id of the added job of type %d: %w", job.JobType, err)
	}
	return uint64(id), nil
}

// ErrParamsTooLong is the cause when a job's parameters do not fit the column. They are never cut.
var ErrParamsTooLong = errors.New("job parameters too long")

func encode(params any) (string, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // it would make six characters of each &, < and >
	if err := to.Encode(params); err != nil {
		return "", fmt.Errorf("job parameters as JSON: %w", err)
	}
	encoded := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if n := utf8.RuneCount(encoded); n > ParamsMax {
		return "", fmt.Errorf("%w: %d characters of JSON, the column holds %d; store the large part elsewhere and pass its key", ErrParamsTooLong, n, ParamsMax)
	}
	return string(encoded), nil
}
