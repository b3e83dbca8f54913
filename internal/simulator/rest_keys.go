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

func (t *Table) TellRestKeys(_ context.Context, rest string, _ int, turn int64, keys []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rests[rest].turn > turn {
		return nil
	}
	told := restKeys{turn, map[uint32]int{}}
	for _, key := range keys {
		told.of[store.HashOfKey(key)]++
	}
	t.rests[rest] = told
	return nil
}

func (t *Table) DropRestKeys(_ context.Context, rest string, _ int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rests, rest)
	return nil
}

func (t *Table) RestKeys(_ context.Context, rests []string) (map[string]map[uint32]int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := map[string]map[uint32]int{}
	for _, rest := range rests {
		if told, there := t.rests[rest]; there {
			of[rest] = told.of
		}
	}
	return of, nil
}

func (l *link) TellRestKeys(ctx context.Context, rest string, rows int, turn int64, keys []string) error {
	_, err := send(ctx, l, tellRestKeys, func(ctx context.Context) (struct{}, error) {
		l.world.judge.saw["told keys of a rest"]++
		return struct{}{}, l.world.table.TellRestKeys(ctx, rest, rows, turn, keys)
	}, about{note: rest})
	return err
}

func (l *link) DropRestKeys(ctx context.Context, rest string, rows int) error {
	_, err := send(ctx, l, dropRestKeys, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.world.table.DropRestKeys(ctx, rest, rows)
	}, about{note: rest})
	return err
}

func (l *link) RestKeys(ctx context.Context, rests []string) (map[string]map[uint32]int, error) {
	return send(ctx, l, readRestKeys, func(ctx context.Context) (map[string]map[uint32]int, error) {
		return l.world.table.RestKeys(ctx, rests)
	}, about{note: joined(rests)})
}
