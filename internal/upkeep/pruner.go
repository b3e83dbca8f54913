package upkeep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	retainFirst = time.Second // after the start
	retainAgain = time.Minute // then this instance asks for the lease again

	keptFirst = time.Minute // after the start, the log hears how many rows are kept for ever
	keptEvery = 24 * time.Hour
)

// Deletes is what a pruner needs of the tables to delete rows that have outlived their time. *record.Store has it.
type Deletes interface {
	hidden.Rows
	FindOld(ctx context.Context, old record.Old, after uint64, limit int) (record.OldPage, error)
	DeleteOld(ctx context.Context, old record.Old, page record.OldPage, steps record.Steps) (record.Deletion, error)
	DeleteStrays(ctx context.Context, page record.OldPage, steps record.Steps) (record.Deletion, error)
	Span(ctx context.Context) (first, last uint64, err error)
}

// Archive gets jobs before they are deleted.
type Archive func(context.Context, []queue_job.Archived) error

// pruner deletes the finished rows of this instance's job types when they have outlived their time. It goes along the primary
// key, from the first row to the first page of rows that are too young, under a lease that one instance gets in retainEvery. Rows
// at the beginning that are kept for ever are read once a day.
//
//	id 1 … settled ─ kept for ever, read once a day ─┤ page │ page │ page ──► stops at the first page that is too young
//	                                                    │
//	          FindOld ──► the archive, if there is one ─┴──► DeleteOld: rows, then their attempts ──► attempts whose row is gone
//
// No index has the time at which a job ended. It needs none, since ids grow with time. The lease only saves work: a row is deleted
// only if it is final and old at that moment, so any number of pruners are safe. A row that cannot be archived stays.
type pruner struct {
	*Base
	table   Deletes
	archive Archive                 // nil: there is none
	times   map[int32]time.Duration // how long rows are kept, by final status. Rows with another status are kept for ever
	types   []int32
	pacing  pacing
	looks   ground.Looks

	walked  time.Time // when a walk last began with the first row, or the log heard how many there are; zero: never
	settled uint64    // up to this id, no row is left that could outlive its time, unless somebody makes it run again, or restores it
}

// Pruner is the task that deletes what has outlived its time, or says how many rows there are if nothing ever does.
func Pruner(b *Base, table Deletes, kept queue_job.Retention, archive Archive) *Task {
	p := newPruner(b, table, kept, archive)
	if len(p.times) == 0 {
		return &Task{Base: b, doing: "look how many rows there are", first: keptFirst, every: keptFirst, do: p.logSpan}
	}
	return &Task{Base: b, doing: "delete old jobs", first: retainFirst, every: retainAgain, turn: p.turn, do: p.prune}
}

func newPruner(b *Base, table Deletes, kept queue_job.Retention, archive Archive) *pruner {
	times := map[int32]time.Duration{}
	for _, status := range queue_job.FinalStatuses() {
		if kept := kept.Of(status); kept > 0 {
			times[int32(status)] = kept
		}
	}
	p := &pruner{Base: b, table: table, archive: archive, times: times, pacing: newPacing(retainLeast, retainRows)}
	if archive != nil {
		p.pacing = newPacing(1, hidden.ArchivedMost)
	}
	return p
}

// noteTypes notes which types are configured now. If they have changed, no row is settled. It reports whether there are any.
func (p *pruner) noteTypes() bool {
	var types []int32
	for _, cfg := range p.Types() {
		types = append(types, cfg.JobType)
	}
	if !slices.Equal(types, p.types) {
		p.types, p.settled = types, 0
	}
	return len(types) > 0
}

// turn is the lease of a walk; none: there are no types.
func (p *pruner) turn() (name string, minLock time.Duration) {
	if !p.noteTypes() {
		return "", 0
	}
	return fmt.Sprintf("retain-%d", p.types[0]), retainEvery
}

// prune walks once.
func (p *pruner) prune(ctx context.Context, turn Turn) (time.Duration, error) {
	return 0, p.newWalk(turn).run(ctx)
}

// logSpan says once a day how many rows there are, at most, if all are kept for ever. To count them would cost more than it is
// worth. The instance that has the first of its types says so.
func (p *pruner) logSpan(context.Context, Turn) (time.Duration, error) {
	first := func(h Held) bool { return h.JobType() == p.types[0] && h.Shard() == 0 }
	if !p.noteTypes() || !slices.ContainsFunc(p.Held(), first) || !p.walked.IsZero() && time.Since(p.walked) < keptEvery {
		return 0, errIdle
	}
	var from, to uint64
	err := p.looks.Look(p.Holding(), func(ctx context.Context) (err error) {
		from, to, err = p.table.Span(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	if p.walked = time.Now(); to > 0 {
		p.Log.Info(p.About, fmt.Sprintf("the table of jobs has up to %s; finished jobs stay until somebody deletes them: use WithRetention, or Jobs.Delete",
			rowsText(int64(to-from+1))))
	}
	return 0, nil
}

func rowsText(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
