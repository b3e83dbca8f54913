package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// flowJob is what the parameters of a job of a flow say.
type flowJob struct {
	Do    string `json:"do"`
	Flow  int    `json:"flow"`
	Node  int    `json:"node"`
	MS    int    `json:"ms"`
	Fails bool   `json:"fails"` // at its first attempt
}

// What a run notes of itself.
const (
	began    = "began"
	hasEnded = "ended" // well, before its outcome is written
	failed   = "failed"
)

// runFlowJob notes that it begins and how it ends, in the order in which that happens.
func runFlowJob(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	var f flowJob
	if err := json.Unmarshal([]byte(job.JobParams), &f); err != nil {
		return queue_job.Fail(err)
	}
	note := func(what string) error {
		_, err := db.ExecContext(context.WithoutCancel(ctx),
			fmt.Sprintf("INSERT INTO history (flow, node, job, what) VALUES (%d, %d, %d, '%s')", f.Flow, f.Node, job.Id, what))
		return err
	}
	if err := note(began); err != nil {
		return err
	}
	time.Sleep(time.Duration(f.MS) * time.Millisecond)
	if f.Fails && job.Attempt == 1 {
		if err := note(failed); err != nil {
			return err
		}
		return queue_job.Fail(errors.New("the first time"))
	}
	return note(hasEnded)
}

// flowsUnderFaults are flows that a trial adds, and what it does to them.
type flowsUnderFaults struct {
	*trial
	jobs *queue_job.Jobs
	dice *rand.Rand // of what is added

	mu        sync.Mutex
	flows     []addedFlow
	cancelled map[int]int // flows, and how many jobs they had then
	retried   int
}

type addedFlow struct {
	id              uint64
	after, afterEnd [][]int // by node
}

func TestFlowsLoseNoJobAndAddNoneTwiceThoughHoldersAreFrozenAndKilled(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		x.createHistory()
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		x.touched = map[uint64]bool{}
		f := &flowsUnderFaults{trial: x, jobs: jobs, dice: x.dice(), cancelled: map[int]int{}}
		settings := workerSettings{Types: []int32{1, 2, 3}, Capacity: 10, MaxOpenConns: 20}
		for range 3 {
			x.startWorker(settings)
		}
		stop := f.addEvery(time.Second / time.Duration(repeat(30, 15)))
		kills, freezes := f.strike(settings, repeat(30, 2))
		stop()
		f.awaitEnds(time.Duration(repeat(6, 2)) * time.Minute)
		o := x.conclude(time.Minute)
		x.stopWorkers() // and every run has come to its end
		nodes := f.areRight()
		x.tell("flows: SIGKILL and SIGSTOP of holders", kills+freezes, o, 0, 0,
			"%d kills, %d freezes of %v; %d flows of %d jobs, %d of them cancelled; 0 jobs lost, 0 added twice, each after all before it; %d flows stood, and were retried",
			kills, freezes, 2*lock, len(f.flows), nodes, len(f.cancelled), f.retried)
	})
}

func (x *trial) createHistory() {
	x.Helper()
	seq := "bigint NOT NULL AUTO_INCREMENT PRIMARY KEY"
	if x.name == "PostgreSQL" {
		seq = "bigserial PRIMARY KEY"
	}
	x.execute("CREATE TABLE history (seq " + seq + ", flow int NOT NULL, node int NOT NULL, job bigint NOT NULL, what varchar(10) NOT NULL)")
}

