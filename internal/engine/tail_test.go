package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheTailNoticesThatTheIdsBeginAnew(t *testing.T) {
	row := func(id uint64, born int64) store.TailRow {
		return store.TailRow{Row: store.Row{ID: id, CreateTime: born}}
	}
	full := make([]store.TailRow, tailRowsMax)
	for _, c := range []struct {
		what  string
		above uint64
		born  int64
		rows  []store.TailRow
		same  bool
	}{
		{"an empty table from the beginning", 0, 0, nil, true},
		{"the newest row is there", 7, 100, []store.TailRow{row(7, 100)}, true},
		{"and newer ones", 7, 100, []store.TailRow{row(7, 100), row(8, 101)}, true},
		{"nobody has looked at it before", 7, 0, []store.TailRow{row(7, 100)}, true},
		{"it was deleted, and there are newer ones", 7, 100, []store.TailRow{row(8, 101)}, true},
		{"so many gaps were filled that it is not among them", 7, 100, full, true},
		{"nothing is there", 7, 100, nil, false},
		{"only what filled a gap", 7, 100, []store.TailRow{row(3, 100)}, false},
		{"another job has its id", 7, 100, []store.TailRow{row(7, 105)}, false},
	} {
		if same := (&tail{born: c.born}).sameTable(c.above, c.rows); same != c.same {
			t.Errorf("%s: %t", c.what, same)
		}
	}
}

// tailed notes which types the tail asks for.
type tailed struct {
	Jobs
	types []int32
}

func (j *tailed) Tail(_ context.Context, _ uint64, _ []store.Gap, wanted []store.Wanted, _ int64, _ int) ([]store.TailRow, error) {
	j.types = wanted[0].Types
	return nil, nil
}

func (*tailed) Newest(context.Context) (uint64, float64, error) { return 0, 1_700_000_000, nil }

// A driver that prepares statements knows them by their text: types in another order are another statement.
func TestTheTailAsksForItsTypesInTheirOrderHoweverTheyWereConfigured(t *testing.T) {
	jobs := &tailed{}
	var configs []queue_job.Config
	for _, jobType := range []int32{7, -3, 90, 12, 0} {
		configs = append(configs, queue_job.Config{JobType: jobType, WorkerPoolCapacity: 1, WorkerExpirySecond: 1, QueueMaxSize: 9, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
	}
	open := func(context.Context, queue_job.Config) (Tables, error) {
		return Tables{Jobs: jobs, Close: func() {}}, nil
	}
	d, err := openDatabase(t.Context(), open, configs, silent{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.pools.release(true)
	for _, l := range d.lines {
		l.held.Store(leaseIn(t))
	}
	if _, err := d.poll(d.heldLines(), false); err != nil || !slices.Equal(jobs.types, []int32{-3, 0, 7, 12, 90}) {
		t.Fatal(jobs.types, err)
	}
	for _, jobType := range jobs.types {
		if h := d.heldLines().of(jobType); h == nil || h.cfg.JobType != jobType {
			t.Errorf("no line of type %d", jobType)
		}
	}
	if d.heldLines().of(8) != nil {
		t.Error("a line of a type that nobody has")
	}
}

func TestNothingIsNewIfTheNewestRowIsTheOneThatWasSeenAndNoOther(t *testing.T) {
	row := func(id uint64, created int64) store.TailRow {
		return store.TailRow{Row: store.Row{ID: id, CreateTime: created}}
	}
	for _, c := range []struct {
		what  string
		above uint64
		rows  []store.TailRow
		want  bool
	}{
		{"the newest is there", 7, []store.TailRow{row(7, 100)}, true},
		{"the table was empty, and is", 0, nil, true},
		{"one came", 7, []store.TailRow{row(7, 100), row(8, 100)}, false},
		{"a gap was filled", 7, []store.TailRow{row(5, 100), row(7, 100)}, false},
		{"the newest was deleted", 7, nil, false},
		{"the newest was deleted, and one came", 7, []store.TailRow{row(8, 100)}, false},
		{"the table was truncated, and its ids have come as far", 7, []store.TailRow{row(7, 101)}, false},
		{"the first came", 0, []store.TailRow{row(1, 100)}, false},
	} {
		seen := tail{born: 100}
		if got := seen.nothingNew(c.above, c.rows); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
