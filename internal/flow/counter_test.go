package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
)

// tables notes what is sent, and answers as the test says.
type tables struct {
	mu      sync.Mutex
	sent    []string
	open    bool
	look    store.NodeLook
	fails   func(nodes []uint64, bears int) error // a count …
	bears   func(nodes []uint64) error            // … and births
	counted []uint64
	born    []uint64
	refused []uint64
	busy    int      // so many counts find all nodes locked
	afters  []uint64 // behind which jobs the looks looked
	over    []bool   // what the counts were told
	most    int      // a birth leaves the nodes behind so many; 0: none
	tends   func(flow uint64) (store.Tended, error)
}

func (t *tables) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, what)
}

func (t *tables) AnyFlow(context.Context) (bool, error) {
	t.note("any")
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open, nil
}

func (t *tables) LookAtNodes(_ context.Context, after uint64, _ int) (store.NodeLook, error) {
	t.note("look")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.afters = append(t.afters, after)
	return t.look, nil
}

func (t *tables) CountEnds(_ context.Context, nodes []uint64, over bool, bears int) (store.Counted, error) {
	t.note("count")
	t.over = append(t.over, over)
	if t.fails != nil {
		if err := t.fails(nodes, bears); err != nil {
			return store.Counted{}, err
		}
	}
	if t.busy > 0 {
		t.busy--
		return store.Counted{Busy: slices.Clone(nodes)}, nil
	}
	t.counted = append(t.counted, nodes...)
	if bears == 0 {
		return store.Counted{Ends: len(nodes), Ready: slices.Clone(nodes)}, nil // as if each were ready
	}
	return store.Counted{Ends: len(nodes)}, nil
}

func (t *tables) BearNodes(_ context.Context, nodes []uint64) ([]uint64, error) {
	t.note("bear")
	if t.bears != nil {
		if err := t.bears(nodes); err != nil {
			return nil, err
		}
	}
	if t.most > 0 && len(nodes) > t.most {
		t.born = append(t.born, nodes[:t.most]...)
		return slices.Clone(nodes[t.most:]), nil
	}
	t.born = append(t.born, nodes...)
	return nil, nil
}

func (t *tables) TendFlow(_ context.Context, flow uint64) (store.Tended, error) {
	t.note("tend")
	return t.tends(flow)
}

func (t *tables) RefuseNode(_ context.Context, node uint64, _ string) error {
	t.refused = append(t.refused, node)
	return nil
}

// of runs a counter for a time.
func (t *tables) of(test *testing.T, for_ time.Duration, act func(c *Counter)) {
	test.Helper()
	synctest.Test(test, func(test *testing.T) {
		about := logger.QueueLog{}.GetNewContext("")
		c := New(t, ground.NewErrlog(logger.QueueLog{}, about, nil))
		ctx, stop := context.WithTimeout(test.Context(), for_)
		defer stop()
		act(c)
		c.Run(ctx)
	})
}

func (t *tables) times(what string) (n int) {
	for _, sent := range t.sent {
		if sent == what {
			n++
		}
	}
	return n
}

func TestWithoutAFlowNothingIsAskedButOnceAMinuteWhetherThereIsOne(t *testing.T) {
	var at tables
	at.of(t, 10*time.Minute, func(*Counter) {})
	if n := at.times("any"); len(at.sent) != n || n < 5 || n > 11 {
		t.Error(at.sent)
	}
}

func TestWhileAFlowIsOpenThereIsOneLookASecond(t *testing.T) {
	at := tables{open: true}
	at.of(t, time.Minute, func(*Counter) {})
	if n := at.times("look"); n < 45 || n > 60 || at.times("any") > 15 || at.times("count")+at.times("bear") > 0 {
		t.Error(at.sent)
	}
}

func TestWhatALookFindsIsCountedUnlessItsRunMayGoOnAndIsBorn(t *testing.T) {
	at := tables{open: true, most: 2, look: store.NodeLook{Ended: []uint64{1, 2}, Ready: []uint64{11, 12, 13, 14, 15}}}
	at.of(t, firstLook+time.Millisecond, func(*Counter) {})
	if !slices.Equal(at.counted, []uint64{1, 2}) || !slices.Equal(at.over, []bool{false}) || !slices.Equal(at.born, []uint64{11, 12, 13, 14, 15}) {
		t.Errorf("counted %v, over %v, born %v", at.counted, at.over, at.born)
	}
}

func TestALookGoesOnWhereTheLastOneEnded(t *testing.T) {
	at := tables{open: true, look: store.NodeLook{Last: 7000, Jobs: pageJobs}}
	at.of(t, firstLook+3*time.Second, func(*Counter) {})
	if len(at.afters) < 3 || at.afters[0] != 0 || at.afters[1] != 7000 || at.afters[2] != 7000 {
		t.Error(at.afters)
	}
	at = tables{open: true, look: store.NodeLook{Last: 7000, Jobs: pageJobs - 1}} // there are no more
	at.of(t, firstLook+3*time.Second, func(*Counter) {})
	if len(at.afters) < 3 || at.afters[1] != 0 {
		t.Error(at.afters)
	}
}

func TestWhoeverTakesALeaseLooksForWhatNobodyHasCounted(t *testing.T) {
	var at tables
	at.of(t, firstLook+2*lookEvery, func(c *Counter) {
		time.AfterFunc(firstLook+time.Millisecond, func() { // it has asked, and no flow was open
			at.mu.Lock()
			at.open, at.look = true, store.NodeLook{Ended: []uint64{5}}
			at.mu.Unlock()
			c.Taken()
		})
	})
	if len(at.counted) == 0 {
		t.Error(at.sent)
	}
}

