package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	askEvery = 500 * time.Millisecond // which types are paused, if the looks at the leases do not say so

	// pausesLate after the last answer, whoever looks at the leases twice a second is late with the next one. Until then, a look takes so
	// little time that what it says lasts for a second, and whoever asks now has an answer before the last one has ended.
	pausesLate = askEvery + 150*time.Millisecond

	endLongest = 10 * time.Second // a statement that ends pauses may wait for whoever else writes into the rows of the types
)

// hear tells an answer to the members that serve, and keeps it for members that get a lease later. Answers may overtake each other.
func (c *Coordinator) hear(answer *Pauses) {
	for {
		known := c.pauses.latest.Load()
		if known != nil && answer.Sent.Before(known.Sent) {
			return
		}
		if c.pauses.latest.CompareAndSwap(known, answer) {
			break
		}
	}
	for _, s := range c.seats.All() {
		if s.held() != nil {
			s.Hear(answer)
		}
	}
}

// AskForPauses asks, until ctx ends, which types are paused, as long as no look at the leases says so in time: looks share a connection with
// what takes, renews and gives back leases, and wait for it. Mostly it sends nothing.
func (c *Coordinator) AskForPauses(ctx context.Context) {
	const doing = "look for pauses"
	var own *Pauses // the last answer that it has got
	again := ground.Backoff{Longest: askEvery}
	for wait := askEvery; ground.Sleep(ctx, wait); {
		known := c.pauses.latest.Load()
		if wait = askEvery; known == nil { // no look was answered yet, so no lease was taken
			continue
		}
		if left := pausesLate - time.Since(known.Sent.Add(known.Took)); known != own && left > 0 {
			c.process.Errlog.On(ctx, doing, nil)
			wait = left
			continue
		}
		answer, err := c.askOnce()
		if c.process.Errlog.On(ctx, doing, err) {
			wait = again.Next()
		} else {
			again.Reset()
		}
		own = cmp.Or(answer, own)
	}
}

// askOnce asks which types are paused, and tells the members that serve. If no member serves, it asks nothing and returns nil.
func (c *Coordinator) askOnce() (answer *Pauses, err error) {
	if len(c.held()) == 0 {
		return nil, nil
	}
	var types []int32
	holding, sent := c.Holding(), time.Now()
	err = c.pauses.looks.Look(holding, func(ctx context.Context) (err error) {
		types, err = c.process.Tables.Pauses.Paused(ctx)
		return err
	})
	if err != nil {
		return nil, ground.UnlessOver(holding, err)
	}
	answer = &Pauses{types, sent, time.Since(sent)}
	c.hear(answer)
	return answer, nil
}

// heedOver ends the pauses of which a look has shown that they are over: of all types, since those who run them may be older versions. A type
// is paused as long as its row says when the pause began; nobody who asks for pauses compares their ends. The statement compares the end
// once more, so a pause that somebody has just made longer stays. The look does not wait for it. If it fails, the next look shows the same
// pauses.
func (c *Coordinator) heedOver(types []int32) {
	if len(types) == 0 || c.pauses.ending.Swap(true) {
		return
	}
	begun := c.process.Working(func(working context.Context) {
		c.process.Go(func() {
			defer c.pauses.ending.Store(false)
			c.endPauses(working, types)
		})
	})
	if !begun {
		c.pauses.ending.Store(false)
	}
}

func (c *Coordinator) endPauses(working context.Context, types []int32) {
	ctx, cancel := context.WithTimeout(working, endLongest)
	defer cancel()
	ended, err := c.process.Tables.Pauses.EndPauses(ctx, types)
	if c.process.Errlog.On(working, "end pauses", err) || ended == 0 { // somebody else has ended them
		return
	}
	for _, jobType := range types {
		c.process.Log.Info(c.process.About, fmt.Sprintf("the pause of job type %d is over", jobType))
	}
	ground.Signal(c.dormancy.wake)
}
