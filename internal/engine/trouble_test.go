package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

var errGone = errors.New("dial tcp: connection refused")

// vanishing is a database that answers until it is gone: it has one job of each type, which is due.
type vanishing struct {
	gone atomic.Bool
	sent atomic.Int64 // statements

	mu    sync.Mutex
	terms int64
}

func (v *vanishing) err() error {
	v.sent.Add(1)
	if v.gone.Load() {
		time.Sleep(time.Millisecond)
		return errGone
	}
	return nil
}

func (v *vanishing) Newest(context.Context) (uint64, float64, error) {
	return 0, float64(time.Now().UnixMilli()) / 1000, v.err()
}
func (v *vanishing) Tail(context.Context, uint64, []store.Gap, []store.Wanted, int64, int) ([]store.TailRow, error) {
	return nil, v.err()
}
func (v *vanishing) SweepAll(_ context.Context, types []int32, _ int64, _ int) (rows []store.Row, more bool, err error) {
	for _, jobType := range types {
		rows = append(rows, store.Row{ID: uint64(jobType), JobType: jobType, CreateTime: time.Now().Unix(), MaxRetries: store.NotSet})
	}
	return rows, false, v.err()
}
func (v *vanishing) Page(context.Context, int32, store.Shard, []store.Place, int64, int) ([][]store.Row, error) {
	return nil, v.err()
}
func (v *vanishing) ClampPriorities(context.Context, []int32) error { return v.err() }
func (v *vanishing) FirstOfKeys(context.Context, int32, []string, uint64, int64, uint64) (map[string]uint64, error) {
	return nil, v.err()
}
func (v *vanishing) Abandoned(context.Context, int32, store.Lane, int64, uint64) (store.Place, int, error) {
	return store.Place{}, 0, v.err()
}
func (v *vanishing) Mark(_ context.Context, ids []uint64, _ int64, _ store.Version, _, _ int64) (int, error) {
	return len(ids), v.err()
}
func (v *vanishing) MarkedRows(context.Context, []uint64, int64) ([]store.Marked, error) {
	return nil, v.err()
}
func (v *vanishing) Unlocked(_ context.Context, ids []uint64) ([]uint64, error) { return ids, v.err() }
func (v *vanishing) LongParams(context.Context, []uint64, int64) ([]store.RunParams, error) {
	return nil, v.err()
}
func (v *vanishing) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	return len(ids), v.err()
}
func (v *vanishing) LogAttempts(context.Context, []store.Attempt) error { return v.err() }
func (v *vanishing) Standings(context.Context, []uint64) ([]store.Standing, error) {
	return nil, v.err()
}
func (v *vanishing) Paused(context.Context) ([]int32, error) { return nil, v.err() }
func (v *vanishing) EndPauses(_ context.Context, types []int32) (int, error) {
	return len(types), v.err()
}

func (v *vanishing) SeeLeases(_ context.Context, names []string) (seen []store.Seen, err error) {
	for _, name := range names {
		seen = append(seen, store.Seen{Name: name, Free: true})
	}
	return seen, v.err()
}
func (v *vanishing) MakeLeases(context.Context, []string) error { return v.err() }
func (v *vanishing) TakeLeases(_ context.Context, names []string, _ string, _, _ int64, _ bool) (map[string]int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.terms++
	terms := map[string]int64{}
	for _, name := range names {
		terms[name] = v.terms
	}
	return terms, v.err()
}
func (v *vanishing) KeepLeases(_ context.Context, names, _ []string, _ int64, _ map[string]int) (map[string]time.Duration, error) {
	kept := map[string]time.Duration{}
	for _, name := range names {
		kept[name] = 0
	}
	return kept, v.err()
}
func (v *vanishing) RestRuns(context.Context, []string) (map[string]store.RestRuns, error) {
	return nil, v.err()
}

