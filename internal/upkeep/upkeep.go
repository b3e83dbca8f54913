package upkeep

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Base is what every task stands on.
type Base struct {
	Instance
	Log    logger.Logger
	About  context.Context // of messages about the instance as a whole
	Clock  *ground.Clock
	Errlog *ground.Errlog
}

// Instance is what this process does on the database, as the engine knows it.
type Instance interface {
	Types() []queue_job.Config // that are configured now, in the order of their types
	Lines() []Line             // all that there are
	Held() []Held              // those whose leases are held, in the order of their types
	Holding() context.Context  // lasts as long as these leases: when they are over, nobody needs the answer to a question
	// Turn takes a lease for what one instance does for all. nil: another instance has it, or gave it back less than minLock after it was taken.
	Turn(ctx context.Context, looks *ground.Looks, name string, minLock time.Duration) (Turn, error)
}

// Lease is a lease that this instance has.
type Lease interface {
	Context() context.Context // ends with the lease
	Trusted() bool
}

// Turn is the lease of what one instance does for all.
type Turn interface {
	Lease
	BreakOff() // has another instance get it at once, when it is released
	Release(ctx context.Context)
}

// Line is what this process does for a job type, or for one shard of it.
type Line interface {
	JobType() int32
	Shard() int
	Lease() string // its name
	// State is what it has in memory and runs, and which errors it has counted under this term.
	State(now, term int64) store.LineState
	// Ran is what has been counted since it was called last, for the stats of a minute under a term. What comes from now on is for the minute
	// next, which may be the same. Minutes are told by when they begin, in unix seconds.
	Ran(minute, next, term int64) record.StatState

	// LeftAlone says which jobs FirstPullDay has left alone: those due before a moment, in unix seconds, with ids up to this one.
	LeftAlone() (before int64, upTo uint64, any bool)
	// LogLeftAlone is told how many of them there still are, and tells the log.
	LogLeftAlone(n int)
}

// Held is a line whose lease is held.
type Held struct {
	Line
	Term int64
}
