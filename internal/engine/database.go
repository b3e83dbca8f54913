package engine

import (
	"context"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/flow"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/queue_job"
)

// database is what this process does on one database: it keeps the leases, finds work for all the types it holds, and
// has a line for each type, or for each shard of a type.
type database struct {
	address     *address // nil: of a handle that cannot be compared
	tables      Tables
	shared      pipeline.Process // by its lines
	about       context.Context
	options     Options
	life        *life
	start       start
	keeper      *keeper.Keeper
	coordinator *cluster.Coordinator
	finder      *find.Finder
	flows       *flow.Counter // nil: nobody counts the ends of jobs of flows
	pools       pools
	members     *ground.List[*member]
	leases      leaseNews
	health      health
	setBacks    setBacks
}

// address is where the tables of a configuration are.
type address struct {
	db     queue_job.DB
	prefix string
}

// addressOf is nil for a handle that cannot be compared: it is taken for a database of its own.
func addressOf(cfg *queue_job.Config) *address {
	if !reflect.ValueOf(cfg.Db).Comparable() {
		return nil
	}
	return &address{cfg.Db, cfg.TablePrefix}
}

// newest reads the largest id and the database's clock.
func (d *database) newest(ctx context.Context) (id uint64, err error) {
	sent := time.Now()
	id, now, err := d.tables.Jobs.Newest(ctx)
	if err == nil {
		d.shared.Clock.Reading(now, sent, time.Now())
	}
	return id, err
}

// held yields the members whose lease is held, with it, in the order of their job types: so a statement about the same members has the same
// text each time.
func (d *database) held() iter.Seq2[*member, *keeper.Lease] {
	return func(yield func(*member, *keeper.Lease) bool) {
		for _, m := range d.members.All() {
			if lease := m.line.Held(); lease != nil && !yield(m, lease) {
				return
			}
		}
	}
}

// nothingRuns reports whether there is no job that could be cancelled while it runs.
func (d *database) nothingRuns() bool {
	for range d.held() {
		return false
	}
	return !d.busy()
}

// idle reports whether no job waits or runs.
func (d *database) idle() bool {
	for m := range d.held() {
		if m.line.InMemory() > 0 {
			return false
		}
	}
	return !d.busy()
}

// busy reports whether anything is at work.
func (d *database) busy() bool {
	return slices.ContainsFunc(d.members.All(), (*member).Busy)
}
