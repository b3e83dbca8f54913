package simulator

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Handlers that complete their job in a transaction of their own.

// completion is such a transaction. It locks the job's row until it ends, at a moment that is drawn when it begins. A
// commit takes a while; a handler that gives up waiting for it does not know its outcome.
type completion struct {
	link  *link
	h     *history
	takes time.Duration
	back  bool // the transaction is rolled back

	to queue_job.JobStatus // what the job becomes

	ends time.Time // zero: the transaction has not begun
	ours bool
	log  *store.Attempt // the row of the log; nil: none
}

var errRolledBack = errors.New("the transaction was rolled back")

// drawCompletion draws whether a run completes its job itself; nil: it does not.
func (l *link) drawCompletion(r *run) *completion {
	w := l.world
	d := throw(w.seed, 8, hash(r.history.order.label), uint64(r.nth))
	if !w.weather.steered || !d.chance(120) {
		return nil
	}
	longest := oneOf(d, 2*time.Millisecond, 50*time.Millisecond, 400*time.Millisecond)
	if !w.weather.gentle && d.chance(200) {
		longest = 3 * time.Second
	}
	c := &completion{link: l, h: r.history, takes: d.between(100*time.Microsecond, longest), back: d.chance(200), to: queue_job.JobStatusSuccess}
	switch {
	case d.chance(250):
		c.to = queue_job.JobStatusFailed
	case d.chance(150):
		c.to = queue_job.JobStatusCancelled
	}
	return c
}

// complete is the handler's part. If the handler's context ends while the commit is under way, the transaction still
// commits, or rolls back, as it was drawn.
func (c *completion) complete(ctx context.Context, job *queue_job.Job) error {
	if err := c.end(ctx, job); err != nil {
		c.link.world.mu.Lock()
		defer c.link.world.mu.Unlock()
		c.back = true
		return err
	}
	timer := time.NewTimer(time.Until(c.ends))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.link.killed:
		return errKilled
	}
	if c.back || !c.ours {
		return errRolledBack
	}
	return nil
}

func (c *completion) end(ctx context.Context, job *queue_job.Job) error {
	switch c.to {
	case queue_job.JobStatusFailed:
		return job.FailTx(ctx, c, "cannot be done")
	case queue_job.JobStatusCancelled:
		return job.CancelTx(ctx, c, "is not to be done")
	default:
		return job.CompleteTx(ctx, c)
	}
}

// ExecContext and QueryContext make a completion an Executor, so that queue_job passes it on to FinishThrough.
func (c *completion) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	panic("a statement of text")
}

func (c *completion) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	panic("a statement of text")
}

// Commit and Rollback show queue_job that a completion is a transaction. It ends by itself.
func (c *completion) Commit() error   { return nil }
func (c *completion) Rollback() error { return nil }

// runs is the way for handlers to write.
type runs struct{ *link }

func (l runs) SetProgress(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}
func (l runs) SetResult(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}
func (l runs) Progress(context.Context, uint64) (string, error) { return "", nil }

// FinishThrough is the statement inside the transaction. It locks the row.
func (l runs) FinishThrough(ctx context.Context, h conn.Handle, id uint64, term int64, attempt int32, end store.End) (ours bool, err error) {
	c := h.(*completion)
	return send(ctx, l.link, completeJob, about{ids: []uint64{id}, term: term}, func() (bool, error) {
		t := l.world.table
		if len(t.ours([]uint64{id}, term, attempt)) == 0 {
			return false, nil
		}
		m := c.h.mark
		c.ends, c.ours, c.log = time.Now().Add(c.takes), true, end.Log
		l.world.locked[id] = c.ends
		time.AfterFunc(c.takes, func() { c.commit(id, m) })
		return true, nil
	})
}

// commit ends the transaction: by a rollback if the row was changed by hand, since such changes wait for no lock here.
func (c *completion) commit(id uint64, m *mark) {
	w := c.link.world
	if c.link.dead() {
		return
	}
	c.link.apply(commitJob, about{ids: []uint64{id}}, nil, false, func() {
		t := w.table
		if j := t.find(id); j != nil && j.pending() && m != nil && c.h.mark == m && !c.back {
			if c.log != nil {
				t.log(*c.log)
			}
			t.write([]*Job{j}, change{verb: completeJob, term: m.term}, func(j *Job) { j.setStatus(int32(c.to)) })
		}
	})
}

// completed is told that a run's own transaction has written how the job has ended.
func (j *judge) completed(h *history, to queue_job.JobStatus) {
	j.saw[fmt.Sprintf("%v by its handler", to)]++
	h.final = true
	if r := h.mark.run; r == nil {
		j.accuse("%s was completed by a run that did not begin", h.name())
	} else {
		r.completed, r.wrote = time.Now(), to
		r.written++
	}
	h.mark = nil
}
