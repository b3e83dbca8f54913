package faults

import (
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The instances are on three nodes, business code adds jobs on all of them, and somebody hands types over and divides them, from
// each node in turn.
//
// A pause has the bound that it has on one server, and the commits that follow each other in it, each of which takes a round trip
// through the cluster. Every one of them may lose a conflict (1213) and be sent again, so it counts twice.
func TestHandOversAndDivisionsOnGaleraNodesLoseNothing(t *testing.T) {
	skipClusterInShort(t)
	const (
		busy, inOrder = int32(1), int32(2)
		handOvers     = 25 // of each type
		keys, perKey  = 30, 220
		capacity      = 60

		onOneServer, commits               = 300 * time.Millisecond, 2 * 4 // what still runs, freed, taken, marked
		dividedOnOneServer, dividedCommits = time.Second, 2 * 6            // what still runs, closed, the others closed, opened, taken, marked
	)
	c := newGalera(t)
	x := c.trial()
	x.addInOrder(inOrder, keys, perKey, work{MS: 200}) // before anybody else writes: it is not tried again
	pulse := c.startPulse(x)
	c.startWorkers(x, workerSettings{Types: []int32{busy, inOrder}, Ordered: []int32{inOrder}, Capacity: capacity, Shards: 1}, c.only)
	short, long := x.startLoadOn(c.ways(), math.MaxInt, 600, work{MS: 5}), x.startLoadOn(c.ways(), math.MaxInt, 30, work{MS: 1000})
	s := c.steer(x)
	x.awaitPresent(clusterSize)

	conflicts := c.allConflicts()
	var pauses []time.Duration
	for n := range 2 * handOvers {
		jobType := []int32{busy, inOrder}[n%2]
		takings := x.takings(jobType)
		pauses = append(pauses, s.pause(jobType,
			func(jobs *queue_job.Jobs, db *sql.DB) error {
				return jobs.HandOver(x.Context(), db, leaseName(jobType))
			},
			func() bool { return x.takings(jobType) > takings }))
	}
	var divided time.Duration
	divisions := []int{4, 2, 3, 1}
	for _, shards := range divisions {
		for _, jobType := range []int32{busy, inOrder} {
			divided = max(divided, s.pause(jobType,
				func(jobs *queue_job.Jobs, db *sql.DB) error {
					return jobs.SetShards(x.Context(), db, jobType, shards)
				},
				func() bool { return x.isDivided(jobType, shards) }))
		}
		x.awaitRest()
	}
	waited := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status IN (0, 3, 4)", inOrder)
	if waited == 0 {
		x.Error("no job of a key was left for the last divisions")
	}
	commit := pulse.longestPause()
	conflicts = c.allConflicts() - conflicts

	o := x.conclude(2*time.Minute, short, long)
	x.startedOnce(o)
	broken := x.outOfOrder(inOrder, keys)
	for _, jobType := range []int32{busy, inOrder} {
		if n := x.atOnce(jobType, x.lasts()); n > capacity {
			x.Errorf("%d jobs of type %d ran at a time; the capacity is %d", n, jobType, capacity)
		}
	}
	x.stopWorkers()
	x.noneFailed()
	c.sameEverywhere(x)
	slices.Sort(pauses)
	p50, worst := pauses[len(pauses)/2], pauses[len(pauses)-1]
	bound, dividedBound := onOneServer+commits*commit, dividedOnOneServer+dividedCommits*commit
	x.within(worst, bound, "handed over, a start")
	x.within(divided, dividedBound, "divided anew, a start")
	x.tell("busy types are handed over, instances on three nodes", len(pauses), o, worst, bound,
		"in the middle %v; a commit took at most %v; %d keys of %d jobs, %d out of order", p50.Round(time.Millisecond), commit.Round(time.Millisecond), keys, perKey, broken)
	x.tell("divided anew: 1, 4, 2, 3, 1 shards, instances on three nodes", 2*len(divisions), o, divided, dividedBound,
		"one busy type, and one in order; %d jobs of keys waited at the end; the nodes saw %d conflicts, of which calls of HandOver and SetShards lost %d", waited, conflicts, s.conflicts)
}

// allConflicts is how many transactions have lost against one of another node.
func (c *cluster) allConflicts() (n int) {
	c.Helper()
	for node := range c.nodes {
		n += c.conflicts(node)
	}
	return n
}

// steering calls what steers job types, on each node in turn.
type steering struct {
	x         *trial
	jobs      *queue_job.Jobs
	nodes     []*sql.DB
	calls     int
	conflicts int // calls that lost one, and were made again
}

func (c *cluster) steer(x *trial) *steering {
	x.Helper()
	s := &steering{x: x}
	for i := range c.nodes {
		s.nodes = append(s.nodes, dbtest.Open(x.T, "mysql", c.only("root", i)+"?"+c.causal))
	}
	var err error
	if s.jobs, err = queue_job.Open(s.nodes[0]); err != nil {
		x.Fatal(err)
	}
	return s
}

// pause does something to a type that is busy, and returns how long its starts paused.
func (s *steering) pause(jobType int32, do func(*queue_job.Jobs, *sql.DB) error, done func() bool) time.Duration {
	s.x.Helper()
	s.x.await(20*time.Second, "the type is not busy", func() bool { return s.x.hasStarted(jobType, time.Now().Add(-time.Second)) })
	began, node := time.Now(), s.nodes[s.calls%len(s.nodes)]
	s.calls++
	for {
		err := do(s.jobs, node)
		if err == nil {
			break
		}
		if refusal(err) != errDeadlock {
			s.x.Fatal(err)
		}
		s.conflicts++
	}
	s.x.await(20*time.Second, "the type is neither handed over nor divided", done)
	over := time.Now()
	s.x.await(20*time.Second, "no job of the type starts", func() bool { return s.x.hasStarted(jobType, over) })
	return s.x.longestPause(jobType, began, time.Now())
}

// hasStarted reports whether a job of the type has started since a moment.
func (x *trial) hasStarted(jobType int32, since time.Time) bool {
	for _, w := range x.living() {
		starts := w.started() // ascending by time, but for what overtakes a write
		for i := len(starts) - 1; i >= 0 && starts[i].at.After(since.Add(-time.Second)); i-- {
			if starts[i].jobType == jobType && starts[i].at.After(since) {
				return true
			}
		}
	}
	return false
}

// lasts says of each job how long its handler takes, at least.
func (x *trial) lasts() func(job uint64) time.Duration {
	x.Helper()
	rows, err := x.db.Query("SELECT id, params FROM async_job_tab")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	of := map[uint64]time.Duration{}
	for rows.Next() {
		var id uint64
		var params string
		var w work
		if err := rows.Scan(&id, &params); err != nil {
			x.Fatal(err)
		}
		if err := json.Unmarshal([]byte(params), &w); err != nil {
			x.Fatal(err)
		}
		if w.Do == "" {
			of[id] = time.Duration(w.MS)*time.Millisecond - time.Millisecond
		}
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return func(job uint64) time.Duration { return of[job] }
}
