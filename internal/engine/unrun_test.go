package engine

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
)

// unrun is a table in which each type has the same number of overdue jobs, but for one that has none.
type unrun struct {
	leases []store.TypeLease
	others []int32
	none   int32
	jobs   int
	known  []int32 // what it was told
}

func (u *unrun) TypeLeases(context.Context, int64) ([]store.TypeLease, error) { return u.leases, nil }

func (u *unrun) OtherTypes(_ context.Context, known []int32, limit int) ([]int32, error) {
	u.known = known
	return u.others, nil
}

func (u *unrun) CountDue(_ context.Context, jobType int32, _ int64, _ uint64, _ int) (int, error) {
	if jobType == u.none {
		return 0, nil
	}
	return u.jobs, nil
}

func (u *unrun) TypeNames(_ context.Context, types []int32) (map[int32]string, error) {
	return map[int32]string{31: "export"}, nil
}

func (u *unrun) TellSettings(context.Context, []store.TypeSettings) error { return nil }

func (u *unrun) NameTypes(context.Context, []store.TypeName) ([]store.TypeName, error) {
	return nil, nil
}

// unrunLog is what a look at the table says, line by line.
func unrunLog(t *testing.T, u *unrun, leftAlone int64) []string {
	t.Helper()
	var text bytes.Buffer
	log := logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}
	l := lineOf(10)
	l.cfg.JobType, l.cfg.FirstPullDay, l.log, l.about = 1, 7, log, context.Background()
	l.backlog.leftAlone.Store(leftAlone)
	lease := leaseIn(t)
	l.held.Store(lease)
	d := &database{tables: Tables{Unrun: u, Registry: u}, log: log, about: context.Background(), lines: linesOf(l)}
	if err := d.lookForUnrun(t.Context(), &ground.Looks{}, d.heldLines()); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(text.String()))
}

func TestTypesThatAreRunSomewhereAreKnown(t *testing.T) {
	u := &unrun{leases: []store.TypeLease{{JobType: 4, Lately: true}, {JobType: 5}}}
	if lines := unrunLog(t, u, 0); len(lines) != 0 || !slices.Equal(u.known, []int32{1, 4}) {
		t.Errorf("known are %v; said: %q", u.known, lines)
	}
}

func TestOfManyTypesThatNobodyRunsTheLogHasTheFirstAndTheNumberOfTheOthers(t *testing.T) {
	u := &unrun{none: 40, jobs: unrunJobsMax}
	for jobType := range int32(26) {
		u.others = append(u.others, 30+jobType)
	}
	lines := unrunLog(t, u, 0)
	if len(lines) != unrunTypesTold+1 || !strings.Contains(lines[0], "at least 10000 jobs of type 30 wait in vain") || !strings.Contains(lines[1], "jobs of type 31 (export) wait in vain") || !strings.Contains(lines[unrunTypesTold], "the jobs of 5 further types") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		if strings.Contains(line, "type 40 ") || !strings.Contains(line, "level=ERROR") {
			t.Error(line)
		}
	}
}

func TestWhatIsLeftAloneIsCountedAnew(t *testing.T) {
	for _, c := range []struct {
		before int64
		now    int
		want   string
	}{
		{0, 3, ""}, // there were none, so nobody counts
		{5, 0, ""}, // they are cancelled
		{5, 1, "1 job left alone, and never run: due more than FirstPullDay = 7 days before the start"},
	} {
		lines := unrunLog(t, &unrun{jobs: c.now}, c.before)
		if len(lines) > 1 || (c.want == "") != (len(lines) == 0) || len(lines) == 1 && !strings.Contains(lines[0], c.want) {
			t.Errorf("%d before, %d now: %q", c.before, c.now, lines)
		}
	}
}
