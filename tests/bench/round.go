package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// round is one workload on one system, in a process of its own.
type round struct {
	system
	name    string // the system's, by which a producer finds it
	ground  string // the address of tables that were prepared; empty: the round makes its own
	kind    kind
	quick   bool
	profile string // where to write profiles, without the ending; empty: nowhere
	fail    func(error)
	figures map[string]float64
}

// outcome is a round's result, as a line of JSON.
type outcome struct {
	Workload string             `json:"workload"`
	System   string             `json:"system"`
	Round    int                `json:"round"`
	Figures  map[string]float64 `json:"figures,omitempty"`
	Versions map[string]string  `json:"versions,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// run opens the system, runs the workload, and closes the system.
func (r *round) run(ctx context.Context, w workload, e entry) (o outcome, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.name, r.kind, r.fail, r.figures = e.name, e.kind, fail, map[string]float64{}
	if r.system, err = e.open(ctx, r.ground); err != nil {
		return o, err
	}
	err = w.run(ctx, r)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	err = errors.Join(err, closeSystem(ctx, r.system))
	return outcome{Workload: w.name, System: e.name, Figures: r.figures, Versions: r.versions()}, err
}

// size is a workload's number of jobs, or of anything: a fiftieth of it where the round shall only show that it works.
func (r *round) size(n int) int {
	if r.quick {
		return max(1, n/50)
	}
	return n
}

func (r *round) addNow(ctx context.Context, jobs int) error { return r.add(ctx, jobs, time.Time{}) }

// start starts workers whose handler's returns are counted. What they do until they are stopped is in the profiles.
func (r *round) start(ctx context.Context, s staff) (stop func() error, handled *counter, err error) {
	handled = &counter{reached: make(chan struct{})}
	handle := s.handle
	s.handle = func(ctx context.Context, t task) error {
		err := handle(ctx, t)
		handled.add()
		return err
	}
	endProfile, err := profiled(r.profile)
	if err != nil {
		return nil, nil, err
	}
	halt, err := r.work(ctx, s, r.fail)
	return func() error { return errors.Join(endProfile(), halt()) }, handled, err
}

// settled waits until handlers have run so often, and no job is pending.
func (r *round) settled(ctx context.Context, handled *counter, runs int) error {
	if err := handled.await(ctx, runs); err != nil {
		return err
	}
	for {
		if left, err := r.pending(ctx); err != nil || !left {
			return err
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// verify makes sure that all jobs of the table have succeeded, and that handlers ran as often as they should: fewer would
// make any figure a lie.
func (r *round) verify(ctx context.Context, handled *counter, jobs, runs int) error {
	c, err := r.counts(ctx)
	if err != nil {
		return err
	}
	if n := int(handled.n.Load()); n != runs || c != (counts{succeeded: jobs}) {
		return fmt.Errorf("of %d jobs %d succeeded, %d are pending, %d are something else; handlers ran %d times and not %d",
			jobs, c.succeeded, c.pending, c.other, n, runs)
	}
	return nil
}

// counter counts what many goroutines do, and tells one when a number is reached.
type counter struct {
	n, target atomic.Int64
	reached   chan struct{}
}

func (c *counter) add() {
	if c.n.Add(1) == c.target.Load() {
		close(c.reached)
	}
}

// await is called once.
func (c *counter) await(ctx context.Context, n int) error {
	c.target.Store(int64(n))
	if c.n.Load() >= int64(n) {
		return nil // before it was asked for, or just now
	}
	select {
	case <-c.reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d runs: %w", c.n.Load(), n, context.Cause(ctx))
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
