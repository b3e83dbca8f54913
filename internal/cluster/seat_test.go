package cluster

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestALeaseIsNamedAfterTheJobTypeAndNotTheService(t *testing.T) {
	for _, service := range []string{"shop", "warehouse"} {
		c := coordinatorOf(t, Tables{}, queue_job.Config{ServiceName: service, JobType: -7})
		if want := c.seats.All()[0].want(); want.Name != "job--7" || !strings.HasPrefix(want.Holder, service+"@") {
			t.Errorf("%s takes %+v", service, want)
		}
	}
}

// What runs under a lease that was given away may end while a mark under the next lease is on its way.
func TestARetiredMemberGoesOnUntilItsLastLeaseIsGivenAway(t *testing.T) {
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
	s := c.byName["job-7"]
	earlier := serveOn(t, s, 1)
	earlier.giveUp()
	earlier.state.Store(int32(draining))
	later := serveOn(t, s, 2)
	c.retire(s, retirement{why: replaced})
	m := s.Member.(*fakeMember)
	for _, given := range []*tenure{earlier, later} {
		if m.ended > 0 {
			t.Errorf("nobody writes what comes of term %d", given.lease.Term)
		}
		given.state.Store(int32(draining))
		s.end(given)
		c.finishIfFree(s)
	}
	if m.ended != 1 || slices.Contains(c.seats.All(), s) {
		t.Error("it has no lease any more, and goes on")
	}
}

// What was laid down may get a job before its lease is given back.
func TestATypeThatWakesGetsASeatAlthoughItsLastOneHasNotEnded(t *testing.T) {
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
	last := c.byName["job-7"]
	serveOn(t, last, 1)
	c.retire(last, retirement{why: laidDown})
	for _, want := range []int{1, 0} {
		if made := c.reconcile(&share.View{}, []string{"job-7"}, nil, false); made != want {
			t.Errorf("%d seats are made, want %d", made, want)
		}
	}
	if next := c.byName["job-7"]; next == nil || next == last || !slices.Contains(c.seats.All(), last) {
		t.Errorf("the seat is %v, after %v", next, last)
	}
}

func TestASeatNeedsNoOtherLeaseWhileItServesOrGivesUp(t *testing.T) {
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
	s := c.byName["job-7"]
	expect := func(when string, serves bool) {
		t.Helper()
		if s.serves() != serves || (s.held() != nil) != serves {
			t.Errorf("%s: it serves %v, under %v", when, s.serves(), s.held())
		}
	}
	expect("at first", false)
	one := serveOn(t, s, 1)
	expect("it serves", true)
	one.giveUp()
	expect("it gives up, and a job may be about to start", true)
	one.state.Store(int32(draining))
	expect("nothing starts any more", false)
	serveOn(t, s, 2)
	s.end(one)
	if expect("it serves again", true); len(s.unended()) != 1 {
		t.Errorf("%d leases have not ended", len(s.unended()))
	}
}

// Looks at the leases, and a loop of its own, ask which types are paused, so an answer may come behind the answer to a later question.
func TestAnAnswerToAnEarlierQuestionIsNotPassedOn(t *testing.T) {
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7}, queue_job.Config{JobType: 8})
	serveOn(t, c.byName["job-7"], 1)
	now := time.Now()
	first, second := &Pauses{Types: []int32{7}, Sent: now}, &Pauses{Sent: now.Add(time.Millisecond)}
	for _, answer := range []*Pauses{first, {Sent: now.Add(-time.Millisecond)}, second, {Sent: now}} {
		c.hear(answer)
	}
	if heard := c.byName["job-7"].Member.(*fakeMember).heard; !slices.Equal(heard, []*Pauses{first, second}) {
		t.Errorf("who serves has heard %v", heard)
	}
	if heard := c.byName["job-8"].Member.(*fakeMember).heard; len(heard) > 0 {
		t.Errorf("who does not serve has heard %v", heard)
	}
	if c.pauses.latest.Load() != second {
		t.Error("a lease that is taken now does not have the latest answer")
	}
}

// A type may get another configuration at that moment, so that its lease is given back and taken again.
func TestWhatTheHolderOfABrokenLeaseMarksIsLeftAloneAlsoIfTheLeaseChangesHandsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
		s := c.byName["job-7"]
		rest := share.Rest{Name: "rest-7-64", JobType: 7, Layout: s.Layout, Term: 64, Instance: "bbbbbbbbbbbb"}
		of := s.take(keeper.Unending(t.Context(), keeper.Want{Name: s.name}, 65), unaware{rest, time.Now().Add(unawareMax)})
		time.Sleep(unawareMax / 2)
		s.take(keeper.Unending(t.Context(), keeper.Want{Name: s.name}, 66), of)
		if r := s.remains(nil, "aaaaaaaaaaaa", nil); !slices.Equal(r.Terms, []int64{64}) {
			t.Errorf("a second after the break, %v are left alone", r.Terms)
		}
		time.Sleep(unawareMax / 2)
		if r := s.remains(nil, "aaaaaaaaaaaa", nil); len(r.Terms) > 0 {
			t.Errorf("two seconds after the break, %v are left alone", r.Terms)
		}
	})
}
