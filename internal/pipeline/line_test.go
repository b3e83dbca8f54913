package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// silent is a log that nobody reads.
type silent struct{}

func (silent) GetNewContext(string) context.Context { return context.Background() }
func (silent) Info(context.Context, string)         {}
func (silent) Warn(context.Context, string)         {}
func (silent) Error(context.Context, string)        {}
func (silent) Debug(context.Context, string)        {}

// lineOf returns a line that no loop works.
func lineOf(limit int) *Line {
	l, err := lineIn(processOf(silent{}), queue_job.Config{ServiceName: "test", LostLimit: 3, QueueMaxSize: limit})
	if err != nil {
		panic(err)
	}
	return l
}

func lineIn(p *Process, cfg queue_job.Config) (*Line, error) {
	return New(p, cfg, Part{JobType: cfg.JobType, Layout: share.Undivided}, nil, find.NewBacklog(0, 0))
}

func processOf(log logger.Logger) *Process {
	p := &Process{Log: log, Permit: NewPermit(), Clock: &ground.Clock{}, Reads: &find.Reads{}, OnLost: func(string, error) {}}
	p.Errlog = ground.NewErrlog(log, context.Background(), nil)
	return p
}

var lease = &keeper.Lease{Term: 7}

// offer offers a row to the line under a lease.
func (l *Line) offer(lease *keeper.Lease, row *store.Row) bool {
	return l.sink(lease).Offer(row)
}

func TestARowWithoutRoomIsLeftToTheLoader(t *testing.T) {
	l := lineOf(1)
	if !l.offer(lease, &store.Row{ID: 1}) || l.backlog.Behind() {
		t.Fatal("no room for the first row")
	}
	if l.offer(lease, &store.Row{ID: 2}) || !l.backlog.Behind() {
		t.Fatal("the loader does not hear of the second row")
	}
}

func TestAJobRunsAgainThenAloneThenFailsAsItsProcessesDie(t *testing.T) {
	for _, c := range []struct {
		name string
		row  store.Row
		want string
	}{
		{"never lost", store.Row{ID: 1}, "among others"},
		{"lost for the first time", store.Row{ID: 1, Term: 5}, "among others"},
		{"lost for the second time", store.Row{ID: 1, Term: 5, Lost: 1}, "alone"},
		{"lost twice, and put back since", store.Row{ID: 1, Lost: 2}, "alone"},
		{"failed for that, and set back by hand", store.Row{ID: 1, Lost: 3}, "alone"},
		{"lost for the third time", store.Row{ID: 1, Term: 5, Lost: 2}, "failed"},
		{"marked by this very term", store.Row{ID: 1, Term: 7, Lost: 2}, "alone"},
	} {
		l := lineOf(9)
		for range 2 { // a row that is read twice is one row
			if !l.offer(lease, &c.row) {
				t.Fatal("no room")
			}
		}
		got := map[string]int{"among others": len(l.queue.picked(1e15, 9)), "alone": len(l.queue.suspects), "failed": l.Unwritten()}
		if got[c.want] != 1 || got["among others"]+got["alone"]+got["failed"] != 1 {
			t.Errorf("%s: %v, want it %s", c.name, got, c.want)
		}
	}
}

func TestARowThatIsShownWithOurTermAfterItWasSettledWaitsIfStatementsHaveFailed(t *testing.T) {
	calm := lineOf(9)
	if !calm.offer(lease, &store.Row{ID: 1, Term: lease.Term, Attempts: 1}) || len(calm.queue.picked(calm.process.Clock.Now(), 9)) != 1 {
		t.Error("a row that was set back by hand waits")
	}
	l := lineOf(9)
	l.process.Errlog.On(t.Context(), "settle", errors.New("invalid connection"))
	if !l.offer(lease, &store.Row{ID: 1, Term: lease.Term, Attempts: 1}) || !l.offer(lease, &store.Row{ID: 2, Term: lease.Term - 1, Attempts: 1}) {
		t.Fatal("no room")
	}
	now := l.process.Clock.Now()
	if picked := l.queue.picked(now+1000, 9); len(picked) != 1 || picked[0].row.ID != 2 {
		t.Errorf("after a second, %d rows are picked, want the one of an earlier term", len(picked))
	}
	if picked := l.queue.picked(now+4000, 9); len(picked) != 1 || picked[0].row.ID != 1 {
		t.Errorf("after four seconds, %d rows are picked, want the one of our term", len(picked))
	}
}

func TestAnOutcomeWaitsUntilItIsWrittenAndAFailedOneLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineOf(9)
		for id := range uint64(5) {
			l.settler.add(ended(id+1), verdict{status: queue_job.JobStatusSuccess}, 0)
		}
		take := func(want ...uint64) []*outcome {
			t.Helper()
			batch := l.settler.taken()
			if got := idsOf(tasksOf(batch)); !slices.Equal(got, want) {
				t.Fatalf("%d are taken, want %d", got, want)
			}
			return slices.Clone(batch)
		}
		l.settler.rows = 3
		first := take(1, 2, 3)
		term := first[0].act.term
		first[1].tries, first[1].cut = againFinds+1, true
		l.settler.keep(unwritten{tried: first[:2], cut: time.Second}) // 3 is written
		if n := l.settler.unwritten.Load(); n != 4 || !l.settler.owes(term) {
			t.Fatalf("%d waiting", n)
		}
		take(1) // apart from the others, and by turns; the one that was tried least goes first
		l.settler.keep(unwritten{})
		l.settler.rows = 1
		take(4)
		l.settler.keep(unwritten{})
		l.settler.keep(unwritten{tried: take(2), cut: time.Second})
		take(5)
		l.settler.keep(unwritten{})
		time.Sleep(lockedLooks - 1)
		if _, in := l.settler.take(time.Time{}); in != 1 {
			t.Errorf("it is sent again in %v", in)
		}
		time.Sleep(time.Nanosecond)
		take(2)
	})
}

func TestAlikeVerdictsForDifferentReasonsAreWrittenTogetherAndLoggedApart(t *testing.T) {
	l := lineOf(9)
	for id, reason := range []string{"timeout", "refused"} {
		l.settler.add(ended(uint64(id)), verdict{status: queue_job.JobStatusFailed, reason: reason}, 0)
	}
	one, other := l.settler.pending[0], l.settler.pending[1]
	if one.act != other.act || one.log.Error != "timeout" || other.log.Error != "refused" {
		t.Fatalf("%+v, %+v", one, other)
	}
}
