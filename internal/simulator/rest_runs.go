package simulator

import (
	"context"

	"github.com/create-info/persistent-queue/internal/store"
)

// restRuns is what somebody has told of what handlers have under a rest.
type restRuns struct {
	turn int64
	of   store.RestRuns
}

func (t *Table) WriteRestRuns(ctx context.Context, rest string, _ int, turn int64, runs store.Runs) error {
	return carryOut(ctx, t, writeRestRuns, about{note: rest}, func() error {
		if t.rests[rest].turn > turn {
			return nil
		}
		told := restRuns{turn, store.RestRuns{Jobs: map[uint32]int{}, Keys: map[uint32]int{}}}
		for _, id := range runs.Jobs {
			told.of.Jobs[store.HashOfJob(id)]++
		}
		for _, key := range runs.Keys {
			told.of.Keys[store.HashOfKey(key)]++
		}
		t.rests[rest] = told
		return nil
	})
}

func (t *Table) DropRestRuns(ctx context.Context, rest string, _ int) error {
	return carryOut(ctx, t, dropRestRuns, about{note: rest}, func() error {
		delete(t.rests, rest)
		return nil
	})
}

func (t *Table) RestRuns(ctx context.Context, rests []string) (map[string]store.RestRuns, error) {
	return do(ctx, t, readRestRuns, about{note: joined(rests)}, func() (map[string]store.RestRuns, error) {
		of := map[string]store.RestRuns{}
		for _, rest := range rests {
			if told, there := t.rests[rest]; there {
				of[rest] = told.of
			}
		}
		return of, nil
	})
}
