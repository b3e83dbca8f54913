package find

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const roomFraction = 4 // a page is loaded when there is room for this part of a lane

// loader loads the rows that neither the first look, the tail nor the sweep brings, while one lease lasts: a backlog when the
// lease was just taken, and whatever a full sink turned away. When it is done, the sweep takes over until the type falls behind
// again.
type loader struct {
	*Intake
	looks  ground.Looks
	rounds []round   // nil: it has paged through nothing yet
	began  time.Time // all of them
}

// Load loads whenever the backlog asks, until ctx ends.
func (in *Intake) Load(ctx context.Context) {
	l := &loader{Intake: in}
	for {
		select {
		case <-l.backlog.wake:
		case <-ctx.Done():
			return
		}
		if !l.backlog.missed.Load() {
			l.insist(ctx, func() error { return l.finder.look(&l.looks, intakes{in}) })
		}
		if l.backlog.missed.Load() {
			l.loadPages(ctx)
		}
		l.backlog.behind.Store(false)
	}
}

// loadPages loads everything page by page, as there is room. It goes through each lane from head to end, and again a second
// later, whatever the other lanes do: a long backlog in one does not keep the due jobs of another waiting.
func (l *loader) loadPages(ctx context.Context) {
	var abandoned int
	if l.rounds == nil {
		abandoned = l.begin(ctx)
	} else {
		l.restart()
	}
	l.backlog.hush() // what follows brings all that it was called for
	l.backlog.missed.Store(false)
	for ctx.Err() == nil {
		if l.backlog.sinceSet.Swap(false) { // the rounds may begin behind rows that are not left alone any more
			abandoned = l.begin(ctx)
		}
		// Before its place, a round finds little else than what is in memory.
		if every := l.letGoEvery(); l.backlog.passed.again(time.Now(), every) || l.backlog.ByGroup && time.Since(l.began) >= max(time.Minute, every) {
			l.restart()
		}
		todo, next := unfinished(l.rounds, time.Now())
		switch {
		case len(todo) > 0:
			if fit, limit := l.roomFor(todo); len(fit) > 0 {
				l.loadPage(ctx, fit, limit)
			} else {
				for _, r := range todo {
					if r.skipped != nil {
						next = r.skipped.wakes(time.Now(), next)
					}
				}
				ground.Wait(ctx, time.Until(next), l.backlog.RoomCame)
			}
		case l.backlog.missed.Swap(false) || abandoned > 0 || l.sink.InMemory() > RowsMax:
			// The sweep of all types would read abandoned rows, and many that are in memory, again and again.
			ground.Sleep(ctx, time.Until(next))
		default:
			return
		}
	}
}

// begin begins the first rounds, and returns how many jobs it has left alone.
func (l *loader) begin(ctx context.Context) (abandoned int) {
	l.insist(ctx, func() error {
		return l.looks.Look(l.lease, func(ctx context.Context) (err error) {
			l.rounds, abandoned, err = l.firstRounds(ctx)
			return err
		})
	})
	l.began = time.Now()
	for i := range l.rounds {
		if l.backlog.ByGroup {
			l.rounds[i].skipped = newSkipping()
		}
	}
	if l.Shard == 0 { // it counts for all shards
		l.backlog.LeaveAlone(abandoned)
	}
	return abandoned
}

// roomFor returns the rounds for which there is enough room to be worth a statement, and how many rows of each to load now.
func (l *loader) roomFor(todo []*round) (fit []*round, limit int) {
	for _, r := range todo {
		if r.skipped != nil {
			if n := r.skipped.page(r.at, l.sink, l.backlog.PageRows, time.Now()); n > 0 {
				fit, limit = append(fit, r), max(limit, n)
			}
			continue
		}
		room, most := l.sink.Lane(r.at.Priority, r.at.Start == store.AtATime)
		if worth(room, most, l.backlog.PageRows) {
			fit = append(fit, r)
			limit = max(limit, min(room, l.backlog.PageRows))
		}
	}
	if l.sink.InMemory() == 0 {
		limit = min(limit, RowsMax) // workers have nothing to do until the whole page has been read
	}
	return fit, max(1, limit/max(1, len(fit)))
}

