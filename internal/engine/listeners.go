package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// listeners are the functions of the application that are told what happens, for all job types.
type listeners struct {
	observers []queue_job.Observer
	hooks     []*hook
}

func newListeners(o *Options, log logger.Logger, about context.Context) (l listeners) {
	l.observers = o.Observers
	for _, h := range []*hook{{name: "OnSettled", call: o.OnSettled}, {name: "OnDead", call: o.OnDead, onlyFailed: true}} {
		if h.call != nil {
			h.log, h.about = log, about
			h.ctx, h.giveUp = context.WithCancelCause(context.WithoutCancel(about))
			h.came, h.last, h.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
			l.hooks = append(l.hooks, h)
		}
	}
	return l
}

// want reports whether a hook is to be told of outcomes with a status.
func (l *listeners) want(status queue_job.JobStatus) bool {
	return slices.ContainsFunc(l.hooks, func(h *hook) bool { return h.wants(status) })
}

// hook tells a function of the application of outcomes, after the table has taken them: in batches, and in a goroutine of its own.
// The settler never waits for it. If too many outcomes wait, further ones are given up, and the log says how many.
type hook struct {
	name       string // of its option
	call       func(context.Context, []queue_job.Settled)
	onlyFailed bool
	log        logger.Logger
	about      context.Context
	ctx        context.Context // of the calls
	giveUp     context.CancelCauseFunc

	mu      sync.Mutex
	waiting []queue_job.Settled
	beyond  int // outcomes that were given up since the last call
	came    chan struct{}
	last    chan struct{} // closed: no more come
	ended   chan struct{} // closed: the function is not called any more
}

const hookMax = 10_000 // outcomes that wait

func (h *hook) wants(status queue_job.JobStatus) bool {
	return !h.onlyFailed || status == queue_job.JobStatusFailed
}

func (h *hook) add(settled queue_job.Settled) {
	h.mu.Lock()
	if len(h.waiting) < hookMax {
		h.waiting = append(h.waiting, settled)
	} else {
		h.beyond++
	}
	h.mu.Unlock()
	signal(h.came)
}

// loop calls the function until stop was called and nothing waits, or the time for that is over.
func (h *hook) loop() {
	defer close(h.ended)
	for stopping := false; !stopping; {
		select {
		case <-h.came:
		case <-h.last:
			stopping = true
		}
		for batch := h.take(); len(batch) > 0 && h.ctx.Err() == nil; batch = h.take() {
			guarded(h.ctx, h.log, h.name, func() { h.call(h.ctx, batch) })
		}
	}
}

// take takes the outcomes of a call.
func (h *hook) take() []queue_job.Settled {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beyond > 0 {
		h.log.Error(h.about, fmt.Sprintf("%s was not told of %d outcomes: its function takes too long, and %d others wait", h.name, h.beyond, hookMax))
		h.beyond = 0
	}
	n := min(batchRowsMax, len(h.waiting))
	batch := slices.Clone(h.waiting[:n])
	h.waiting = slices.Delete(h.waiting, 0, n)
	return batch
}

// stop waits until the function was told of all that waits. If ctx ends first, it ends the context of the call, and gives the function
// a moment to heed that.
func (h *hook) stop(ctx context.Context) error {
	close(h.last)
	defer h.giveUp(ErrStopped)
	select {
	case <-h.ended:
		return nil
	case <-ctx.Done():
	}
	h.giveUp(ErrStopped)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	select {
	case <-h.ended:
		return nil
	case <-patience.Done():
		return fmt.Errorf("stop: %w: the function of %s still runs", context.Cause(ctx), h.name)
	}
}

// guarded calls a function of the application that is told of something. A panic in it does no harm.
func guarded(ctx context.Context, log logger.Logger, name string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			log.Error(ctx, fmt.Sprintf("%s: panic: %v\n%s", name, p, debug.Stack()))
		}
	}()
	call()
}
