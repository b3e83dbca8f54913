package find

import (
	"context"
	"slices"

	"github.com/create-info/persistent-queue/internal/ground"
)

// Look looks at the intakes that nobody has looked at: those that were just added, and those that the tail's last reading was not
// for. It takes one statement for all: an instance that takes fifty types at once would spend a second on fifty statements, and longer on
// pages, each of which asks for up to 48 lanes and takes PostgreSQL tens of milliseconds to plan. Look tries until ctx or all of the leases
// end.
func (f *Finder) Look(ctx context.Context) {
	f.mu.Lock()
	list := f.unseen
	f.unseen = nil
	f.mu.Unlock()
	slices.SortStableFunc(list, compare)
	var looks ground.Looks
	_ = ground.Retry(ctx, ground.Backoff{}, func() error {
		list = slices.DeleteFunc(list, (*Intake).over)
		if len(list) == 0 || ctx.Err() != nil {
			return nil
		}
		err := f.look(&looks, list)
		if err == nil {
			err = f.clampPriorities(&looks, list) // what it finds can wait for the next sweep
		}
		f.process.Errlog.On(ctx, "load jobs", err)
		return err
	})
}

// look offers what one statement brings of these types. If there is more, it offers nothing, so that the most urgent rows come first:
// the loaders look, each at its type alone, and the loader of a type that was alone pages. A loader also pages if there is no room for
// a row, or if one is abandoned, which sweeps would read again and again.
func (f *Finder) look(looks *ground.Looks, list intakes) error {
	defer f.reads.Begin()()
	rows, more, err := f.sweepRows(looks, list)
	if err != nil {
		return err
	}
	toLoad := map[*Intake]bool{}
	for i := 0; i < len(rows) && !more; i++ {
		row := &rows[i]
		if in := list.of(row); in != nil && (in.backlog.Abandoned(row) || !in.sink.Offer(row)) {
			toLoad[in] = true
		}
	}
	several := len(list.types()) > 1
	for _, in := range list {
		switch {
		case more && several:
			in.backlog.Ask()
		case more || toLoad[in]:
			in.backlog.Fell()
		default:
			in.backlog.behind.Store(false)
		}
	}
	return nil
}

// lookBehind has the intakes looked at for which the tail's last reading was not: if a row of theirs was committed between their first
// look and that reading, neither has seen it.
func (f *Finder) lookBehind(ctx context.Context, now, readFor intakes) {
	read := map[*Intake]bool{}
	for _, in := range readFor {
		read[in] = true
	}
	f.mu.Lock()
	for _, in := range now {
		if !read[in] {
			f.unseen = append(f.unseen, in)
		}
	}
	f.mu.Unlock()
	f.process.Go(func() { f.Look(ctx) })
}
