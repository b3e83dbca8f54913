package faults

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Each of three nodes gives away every third id. So ids are missing behind each, and the tail cannot know that nobody
// will bring them.
func TestIdsInStepsOfThreeDelayNoStart(t *testing.T) {
	skipClusterInShort(t)
	const rounds, slower, bytesPerGap, gapsMax = 3, 20 * time.Millisecond, 50, 64
	c := newGalera(t)
	x := c.trial()
	x.dsn = c.only("root", 0)
	p := x.proxy()
	tails := watchTails(p)
	x.startWorker(workerSettings{DSN: x.through(p.address())})
	stepsOfOne := []string{x.dsn + "?auto_increment_increment=1&auto_increment_offset=1"}
	added := []struct {
		where   string
		by      []string
		moments []*moments
	}{
		{where: "on one node, in steps of one", by: stepsOfOne},
		{where: "on one node, in steps of three", by: []string{x.dsn}},
		{where: "on three nodes", by: c.ways()},
	}

	loads := []*load{x.addSingly(stepsOfOne, time.Second).load} // until all is warm
	idle := tails.last(gapsForgottenAfter)
	for range rounds {
		for i := range added {
			m := x.addSingly(added[i].by, 7*time.Second)
			added[i].moments, loads = append(added[i].moments, m), append(loads, m.load)
		}
	}
	idleAgain := tails.last(gapsForgottenAfter)

	o := x.conclude(time.Minute, loads...)
	x.stopWorkers()
	x.noDuplicates(o)
	var remark strings.Builder
	var p99s []time.Duration
	for _, a := range added {
		p50, p99 := x.toStart(a.moments)
		p99s = append(p99s, p99)
		fmt.Fprintf(&remark, "%s: commit to start p50 %v, p99 %v; ", a.where, ms(p50), ms(p99))
	}
	bound := p99s[0] + slower
	x.within(p99s[1], bound, "p99 of the start of a job added on one node in steps of three")
	x.within(p99s[2], bound, "p99 of the start of a job added on one of three nodes")
	if most := idle + gapsMax*bytesPerGap; tails.longest() > most {
		x.Errorf("the tail's statement grew to %d bytes, want at most %d", tails.longest(), most)
	}
	if idleAgain > idle+bytesPerGap {
		x.Errorf("the tail still asks for gaps when nothing was added for %v: %d bytes, %d before", gapsForgottenAfter, idleAgain, idle)
	}
	x.tell("ids in steps of three", rounds, o, max(p99s[1], p99s[2]), bound, "%sthe tail's statement has at most %d bytes, %d when idle", remark.String(), tails.longest(), idleAgain)
}

const gapsForgottenAfter = 3 * time.Second

// addSingly adds single jobs through each of these ways, and notes when each was committed.
func (x *trial) addSingly(dsns []string, span time.Duration) *moments {
	x.Helper()
	const perSecond = 300
	m := &moments{&load{x: x, cancel: func() {}}, map[uint64]time.Time{}}
	end := time.Now().Add(span)
	var all sync.WaitGroup
	for _, dsn := range dsns {
		db := dbtest.Open(x.T, "mysql", dsn)
		all.Go(func() {
			tick := time.NewTicker(time.Second * time.Duration(len(dsns)) / perSecond)
			defer tick.Stop()
			for ; time.Now().Before(end); <-tick.C {
				ids, err := x.insertAlone(x.Context(), db)
				if err != nil {
					x.Error(err)
					return
				}
				m.committedNow(ids...)
			}
		})
	}
	all.Wait()
	return m
}

func (x *trial) insertAlone(ctx context.Context, db *sql.DB) ([]uint64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	ids, err := x.insert(ctx, tx, 1, 1, work{})
	if err == nil {
		err = tx.Commit()
	}
	return ids, err
}

// toStart is how long after its commit a job has started, as the median of the rounds.
func (x *trial) toStart(rounds []*moments) (p50, p99 time.Duration) {
	first := map[uint64]time.Time{}
	for _, s := range x.starts() {
		if _, again := first[s.job]; !again {
			first[s.job] = s.at
		}
	}
	var p50s, p99s []time.Duration
	for _, m := range rounds {
		var list []time.Duration
		for id, at := range m.at {
			list = append(list, max(0, first[id].Sub(at)))
		}
		p50s, p99s = append(p50s, quantile(list, 50)), append(p99s, quantile(list, 99))
	}
	return quantile(p50s, 50), quantile(p99s, 50)
}

// tailWatch knows how long the statements of the tail are that come through a proxy.
type tailWatch struct {
	mu    sync.Mutex
	bytes []int
}

func watchTails(p *proxy) *tailWatch {
	w := &tailWatch{}
	p.intercept(func(c command) fate {
		if strings.Contains(c.text, "WHERE id >= ") {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.bytes = append(w.bytes, c.bytes)
		}
		return fate{}
	})
	return w
}

func (w *tailWatch) longest() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Max(w.bytes)
}

// last is the length of the last one, after a while.
func (w *tailWatch) last(after time.Duration) int {
	time.Sleep(after)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes[len(w.bytes)-1]
}
