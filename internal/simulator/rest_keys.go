package simulator

import (
	"context"

	"github.com/create-info/persistent-queue/internal/store"
)

// restKeys is what somebody has told of the keys that handlers have under a rest.
type restKeys struct {
	turn int64
	of   map[uint32]int
}

func (t *Table) WriteRestKeys(ctx context.Context, rest string, _ int, turn int64, keys []string) error {
	return carryOut(ctx, t, writeRestKeys, about{note: rest}, func() error {
		if t.rests[rest].turn > turn {
			return nil
		}
		told := restKeys{turn, map[uint32]int{}}
		for _, key := range keys {
			told.of[store.HashOfKey(key)]++
		}
		t.rests[rest] = told
		return nil
	})
}

func (t *Table) DropRestKeys(ctx context.Context, rest string, _ int) error {
	return carryOut(ctx, t, dropRestKeys, about{note: rest}, func() error {
		delete(t.rests, rest)
		return nil
	})
}

func (t *Table) RestKeys(ctx context.Context, rests []string) (map[string]map[uint32]int, error) {
	return do(ctx, t, readRestKeys, about{note: joined(rests)}, func() (map[string]map[uint32]int, error) {
		of := map[string]map[uint32]int{}
		for _, rest := range rests {
			if told, there := t.rests[rest]; there {
				of[rest] = told.of
			}
		}
		return of, nil
	})
}