func TestWhatHasEndedHereIsCountedAtOnceAndAlsoWhenTheLoopEnds(t *testing.T) {
	var at tables
	at.of(t, time.Millisecond, func(c *Counter) { c.Ended(store.NodeID(3, 1)) })
	at.of(t, 0, func(c *Counter) { c.Ended(store.NodeID(3, 2)) })
	if fmt.Sprint(at.counted) != fmt.Sprint([]uint64{store.NodeID(3, 1), store.NodeID(3, 2)}) {
		t.Error(at.counted)
	}
}

func TestWhatEndsWhileThousandsAreBornIsCountedBetweenThem(t *testing.T) {
	ready := make([]uint64, 4*bearsMost)
	for i := range ready {
		ready[i] = uint64(i + 1)
	}
	tables := &tables{open: true, look: store.NodeLook{Ready: ready}}
	tables.of(t, firstLook+lookEvery/2, func(c *Counter) {
		tables.bears = func([]uint64) error {
			if tables.look.Ready = nil; len(tables.counted) == 0 {
				c.Ended(7)
			}
			return nil
		}
	})
	first := slices.Index(tables.sent, "bear")
	if got := fmt.Sprint(tables.sent[first:][:5]); got != "[bear count bear bear bear]" || !slices.Equal(tables.born, ready) {
		t.Errorf("%d jobs were added, in the order %s", len(tables.born), got)
	}
}

func TestAFlowWhoseNodesSomebodyHasLockedHoldsUpNoOther(t *testing.T) {
	locked := uint64(5)
	at := tables{fails: func(nodes []uint64, _ int) error {
		if slices.ContainsFunc(nodes, func(n uint64) bool { return store.FlowOf(n) == locked }) {
			return context.DeadlineExceeded
		}
		return nil
	}}
	at.of(t, time.Second, func(c *Counter) {
		for flow := range uint64(16) {
			c.Ended(store.NodeID(flow, 0))
		}
	})
	if len(at.counted) != 15 {
		t.Errorf("%d of 15 were counted", len(at.counted))
	}
}

func TestWhatSomebodyHasLockedForAMomentIsCountedSoon(t *testing.T) {
	at := tables{busy: 3}
	at.of(t, 200*time.Millisecond, func(c *Counter) { c.Ended(store.NodeID(3, 1), store.NodeID(4, 1)) })
	if len(at.counted) != 2 || at.times("count") != 4 {
		t.Error(at.counted, at.sent)
	}
}

// errRefused is an answer of SQLite.
var errRefused = errors.New("constraint failed: not this type (1811)")

func TestABirthThatIsRefusedIsNotedAndHoldsUpNoOther(t *testing.T) {
	bad := store.NodeID(3, 2)
	at := tables{fails: func(_ []uint64, bears int) error {
		if bears > 0 {
			return errRefused
		}
		return nil
	}, bears: func(nodes []uint64) error {
		if slices.Contains(nodes, bad) {
			return errRefused
		}
		return nil
	}}
	at.of(t, time.Second, func(c *Counter) { c.Ended(bad-1, bad, bad+1) })
	if !slices.Equal(at.born, []uint64{bad - 1, bad + 1}) || !slices.Equal(at.refused, []uint64{bad}) {
		t.Errorf("born %v, refused %v", at.born, at.refused)
	}
	for _, err := range []error{context.DeadlineExceeded, errors.New("invalid connection"), errors.New("Error 1205 (HY000): Lock wait timeout exceeded")} {
		at.bears, at.refused = func([]uint64) error { return err }, nil
		if at.of(t, time.Second, func(c *Counter) { c.Ended(bad) }); len(at.refused) > 0 {
			t.Errorf("%v says nothing of the job, and it is refused", err)
		}
	}
}

func TestAFlowWhoseTimeHasComeIsTendedUntilThereIsNothingToDoForIt(t *testing.T) {
	tended := map[uint64]int{}
	at := tables{open: true, look: store.NodeLook{Due: []uint64{3, 4, 5}}, tends: func(flow uint64) (store.Tended, error) {
		switch tended[flow]++; {
		case flow == 3:
			return store.Tended{}, errRefused
		case flow == 4: // again and again
			return store.Tended{Again: true}, nil
		case tended[flow] == 1:
			return store.Tended{Again: true, Ended: []uint64{store.NodeID(5, 1)}}, nil
		}
		return store.Tended{Turned: true, Ready: []uint64{store.NodeID(5, 9)}}, nil
	}}
	at.of(t, firstLook+time.Millisecond, func(*Counter) {}) // one look
	if tended[3] != 1 || tended[4] != tendsMost || tended[5] != 2 {
		t.Error(tended)
	}
	if !slices.Equal(at.counted, []uint64{store.NodeID(5, 1)}) || !slices.Equal(at.born, []uint64{store.NodeID(5, 9)}) {
		t.Error(at.counted, at.born)
	}
}

func TestAFlowThatCannotBeTendedIsLeftAloneForAWhile(t *testing.T) {
	tended := 0
	at := tables{open: true, look: store.NodeLook{Due: []uint64{3}}, tends: func(uint64) (store.Tended, error) {
		tended++
		return store.Tended{}, errRefused
	}}
	at.of(t, time.Minute, func(*Counter) {})
	if tended < 4 || tended > 7 {
		t.Errorf("it was tended %d times in a minute", tended)
	}
}
