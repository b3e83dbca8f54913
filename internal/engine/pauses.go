package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	// pausesLate after the last answer, whoever looks at the leases twice a second is late with the next one. Until then, a look takes so
	// little time that what it says lasts for a second, and whoever asks now has an answer before the last one has ended (allowedFor).
	pausesLate = watchEvery + 150*time.Millisecond

	endLongest = 10 * time.Second // a statement that ends pauses may wait for whoever else writes into the rows of the types
)

// pauses is the table's answer to the question which types are paused.
type pauses struct {
	types []int32
	sent  time.Time // when it was asked
	took  time.Duration
	till  time.Time // jobs of the other types may start until then
}

func newPauses(types []int32, sent, answered time.Time) *pauses {
	took := answered.Sub(sent)
	return &pauses{types, sent, took, sent.Add(allowedFor(took))}
}

// hear keeps an answer for the lines whose leases are taken next, and tells the held lines. Answers may overtake each other.
func (d *database) hear(answer *pauses) {
	for {
		known := d.pauses.Load()
		if known != nil && answer.sent.Before(known.sent) {
			return
		}
		if d.pauses.CompareAndSwap(known, answer) {
			break
		}
	}
	for _, h := range d.heldLines() {
		h.line.heedPause(answer)
	}
}

// heedPause notes what an answer says of the line's type.
func (l *line) heedPause(answer *pauses) {
	paused, before := slices.Contains(answer.types, l.cfg.JobType), l.starts.allowed()
	if l.starts.heed(paused, answer) && paused {
		l.log.Info(l.about, "paused; what runs, runs on")
	}
	if before != l.starts.allowed() {
		ground.Signal(l.wake)
	}
}

// askForPauses asks, until ctx ends, which types are paused, as long as no look at the leases says so in time: looks share a connection with
// what takes, renews and gives back leases, and wait for it. Mostly it sends nothing.
func (d *database) askForPauses(ctx context.Context) {
	const doing = "look for pauses"
	var own *pauses // the last answer that it has got
	again := ground.Backoff{Longest: watchEvery}
	for rest := watchEvery; ground.Sleep(ctx, rest); {
		known := d.pauses.Load()
		if rest = watchEvery; known == nil { // no look was answered yet, so no lease was taken
			continue
		}
		if left := pausesLate - time.Since(known.sent.Add(known.took)); known != own && left > 0 {
			d.errlog.On(ctx, doing, nil)
			rest = left
			continue
		}
		answer, err := d.askOnce()
		if d.errlog.On(ctx, doing, err) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		own = cmp.Or(answer, own)
	}
}

// askOnce tells the held lines which types are paused. If there are none, it does not ask, and the answer is nil.
func (d *database) askOnce() (answer *pauses, err error) {
	lines := d.heldLines()
	if len(lines) == 0 {
		return nil, nil
	}
	var types []int32
	holding, sent := d.holding(lines), time.Now()
	err = d.pauseLooks.Look(holding, func(ctx context.Context) (err error) {
		types, err = d.tables.Jobs.Paused(ctx)
		return err
	})
	if err != nil {
		return nil, ground.UnlessOver(holding, err)
	}
	answer = newPauses(types, sent, time.Now())
	d.hear(answer)
	return answer, nil
}

// heedOver ends the pauses of which a look has shown that they are over: of all types, since those who run them may be older versions. The
// look does not wait for it. If it fails, the next look shows the same pauses.
func (s *standBy) heedOver(types []int32) {
	if len(types) == 0 || s.ending.Swap(true) {
		return
	}
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.working.Err() != nil {
		s.ending.Store(false)
		return
	}
	s.loops.Go(func() {
		defer s.ending.Store(false)
		ctx, cancel := context.WithTimeout(s.working, endLongest)
		defer cancel()
		ended, err := s.tables.Jobs.EndPauses(ctx, types)
		if s.errlog.On(s.working, "end pauses", err) || ended == 0 { // somebody else has ended them
			return
		}
		for _, jobType := range types {
			s.log.Info(s.about, fmt.Sprintf("the pause of job type %d is over", jobType))
		}
		ground.Signal(s.dormant.wake)
	})
}
