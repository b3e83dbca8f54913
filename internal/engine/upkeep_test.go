package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheLogHearsHowManyJobsAreStillLeftAlone(t *testing.T) {
	for n, want := range map[int]string{
		0:                 "",
		1:                 "1 job left alone, and never run: due more than FirstPullDay = 7 days before the start",
		5:                 "5 jobs left alone",
		upkeep.OrphansMax: "at least 10000 jobs left alone",
	} {
		var text bytes.Buffer
		d := &database{process: *processOf(logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))})}
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

func TestALineSaysOnceWhatItHasCountedAndRemembersTheErrorsOfTheMinuteBefore(t *testing.T) {
	l := lineOf(10)
	count := func(reason string) {
		l.counts.start(time.Millisecond)
		l.counts.end(queue_job.JobStatusRetry, 0)
		l.counts.errors.note(&store.Attempt{Outcome: "retry", Error: reason})
	}
	errorsOf := func(e *store.Errors) int64 { return e.Runs() }
	count("no disk")
	if news := l.Ran(60, 120, 3); news.Counted() != 2 || errorsOf(&news.Errors) != 1 {
		t.Errorf("of the first minute: %+v", news)
	}
	if news := l.Ran(60, 120, 3); news.Counted() != 0 || errorsOf(&news.Errors) != 0 {
		t.Errorf("it says it twice: %+v", news)
	}
	count("no room")
	count("no room")
	minutes := l.State(0, 3).Minutes
	if len(minutes) != 2 || minutes[0].Begin != 60 || errorsOf(&minutes[0].Errors) != 1 || minutes[1].Begin != 120 || errorsOf(&minutes[1].Errors) != 2 {
		t.Errorf("the snapshot has %+v", minutes)
	}
	if minutes := l.State(0, 4).Minutes; len(minutes) > 0 {
		t.Errorf("under another term, it has %+v", minutes)
	}
	if news := l.Ran(120, 120, 3); news.Counted() != 4 || errorsOf(&news.Errors) != 2 {
		t.Errorf("of the second minute: %+v", news)
	}
}
