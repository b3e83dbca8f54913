package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Otherwise a type whose workers are all busy would stand still when its process dies, until the rest has ended.
func TestWhatTheBuriedMayStillRunTakesNoWorkersAndKeepsItsRows(t *testing.T) {
	c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
	rest := share.Rest{Name: "rest-7-64", JobType: 7, Layout: share.Undivided, Term: 64, Instance: "bbbbbbbbbbbb", Running: 5}
	for _, buried := range []bool{false, true} {
		rest.Buried = buried
		r := c.seats.All()[0].remains([]share.Rest{rest}, "aaaaaaaaaaaa", nil)
		want := 5
		if buried {
			want = 0
		}
		if len(r.Terms) != 1 || r.Terms[0] != 64 || len(r.Elsewhere) != 1 || r.Running != want {
			t.Errorf("buried %v: %+v", buried, r)
		}
	}
}

// lives is a table in which a life begins whenever somebody asks for it.
type lives struct {
	leases
	owner string // of the last one
	rises int
}

func (l *lives) Rise(_ context.Context, _, owner string, _, _, _ int64) error {
	l.owner = owner
	l.rises++
	return nil
}

func (l *lives) Beat(context.Context, string, string, int64, int64, int64) (bool, error) {
	return true, nil
}

func (*lives) SeeLeases(_ context.Context, names []string) ([]store.Seen, error) {
	return []store.Seen{{Name: names[0], Free: true}}, nil
}

func (*lives) TakeLeases(_ context.Context, names []string, _ string, _, _ int64, _ bool) (map[string]int64, error) {
	return map[string]int64{names[0]: 64}, nil
}

// What it runs is to be counted again; and it says so no longer than it has something for which it has to live.
func TestWhoeverWasBuriedAliveIsHeardOfAgainAsLongAsItRunsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, table := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7}), &lives{}
		k := keeper.New(t.Context(), table, "shop@host/1", "a1b2c3d4e5f6", func(error) {})
		k.BeatThrough(table, func(error) {}, c.Wake)
		c.process.Keeper = k
		if err := k.Rise(t.Context()); err != nil {
			t.Fatal(err)
		}
		taken, err := k.Take(t.Context(), []keeper.Want{{Name: "job-7", Lock: time.Minute, Governed: true, Once: true}})
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		c.heedLife(t.Context())
		if table.rises != 1 {
			t.Errorf("%d lives, and the first one goes on", table.rises)
		}
		seen := []store.Seen{{Name: share.Life(k.ID()), Owner: table.owner, Running: store.Buried}}
		if _, err := k.Evict(t.Context(), seen); err != nil || k.Lives() {
			t.Fatal("it does not know that it was buried", err)
		}
		if c.heedLife(t.Context()); table.rises != 2 || !k.Lives() || !taken[0].Over() {
			t.Errorf("%d lives; it lives: %v, and its lease is of an earlier life: %v", table.rises, k.Lives(), taken[0].Over())
		}
		k.Release(t.Context(), taken[0])
		c.heedLife(t.Context())
		time.Sleep(unneededFor)
		if c.heedLife(t.Context()); k.Lives() {
			t.Error("it goes on to say that it lives, and has nothing for which it has to")
		}
	})
}

// stuck is a table in which somebody has locked what the dead have.
type stuck struct{ leases }

func (*stuck) CopyLeases(ctx context.Context, _ []store.Copy) error {
	<-ctx.Done()
	return ctx.Err()
}

// If a locked row of the dead ended each look, nobody would take the leases that are free.
func TestWhatTheDeadHaveHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7})
		c.process.Keeper = keeper.New(t.Context(), &stuck{}, "shop@host/1", "a1b2c3d4e5f6", func(error) {})
		const dead = "shop@other/1#bbbbbbbbbbbb."
		seen := []store.Seen{
			{Name: share.Life("bbbbbbbbbbbb"), Owner: dead + share.Taking(1, time.Minute), Running: store.Buried},
			{Name: "job-8", Owner: dead + share.Governed(share.Taking(2, time.Minute)), Term: 64, Layout: 1, Left: 50},
		}
		ctx, cancel := context.WithTimeout(t.Context(), takeMax)
		defer cancel()
		began := time.Now()
		if again := c.bury(ctx, seen); again || seen[1].Free || ctx.Err() != nil || time.Since(began) == 0 {
			t.Errorf("again: %v, after %v; the lease of the dead: %+v", again, time.Since(began), seen[1])
		}
	})
}

// log keeps what is written.
type log struct {
	logger.QueueLog
	lines []string
}

func (l *log) Warn(_ context.Context, text string) { l.lines = append(l.lines, text) }

// burials notes who was buried.
type burials struct {
	LeaseLog
	all []keeper.Burial
}

func (b *burials) Buried(of keeper.Burial, _ int64) { b.all = append(b.all, of) }

func TestWhoeverBuriesSaysWhomAfterWhichSilenceAndWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, said, noted := coordinatorOf(t, Tables{}, queue_job.Config{JobType: 7}), &log{}, &burials{}
		c.process.Log, c.process.LeaseLog = said, noted
		c.tellBurials(nil)
		b := keeper.Burial{Life: share.Life("bbbbbbbbbbbb"), Owner: "shop@other/1#bbbbbbbbbbbb.0100010", Term: 1, Beat: c.process.Clock.Now() - 2640}
		c.tellBurials([]keeper.Burial{b, {Life: share.Life("cccccccccccc"), Owner: "shop@third/2#cccccccccccc.0100010", Beat: b.Beat}})
		if len(said.lines) != 1 || !strings.Contains(said.lines[0], "buried shop@other/1 (bbbbbbbbbbbb), not heard of for 2.6s; shop@third/2 (cccccccccccc), not heard") ||
			!strings.Contains(said.lines[0], "if that process was alive: ") {
			t.Errorf("%q", said.lines)
		}
		if len(noted.all) != 2 || noted.all[0] != b {
			t.Errorf("%+v", noted.all)
		}
	})
}
