package faults

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// startLoadOn adds jobs through each of these ways alike, so many a second in all, until so many are committed. What one
// way cannot take, the others do.
func (x *trial) startLoadOn(dsns []string, jobs, perSecond int, w work) *load {
	x.Helper()
	return x.startLoadOfOn([]int32{1}, dsns, jobs, perSecond, w)
}

// startLoadOfOn is startLoadOn for jobs of these types.
func (x *trial) startLoadOfOn(types []int32, dsns []string, jobs, perSecond int, w work) *load {
	x.Helper()
	ctx, cancel := context.WithCancel(x.Context())
	l := &load{x: x, types: types, cancel: cancel, uncertain: map[uint64]bool{}}
	x.Cleanup(l.stop)
	for _, dsn := range dsns {
		db := dbtest.Open(x.T, "mysql", dsn)
		l.stopped.Go(func() {
			tick := time.NewTicker(time.Second * rowsPerTransaction * time.Duration(len(dsns)) / time.Duration(perSecond))
			defer tick.Stop()
			for l.total() < jobs {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					l.addOneByOne(db, w)
				}
			}
		})
	}
	return l
}

// ways are where business code adds jobs: on each node that takes writes.
func (c *cluster) ways() (dsns []string) {
	for i := range c.nodes {
		if c.oneWriter {
			dsns = append(dsns, c.balanced("root", i))
		} else {
			dsns = append(dsns, c.only("root", i))
		}
	}
	return dsns
}

// total is how many jobs have been committed.
func (l *load) total() (n int) {
	l.note(func() { n = len(l.committed) })
	return n
}

// addOneByOne is a transaction that asks for the id of each row: how far apart the ids of one INSERT are changes with
// the number of nodes. It returns the ids if it knows that they were committed.
func (l *load) addOneByOne(db *sql.DB, w work) (ids []uint64) {
	// It is not cut off with the load: nobody would know what came of it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		l.note(func() { l.failed++ })
		return nil
	}
	defer tx.Rollback()
	jobType := l.types[rand.N(len(l.types))]
	for range rowsPerTransaction {
		id, err := l.x.insert(ctx, tx, jobType, 1, w)
		if err != nil {
			l.note(func() { l.failed++ })
			return nil
		}
		ids = append(ids, id...)
	}
	if err := tx.Commit(); err != nil {
		l.note(func() {
			l.failed++
			for _, id := range ids {
				l.uncertain[id] = true
			}
		})
		return nil
	}
	l.note(func() {
		l.committed = append(l.committed, ids...)
		l.slowest = max(l.slowest, time.Since(began))
	})
	return ids
}
