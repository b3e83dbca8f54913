package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// runsTold is what the table says of what handlers have under a lease that is given away. Nothing starts under it any more, so that becomes
// less only.
type runsTold struct {
	rows       int // 0: nothing was told
	turn       int64
	jobs, keys int
	at         time.Time
	tried      time.Time // when that was first tried
	said       bool      // that the next holder does not know
}

const (
	keysEvery = 100 * time.Millisecond // as handlers with keys end, if it takes no longer: other jobs wait for the keys
	jobsEvery = 500 * time.Millisecond // as others end: if somebody has cancelled and retried their jobs, these wait
	runsAgain = time.Hour              // lines that nobody has written for a day are deleted
	runsMax   = 5 * time.Second        // then the lease is given away although that is not told, so that its jobs do not wait longer
)

// writeRestRuns writes what the handlers have that run under a lease, if there are some, and the table does not say so already.
func (c *Coordinator) writeRestRuns(ctx context.Context, s *seat, lease *keeper.Lease, told *runsTold) error {
	now := time.Now()
	since := now.Sub(told.at)
	if c.process.Tables.RestRuns == nil || told.rows > 0 && since < keysEvery {
		return nil
	}
	runs := s.RunsUnder(lease)
	jobs, keys := len(runs.Jobs), len(runs.Keys)
	var news bool
	switch {
	case told.rows == 0:
		news = jobs+keys > 0
	case since < jobsEvery:
		news = keys != told.keys
	default:
		news = jobs != told.jobs || keys != told.keys || since >= runsAgain
	}
	if !news {
		return nil
	}
	if told.tried.IsZero() {
		told.tried = now
	}
	if told.rows == 0 && now.Sub(told.tried) > runsMax {
		if told.said {
			return nil
		}
		told.said = true
		c.process.Log.Warn(s.About(), fmt.Sprintf("lease %s is given away, and the next holder does not know which jobs and keys %d handlers have: "+
			"the table does not take it", lease.Want.Name, jobs))
		return nil
	}
	rows := told.rows
	if rows == 0 {
		rows = store.RestRows(runs)
	}
	told.turn++
	if err := c.process.Tables.RestRuns.WriteRestRuns(ctx, restOf(lease), rows, told.turn, runs); err != nil {
		return err
	}
	told.rows, told.jobs, told.keys, told.at = rows, jobs, keys, time.Now()
	return nil
}

// dropRestRuns deletes what was told of a lease that is no more. If that fails, it is deleted with the old lines.
func (c *Coordinator) dropRestRuns(lease *keeper.Lease, rows int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.process.Life), c.patience.span())
	defer cancel()
	c.process.Errlog.On(ctx, "drop the runs of a rest", c.process.Tables.RestRuns.DropRestRuns(ctx, restOf(lease), rows))
}

func restOf(lease *keeper.Lease) string { return share.Remains(lease.Want.Name, lease.Term) }
