package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	aheadSoon   = time.Second            // after the clock was set back: by then, most statements that were under way have ended
	aheadAgain  = 10 * time.Second       // after a statement that failed
	aheadPage   = 500                    // rows in a statement
	aheadRest   = 100 * time.Millisecond // after a statement, at least
	aheadTries  = 6
	aheadTypes  = 500 // in a statement
	aheadWithin = time.Minute
)

// aheadLooks is when to look for what was written ahead of the clock, each time after the look before. A statement that began while the
// clock was ahead may be carried out later: when a slow disk has answered, or when the row is not locked any more, for which MySQL and
// MariaDB wait for 50 seconds as they come.
var aheadLooks = [...]time.Duration{aheadSoon, 10 * time.Second, time.Minute}

// heedSetBack forgets the rows that wait in memory if the database's clock was set back: some may wait for a moment by the clock as it was. The
// table brings them again when they are due by the clock as it is. And what was put off in the table while that clock was ahead is put
// off from now on.
func (d *database) heedSetBack() {
	a := &d.setBacks
	if time.Since(a.setBack[0]) < aheadPeriod { // on a cluster whose clocks differ, it may look so at every reading
		return
	}
	by := d.shared.Clock.WasSetBack()
	if by == 0 {
		return
	}
	copy(a.setBack[:], a.setBack[1:])
	a.setBack[len(a.setBack)-1] = time.Now()
	d.shared.Log.Warn(d.about, fmt.Sprintf("the database's clock was set back by %v", by.Round(time.Millisecond)))
	d.startedEarlier()
	d.forgetWaiting()
	d.life.whileWorking(func(context.Context) {
		switch a.looks = 0; {
		case d.tables.Ahead == nil:
		case a.mending:
			ground.Signal(a.anew)
		default:
			anew := make(chan struct{}, 1)
			a.mending, a.anew = true, anew
			d.life.work(func(working context.Context) { d.mendSoon(working, anew) })
		}
	})
}

// mendSoon mends what was put off, now and then, and begins anew when it is told that the clock was set back again: the next look may be a
// minute away, and this process may not live that long. All instances begin at about the same moment.
func (d *database) mendSoon(working context.Context, anew <-chan struct{}) {
	spread := time.Duration(rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)).Int64N(int64(aheadSoon)))
	for wait, more := d.nextLookAhead(); more && working.Err() == nil; wait, more = d.nextLookAhead() {
		if ground.Wait(working, wait+spread, anew) || working.Err() != nil {
			continue
		}
		for range aheadTries {
			failed := d.shared.Errlog.On(working, "mend what was put off while the clock was ahead", d.mendAhead(working))
			if !failed || !ground.Sleep(working, aheadAgain) {
				break
			}
		}
		d.forgetWaiting() // an outcome that was on its way may wait by the clock as it was
	}
}

// nextLookAhead returns how long to wait for the next look. If there is none, the mending has ended: whoever finds from then on that the
// clock was set back begins anew.
func (d *database) nextLookAhead() (wait time.Duration, more bool) {
	d.life.draining.Lock()
	defer d.life.draining.Unlock()
	a := &d.setBacks
	if a.looks == len(aheadLooks) {
		a.mending = false
		return 0, false
	}
	if a.looks == 0 { // this is the answer to the signal
		select {
		case <-a.anew:
		default:
		}
	}
	a.looks++
	return aheadLooks[a.looks-1], true
}

// forgetWaiting forgets the rows that wait in memory, and has them loaded.
func (d *database) forgetWaiting() {
	for m := range d.held() {
		m.line.ForgetWaiting()
		m.backlog.Ask()
	}
}

// startedEarlier has FirstPullDay count from an earlier moment if the instance started while the database's clock was ahead: what fell due a
// day ago seemed to be old then. If that clock is behind now, this process's own says so.
func (d *database) startedEarlier() {
	at := max(d.shared.Clock.Now(), time.Now().UnixMilli()) - time.Since(d.start.own).Milliseconds()
	if at >= d.start.at.Load() {
		return
	}
	d.start.at.Store(at)
	for _, m := range d.members.All() {
		m.backlog.SetSince(abandonedBefore(m.line.Config().FirstPullDay, at))
	}
}

// mendAhead mends the jobs of all types of this instance, and the flows. Other instances do the same: what one has mended, the others do not find any
// more.
func (d *database) mendAhead(ctx context.Context) (err error) {
	var types []int32
	for _, cfg := range d.coordinator.Configured() {
		types = append(types, cfg.JobType)
	}
	mended := 0
	for some := range slices.Chunk(types, aheadTypes) {
		n, errSome := d.mendTypes(ctx, some)
		mended += n
		err = errors.Join(err, errSome)
	}
	statement, cancel := context.WithTimeout(ctx, aheadWithin)
	defer cancel()
	flows, errFlows := d.tables.Ahead.MendFlowsAhead(statement)
	if err = errors.Join(err, errFlows); flows > 0 {
		d.shared.Log.Warn(d.about, fmt.Sprintf("%s put off while the database's clock was ahead; they are looked at as soon as they were to be",
			ground.Plural(flows, "flow was", "flows were")))
	}
	if mended > 0 {
		d.shared.Log.Warn(d.about,
			fmt.Sprintf("%d jobs were put off while the database's clock was ahead; they wait from now on for as long as they were to wait", mended))
	}
	return err
}

func (d *database) mendTypes(ctx context.Context, types []int32) (mended int, err error) {
	var before []uint64
	for ctx.Err() == nil {
		statement, cancel := context.WithTimeout(ctx, aheadWithin)
		began, own := time.Now(), time.Now().Unix()
		ids, err := d.tables.Ahead.WrittenAhead(statement, types, own, aheadPage)
		n := 0
		if err == nil && len(ids) > 0 {
			n, err = d.tables.Ahead.MendAhead(statement, ids, own)
		}
		cancel()
		mended += n
		if err != nil || n == 0 || slices.Equal(ids, before) { // or the statement has no effect
			return mended, err
		}
		before = ids
		ground.Sleep(ctx, max(aheadRest, time.Since(began)))
	}
	return mended, nil
}
