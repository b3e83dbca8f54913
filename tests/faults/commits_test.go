package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestALateCommitIsFoundByTheNextSweep(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		bound := 2 * time.Second
		open := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
		if testing.Short() {
			open = []time.Duration{time.Second, 3 * time.Second, 8 * time.Second}
		}
		load := x.startLoad(300, work{MS: 5}, 0.3)
		x.startWorker(workerSettings{LockSecond: calmLock})
		x.startWorker(workerSettings{LockSecond: calmLock})
		holder := x.awaitHolder(time.Now())
		x.awaitStart(time.Now().Add(time.Second), 20*time.Second) // it is warm
		before := holder.askMemory()

		// Each commits into the past of the tail, or rolls back what it had opened a gap for.
		began, late := time.Now(), load.alongside()
		var transactions sync.WaitGroup
		for _, d := range open {
			transactions.Go(func() { late.stayOpen(d, false) })
			transactions.Go(func() { late.stayOpen(d, true) })
		}
		time.Sleep(open[len(open)-1] / 2)
		const far = 1 << 40
		prompt := load.alongside()
		prompt.commitFar(far)
		for range 30 { // their ids follow the jump
			prompt.commitRow()
			time.Sleep(100 * time.Millisecond)
		}
		transactions.Wait()

		o := x.conclude(time.Minute, load, late.load, prompt.load)
		after := holder.askMemory()
		if x.holder(1) != holder {
			x.Error("the lease has changed hands")
		}
		x.stopWorkers()
		x.noDuplicates(o)
		added := window{began, time.Now()}
		worstLate, worstPrompt := x.worstStart(late), x.worstStart(prompt)
		x.withinDuring(added, worstLate, bound, "the start of a job that was committed late")
		x.withinDuring(added, worstPrompt, time.Second, "the start of a job behind the jump of the ids")
		if last := prompt.load.committed[len(prompt.load.committed)-1]; last <= far {
			x.Errorf("the ids did not jump: %d", last)
		}
		if grown := after.heap - before.heap; grown > 8<<20 {
			x.Errorf("the heap has grown by %d bytes, from %d", grown, before.heap)
		}
		x.tell("late commits (1 s to 5 min), 30 % rollbacks, id jump of 2^40", 2*len(open), o, worstLate, bound,
			"after the jump at most %v; heap %d → %d KB; %d rolled back",
			worstPrompt.Round(time.Millisecond), before.heap>>10, after.heap>>10, len(load.rolledBack)+len(late.load.rolledBack))
	})
}

// moments are jobs whose commits the test times itself.
type moments struct {
	*load
	at map[uint64]time.Time // when the COMMIT had been answered
}

// alongside is business code beside the load, which the test steps through by hand.
func (l *load) alongside() *moments {
	return &moments{&load{x: l.x, cancel: func() {}}, map[uint64]time.Time{}}
}

// stayOpen adds jobs in a transaction that has read before, and then waits.
func (m *moments) stayOpen(d time.Duration, rollBack bool) {
	ctx := context.Background()
	tx, err := m.x.db.BeginTx(ctx, nil)
	if err != nil {
		m.x.Error(err)
		return
	}
	defer tx.Rollback()
	var n int
	err = tx.QueryRow("SELECT COUNT(*) FROM async_job_tab").Scan(&n)
	var ids []uint64
	if err == nil {
		ids, err = m.x.insert(ctx, tx, 1, rowsPerTransaction, work{MS: 5})
	}
	time.Sleep(d)
	switch {
	case err != nil:
	case rollBack:
		m.note(func() { m.rolledBack = append(m.rolledBack, ids...) })
		err = tx.Rollback()
	default:
		err = tx.Commit()
		m.committedNow(ids...)
	}
	if err != nil {
		m.x.Error(err)
	}
}

// commitRow adds one job.
func (m *moments) commitRow() {
	m.x.Helper()
	m.committedNow(m.x.addOne(1, work{}))
}

// commitFar adds one job with an id of its own choice, which is larger than all. Those of the next jobs follow it.
func (m *moments) commitFar(id uint64) {
	m.x.Helper()
	m.x.execute("INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time) VALUES (?, '{}', 1, 0, 0, UNIX_TIMESTAMP(), UNIX_TIMESTAMP())", id)
	m.committedNow(id)
	m.x.continueIDs()
}

// continueIDs lets the ids go on behind the largest one, which a row that was added by hand bears.
func (x *trial) continueIDs() {
	x.Helper()
	dbtest.ContinueIDs(x.T, dbtest.Database{Name: x.name, DB: x.db})
}

func (m *moments) committedNow(ids ...uint64) {
	m.note(func() {
		m.committed = append(m.committed, ids...)
		for _, id := range ids {
			m.at[id] = time.Now()
		}
	})
}

// worstStart is the longest time between the commit of one of the jobs and its first start.
func (x *trial) worstStart(m *moments) (worst time.Duration) {
	x.Helper()
	started := map[uint64]time.Time{}
	for _, s := range x.starts() {
		if _, again := started[s.job]; !again {
			started[s.job] = s.at
		}
	}
	for _, id := range sortedKeys(m.at) {
		at, ok := started[id]
		if !ok {
			x.Errorf("job %d was committed and has not started", id)
		}
		worst = max(worst, at.Sub(m.at[id]))
	}
	return worst
}
