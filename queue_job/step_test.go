package queue_job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

// stepTable is the table of the steps of one job.
type stepTable struct {
	hidden.Run
	mu    sync.Mutex
	rows  []store.Step
	reads int
	gone  bool   // the job is not the run's any more
	lost  []bool // of the next records: whether the answer gets lost, after it was written or before
}

func (s *stepTable) RecordStep(_ context.Context, step store.Step) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(s.lost) > 0 {
		err = errors.New("connection lost")
		written := s.lost[0]
		if s.lost = s.lost[1:]; !written {
			return false, err
		}
	}
	if s.gone {
		return false, err
	}
	for _, row := range s.rows {
		if row.Kind == step.Kind && row.Name == step.Name {
			return false, err
		}
	}
	s.rows = append(s.rows, step)
	return err == nil, err
}

func (s *stepTable) RecordStepThrough(ctx context.Context, _ conn.Handle, step store.Step) (bool, error) {
	return s.RecordStep(ctx, step)
}

func (s *stepTable) StepsOfRun(context.Context, conn.Handle, uint64) ([]store.Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.rows, nil
}

func (s *stepTable) EndWait(_ context.Context, step store.Step) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rows {
		if row := &s.rows[i]; row.Kind == step.Kind && row.Name == step.Name && row.Ended == 0 {
			row.Ended = time.Now().UnixMilli()
		}
	}
	return !s.gone, nil
}

func (s *stepTable) SetProgress(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}

func (s *stepTable) ForgetStray(context.Context, uint64, int64) error { return nil }

func (s *stepTable) Standings(context.Context, []uint64) ([]store.Standing, error) {
	if s.gone {
		return nil, nil
	}
	return []store.Standing{{ID: 1, Version: store.Version{Term: 7, Attempts: 1}}}, nil
}

func (s *stepTable) run(number int32) *Job {
	return &Job{Id: 1, JobType: 2, CreateTime: 3, Term: 7, number: number, by: &hidden.Runner{Rows: s, Millis: time.Time.UnixMilli}}
}

func returns[T any](value T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return value, nil }
}

func TestAFirstRunReadsNoStepsAndALaterOneReadsThemOnce(t *testing.T) {
	table, ctx := &stepTable{}, t.Context()
	first := table.run(1)
	for _, name := range []string{"a", "b"} {
		if v, err := Step(ctx, first, name, returns(name+"1")); v != name+"1" || err != nil {
			t.Fatal(v, err)
		}
	}
	if table.reads != 0 {
		t.Errorf("the first run has read %d times", table.reads)
	}
	second := table.run(2)
	for _, name := range []string{"b", "new", "a"} {
		want := name + "1"
		if v, err := Step(ctx, second, name, returns(name+"2")); err != nil || name != "new" && v != want || name == "new" && v != "new2" {
			t.Error(name, v, err)
		}
	}
	if table.reads != 1 {
		t.Errorf("the second run has read %d times", table.reads)
	}
}

func TestAJobWithAsManyStepsAsItMayHaveRunsAgain(t *testing.T) {
	table, ctx := &stepTable{}, t.Context()
	for number := range int32(2) {
		run := table.run(number + 1)
		for i := range StepsMax {
			if v, err := Step(ctx, run, fmt.Sprint(i), returns(number)); v != 0 || err != nil {
				t.Fatalf("run %d, step %d: %d, %v", number+1, i, v, err)
			}
		}
		if _, err := Step(ctx, run, "one more", returns(0)); !errors.Is(err, errStepsMax) {
			t.Errorf("run %d: %v", number+1, err)
		}
	}
}

func TestAStepWithoutItsAnswerIsRecordedOnce(t *testing.T) {
	for _, written := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table := &stepTable{lost: []bool{written, false}}
			calls := 0
			v, err := Step(t.Context(), table.run(1), "a", func(context.Context) (int, error) { calls++; return calls, nil })
			if v != 1 || err != nil || len(table.rows) != 1 {
				t.Error(written, v, err, table.rows)
			}
		})
	}
}

func TestAStepIsRecordedAfterTheEndOfItsContextAndNoneBeginsThen(t *testing.T) {
	table := &stepTable{}
	job := table.run(1)
	ctx, cancel := context.WithCancelCause(t.Context())
	v, err := Step(ctx, job, "a", func(context.Context) (int, error) { cancel(ErrCancelled); return 5, nil })
	if v != 5 || err != nil || len(table.rows) != 1 {
		t.Error(v, err, table.rows)
	}
	if _, err := Step(ctx, job, "b", returns(1)); !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
}

