package simulator

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Handlers that complete their job in a transaction of their own.

// completion is such a transaction. It holds the job's row until it ends, which it does at a moment that is drawn when it
// begins: commits take a while, and who waits for one may give up, and does not know.
type completion struct {
	link  *link
	h     *history
	takes time.Duration
	back  bool // it is rolled back

	ends time.Time // zero: it has not begun
	ours bool
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
	return &completion{link: l, h: r.history, takes: d.between(100*time.Microsecond, longest), back: d.chance(200)}
}

// complete is what the handler does. A commit that is under way when the handler's context ends comes through all the
// same, or is rolled back.
func (c *completion) complete(ctx context.Context, job *queue_job.Job) error {
	if err := job.CompleteTx(ctx, c); err != nil {
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

// ExecContext and QueryContext are there for queue_job, which takes a completion for a transaction and passes it on.
func (c *completion) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	panic("a statement of text")
}

func (c *completion) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	panic("a statement of text")
}

// Commit and Rollback make it a transaction, for who asks; it ends at its own moment.
func (c *completion) Commit() error   { return nil }
func (c *completion) Rollback() error { return nil }

// runs is what handlers write through.
type runs struct{ *link }

func (l runs) SetProgress(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}
func (l runs) SetResult(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}

// FinishThrough is the statement inside the transaction: from it on, the row is locked.
func (l runs) FinishThrough(ctx context.Context, h store.Handle, id uint64, term int64, attempt, status int32) (ours bool, err error) {
	c := h.(*completion)
	return send(ctx, l.link, completeJob, func(context.Context) (bool, error) {
		t := l.world.table
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.ours([]uint64{id}, term, attempt)) == 0 {
			return false, nil
		}
		m := c.h.mark
		c.ends, c.ours = time.Now().Add(c.takes), true
		l.world.locked[id] = c.ends
		time.AfterFunc(c.takes, func() { c.commit(id, m) })
		return true, nil
	}, about{ids: []uint64{id}, term: term})
}

// commit ends the transaction. Who changes the row by hand in the simulator does not wait for locks; then it is rolled back.
func (c *completion) commit(id uint64, m *mark) {
	w := c.link.world
	if c.link.dead() {
		return
	}
	c.link.apply(commitJob, about{ids: []uint64{id}}, nil, false, func() {
		t := w.table
		t.mu.Lock()
		defer t.mu.Unlock()
		if j := t.find(id); j != nil && j.pending() && m != nil && c.h.mark == m && !c.back {
			t.write([]*Job{j}, change{verb: completeJob, term: m.term}, func(j *Job) { j.setStatus(int32(queue_job.JobStatusSuccess)) })
		}
	})
}

// completed hears that a run's own transaction has written its success.
func (j *judge) completed(h *history) {
	j.saw["completed by its handler"]++
	h.final = true
	if r := h.mark.run; r == nil {
		j.accuse("%s was completed by a run that did not begin", h.name())
	} else {
		r.completed, r.wrote = time.Now(), queue_job.JobStatusSuccess
		r.written++
	}
	h.mark = nil
}
