package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	logRunsMax  = 10              // runs of a job whose logs are kept
	keepLogMax  = 3 * time.Second // how long a run waits for its log to be written …
	keepLogLast = time.Second     // … if its context has ended, as when a stop waits for it
)

// logKeeper writes what the runs of a line have logged, before their outcomes are written. One statement is under way at a time. Logs
// that come meanwhile wait, and the next statement writes all of them.
type logKeeper struct {
	process *Process
	rows    hidden.Logs
	turn    chan struct{} // full: a statement is under way

	mu   sync.Mutex
	next *logBatch // nil: nothing waits
}

// logBatch are logs that are written together.
type logBatch struct {
	logs []store.Step // guarded by logKeeper.mu, until its turn has come

	// These belong to whoever has the turn.
	sent bool
	err  error
}

// keepingLog puts a handler into what keeps the log of its runs.
func keepingLog(p *Process, next queue_job.Handler) queue_job.Handler {
	rows, ok := p.Rows.(hidden.Logs)
	if !ok { // a test's
		return next
	}
	k := &logKeeper{process: p, rows: rows, turn: make(chan struct{}, 1)}
	return func(ctx context.Context, job *queue_job.Job) error {
		lines := new(attributes.Lines)
		defer func() { // also if the handler panics, or ends its goroutine
			ground.Guarded(ctx, p.Log, "keep the log of a run", func() { k.keep(ctx, job, lines.End()) })
		}()
		return next(attributes.WithLines(ctx, lines), job)
	}
}

func (k *logKeeper) keep(ctx context.Context, job *queue_job.Job, text string) {
	if text == "" {
		return
	}
	log, err := bridge.QueueJob.Log(job, text)
	if err != nil {
		k.process.Log.Warn(ctx, fmt.Sprintf("what the run has logged is not kept: %v", err))
		return
	}
	wait := keepLogMax
	if ctx.Err() != nil {
		wait = keepLogLast
	}
	ctx = context.WithoutCancel(ctx)
	statement, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	k.process.Errlog.On(ctx, "keep what runs have logged", k.write(statement, log))
}

// write returns when the log is written, or given up.
func (k *logKeeper) write(ctx context.Context, log store.Step) error {
	k.mu.Lock()
	if k.next == nil {
		k.next = &logBatch{}
	}
	batch := k.next
	batch.logs = append(batch.logs, log)
	k.mu.Unlock()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx) // whoever of the batch has the turn may write it yet
	}
	defer func() { <-k.turn }()
	if !batch.sent { // it is the next one still
		k.mu.Lock()
		k.next = nil
		k.mu.Unlock()
		batch.sent, batch.err = true, k.rows.KeepLogs(ctx, batch.logs, logRunsMax)
	}
	return batch.err
}
