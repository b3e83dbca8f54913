package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
)

// TypeState is what this process does with a job type on one database.
type TypeState struct {
	JobType      int32
	TypeName     string
	Tables       string
	Shards, Held int // into which the type is divided, as far as this process knows; whose leases this process holds
	Paused       bool
	Running      int           // workers that run a handler, or are about to
	Capacity     int           // workers that there may be for what this process holds
	Waiting      int           // rows in memory that are not marked
	Parked       int           // of these, rows that wait for a slot of their key
	Marked       int           // rows that are marked and wait for a worker
	Overdue      time.Duration // how long the longest-waiting row in memory has been due
	PutOff       int           // jobs whose last run ended with Defer
	PutOffFor    time.Duration // how long the longest-waiting of them has been due of which the handler says what it waits for

	LeasesTaken, LeasesEnded uint64
}

// Types returns the state of each job type, by database and type.
func (e *Engine) Types() (states []TypeState) {
	for _, d := range e.databases() {
		first := len(states)
		places := map[int32]int{}
		for _, m := range d.members.All() {
			cfg := m.line.Config()
			at, there := places[cfg.JobType]
			if !there {
				at = len(states)
				places[cfg.JobType] = at
				n := d.leases.counts.of(cfg.JobType)
				states = append(states, TypeState{
					JobType: cfg.JobType, TypeName: cfg.ServiceName, Tables: d.shared.Tables.Name, LeasesTaken: n.taken, LeasesEnded: n.ended,
				})
			}
			s := &states[at]
			s.Shards = max(s.Shards, m.Layout.Shards())
			n := m.line.Numbers()
			s.Running, s.Marked = s.Running+n.Running, s.Marked+n.Marked
			s.Waiting, s.Parked, s.Overdue = s.Waiting+n.Waiting, s.Parked+n.Parked, max(s.Overdue, n.Overdue)
			s.PutOff, s.PutOffFor = s.PutOff+n.PutOff, max(s.PutOffFor, n.LongestPutOff)
			if lease := m.line.Held(); lease != nil && lease.Trusted() {
				s.Held++
				s.Capacity += cfg.WorkerPoolCapacity
				s.Paused = s.Paused || n.Paused
			}
		}
		slices.SortFunc(states[first:], func(a, b TypeState) int { return cmp.Compare(a.JobType, b.JobType) })
	}
	return states
}

// LifeState is what this process knows of the lives of the instances on one database.
type LifeState struct {
	Tables string
	keeper.Census
}

// Lives returns the state of each database.
func (e *Engine) Lives() (states []LifeState) {
	for _, d := range e.databases() {
		states = append(states, LifeState{d.shared.Tables.Name, d.keeper.Census()})
	}
	return states
}

// Health returns an error if no look at a database's leases has succeeded for as long as its shortest lease lasts: then the process has no
// leases, and starts no jobs. It also returns one if the statements without which no job starts or ends have failed for as long.
func (e *Engine) Health() error {
	for _, d := range e.databases() {
		if err := d.unwell(); err != nil {
			return err
		}
	}
	return nil
}

// unwell says why no jobs run; nil: nothing keeps them from that.
func (d *database) unwell() error {
	if silent := time.Since(ground.Epoch) - time.Duration(d.health.looked.Load()); silent >= d.coordinator.ShortestLock() {
		failed := d.health.failed.Load()
		if failed == nil {
			return fmt.Errorf("the database has not answered for %v", silent.Round(time.Second))
		}
		err, usedUp := d.shared.Errlog.Blame(*failed)
		if usedUp {
			return fmt.Errorf("no statement about leases has got through for %v: %w", silent.Round(time.Second), err)
		}
		return fmt.Errorf("no look at the leases has succeeded for %v: %w", silent.Round(time.Second), err) // a database that is read-only answers
	}
	if doing, f := d.shared.Errlog.StuckLongest(); f != nil && time.Since(f.Since) >= d.coordinator.ShortestLock() {
		return fmt.Errorf("%s: nothing has succeeded for %v: %w", doing, time.Since(f.Since).Round(time.Second), f.Err)
	}
	return d.health.refused.first()
}
