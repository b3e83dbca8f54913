package faults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// load is business code that goes on while things break: it adds jobs in transactions of ten, by a way of its own to
// the database, and remembers which of them were committed.
type load struct {
	x       *trial
	types   []int32 // of the jobs; a transaction adds jobs of one of them
	cancel  context.CancelFunc
	stopped sync.WaitGroup

	mu          sync.Mutex
	committed   []uint64
	begunAt     map[uint64]time.Time // of the committed: before their INSERT was sent
	committedAt map[uint64]time.Time
	rolledBack  []uint64
	uncertain   map[uint64]bool // the answer to the COMMIT was lost
	slowest     time.Duration   // transaction
	heldUp      time.Duration   // for how long the fault itself keeps business code waiting
	failed      int             // transactions that could not be, while the server was away
}

const rowsPerTransaction = 10

// startLoad adds so many jobs a second. Some part of the transactions is rolled back.
func (x *trial) startLoad(perSecond int, w work, rolledBack float64) *load {
	return x.startLoadOf([]int32{1}, perSecond, w, rolledBack)
}

// startLoadOf is startLoad for jobs of these types.
func (x *trial) startLoadOf(types []int32, perSecond int, w work, rolledBack float64) *load {
	ctx, cancel := context.WithCancel(x.Context())
	l := &load{x: x, types: types, cancel: cancel, begunAt: map[uint64]time.Time{}, committedAt: map[uint64]time.Time{}, uncertain: map[uint64]bool{}}
	x.Cleanup(l.stop)
	l.stopped.Go(func() {
		every(ctx, time.Second*rowsPerTransaction/time.Duration(perSecond), func() {
			l.transaction(w, rand.Float64() < rolledBack)
		})
	})
	return l
}

// every does something at a pace until ctx ends.
func every(ctx context.Context, pace time.Duration, do func()) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		do()
	}
}

// stop ends the load; no transaction is under way when it returns.
func (l *load) stop() {
	l.cancel()
	l.stopped.Wait()
}

func (l *load) transaction(w work, rollBack bool) { l.longTransaction(0, w, rollBack) }

// longTransaction stays open for so long between its INSERT and its end.
func (l *load) longTransaction(open time.Duration, w work, rollBack bool) {
	// It is not cut off with the load: nobody would know what came of it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	tx, err := l.x.db.BeginTx(ctx, nil)
	if err != nil {
		l.note(func() { l.failed++ })
		return
	}
	ids, err := l.x.insert(ctx, tx, l.types[rand.N(len(l.types))], rowsPerTransaction, w)
	time.Sleep(open)
	switch {
	case err != nil:
		tx.Rollback()
		l.note(func() { l.failed++ })
	case rollBack:
		tx.Rollback()
		l.note(func() { l.rolledBack = append(l.rolledBack, ids...) })
	default:
		err := tx.Commit()
		l.note(func() {
			if err == nil {
				l.committed = append(l.committed, ids...)
				for _, id := range ids {
					l.begunAt[id], l.committedAt[id] = began, time.Now()
				}
				l.slowest = max(l.slowest, time.Since(began)-open)
				return
			}
			l.failed++
			for _, id := range ids {
				l.uncertain[id] = true
			}
		})
	}
}

func (l *load) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
}

// insert adds jobs with one statement and returns their ids.
func (x *trial) insert(ctx context.Context, tx *sql.Tx, jobType int32, n int, w work) ([]uint64, error) {
	now := time.Now().Unix()
	row := fmt.Sprintf("('%s', %d, 0, 0, %d, %d)", w.params(), jobType, now, now)
	return x.dialect.insert(ctx, tx, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES "+
		strings.Repeat(row+", ", n-1)+row, n)
}