func (v *vanishing) RunningOfKeys(context.Context, int32, []string, []int64) (map[string]int, error) {
	return nil, v.err()
}
func (v *vanishing) Fleet(context.Context, []string) (store.Fleet, error) {
	return store.Fleet{Now: float64(time.Now().UnixMilli()) / 1000}, v.err()
}
func (v *vanishing) CloseLease(context.Context, string, string, int64) error { return v.err() }
func (v *vanishing) MoveLease(context.Context, string, string, int64, int64, int64, int) error {
	return v.err()
}
func (v *vanishing) NoteRunning(context.Context, string, string, int64, int) error { return v.err() }
func (v *vanishing) DropLease(context.Context, string, string) error               { return v.err() }
func (v *vanishing) EndedLeases(context.Context, []string) ([]string, error)       { return nil, v.err() }
func (v *vanishing) DropEnded(context.Context, []string) error                     { return v.err() }
func (v *vanishing) LayDown(context.Context, string, string) error                 { return v.err() }
func (v *vanishing) Wake(context.Context, []string) error                          { return v.err() }

func (v *vanishing) AbandonLeases(context.Context, []string, string) error { return v.err() }
func (v *vanishing) ReleaseLease(context.Context, string, string, time.Duration) (bool, error) {
	return true, v.err()
}

func (v *vanishing) Rise(context.Context, string, string, int64, int64, int64) error { return v.err() }
func (v *vanishing) Beat(context.Context, string, string, int64, int64, int64) (bool, error) {
	return true, v.err()
}
func (v *vanishing) BuryDead(context.Context, string, string, int64, int64, bool) (bool, error) {
	panic("nobody is buried")
}

func (v *vanishing) Bury(context.Context, string, string, int64, int64) (bool, error) {
	return true, v.err()
}
func (v *vanishing) CopyLeases(context.Context, []store.Copy) error       { return v.err() }
func (v *vanishing) FreeLeases(context.Context, []string, []string) error { return v.err() }

// counted is a log that counts its lines.
type counted struct {
	mu    sync.Mutex
	lines []string
}

func (c *counted) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, text)
}
func (c *counted) take() (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, c.lines = c.lines, nil
	return lines
}
func (c *counted) GetNewContext(string) context.Context { return context.Background() }
func (c *counted) Info(_ context.Context, text string)  { c.note(text) }
func (c *counted) Warn(_ context.Context, text string)  { c.note(text) }
func (c *counted) Error(_ context.Context, text string) { c.note(text) }
func (c *counted) Debug(context.Context, string)        {}

func TestAMinuteWithoutADatabaseIsTwelveLinesOfLogForTwoHundredTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, log := &vanishing{}, &counted{}
		tables := Tables{Jobs: v, Leases: v, Close: func() {}}
		var configs []queue_job.Config
		for jobType := range int32(200) {
			configs = append(configs, queue_job.Config{
				ServiceName: "test", JobType: jobType, LockSecond: 10, WorkerPoolCapacity: 2, WorkerExpirySecond: 60, QueueMaxSize: 100, LoadLimit: 100,
				HandleJobFunc: func(context.Context, *queue_job.Job) error { time.Sleep(50 * time.Millisecond); return nil },
			})
		}
		d, err := openDatabase(t.Context(), tables, configs, pipeline.Process{Log: log, Permit: pipeline.NewPermit()})
		if err != nil {
			t.Fatal(err)
		}
		d.begin()
		time.Sleep(20 * time.Second)
		log.take()

		v.gone.Store(true)
		time.Sleep(time.Minute)
		lines := log.take()
		if len(lines) == 0 || len(lines) > 12 {
			t.Errorf("%d lines in a minute:\n%s", len(lines), strings.Join(lines[:min(len(lines), 40)], "\n"))
		}
		if !strings.Contains(strings.Join(lines, "\n"), errGone.Error()) || !strings.Contains(strings.Join(lines, "\n"), "and 195 more: lease lost") {
			t.Errorf("the log does not say what is the matter:\n%s", strings.Join(lines, "\n"))
		}
		v.gone.Store(false)
		time.Sleep(10 * time.Second)
		again := 0
		for _, line := range log.take() {
			if strings.HasPrefix(line, "the database answers again after ") {
				again++
			}
		}
		if again != 1 {
			t.Errorf("%d lines say that it answers again", again)
		}
		if err := d.stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

var _ keeper.Leases = (*vanishing)(nil)
