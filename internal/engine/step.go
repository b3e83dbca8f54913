package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// Step marks rows, runs their jobs in the goroutine that asks for it and settles them, with the decisions and the statements of the loops,
// and without a loop. It returns the ids of the jobs that ran. The others could not be marked, since somebody has changed them. If the outcomes
// are not to be settled, it is as if the process died when the handlers had returned. Reads that look for cancelled jobs end with life.
func (l *line) Step(ctx, life context.Context, lease *keeper.Lease, rows []store.Row, settled bool) (ran []uint64, err error) {
	var tasks, ours []*task
	ok := true
	for i := range rows {
		t := &task{Row: rows[i], dueMillis: rows[i].StartTime * 1000}
		if lost := lostIfMarked(&t.Row, lease.Term); lostTooOften(&l.cfg, lost) && lost > t.Lost {
			l.settler.failLost(t, lease)
		} else {
			tasks = append(tasks, t)
		}
	}
	for _, tasks := range alike(tasks) {
		if len(tasks) == 0 {
			break // all were lost once too often
		}
		marked, fine := l.marker.mark(ctx, lease, tasks)
		ours, ok = append(ours, marked...), ok && fine
	}
	if err := l.settleAll(ctx); err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the job could not be marked; the log says why")
	}
	if len(ours) == 0 {
		return nil, nil
	}
	l.Hear(false, time.Now(), 0) // whoever found the rows has left out types that are paused
	l.workers.newGate()
	l.runHeeding(life, ours)
	if !settled {
		l.settler.takeAll()
		l.settler.keep(unwritten{})
		return idsOf(ours), nil
	}
	return idsOf(ours), l.settleAll(context.WithoutCancel(ctx))
}

// runHeeding runs the handlers. If a job is cancelled while its handler runs, the handler's context ends.
func (l *line) runHeeding(life context.Context, tasks []*task) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(watchFrom)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				l.errlog.On(life, "look for cancellations", HeedCancellations(life, []*line{l}))
			}
		}
	})
	defer looking.Wait()
	defer close(over)
	l.workers.runHere(tasks)
}

// settleAll writes all outcomes that wait.
func (l *line) settleAll(ctx context.Context) error {
	if w := l.settler.write(ctx, l.settler.takeAll()); len(w.tried) > 0 {
		return errors.New("the outcome could not be written; the log says why")
	}
	return nil
}