// addEvery adds flows of 5 to 20 jobs until it is stopped.
func (f *flowsUnderFaults) addEvery(every time.Duration) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for !isClosed(over) {
			f.add()
			time.Sleep(every)
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

func (f *flowsUnderFaults) add() {
	number, nodes := len(f.flows), 5+f.dice.IntN(16)
	added := addedFlow{after: make([][]int, nodes), afterEnd: make([][]int, nodes)}
	flow := queue_job.NewFlow("under faults", queue_job.FlowKey(fmt.Sprint(number)))
	for n := range nodes {
		job := flow.Job(fmt.Sprint(n), queue_job.AddModelJob{JobType: int32(1 + n%3), JobParams: flowJob{Do: "flow", Flow: number, Node: n,
			MS: f.dice.IntN(40), Fails: f.dice.IntN(50) == 0}})
		for range min(n, 1+f.dice.IntN(3)) {
			before := max(0, n-1-f.dice.IntN(4))
			switch {
			case slices.Contains(added.after[n], before) || slices.Contains(added.afterEnd[n], before):
			case f.dice.IntN(8) == 0:
				job.AfterEnd(fmt.Sprint(before))
				added.afterEnd[n] = append(added.afterEnd[n], before)
			default:
				job.After(fmt.Sprint(before))
				added.after[n] = append(added.after[n], before)
			}
		}
	}
	got, err := f.jobs.AddFlow(context.Background(), f.db, flow)
	if err != nil || got.Existed {
		f.Errorf("flow %d: %+v, %v", number, got, err)
	}
	added.id = got.Id
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flows = append(f.flows, added)
}

// strike freezes and kills workers by turns, cancels a flow after each, and retries those that stand.
func (f *flowsUnderFaults) strike(settings workerSettings, times int) (kills, freezes int) {
	dice := f.trial.dice()
	var thaws sync.WaitGroup
	defer thaws.Wait()
	frozen := map[*worker]time.Time{} // until when
	for n := range 2 * times {
		time.Sleep(time.Duration(500+dice.IntN(1500)) * time.Millisecond)
		w := f.holder(int32(1 + dice.IntN(3)))
		switch {
		case w == nil, n%2 == 0 && time.Now().Before(frozen[w]): // it holds its lease until that ends
		case n%2 == 0:
			freezes++
			f.freeze(w)
			frozen[w] = time.Now().Add(2 * lock)
			thaws.Go(func() {
				time.Sleep(2 * lock)
				w.signal(syscall.SIGCONT)
			})
			f.startWorker(settings)
		default:
			kills++
			w.end(syscall.SIGKILL)
			f.startWorker(settings)
		}
		f.mu.Lock()
		number := len(f.flows) - 1 - dice.IntN(10)
		f.mu.Unlock()
		f.cancel(number)
		f.retryStuck()
	}
	return kills, freezes
}

// cancel cancels a flow, and notes how many jobs it has from then on.
func (f *flowsUnderFaults) cancel(number int) {
	if number < 0 || f.cancelled[number] > 0 {
		return
	}
	f.mu.Lock()
	id := f.flows[number].id
	f.mu.Unlock()
	if _, err := f.jobs.CancelFlow(context.Background(), f.db, id); err != nil {
		f.Errorf("cancel flow %d: %v", number, err)
	}
	info := f.info(id)
	if info.State != queue_job.FlowCancelled { // it was done
		return
	}
	for _, job := range info.Jobs {
		if job.JobId > 0 {
			f.cancelled[number]++
			f.touched[job.JobId] = true
		}
	}
}

func (f *flowsUnderFaults) info(id uint64) *queue_job.FlowInfo {
	f.Helper()
	info, err := f.jobs.Flow(context.Background(), f.db, id)
	if err != nil {
		f.Fatal(err)
	}
	return info
}

// retryStuck has flows go on whose jobs have failed, and returns how many are open.
func (f *flowsUnderFaults) retryStuck() (open int) {
	f.Helper()
	ids := queryAll(f.trial, "SELECT id, '' FROM async_job_flow_tab WHERE state = 0", func(id uint64, _ string) uint64 { return id })
	for _, id := range ids {
		info := f.info(id)
		if !info.Stuck {
			continue
		}
		for _, job := range info.Jobs {
			if job.Status == queue_job.JobStatusFailed {
				f.touched[job.JobId] = true
			}
			if job.Gone || job.Problem != "" || job.Status == queue_job.JobStatusCancelled {
				f.Errorf("flow %d stands, and nobody has cancelled or deleted anything of it: %+v", id, job)
			}
		}
		if n, err := f.jobs.RetryFlow(context.Background(), f.db, id); err != nil || n == 0 {
			f.Errorf("flow %d stands without a cause: %+v, %v", id, info, err)
		}
		f.retried++
	}
	return len(ids)
}

func (f *flowsUnderFaults) awaitEnds(within time.Duration) {
	f.Helper()
	f.await(within, "flows are open", func() bool { return f.retryStuck() == 0 })
}

// areRight holds that each job of each flow was added once, ran, and began behind the ends of those before it. It returns how many there are.
func (f *flowsUnderFaults) areRight() (nodes int) {
	f.Helper()
	type node struct{ flow, node int }
	rows := map[node]int{}
	for _, n := range queryAll(f.trial, "SELECT id, params FROM async_job_tab", func(_ uint64, params string) node {
		var of flowJob
		if err := json.Unmarshal([]byte(params), &of); err != nil {
			f.Error(err)
		}
		return node{of.Flow, of.Node}
	}) {
		rows[n]++
	}
	type note struct {
		seq  uint64
		what string
	}
	notes := map[node][]note{}
	of := queryAll(f.trial, "SELECT flow, CONCAT(node, ' ') FROM history ORDER BY seq", func(flow uint64, text string) (n node) {
		n.flow = int(flow)
		fmt.Sscan(text, &n.node)
		return n
	})
	for i, n := range queryAll(f.trial, "SELECT seq, what FROM history ORDER BY seq", func(seq uint64, what string) note { return note{seq, what} }) {
		notes[of[i]] = append(notes[of[i]], n)
	}
	first := func(n node, what ...string) uint64 {
		for _, note := range notes[n] {
			if slices.Contains(what, note.what) {
				return note.seq
			}
		}
		return 0
	}
	for number, flow := range f.flows {
		jobs := 0
		for n := range flow.after {
			is := node{number, n}
			jobs += rows[is]
			if rows[is] > 1 {
				f.Errorf("job %d of flow %d was added %d times", n, number, rows[is])
			}
			if f.cancelled[number] == 0 && (rows[is] == 0 || first(is, hasEnded) == 0) {
				f.Errorf("job %d of flow %d is lost: %d rows, %v", n, number, rows[is], notes[is])
			}
			for _, before := range flow.after[n] {
				if at := first(is, began); at > 0 && (first(node{number, before}, hasEnded) == 0 || first(node{number, before}, hasEnded) > at) {
					f.Errorf("job %d of flow %d began at %d; before it %d: %v", n, number, at, before, notes[node{number, before}])
				}
			}
			for _, before := range flow.afterEnd[n] {
				if at := first(is, began); at > 0 && f.cancelled[number] == 0 && first(node{number, before}, hasEnded, failed) == 0 {
					f.Errorf("job %d of flow %d began at %d, and %d has not ended", n, number, at, before)
				}
			}
		}
		if had := f.cancelled[number]; had > 0 && jobs != had {
			f.Errorf("flow %d had %d jobs when it was cancelled, and has %d", number, had, jobs)
		}
		nodes += len(flow.after)
	}
	if done := f.number("SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 1"); int(done) != len(f.flows)-len(f.cancelled) {
		f.Errorf("%d flows are done, of %d that were not cancelled", done, len(f.flows)-len(f.cancelled))
	}
	return nodes
}
