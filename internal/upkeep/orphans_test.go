package upkeep

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/logger"
)

// unrun is a table in which each type has the same number of overdue jobs, but for one that has none.
type unrun struct {
	leases []record.TypeLease
	others []int32
	none   int32
	jobs   int
	known  []int32 // what it was told
}

func (u *unrun) TypeLeases(context.Context, int64) ([]record.TypeLease, error) { return u.leases, nil }

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

// orphansLog is what a look at the table says, line by line. The line has left some jobs alone.
func orphansLog(t *testing.T, u *unrun, l *fakeLine) []string {
	t.Helper()
	var text bytes.Buffer
	b, i := baseOf(t, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}, l)
	i.hold(l, 3)
	if _, err := Orphans(b, u, u).inTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(text.String()))
}

func TestTypesThatAreRunSomewhereAreKnown(t *testing.T) {
	u := &unrun{leases: []record.TypeLease{{JobType: 4, Lately: true}, {JobType: 5}}}
	if lines := orphansLog(t, u, &fakeLine{jobType: 1}); len(lines) != 0 || !slices.Equal(u.known, []int32{1, 4}) {
		t.Errorf("known are %v; said: %q", u.known, lines)
	}
}

func TestOfManyTypesThatNobodyRunsTheLogHasTheFirstAndTheNumberOfTheOthers(t *testing.T) {
	u := &unrun{none: 40, jobs: OrphansMax}
	for jobType := range int32(26) {
		u.others = append(u.others, 30+jobType)
	}
	lines := orphansLog(t, u, &fakeLine{jobType: 1})
	if len(lines) != orphansTypesTold+1 || !strings.Contains(lines[0], "at least 10000 jobs of type 30 wait in vain") || !strings.Contains(lines[1], "jobs of type 31 (export) wait in vain") || !strings.Contains(lines[orphansTypesTold], "the jobs of 5 further types") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		if strings.Contains(line, "type 40 ") || !strings.Contains(line, "level=ERROR") {
			t.Error(line)
		}
	}
}

func TestWhatIsLeftAloneIsCountedAnew(t *testing.T) {
	for _, c := range []struct{ before, now, want int }{
		{0, 3, 0}, // there were none, so nobody counts
		{5, 0, 0}, // they are cancelled
		{5, 1, 1},
	} {
		l := &fakeLine{jobType: 1, leftAlone: c.before}
		if lines := orphansLog(t, &unrun{jobs: c.now}, l); l.leftAlone != c.want || len(lines) > 0 {
			t.Errorf("%d before, %d now: %d; the log says %q", c.before, c.now, l.leftAlone, lines)
		}
	}
}
