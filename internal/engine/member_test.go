package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
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

// databaseAt is a database of which only the members matter.
func databaseAt(log logger.Logger, newestAtStart uint64) *database {
	d := &database{shared: pipeline.Process{Log: log, Clock: &ground.Clock{}, Reads: &find.Reads{}, Permit: pipeline.NewPermit()}}
	d.start.newest = newestAtStart
	return d
}

// FirstPullDay counts from the start: a type that is divided anew, or gets other limits, days later leaves alone what it did before.
func TestALineThatIsMadeLaterLeavesTheSameJobsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * 60 * 60
		d := databaseAt(silent{}, 50)
		now := func() { d.shared.Clock.Reading(float64(time.Now().Unix()), time.Now(), time.Now()) }
		now()
		d.start.at.Store(d.shared.Clock.Now())
		cut := time.Now().Unix() - 7*day
		for range 2 {
			m, err := d.newMember(queue_job.Config{JobType: 7, FirstPullDay: 7}, cluster.Spec{JobType: 7, Layout: share.Undivided})
			if err != nil {
				t.Fatal(err)
			}
			for age, want := range map[int64]bool{day: true, -1: false, -day: false} {
				if got := m.backlog.Abandoned(&store.Row{ID: 1, CreateTime: cut - age}); got != want {
					t.Errorf("%v after the start, what was due %d s before the cut: left alone %t", time.Since(time.UnixMilli(d.start.at.Load())), age, got)
				}
			}
			time.Sleep(10 * 24 * time.Hour)
			now()
		}
	})
}

func TestTheLogHearsHowManyJobsAreStillLeftAlone(t *testing.T) {
	for n, want := range map[int]string{
		0:                 "",
		1:                 "1 job left alone, and never run: due more than FirstPullDay = 7 days before the start",
		5:                 "5 jobs left alone",
		upkeep.OrphansMax: "at least 10000 jobs left alone",
	} {
		var text bytes.Buffer
		d := databaseAt(logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}, 0)
		m, err := d.newMember(queue_job.Config{FirstPullDay: 7}, cluster.Spec{Layout: share.Undivided})
		if err != nil {
			t.Fatal(err)
		}
		m.backlog.OnLeftAlone = func(int) {}
		m.backlog.LeaveAlone(8)
		m.backlog.OnLeftAlone = m.tellLeftAlone
		u := upkept{m}
		if _, _, any := u.LeftAlone(); !any {
			t.Fatal("there were some")
		}
		u.LogLeftAlone(n)
		if _, _, any := u.LeftAlone(); any != (n > 0) || !strings.Contains(text.String(), want) || (n == 0) != (text.Len() == 0) {
			t.Errorf("%d: the log says %s", n, &text)
		}
	}
}

func TestFirstPullDayIsCountedBackFromTheStartAndMinusOneIsNoLimit(t *testing.T) {
	const now = 1_700_000_000
	for days, want := range map[int]int64{-1: 0, 1: now - 86_400, 7: now - 7*86_400} {
		if got := abandonedBefore(days, now*1000+999); got != want {
			t.Errorf("%d days: %d, want %d", days, got, want)
		}
	}
}
