package engine

import (
	"context"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/flow"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// Tables are the tables of one database, as the engine needs them. The simulator brings its own.
type Tables struct {
	Jobs       Jobs
	Run        hidden.Run             // what handlers write; nil: they cannot
	Leases     keeper.Leases          // on a connection that handlers cannot starve
	Beats      keeper.Beats           // on another one; nil: the instance does not say that it lives, and others wait until its leases end
	RestRuns   cluster.RestRuns       // nil: nobody tells what handlers have whose lease was given away
	Layouts    cluster.Layouts        // of the types that are divided into shards
	Schedules  upkeep.Schedules       // asked for types that have a schedule
	Timetable  upkeep.Timetable       // nil: nobody adds the jobs of schedules that are rows
	Flows      flow.Tables            // nil: nobody counts the ends of jobs of flows …
	OldFlows   upkeep.OldFlows        // … and nobody deletes flows
	Registry   upkeep.Registry        // nil: nobody tells what the types are called and how they are run
	Lines      upkeep.Lines           // nil: nobody tells what waits in memory
	History    upkeep.History         // nil: nobody writes down what has run, and who had the leases
	Unrun      upkeep.Unrun           // nil: nobody asks which jobs wait for nobody
	Dormancy   cluster.Dormancy       // nil: no type is ever dormant
	Deletes    upkeep.Deletes         // nil: nothing is deleted
	Ahead      Ahead                  // nil: nobody mends what was written while the database's clock was ahead
	Acts       *record.Store          // nil: nobody carries out operations on many jobs
	Advise     func(tell func(error)) // tells once if the application is set up wrongly; nil: nobody does
	IdleClosed func() int64           // how many connections were closed because too many were idle; nil: the handle does not say
	Full       func() (most int)      // how many connections the pool has, if all are in use, and 0 if not; nil: the handle does not say
	Close      func()
	ID         string // of this instance; empty: one is drawn
}

// Jobs is what the engine needs of the tables of jobs and attempts. *store.Store has it; its methods carry the contracts.
type Jobs interface {
	find.Tables
	pipeline.Jobs
	Paused(ctx context.Context) ([]int32, error)
	EndPauses(ctx context.Context, types []int32) (ended int, err error)
}

// Ahead is what the engine needs of the tables to mend what was written while the database's clock was ahead. *store.Store has it.
type Ahead interface {
	WrittenAhead(ctx context.Context, types []int32, own int64, limit int) ([]uint64, error)
	MendAhead(ctx context.Context, ids []uint64, own int64) (int, error)
	MendFlowsAhead(ctx context.Context) (int, error)
}

// Open opens the tables that a configuration names.
func Open(ctx context.Context, cfg queue_job.Config) (Tables, error) {
	jobs, err := record.Open(ctx, cfg.Db, cfg.TablePrefix)
	if err == nil {
		err = jobs.MayRun()
	}
	if err != nil {
		return Tables{}, err
	}
	leases, giveBack := jobs.Reserve()
	pulse, still := jobs.Pulse()
	var beats keeper.Beats
	if pulse != nil {
		beats = pulse
	}
	engine, handlers, release := jobs.Relieved()
	var flows flow.Tables
	var old upkeep.OldFlows
	if engine.CanTransact() {
		flows, old = engine, jobs
	}
	return Tables{
		Flows: flows, OldFlows: old,
		// Handlers do not hold these up, however many connections they have.
		Jobs: engine, RestRuns: engine, Schedules: engine, Timetable: engine, Registry: engine, Lines: engine, Unrun: engine, Dormancy: engine,
		Layouts: engine, Run: handlers, Leases: leases, Beats: beats,
		History: jobs, Deletes: jobs, Ahead: jobs, Acts: jobs, // which can wait, and may take long
		Advise: jobs.Advise, IdleClosed: jobs.IdleClosed(), Full: jobs.Full(),
		Close: func() {
			release()
			still()
			giveBack()
		},
	}, nil
}