func TestARunHasOneStepOfAName(t *testing.T) {
	table, ctx := &stepTable{}, t.Context()
	job := table.run(1)
	broken := errors.New("broken")
	for range 2 { // what has failed may be called again
		if _, err := Step(ctx, job, "a", func(context.Context) (int, error) { return 0, broken }); err != broken {
			t.Error(err)
		}
	}
	func() {
		defer func() { recover() }()
		_, _ = Step(ctx, job, "a", func(context.Context) (int, error) { panic("at the disco") })
	}()
	_, err := Step(ctx, job, "a", func(ctx context.Context) (int, error) {
		_, err := Step(ctx, job, "a", returns(1)) // the same, under way
		return 1, err
	})
	if !errors.Is(err, ErrStepTwice) {
		t.Error(err)
	}
	if _, err := Step(ctx, job, "a", returns(1)); err != nil {
		t.Error(err)
	}
	if _, err := Step(ctx, job, "a", returns(1)); !errors.Is(err, ErrStepTwice) {
		t.Error(err)
	}
	for _, name := range []string{"", " a", strings.Repeat("x", 129), "a\x00"} {
		if _, err := Step(ctx, job, name, returns(1)); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// The transaction has the row, so what the run writes to it elsewhere would wait for the handler, which waits for that.
func TestARunWritesNothingElsewhereWhileTheTransactionOfAStepIsOpen(t *testing.T) {
	table, ctx := &stepTable{}, t.Context()
	job, tx := table.run(1), &endingTx{}
	if err := job.SetProgress(ctx, "before"); err != nil {
		t.Error(err)
	}
	if _, err := StepTx(ctx, job, tx, "a", returns(1)); err != nil {
		t.Fatal(err)
	}
	if err := job.SetProgress(ctx, "within"); !errors.Is(err, ErrCompleting) || !strings.Contains(err.Error(), "StepTx") {
		t.Error(err)
	}
	if _, err := Step(ctx, job, "b", returns(1)); !errors.Is(err, ErrCompleting) {
		t.Error(err)
	}
	tx.over = true
	if err := job.SetProgress(ctx, "after"); err != nil {
		t.Error(err)
	}
	if _, err := StepTx(ctx, job, nothingTx{}, "nobody sees its end", returns(1)); err != nil {
		t.Fatal(err)
	}
	if err := job.SetProgress(ctx, "perhaps after"); err != nil {
		t.Error(err)
	}
}

// endingTx is a transaction that says when it has ended.
type endingTx struct {
	nothingTx
	over bool
}

func (e *endingTx) IsOver() bool { return e.over }

func TestAStepWhoseValueCannotBeStoredIsNotDoneAgain(t *testing.T) {
	for _, value := range []any{strings.Repeat("x", StepValueMax), func() {}} {
		table, calls := &stepTable{}, 0
		do := func(context.Context) (any, error) { calls++; return value, nil }
		for run := range int32(2) {
			_, err := Step(t.Context(), table.run(run+1), "a", do)
			var asked *Outcome
			if !errors.Is(err, ErrStepValue) || !errors.As(err, &asked) || asked.Status != JobStatusFailed {
				t.Error(err)
			}
		}
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	}
	table := &stepTable{}
	if _, err := Step(t.Context(), table.run(1), "a", returns("text")); err != nil {
		t.Fatal(err)
	}
	if _, err := Step(t.Context(), table.run(2), "a", returns(1)); err == nil || !strings.Contains(err.Error(), "not of the type") {
		t.Errorf("the type has changed: %v", err)
	}
}

func TestAStepOfAnotherRunsJobIsNotOurs(t *testing.T) {
	table := &stepTable{gone: true}
	if _, err := Step(t.Context(), table.run(1), "a", returns(1)); !errors.Is(err, ErrNotOurs) || len(table.rows) != 0 {
		t.Error(err, table.rows)
	}
}

func TestASleepEndsTheRunUntilItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ctx := &stepTable{}, t.Context()
		job := table.run(1)
		err := job.Sleep(ctx, "night", 8*time.Hour)
		var asked *Outcome
		if !errors.As(err, &asked) || asked.Status != JobStatusContinue || asked.Wait != 8*time.Hour || asked.Deferred {
			t.Fatal(err)
		}
		if asleep, awaits := job.asleep(); asleep != asked || awaits || (behind{}).Ended(job) != JobStatusContinue {
			t.Error("the runner does not see that")
		}
		if _, err := Step(ctx, job, "a", returns(1)); !errors.Is(err, ErrAsleep) {
			t.Error(err)
		}
		if err := job.CompleteTx(ctx, nothingTx{}); !errors.Is(err, ErrAsleep) {
			t.Error(err)
		}
		time.Sleep(3 * time.Hour) // a retry by hand
		if err = table.run(2).Sleep(ctx, "night", 8*time.Hour); !errors.As(err, &asked) || asked.Wait != 5*time.Hour {
			t.Error(err)
		}
		time.Sleep(5*time.Hour - 200*time.Millisecond) // rows may be marked a little early
		woken := table.run(3)
		if err := woken.Sleep(ctx, "night", 8*time.Hour); err != nil {
			t.Error(err)
		}
		if _, err := Step(ctx, woken, "a", returns(1)); err != nil {
			t.Error(err)
		}
		_, err = Step(ctx, woken, "b", func(ctx context.Context) (int, error) { return 0, woken.Sleep(ctx, "in a step", time.Hour) })
		if !errors.Is(err, errInStep) {
			t.Error(err)
		}
		woken.by.Batch = true
		if err := woken.Sleep(ctx, "of a batch", time.Hour); !errors.Is(err, errNoBatch) {
			t.Error(err)
		}
	})
}

