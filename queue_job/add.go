package queue_job

import (
	"bytes"
	"context"
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

// Add adds a job through a handle that leads to the database, and returns the job's id. Inside a transaction, the job
// exists if and only if the transaction commits: use that to tie a job to the business change that asks for it.
// In sessions that run with autocommit off, what goes through a *sql.DB is committed, and a *sql.Conn is yours to commit.
func (j *Jobs) Add(ctx context.Context, ex Executor, job AddModelJob) (id uint64, err error) {
	return add(ctx, j.store.Through(ex), job)
}

// AddAsyncJob adds a job in a statement of its own, to the tables without a prefix. To add one inside a transaction, use
// Jobs.Add.
func AddAsyncJob(session DB, modelJob AddModelJob) error {
	ctx := context.Background()
	st, err := remembered.open(ctx, session)
	if err != nil {
		return fmt.Errorf("add job of type %d: %w", modelJob.JobType, err)
	}
	_, err = add(ctx, st.Plain(), modelJob)
	return err
}

func add(ctx context.Context, st *store.Store, job AddModelJob) (id uint64, err error) {
	params, err := encode(job.JobParams)
	if err == nil {
		id, err = st.AddJob(ctx, params, job.JobType, job.StartTime, time.Now().Unix())
	}
	if err != nil {
		return 0, fmt.Errorf("add job of type %d: %w", job.JobType, err)
	}
	wake.Notify()
	return id, nil
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
