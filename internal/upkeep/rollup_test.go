package upkeep

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// tidied are tables that note what a roll-up does.
type tidied struct {
	History
	mu    sync.Mutex
	left  map[int32][]int64 // hours that have minutes
	drops int
}

func (r *tidied) TypesKnown(context.Context) ([]int32, error) { return []int32{1, 9}, nil }

func (r *tidied) RollUp(_ context.Context, jobType int32, from, before, seconds int64) (int64, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, hour := range r.left[jobType] {
		if hour >= from && hour < before-before%seconds {
			r.left[jobType] = slices.Delete(r.left[jobType], i, i+1)
			return hour, true, nil
		}
	}
	return 0, false, nil
}

func (r *tidied) DropStats(context.Context, int32, int64) error { return r.drop() }
func (r *tidied) DropTenures(context.Context, int64) error      { return r.drop() }

func (r *tidied) drop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drops++
	return nil
}

func TestOneInstanceAnHourRollsUpWhatIsTwoDaysOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		r := &tidied{left: map[int32][]int64{}}
		now := time.Now().Unix()
		for hour := now - 24*3600 - now%3600; hour < now; hour += 3600 {
			r.left[1], r.left[9] = append(r.left[1], hour), append(r.left[9], hour)
		}
		all := len(r.left[9])
		var loops sync.WaitGroup
		shared := newTurns()
		for range 3 {
			b, i := baseOf(t, silent{})
			i.turns = shared
			loops.Go(func() { Rollup(b, r).Run(ctx) })
		}
		const hours = 30
		time.Sleep(hours * time.Hour)
		end()
		loops.Wait()
		rounds := len(shared.taken[rollupLease])
		if rounds < hours-3 || rounds > hours+1 {
			t.Errorf("%d rounds in %d hours", rounds, hours)
		}
		if r.drops != 3*rounds {
			t.Errorf("old rows were dropped %d times in %d rounds", r.drops, rounds)
		}
		for _, jobType := range []int32{1, 9} {
			if left := len(r.left[jobType]); left < all-hours+24-2 || left >= all || r.left[jobType][0] < now+hours*3600-48*3600-2*3600 {
				t.Errorf("%d of %d hours of type %d are left, from %v on", left, all, jobType, time.Unix(r.left[jobType][0], 0))
			}
		}
	})
}
