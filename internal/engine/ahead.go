package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	aheadSoon   = time.Second      // after the clock was set back: by then, most statements that were under way have ended
	aheadAgain  = 10 * time.Second // after a statement that failed
	aheadPeriod = 30 * time.Second // in this time, a clock that is set back is heeded aheadMost times
	aheadMost   = 3
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

// Ahead is what the engine needs of the tables to mend what was written while the database's clock was ahead. *store.Store has it.
type Ahead interface {
	WrittenAhead(ctx context.Context, types []int32, own int64, limit int) ([]uint64, error)
	MendAhead(ctx context.Context, ids []uint64, own int64) (int, error)
}

// heedSetBack forgets the rows that wait in memory if the database's clock was set back: some may wait for a moment by the clock as it was. The
// table brings them again when they are due by the clock as it is. And what was put off in the table while that clock was ahead is put
// off from now on.
func (s *standBy) heedSetBack() {
	if time.Since(s.setBack[0]) < aheadPeriod { // on a cluster whose clocks differ, it may look so at every reading
		return
	}
	by := s.clock.WasSetBack()
	if by == 0 {
		return
	}
	copy(s.setBack[:], s.setBack[1:])
	s.setBack[len(s.setBack)-1] = time.Now()
	s.log.Warn(s.about, fmt.Sprintf("the database's clock was set back by %v", by.Round(time.Millisecond)))
	s.startedEarlier()
	s.forgetWaiting()
	s.draining.Lock()
	defer s.draining.Unlock()
	s.looksAhead = 0
	if s.tables.Ahead == nil || s.working.Err() != nil || s.mending {
		return
	}
	s.mending = true
	spread := time.Duration(s.chance.Int64N(int64(aheadSoon))) // all instances see it at about the same moment
	s.loops.Go(func() {
		for wait, more := s.nextLookAhead(); more && ground.Sleep(s.working, wait+spread); wait, more = s.nextLookAhead() {
			for range aheadTries {
				if !s.errlog.On(s.working, "mend what was put off while the clock was ahead", s.mendAhead(s.working)) || !ground.Sleep(s.working, aheadAgain) {
					break
				}
			}
			s.forgetWaiting() // an outcome that was on its way may wait by the clock as it was
		}
	})
}

// nextLookAhead returns how long to wait for the next look. If there is none, the mending has ended: whoever finds from then on that the
// clock was set back begins anew.
func (s *standBy) nextLookAhead() (wait time.Duration, more bool) {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.looksAhead == len(aheadLooks) {
		s.mending = false
		return 0, false
	}
	s.looksAhead++
	return aheadLooks[s.looksAhead-1], true
}

// forgetWaiting forgets the rows that wait in memory, and has them loaded.
func (s *standBy) forgetWaiting() {
	for _, h := range s.heldLines() {
		h.line.queue.clear()
		h.line.backlog.Ask()
		ground.Signal(h.line.wake)
	}
}

// startedEarlier has FirstPullDay count from an earlier moment if the instance started while the database's clock was ahead: what fell due a
// day ago seemed to be old then. If that clock is behind now, this process's own says so.
func (s *standBy) startedEarlier() {
	at := max(s.clock.Now(), time.Now().UnixMilli()) - time.Since(s.started).Milliseconds()
	if at >= s.startedAt.Load() {
		return
	}
	s.startedAt.Store(at)
	for _, l := range s.lines.all() {
		l.backlog.SetSince(abandonedBefore(l.cfg.FirstPullDay, at))
	}
}

// mendAhead mends the jobs of all types of this instance. Other instances do the same: what one has mended, the others do not find any more.
func (s *standBy) mendAhead(ctx context.Context) (err error) {
	var types []int32
	for _, cfg := range s.configured() {
		types = append(types, cfg.JobType)
	}
	mended := 0
	for some := range slices.Chunk(types, aheadTypes) {
		n, errSome := s.mendTypes(ctx, some)
		mended += n
		err = errors.Join(err, errSome)
	}
	if mended > 0 {
		s.log.Warn(s.about, fmt.Sprintf("%d jobs were put off while the database's clock was ahead; they wait from now on for as long as they were to wait", mended))
	}
	return err
}

func (s *standBy) mendTypes(ctx context.Context, types []int32) (mended int, err error) {
	var before []uint64
	for ctx.Err() == nil {
		statement, cancel := context.WithTimeout(ctx, aheadWithin)
		began, own := time.Now(), time.Now().Unix()
		ids, err := s.tables.Ahead.WrittenAhead(statement, types, own, aheadPage)
		n := 0
		if err == nil && len(ids) > 0 {
			n, err = s.tables.Ahead.MendAhead(statement, ids, own)
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
