package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// held is a line whose lease this process holds.
type held struct {
	*line
	lease *keeper.Lease
}

// heldLines are held lines in the order of their job types, so a statement about the same lines has the same text each time.
type heldLines []held

// types are the job types of the lines, each once.
func (h heldLines) types() []int32 {
	types := make([]int32, len(h))
	for i := range h {
		types[i] = h[i].cfg.JobType
	}
	return slices.Compact(types)
}

// ofType returns the lines of a job type.
func (h heldLines) ofType(jobType int32) heldLines {
	from, _ := slices.BinarySearchFunc(h, jobType, func(h held, jobType int32) int { return cmp.Compare(h.cfg.JobType, jobType) })
	to := from
	for to < len(h) && h[to].cfg.JobType == jobType {
		to++
	}
	return h[from:to]
}

// of returns the line to whose shard a row belongs, or nil.
func (h heldLines) of(row *store.Row) *held {
	lines := h.ofType(row.JobType)
	if len(lines) == 0 {
		return nil
	}
	if lines[0].layout.Shards() == 1 {
		return &lines[0]
	}
	shard := share.ShardOf(row.ID, row.Group(), lines[0].layout.Shards())
	if i := slices.IndexFunc(lines, func(h held) bool { return h.shard == shard }); i >= 0 {
		return &lines[i]
	}
	return nil
}

// heldLines returns the lines whose lease is held.
func (d *database) heldLines() heldLines {
	all := d.lines.all()
	lines := make(heldLines, 0, len(all))
	for _, l := range all {
		if lease := l.held.Load(); lease != nil && lease.Context().Err() == nil {
			lines = append(lines, held{l, lease})
		}
	}
	return lines
}

// holding returns the context of the lease that says that this instance is here. It stands for the leases of the lines: they are
// renewed together. If there is none, the lease of a line does.
func (d *database) holding(lines heldLines) context.Context {
	if here := d.presence.Load(); here != nil && here.Context().Err() == nil {
		return here.Context()
	}
	if len(lines) == 0 {
		return d.patience
	}
	return lines[0].lease.Context()
}