// loadPage loads the next rows of each round. A round stops at a row for which there is no room, and goes on there. A try that fails
// ends by itself: while a read is under way, no row is forgotten, in any type.
func (l *loader) loadPage(ctx context.Context, rounds []*round, limit int) {
	places := make([]store.Place, len(rounds))
	for i, r := range rounds {
		if places[i] = r.at; r.skipped != nil {
			places[i] = r.skipped.from
		}
	}
	began := time.Now()
	l.insist(ctx, func() error {
		defer l.finder.reads.Begin()()
		var pages [][]store.Row
		err := l.looks.Look(l.lease, func(ctx context.Context) (err error) {
			pages, err = l.finder.process.Tables.Page(ctx, l.JobType, l.shard(), places, horizonSpan, limit)
			return err
		})
		if err != nil {
			return err
		}
		for i, page := range pages {
			took := time.Since(began) / time.Duration(len(rounds))
			rounds[i].took += took
			if rounds[i].skipped != nil {
				l.takeFair(rounds[i], page, limit, took)
			} else {
				l.take(rounds[i], page, limit)
			}
		}
		return nil
	})
}

// take offers a page of a round that asked for up to limit rows.
func (l *loader) take(r *round, page []store.Row, limit int) {
	took := 0
	for took < len(page) && (l.others(&page[took]) || l.offer(&page[took])) {
		r.at.StartTime, r.at.ID = page[took].StartTime, page[took].ID
		took++
	}
	if took == len(page) && len(page) < limit {
		r.ended = time.Now()
	}
}

// others reports whether a row belongs to another shard.
func (l *loader) others(row *store.Row) bool {
	n := l.Layout.Shards()
	return n > 1 && share.ShardOf(row.ID, row.Group(), n) != l.Shard
}

func (l *loader) shard() store.Shard { return store.Shard{Of: l.Layout.Shards(), Number: l.Shard} }

// firstRounds returns rounds that begin at the lanes' heads, or behind the abandoned rows, which it counts. If it looks for a
// head and finds none, the round is over: most lanes are empty, and each is a part of a long statement. If a row that came later is dated
// before all abandoned ones, the first round goes over these, too, and the next ones begin behind them.
func (l *loader) firstRounds(ctx context.Context) (rounds []round, abandoned int, err error) {
	var places []store.Place
	for _, lane := range store.Lanes() {
		place := firstOf(lane)
		places, rounds = append(places, place), append(rounds, roundFrom(place))
	}
	since := l.backlog.Since()
	if since == 0 {
		return rounds, 0, nil
	}
	heads, err := l.finder.process.Tables.Page(ctx, l.JobType, l.shard(), places, horizonSpan, 1)
	if err != nil {
		return nil, 0, err
	}
	for i, head := range heads {
		switch {
		case len(head) == 0:
			rounds[i].ended = time.Now()
		case head[0].DueSecond() < since:
			place, n, err := l.finder.process.Tables.Abandoned(ctx, l.JobType, places[i].Lane, since, l.backlog.UpTo)
			if err != nil {
				return nil, 0, err
			}
			if n == 0 {
				continue
			}
			rounds[i] = roundFrom(place)
			rounds[i].skips = n
			abandoned += n
			if !l.backlog.Abandoned(&head[0]) { // a later row, which the head is behind
				rounds[i].at = places[i]
			}
		}
	}
	return rounds, abandoned, nil
}

func (l *loader) restart() {
	l.began = time.Now()
	l.rounds = restart(l.rounds)
}

// letGoEvery is how long the rounds go on at least before they begin again for the sake of rows that were let go. If the type is fair by
// group, a round goes over the whole lane, and may take a twentieth of the time. They also begin again after a minute, then: while something is
// skipped, no round ends, and rows that were committed late wait for the next one.
func (l *loader) letGoEvery() time.Duration {
	const part = 20
	every := letGoEvery
	for i := range l.rounds {
		if l.rounds[i].skipped != nil {
			every += part * l.rounds[i].took
		}
	}
	return every
}

// insist tries until that succeeds or ctx ends.
func (l *loader) insist(ctx context.Context, try func() error) {
	if ctx.Err() == nil {
		_ = l.finder.process.Errlog.Retry(ctx, "load jobs", ground.Backoff{}, try)
	}
}
