package pipeline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// slowLogs answers each statement after a second, or never if it hangs.
type slowLogs struct {
	hangs bool
	sent  []int // logs of each statement
}

func (s *slowLogs) KeepLogs(ctx context.Context, logs []store.Step, _ int32) error {
	s.sent = append(s.sent, len(logs))
	if s.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	time.Sleep(time.Second)
	return nil
}

func TestRunsThatEndAtTheSameTimeShareAStatementForTheirLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &slowLogs{}
		k := &logKeeper{rows: rows, turn: make(chan struct{}, 1)}
		var all sync.WaitGroup
		began := time.Now()
		for i := range 101 {
			all.Go(func() {
				if err := k.write(t.Context(), store.Step{JobID: uint64(i)}); err != nil {
					t.Error(err)
				}
			})
			if i == 0 {
				synctest.Wait() // its statement is under way
			}
		}
		all.Wait()
		if len(rows.sent) != 2 || rows.sent[0] != 1 || rows.sent[1] != 100 || time.Since(began) != 2*time.Second {
			t.Errorf("statements of %v, in %v", rows.sent, time.Since(began))
		}
	})
}

func TestALogIsGivenUpInTimeIfTheDatabaseDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &logKeeper{rows: &slowLogs{hangs: true}, turn: make(chan struct{}, 1)}
		var all sync.WaitGroup
		began := time.Now()
		for i := range 10 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), keepLogMax)
				defer cancel()
				if err := k.write(ctx, store.Step{JobID: uint64(i)}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > keepLogMax {
			t.Errorf("a run waits for %v", took)
		}
		if len(k.turn) != 0 {
			t.Error("nobody has the turn, and it is not free")
		}
	})
}