type nothingTx struct{ Executor }

func (nothingTx) Commit() error   { return nil }
func (nothingTx) Rollback() error { return nil }

func TestAWaitEndsTheRunUntilTheSignalComesOrItsTimeIsOver(t *testing.T) {
	for _, comes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			table, ctx := &stepTable{}, t.Context()
			_, came, err := Await[string](ctx, table.run(1), "approval", 48*time.Hour)
			var asked *Outcome
			if came || !errors.As(err, &asked) || asked.Status != JobStatusContinue || asked.Wait != 48*time.Hour || table.reads != 0 {
				t.Fatal(came, err, table.reads)
			}
			early := table.run(2)
			if _, _, err := Await[string](ctx, early, "approval", time.Hour); !errors.As(err, &asked) || asked.Wait != 48*time.Hour {
				t.Error(err)
			}
			if asleep, awaits := early.asleep(); asleep != asked || !awaits {
				t.Error("the runner does not see that it waits for a signal")
			}
			if _, err := Step(ctx, early, "a", returns(1)); !errors.Is(err, ErrAsleep) {
				t.Error(err)
			}
			time.Sleep(48*time.Hour - 200*time.Millisecond) // rows may be marked a little early
			if comes {
				table.rows[0].Value, table.rows[0].Ended = `"yes"`, time.Now().UnixMilli()
			}
			for run := int32(3); run < 5; run++ {
				answer, came, err := Await[string](ctx, table.run(run), "approval", time.Hour)
				if err != nil || came != comes || comes && answer != "yes" || !comes && answer != "" {
					t.Error(run, comes, answer, came, err)
				}
			}
		})
	}
}

// The signal comes while a run waits for the last second, and when it has read what earlier runs have recorded.
func TestAWaitDecidesByWhatTheTableSaysThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ctx := &stepTable{}, t.Context()
		if _, _, err := Await[int](ctx, table.run(1), "a", time.Minute); !errors.As(err, new(*Outcome)) {
			t.Fatal(err)
		}
		late := table.run(2)
		if _, err := Step(ctx, late, "reads", returns(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		table.rows[0].Value, table.rows[0].Ended = "5", time.Now().UnixMilli()
		if v, came, err := Await[int](ctx, late, "a", time.Minute); v != 5 || !came || err != nil {
			t.Error(v, came, err)
		}
		inTime := table.run(3)
		go func() {
			time.Sleep(500 * time.Millisecond)
			table.mu.Lock()
			defer table.mu.Unlock()
			for i := range table.rows {
				if row := &table.rows[i]; row.Name == "b" {
					row.Value, row.Ended = "6", time.Now().UnixMilli()
				}
			}
		}()
		if v, came, err := Await[int](ctx, inTime, "b", 900*time.Millisecond); v != 6 || !came || err != nil {
			t.Error(v, came, err)
		}
		if v, came, err := Await[int](ctx, inTime, "only looks", 0); v != 0 || came || err != nil {
			t.Error(v, came, err)
		}
		if _, _, err := Await[int](ctx, inTime, "b", 0); !errors.Is(err, ErrStepTwice) {
			t.Error(err)
		}
		if _, err := Step(ctx, inTime, "b", returns(1)); err != nil {
			t.Errorf("a step is not a signal of its name: %v", err)
		}
		_, err := Step(ctx, inTime, "c", func(ctx context.Context) (int, error) {
			v, _, err := Await[int](ctx, inTime, "d", 0)
			return v, err
		})
		if !errors.Is(err, errInStep) {
			t.Error(err)
		}
		table.gone = true
		if _, _, err := Await[int](ctx, table.run(4), "e", 0); !errors.Is(err, ErrNotOurs) {
			t.Error(err)
		}
	})
}
