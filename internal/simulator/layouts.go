package simulator

import (
	"context"
	"math"
	"strings"

	"github.com/create-info/persistent-queue/internal/store"
)

// closedUntil is the end of a lease that is closed: nobody lives to see it.
const closedUntil = math.MaxInt64 / 2

func (t *Table) Layout(_ context.Context, jobType int32) (int64, error) {
	return t.layouts[jobType], nil
}

func (t *Table) SetLayout(ctx context.Context, jobType int32, from, to int64) (bool, error) {
	return do(ctx, t, setLayout, ofLeases(leaseName(jobType)), func() (changed bool, err error) {
		if t.layouts[jobType] != from || from == to {
			return false, nil
		}
		t.layouts[jobType] = to
		return true, nil
	})
}

func (t *Table) MakeClosed(ctx context.Context, names []string, layout int64) error {
	return carryOut(ctx, t, makeClosed, ofLeases(names...), func() error {
		for _, name := range names {
			if _, ok := t.leases[name]; !ok {
				t.leases[name] = Lease{Until: closedUntil, Since: t.now(), Layout: -layout}
			}
		}
		return nil
	})
}

func (t *Table) CloseLeases(ctx context.Context, names []string, layout int64) error {
	return carryOut(ctx, t, closeLeases, ofLeases(names...), func() error {
		for _, name := range names {
			l, ok := t.leases[name]
			free := l.Layout > 0 && l.Layout < layout && l.Until <= t.now()
			if ok && !t.locked(name) && (free || l.Layout < 0 && l.Layout > -layout) {
				l.Layout, l.Owner, l.Until = -layout, "", closedUntil
				t.leases[name] = l
			}
		}
		return nil
	})
}

func (t *Table) CloseLease(ctx context.Context, name, owner string, layout int64) error {
	return carryOut(ctx, t, closeLease, ofLeases(name), func() error {
		if l, ok := t.leases[name]; ok && l.Owner == owner && l.Layout > 0 && l.Layout < layout {
			if t.locked(name) {
				return store.ErrLocked
			}
			l.Layout, l.Owner, l.Until = -layout, "", closedUntil
			t.leases[name] = l
		}
		return nil
	})
}

func (t *Table) OpenLeases(ctx context.Context, names []string, layout, term int64) error {
	return carryOut(ctx, t, openLeases, ofLeases(names...), func() error {
		for _, name := range names {
			if l, ok := t.leases[name]; ok && l.Layout == -layout {
				l.Layout, l.Term, l.Until = layout, max(l.Term, term), t.now()
				t.leases[name], t.freed[name] = l, true
			}
		}
		return nil
	})
}

// LeasesOf returns the rows of the leases of a job type, of whatever layout.
func (t *Table) LeasesOf(jobType int32) map[string]Lease {
	of := map[string]Lease{}
	for name, l := range t.leases {
		if whole, _, _ := strings.Cut(name, "/"); whole == leaseName(jobType) {
			of[name] = l
		}
	}
	return of
}
