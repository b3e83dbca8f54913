package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// listeners are the functions of the application that are told what happens, for all job types.
type listeners struct {
	observers []queue_job.Observer
	outcomes  []*outcomeHook
	leases    *hook[leaseChange] // nil: no observer is told of leases
}

// outcomeHook is a function that is told of outcomes.
type outcomeHook struct {
	*hook[queue_job.Settled]
	onlyFailed bool
}

// leaseChange says that the lease of a type, or of a shard of it, was taken, or that nothing is started under it any more.
type leaseChange struct {
	jobType int32
	shard   int
	held    bool
}

func newListeners(o *Options, log logger.Logger, about context.Context) (l listeners) {
	l.observers = o.Observers
	if o.OnSettled != nil {
		l.outcomes = append(l.outcomes, &outcomeHook{newHook("OnSettled", "outcomes", log, about, o.OnSettled), false})
	}
	if o.OnDead != nil {
		l.outcomes = append(l.outcomes, &outcomeHook{newHook("OnDead", "outcomes", log, about, o.OnDead), true})
	}
	if slices.ContainsFunc(o.Observers, func(o queue_job.Observer) bool { return o.Lease != nil }) {
		l.leases = newHook("Observer.Lease", "leases", log, about, func(ctx context.Context, changes []leaseChange) {
			for _, c := range changes {
				for _, observer := range o.Observers {
					if observer.Lease != nil {
						ground.Guarded(ctx, log, "Observer.Lease", func() { observer.Lease(c.jobType, c.shard, c.held) })
					}
				}
			}
		})
	}
	return l
}

// start has them hear of what happens from now on.
func (l *listeners) start() {
	for _, h := range l.outcomes {
		go h.loop()
	}
	if l.leases != nil {
		go l.leases.loop()
	}
}

// stop waits until they were told of everything.
func (l *listeners) stop(ctx context.Context) error {
	var errs []error
	for _, h := range l.outcomes {
		errs = append(errs, h.stop(ctx))
	}
	if l.leases != nil {
		errs = append(errs, l.leases.stop(ctx))
	}
	return errors.Join(errs...)
}

// hooks are the functions that are told of outcomes.
func (l *listeners) hooks() (hooks []pipeline.Hook) {
	for _, h := range l.outcomes {
		hooks = append(hooks, h)
	}
	return hooks
}

func (h *outcomeHook) Wants(status queue_job.JobStatus) bool {
	return !h.onlyFailed || status == queue_job.JobStatusFailed
}

// hook tells a function of the application what has happened: in batches, in order, and in a goroutine of its own. Nobody else waits
// for it. If too much waits, the rest is given up, and the log says how many.
type hook[T any] struct {
	name   string // of its option
	what   string // it is told of
	call   func(context.Context, []T)
	log    logger.Logger
	about  context.Context
	ctx    context.Context // of the calls
	giveUp context.CancelCauseFunc

	mu      sync.Mutex
	waiting []T
	beyond  int // that were given up since the last call
	came    chan struct{}
	last    chan struct{} // closed: no more come
	ended   chan struct{} // closed: the function is not called any more
}

func newHook[T any](name, what string, log logger.Logger, about context.Context, call func(context.Context, []T)) *hook[T] {
	h := &hook[T]{name: name, what: what, call: call, log: log, about: about, came: make(chan struct{}, 1), last: make(chan struct{}),
		ended: make(chan struct{})}
	h.ctx, h.giveUp = context.WithCancelCause(context.WithoutCancel(about))
	return h
}

const (
	hookMax   = 10_000 // that wait
	hookBatch = 1000   // of which one call tells
)

func (h *hook[T]) Add(happened T) {
	h.mu.Lock()
	if len(h.waiting) < hookMax {
		h.waiting = append(h.waiting, happened)
	} else {
		h.beyond++
	}
	h.mu.Unlock()
	ground.Signal(h.came)
}

// loop calls the function until stop was called and nothing waits, or the time for that is over.
func (h *hook[T]) loop() {
	defer close(h.ended)
	for stopping := false; !stopping; {
		select {
		case <-h.came:
		case <-h.last:
			stopping = true
		}
		for batch := h.take(); len(batch) > 0 && h.ctx.Err() == nil; batch = h.take() {
			ground.Guarded(h.ctx, h.log, h.name, func() { h.call(h.ctx, batch) })
		}
	}
}

// take takes what to tell with one call.
func (h *hook[T]) take() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beyond > 0 {
		h.log.Error(h.about, fmt.Sprintf("%s was not told of %d %s: its function takes too long, and %d others wait", h.name, h.beyond, h.what, hookMax))
		h.beyond = 0
	}
	n := min(hookBatch, len(h.waiting))
	batch := slices.Clone(h.waiting[:n])
	h.waiting = slices.Delete(h.waiting, 0, n)
	return batch
}

// lastWords is for how long a function is still told of what waits when the time for a stop is over: what the stop has cut off comes last.
const lastWords = 200 * time.Millisecond

// stop waits until the function was told of all that waits. If ctx ends first, it waits a moment longer, ends the context of the call, and
// gives the function a moment to heed that.
func (h *hook[T]) stop(ctx context.Context) error {
	close(h.last)
	defer h.giveUp(ErrStopped)
	select {
	case <-h.ended:
		return nil
	case <-ctx.Done():
		ground.Wait(context.WithoutCancel(ctx), lastWords, h.ended)
	}
	h.giveUp(ErrStopped)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), pipeline.StopPatience-lastWords)
	defer cancel()
	select {
	case <-h.ended:
		return nil
	case <-patience.Done():
		return fmt.Errorf("stop: %w: the function of %s still runs", context.Cause(ctx), h.name)
	}
}
