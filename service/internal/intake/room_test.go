package intake

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

func TestOneCallerTakesHalfOfARoomAndNobodyElseWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100, patience)
		for range 3 {
			if _, full := r.Take(t.Context(), "greedy", 10); full != nil {
				t.Fatal(full)
			}
		}
		r.Take(t.Context(), "greedy", 10)
		var waits sync.WaitGroup
		for n := range int64(9) {
			waits.Go(func() {
				time.Sleep(time.Duration(n))
				_, full := r.Take(t.Context(), "greedy", 20-n) // none fits
				if full == nil || full.Code != problem.Busy || full.RetryAfter == 0 || !strings.Contains(full.Detail, "this caller") {
					t.Errorf("%v", full)
				}
			})
		}
		time.Sleep(time.Microsecond)
		began := time.Now()
		release, full := r.Take(t.Context(), "other", 40)
		if full != nil || time.Since(began) > 0 {
			t.Errorf("another caller waits for %v: %v", time.Since(began), full)
		}
		waits.Go(func() { // it fits, and does not overtake the others of its caller
			if release, full := r.Take(t.Context(), "greedy", 1); full == nil {
				release()
			}
		})
		time.Sleep(time.Microsecond)
		if _, full := r.Take(t.Context(), "third", 5); full != nil || time.Since(began) > time.Second {
			t.Errorf("another caller waits for %v behind one that waits for itself: %v", time.Since(began), full)
		}
		waits.Wait()
		if waited := time.Since(began); waited < patience-time.Second || waited > patience {
			t.Errorf("it waits for %v", waited)
		}
		release()
	})
}

func TestWhoWaitsForOthersIsToldSoAndGetsInWhenTheyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100, patience)
		a, _ := r.Take(t.Context(), "a", 50)
		b, _ := r.Take(t.Context(), "b", 50)
		if _, full := r.Take(t.Context(), "c", 10); full == nil || !strings.Contains(full.Detail, "of others") {
			t.Errorf("%v", full)
		}
		time.AfterFunc(time.Second, a)
		c, full := r.Take(t.Context(), "c", 50)
		if full != nil {
			t.Fatal(full)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, full := r.Take(gone, "d", 10); full == nil {
			t.Error("who is gone gets in")
		}
		a() // again, which does nothing
		b()
		c()
		if r.taken != 0 || len(r.of) != 0 || len(r.waiting) != 0 {
			t.Errorf("%d bytes of %v are left, and %d wait", r.taken, r.of, len(r.waiting))
		}
	})
}

func TestWhatIsLargerThanTheRoomGetsInAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100, patience)
		small, _ := r.Take(t.Context(), "a", 1)
		time.AfterFunc(time.Second, small)
		large, full := r.Take(t.Context(), "a", 1000)
		if full != nil {
			t.Fatal(full)
		}
		if _, full := r.Take(t.Context(), "b", 1); full == nil {
			t.Error("it is not alone")
		}
		large()
	})
}

// Whatever is asked for and given back, in whatever order: there is never more in a room than fits unless it is alone, nobody has more than
// the share, and whoever is patient gets in.
func TestARoomIsNeverOverfullAndEverybodyGetsIn(t *testing.T) {
	for seed := range int64(200) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewSource(seed))
			r := newRoom(100, time.Hour)
			var all sync.WaitGroup
			for n := range 60 {
				who, bytes, after, keep := fmt.Sprint(chance.Intn(4)), 1+chance.Int63n(130), time.Duration(chance.Intn(30))*time.Second, time.Duration(1+chance.Intn(20))*time.Second
				all.Go(func() {
					time.Sleep(after)
					release, full := r.Take(t.Context(), who, bytes)
					if full != nil {
						t.Errorf("seed %d, request %d: %v", seed, n, full)
						return
					}
					r.mu.Lock()
					if r.taken > r.size && r.taken > bytes || r.of[who] > r.share && r.of[who] > bytes {
						t.Errorf("seed %d: %d bytes are taken, %d of %s, whose last were %d", seed, r.taken, r.of[who], who, bytes)
					}
					r.mu.Unlock()
					time.Sleep(keep)
					release()
				})
			}
			all.Wait()
			if r.taken != 0 || len(r.of) != 0 {
				t.Errorf("seed %d: %d bytes of %v are left", seed, r.taken, r.of)
			}
		})
	}
}
