package engine

import (
	"context"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// ErrStopped is the cause in a handler's context when Stop gave up waiting for it.
var ErrStopped = cluster.ErrStopped

// ErrNoHandler is the cause of an error about a middleware that makes no handler. Trying again does not help.
var ErrNoHandler = pipeline.ErrNoHandler

// Options are what holds for all job types of an engine.
type Options struct {
	Lenient    bool // types that are others' are left alone, and the rest is run; otherwise they are an error
	MaxWorkers int  // handlers that run at a time, at most; 0: as many as the configurations say
	Retention  queue_job.Retention
	Identity   string                                            // of the process, as the application says; empty: it says none
	Cron       upkeep.Cron                                       // nil: the schedules that are rows are left to others
	Codec      queue_job.Codec                                   // of the jobs that these schedules add; nil: none
	Archive    func(context.Context, []queue_job.Archived) error // gets jobs before they are deleted; nil: nobody does
	Observers  []queue_job.Observer
	OnSettled  func(context.Context, []queue_job.Settled) // nil: nobody is told, as below
	OnDead     func(context.Context, []queue_job.Settled)
	Ready      func() // is called when each database has answered, and the leases that fall to this process are taken; nil: nobody is told
}
