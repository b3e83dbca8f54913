package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A handler runs on when its job is final: it sends a mail, or tidies up. Meanwhile one deploy follows the other. The key is busy until the
// handler has ended, whoever starts the jobs of the key by then.
func TestAKeyIsBusyUntilItsHandlerHasEndedOverDeploysAndAKill(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const limited, ordered, keys = int32(1), int32(2), 8
		deploys := repeat(20, 3)
		settings := workerSettings{Types: []int32{limited, ordered}, Ordered: []int32{ordered}, MaxPerKey: 1, Capacity: 20, LockSecond: renewedLock, NoRetry: true}
		perKey := 4 * (deploys + 4) // a deploy takes no longer than four of them, mostly
		for n := range perKey {
			for _, jobType := range settings.Types {
				x.addKeyed(jobType, keys, work{Do: []string{"outlive", "tidy"}[n%2]})
			}
		}
		x.startWorker(settings)
		x.startWorker(settings)
		x.awaitPresent(2)
		x.awaitStart(time.Now(), 20*time.Second)
		for range deploys {
			leaving := x.living()[0]
			since := time.Now()
			x.startWorker(settings)
			x.awaitPresent(3)
			x.awaitStart(since, 20*time.Second)
			x.endCleanly(leaving) // within which its handlers have ended, and the other processes have started others
		}
		killed := x.living()[0]
		at := map[*worker]time.Time{killed: time.Now()}
		killed.end(syscall.SIGKILL)
		next := x.startWorker(settings)
		x.await(time.Minute, "nothing starts after the kill", func() bool { return len(next.started()) > 0 })
		x.execute("UPDATE async_job_tab SET job_status = 5 WHERE job_status = 0 AND term = 0") // it would be hours
		o := x.conclude(time.Minute)
		x.stopWorkers()
		moved := x.keysThatMoved(at)
		if moved == 0 {
			x.Error("no key went from one process to another while its handler ran: this proves nothing")
		}
		x.outOfOrder(ordered, keys)
		x.tell("handlers outlive their jobs, over deploys and a SIGKILL", deploys+1, o, 0, 0, "%d times, the next job of a key started in another process than its last; MaxPerKey 1 and OrderedByKey; never two handlers of a key at a time", moved)
	})
}

// addKeyed adds a job for each key.
func (x *trial) addKeyed(jobType int32, keys int, w work) {
	x.Helper()
	now := time.Now().Unix()
	var rows []string
	for key := range keys {
		rows = append(rows, fmt.Sprintf("('%s', %d, 0, 0, %d, %d, 'key %d')", w.params(), jobType, now, now, key))
	}
	x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key) VALUES " + strings.Join(rows, ", "))
}

// keysThatMoved complains about handlers of a key that ran at a time. It counts how often the next one of a key started in another process, within
// a moment: it had waited for the last. A handler of a process that was killed ended then.
func (x *trial) keysThatMoved(killed map[*worker]time.Time) (moved int) {
	x.Helper()
	type typeKey struct {
		jobType int32
		key     string
	}
	keyOf := x.keys()
	by := map[typeKey][]start{}
	for _, s := range x.starts() {
		key := typeKey{s.jobType, keyOf[s.job]}
		by[key] = append(by[key], s)
	}
	if len(by) == 0 {
		x.Error("no handler of a key ran")
	}
	for key, starts := range by {
		slices.SortFunc(starts, func(a, b start) int { return a.at.Compare(b.at) })
		for i, next := range starts[1:] {
			last := starts[i]
			ended, ok := last.worker.endOf(last)
			if at, dead := killed[last.worker]; !ok && dead {
				ended, ok = at, true
			}
			switch {
			case !ok:
				x.Errorf("type %d, %s: job %d started in %s while job %d ran in %s", key.jobType, key.key, next.job, next.worker.name, last.job, last.worker.name)
			case next.at.Before(ended):
				x.Errorf("type %d, %s: job %d started in %s, %v before job %d ended in %s", key.jobType, key.key, next.job, next.worker.name, ended.Sub(next.at), last.job, last.worker.name)
			case next.worker != last.worker && next.at.Sub(ended) < outlives:
				moved++
			}
		}
	}
	return moved
}

// endOf is when a handler said that it ended.
func (w *worker) endOf(s start) (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.ends[oneRun{s.job, s.term}]
	return at, ok
}

// keys are the keys of all jobs.
func (x *trial) keys() map[uint64]string {
	x.Helper()
	rows, err := x.db.Query("SELECT id, COALESCE(job_key, '') FROM async_job_tab")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	keys := map[uint64]string{}
	for rows.Next() {
		var id uint64
		var key string
		if err := rows.Scan(&id, &key); err != nil {
			x.Fatal(err)
		}
		keys[id] = key
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return keys
}
