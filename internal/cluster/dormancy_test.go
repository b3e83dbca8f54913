package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestWorkThatWasNotedBehindALookIsForTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDormancy()
		d.note(1)
		d.note(2)
		time.Sleep(time.Second)
		sent := time.Now()
		time.Sleep(time.Millisecond)
		d.note(3)
		d.note(4)
		<-d.wake
		awake := func(jobType int32) bool { return jobType == 2 || jobType == 4 }
		if asleep := d.heed(sent, awake); !slices.Equal(asleep, []int32{1}) {
			t.Errorf("%v are to be woken, want type 1", asleep)
		}
		if noted := slices.Sorted(maps.Keys(d.noted)); !slices.Equal(noted, []int32{1, 3, 4}) {
			t.Errorf("%v are noted; type 2 is awake, and of 3 and 4 the look says nothing", noted)
		}
		select {
		case <-d.wake:
		default:
			t.Error("nobody is told that another look is needed")
		}
		d.forget(1)
		if asleep := d.heed(time.Now().Add(time.Second), awake); !slices.Equal(asleep, []int32{3}) {
			t.Errorf("%v are to be woken, want type 3", asleep)
		}
	})
}

// work is what a table of jobs answers to the question which types have work.
type work struct {
	types map[int32]bool
	err   error
	asked [][]int32
}

func (w *work) HaveWork(_ context.Context, types []int32) (map[int32]bool, error) {
	w.asked = append(w.asked, types)
	return w.types, w.err
}

func TestWhoLaysATypeDownLooksForWorkOnceMore(t *testing.T) {
	for name, x := range map[string]struct {
		work  work
		noted bool
	}{
		"nothing came":          {work{types: map[int32]bool{7: false}}, false},
		"a job has come":        {work{types: map[int32]bool{7: true}}, true},
		"the look has failed":   {work{err: errors.New("the connection broke")}, true},
		"the type is not known": {work{types: map[int32]bool{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := coordinatorOf(t, Tables{Dormancy: &x.work}, queue_job.Config{JobType: 7})
			c.layDown(c.byName["job-7"], keeper.Unending(t.Context(), keeper.Want{Name: "job-7"}, 1))
			if _, noted := c.dormancy.noted[7]; noted != x.noted || len(x.work.asked) != 1 {
				t.Errorf("noted: %v, want %v; asked %v", noted, x.noted, x.work.asked)
			}
		})
	}
}
