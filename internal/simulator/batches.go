package simulator

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Types whose handler gets several jobs in one call.

// batched reports whether a world may have such types. It is one world of eleven, so that the others stay as they were before there were batches;
// among these are the seeds of all mutants.
func batched(seed uint64) bool { return seed%11 == 6 }

// longestBatchWait is how long a job waits at most for others.
const longestBatchWait = 500 * time.Millisecond

// drawBatches draws which types have a batch handler, from dice of its own.
func (p *plan) drawBatches(d *dice) {
	for i := range p.configs {
		cfg := &p.configs[i]
		if d.chance(300) {
			continue
		}
		cfg.BatchSize = oneOf(d, 2, 3, 5, 10, 100)
		cfg.BatchWait = oneOf(d, 0, 0, 20*time.Millisecond, longestBatchWait)
		if cfg.RatePerSecond > 0 {
			cfg.RateBurst = max(cfg.RateBurst, cfg.BatchSize)
		}
	}
}

// drawCalls draws, from dice of its own, that many jobs come at once, so that calls are full, and that somebody cancels the jobs of a call, all of
// them or all but one, and retries some.
func (p *plan) drawCalls(d *dice) {
	if p.weather.truncated {
		return
	}
	moment := func() time.Duration { return d.between(200*time.Millisecond, p.calmAt) }
	for range d.upTo(3) {
		p.drawTransaction(d, moment(), 10+d.upTo(40), 0)
	}
	if !p.weather.steered {
		return
	}
	for range 1 + d.upTo(4) {
		at, among, spares, again := moment(), d.next(), d.upTo(2), 1+d.upTo(3)
		after := d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 400*time.Millisecond, 2*time.Second))
		var cancelled []*history
		p.at(at, func(w *world) { cancelled = w.cancelCall(among, spares) }, "cancel the jobs of a call, but for %d", spares)
		p.at(at+after, func(w *world) {
			for n, h := range cancelled {
				if n%again == 0 {
					w.retry(h)
				}
			}
		}, "retry them, or one of %d", again)
	}
}

// cancelCall cancels the jobs of a call of several, but for some.
func (w *world) cancelCall(among uint64, spares int) (cancelled []*history) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.judge.oneOf(among, func(h *history) bool {
		return h.mark != nil && h.mark.run != nil && !h.mark.run.over && len(w.judge.callOf(h.mark.run)) > 1
	})
	if h == nil {
		return nil
	}
	for _, r := range w.judge.callOf(h.mark.run)[spares:] {
		if h := r.history; h.mark != nil && h.mark.run == r && !h.final && h.order.old == 0 && !w.locked[h.id].After(time.Now()) {
			w.trace.add(event{what: "cancels", about: about{ids: []uint64{h.id}, note: h.order.label}})
			w.table.Cancel(h.id)
			cancelled = append(cancelled, h)
		}
	}
	return cancelled
}

// handleBatch is the handler of a call of several jobs, each of which does what it would do alone. The call ends with the last of them. If the
// first one panics, or ends its goroutine, that is so for all.
func (i *instance) handleBatch(ctx context.Context, cfg *queue_job.Config, jobs []*queue_job.Job) error {
	if i.link.dead() {
		return errKilled
	}
	i.world.handlers.Add(1)
	defer i.world.handlers.Done()
	runs := make([]*run, len(jobs))
	for n, job := range jobs {
		runs[n] = i.world.judge.started(ctx, i, cfg, job)
	}
	if n := slices.IndexFunc(runs, func(r *run) bool { return r.history.order.deadly }); n >= 0 {
		return i.killedBy(runs[n], jobs[n])
	}
	behaviours, abrupt := i.behaveTogether(runs)
	var acting sync.WaitGroup
	for n := range runs {
		acting.Go(func() { i.act(ctx, jobs[n], runs[n], &behaviours[n]) })
	}
	acting.Wait()
	if i.link.dead() {
		return errKilled
	}
	each, interrupted := make(queue_job.BatchErrors, len(jobs)), ctx.Err() != nil
	for n, b := range behaviours {
		if abrupt != endsWell {
			b.ends = abrupt
		}
		jobs[n].Status = b.ends.status()
		i.world.judge.ended(runs[n], cfg, jobs[n], &b, interrupted)
		each[n] = b.result()
	}
	switch abrupt {
	case endsInPanic:
		i.world.judge.notes("call of a batch that panics")
		panic(errHandler)
	case endsInGoexit:
		runtime.Goexit()
	}
	return each
}

// behaveTogether says what the runs of a call do, and how the call ends if it does not return.
func (i *instance) behaveTogether(runs []*run) (behaviours []behaviour, abrupt ending) {
	quiet := false // a job that must end well is among them
	for _, r := range runs {
		behaviours = append(behaviours, behave(i.world, r))
		quiet = quiet || r.history.order.takes > 0 || r.history.order.outlived > 0
	}
	if first := behaviours[0].ends; (first == endsInPanic || first == endsInGoexit) && !quiet {
		abrupt = first
	}
	for n := range behaviours {
		switch b := &behaviours[n]; {
		case abrupt != endsWell:
			b.ends = abrupt
		case b.ends == endsInPanic || b.ends == endsInGoexit:
			b.ends = endsInError
		}
	}
	return behaviours, abrupt
}

// sameCall reports whether two runs are of one call: these share a context.
func sameCall(one, other *run) bool {
	return one == other || one.ctx == other.ctx && one.by == other.by
}

// notes counts a case.
func (j *judge) notes(what string) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	j.saw[what]++
}

// callOf are the runs of a run's call that go on. The world stands still.
func (j *judge) callOf(r *run) (call []*run) {
	for _, other := range j.active {
		if sameCall(r, other) {
			call = append(call, other)
		}
	}
	return call
}

// mayGoOn reports whether the context of a cancelled run need not have ended, because of the others of its call: a job was not cancelled, or not
// long ago, or it is not known who has ended it.
func (j *judge) mayGoOn(r *run) bool {
	return slices.ContainsFunc(j.callOf(r), func(other *run) bool {
		m := other.mark
		return m == nil || !m.cancelled || time.Since(m.taken) < heedWithin || other.mayHaveEnded()
	})
}

// mayHaveEnded reports whether a run's row did not say until now that a cancellation, and not the run's handler, which has tried, has ended the job:
// the handler has tried to cancel it as well, or somebody has retried or deleted the job since it was cancelled.
func (r *run) mayHaveEnded() bool {
	return r.completes && (r.gives == queue_job.JobStatusCancelled || r.history.gone || r.history.revivedAt.After(r.mark.taken))
}
