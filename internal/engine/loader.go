package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	horizon      = 3 * time.Second // rows that fall due within it wait in memory, the others in the table
	sweepEvery   = time.Second
	fewRows      = 1000 // of each kind: as many as a sweep brings at once
	horizonSpan  = int64(horizon / time.Second)
	roomFraction = 4                // a page is loaded when there is room for this part of a lane
	wholeEvery   = 10 * time.Minute // a round goes over abandoned rows, too: there may be later ones among them
)

// backlog is what is known of rows that neither tail nor sweep brings. Whoever has no room for a row leaves it to the loader.
type backlog struct {
	since     atomic.Int64 // what fell due before is left alone, in unix seconds; 0: nothing is
	upTo      uint64       // the newest row at the start: rows that came later are never left alone
	sinceSet  atomic.Bool  // since has changed
	leftAlone atomic.Int64 // jobs that FirstPullDay left alone, when they were counted last
	behind    atomic.Bool  // the loader is to bring what tail and sweep do not
	missed    atomic.Bool  // since the loader began its round, there was no room for a row
	passed    passedOver
	wake      chan struct{} // the loader
}

// passedOver are rows behind the loader that are to run and are not in memory. If nothing else is done, the next round of their lane brings
// them, and a backlog that is longer than the queue keeps that round waiting for hours.
type passedOver struct {
	mu      sync.Mutex
	terms   []int64       // for whose sake rows were left alone
	ended   bool          // of one of these terms
	lookAt  time.Time     // while jobs run under such a term, its marks of others may be taken back: when to look for these
	lookIn  time.Duration // from the last look to that one
	left    bool          // rows have left the memory
	restart time.Time     // when the rounds began again for the sake of such rows
}

const letGoEvery = 5 * time.Second // what was in memory is read once more, since it lies behind the loader, too

func (p *passedOver) over(term int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.terms, term) {
		p.terms = append(p.terms, term)
		p.lookAt, p.lookIn = time.Now().Add(letGoEvery), letGoEvery
	}
}

// letGo notes that a row has left the memory, or was never taken in, and is to run.
func (p *passedOver) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
}

// heed notes which terms are over by now.
func (p *passedOver) heed(r *remains) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.terms)
	p.terms = slices.DeleteFunc(p.terms, func(term int64) bool { return !slices.Contains(r.terms, term) })
	p.ended = p.ended || len(p.terms) < before
}

// again reports, once, whether rows that were passed over are to be loaded.
func (p *passedOver) again(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	look := len(p.terms) > 0 && !now.Before(p.lookAt)
	if !look && !p.ended && !(p.left && now.Sub(p.restart) >= letGoEvery) {
		return false
	}
	if look { // such marks are taken back soon, or hardly ever
		const rarer = 4
		p.lookIn *= rarer
		p.lookAt = now.Add(p.lookIn)
	}
	p.ended, p.left, p.restart = false, false, now
	return true
}

// begin leaves everything to the loader, which waits for the first look. A call that the last lease's loader left unheard is not
// for it.
func (b *backlog) begin() {
	b.behind.Store(true)
	select {
	case <-b.wake:
	default:
	}
}

// fell leaves rows to the loader.
func (b *backlog) fell() {
	b.missed.Store(true)
	b.behind.Store(true)
	ground.Signal(b.wake)
}

// loader loads the rows that neither the first look, the tail nor the sweep brings, while one lease lasts: a backlog when the
// lease was just taken, and whatever a full queue turned away. When it is done, the sweep takes over until the line falls behind
// again.
type loader struct {
	*line
	lease  *keeper.Lease
	looks  ground.Looks
	rounds []round // nil: it has paged through nothing yet
}

func newLoader(l *line, lease *keeper.Lease) *loader { return &loader{line: l, lease: lease} }

// loop loads whenever it is woken, until ctx ends.
func (l *loader) loop(ctx context.Context) {
	for {
		select {
		case <-l.backlog.wake:
		case <-ctx.Done():
			return
		}
		if !l.loadFew(ctx) {
			l.loadPages(ctx)
		}
		l.backlog.behind.Store(false)
	}
}

// loadFew loads everything with one short statement if that is no more than a sweep brings. Otherwise it loads nothing, so the
// most urgent rows come first. It reports whether the sweep may take over: all rows found room, and none is abandoned, which
// sweeps would read again and again.
func (l *loader) loadFew(ctx context.Context) (all bool) {
	var rows []store.Row
	var more bool
	end := l.insistOnRows(ctx, func(ctx context.Context) (err error) {
		rows, more, err = l.jobs.SweepAll(ctx, []int32{l.cfg.JobType}, horizonSpan, fewRows)
		return err
	})
	defer end()
	if more {
		return false
	}
	all = true
	for i := range rows {
		all = (l.others(&rows[i]) || !l.abandoned(&rows[i]) && l.offer(l.lease, &rows[i])) && all
	}
	return all
}

// others reports whether a row belongs to another shard.
func (l *line) others(row *store.Row) bool {
	n := l.layout.Shards()
	return n > 1 && share.ShardOf(row.ID, row.Group(), n) != l.shard
}

// loadPages loads everything page by page, as there is room. It goes through each lane from head to end, and again a second
// later, whatever the other lanes do: a long backlog in one does not keep the due jobs of another waiting.
func (l *loader) loadPages(ctx context.Context) {
	var abandoned int
	if l.rounds == nil {
		abandoned = l.begin(ctx)
	} else {
		l.rounds = restart(l.rounds)
	}
	l.backlog.missed.Store(false)
	for ctx.Err() == nil {
		if l.backlog.sinceSet.Swap(false) { // the rounds may begin behind rows that are not left alone any more
			abandoned = l.begin(ctx)
		}
		if l.backlog.passed.again(time.Now()) { // before its place, a round finds little else than what is in memory
			l.rounds = restart(l.rounds)
		}
		todo, next := unfinished(l.rounds, time.Now())
		switch {
		case len(todo) > 0:
			if fit, limit := l.roomFor(todo); len(fit) > 0 {
				l.loadPage(ctx, fit, limit)
			} else {
				ground.Wait(ctx, time.Until(next), l.roomCame)
			}
		case l.backlog.missed.Swap(false) || abandoned > 0 || l.queue.inMemory() > fewRows:
			// The sweep of all types would read abandoned rows, and many that are in memory, again and again.
			ground.Sleep(ctx, time.Until(next))
		default:
			return
		}
	}
}

// begin begins the first rounds, and returns how many jobs it has left alone.
func (l *loader) begin(ctx context.Context) (abandoned int) {
	l.insist(ctx, func(ctx context.Context) (err error) {
		l.rounds, abandoned, err = l.firstRounds(ctx)
		return err
	})
	if l.shard != 0 { // it counts for all shards
		return abandoned
	}
	if l.backlog.leftAlone.Store(int64(abandoned)); abandoned > 0 {
		l.log.Error(l.about, leftAloneText(abandoned, 0, l.cfg.FirstPullDay))
	}
	return abandoned
}

// round is one way through a lane, mostly from behind its abandoned rows.
type round struct {
	head, at store.Place
	whole    time.Time     // when it last began with the first row of the lane
	ended    time.Time     // zero: not yet
	took     time.Duration // by its statements
}

func roundFrom(head store.Place) round { return round{head: head, at: head, whole: time.Now()} }

// again begins the next round of the lane.
func (r *round) again(now time.Time) {
	*r = round{head: r.head, at: r.head, whole: r.whole}
	if now.Sub(r.whole) >= wholeEvery {
		r.at, r.whole = firstOf(r.head.Lane), now
	}
}

// firstOf is the place before all rows of a lane.
func firstOf(lane store.Lane) store.Place { return store.Place{Lane: lane, StartTime: 1} }

func (r *round) done() bool { return !r.ended.IsZero() }

// nextAt returns the time at which the next round of the lane begins. The loader rests before it, longer after a long round, so
// that it does other work too. The rest begins when the round ends: the last rows of a long backlog still wait in memory then,
// and an earlier round would read them all again.
func (r *round) nextAt() time.Time { return r.ended.Add(restAfter(r.took)) }

// restAfter is how long to rest after a look at the table that took a given time. Looks take a fifth of the time at most,
// unless they are so slow that late commits would wait for them longer than they may.
func restAfter(took time.Duration) time.Duration {
	const longest = 5 * time.Second
	return min(max(sweepEvery, 5*took), longest)
}

// unfinished begins the rounds anew whose rest is over. It returns the rounds that have more to load, and when the next one
// begins.
func unfinished(rounds []round, now time.Time) (todo []*round, next time.Time) {
	next = now.Add(sweepEvery)
	for i := range rounds {
		r := &rounds[i]
		if r.done() && !now.Before(r.nextAt()) {
			r.again(now)
		}
		if !r.done() {
			todo = append(todo, r)
		} else if r.nextAt().Before(next) {
			next = r.nextAt()
		}
	}
	return todo, next
}

func restart(rounds []round) []round {
	for i := range rounds {
		rounds[i].again(time.Now())
	}
	return rounds
}

// roomFor returns the rounds for which there is enough room to be worth a statement, and how many rows of each to load now.
func (l *loader) roomFor(todo []*round) (fit []*round, limit int) {
	for _, r := range todo {
		room, most := l.queue.room(r.at.Priority, r.at.Start == store.AtATime)
		if room > 0 && room >= min(most, l.cfg.LoadLimit)/roomFraction {
			fit = append(fit, r)
			limit = max(limit, min(room, l.cfg.LoadLimit))
		}
	}
	if l.queue.inMemory() == 0 {
		limit = min(limit, fewRows) // workers have nothing to do until the whole page has been read
	}
	return fit, max(1, limit/max(1, len(fit)))
}

// loadPage loads the next rows of each round. A round stops at a row for which there is no room, and goes on there.
func (l *loader) loadPage(ctx context.Context, rounds []*round, limit int) {
	places := make([]store.Place, len(rounds))
	for i, r := range rounds {
		places[i] = r.at
	}
	began := time.Now()
	var pages [][]store.Row
	end := l.insistOnRows(ctx, func(ctx context.Context) (err error) {
		pages, err = l.jobs.Page(ctx, l.cfg.JobType, store.Shard{Of: l.layout.Shards(), Number: l.shard}, places, horizonSpan, limit)
		return err
	})
	defer end()
	for i, page := range pages {
		r, took := rounds[i], 0
		for took < len(page) && (l.others(&page[took]) || l.offer(l.lease, &page[took])) {
			r.at.StartTime, r.at.ID = page[took].StartTime, page[took].ID
			took++
		}
		r.took += time.Since(began) / time.Duration(len(rounds))
		if took == len(page) && len(page) < limit {
			r.ended = time.Now()
		}
	}
}

// firstRounds returns rounds that begin at the lanes' heads, or behind the abandoned rows, which it counts. If it looks for a
// head and finds none, the round is over: most lanes are empty, and each is a part of a long statement.
func (l *loader) firstRounds(ctx context.Context) (rounds []round, abandoned int, err error) {
	var places []store.Place
	for _, lane := range store.Lanes() {
		place := firstOf(lane)
		places, rounds = append(places, place), append(rounds, roundFrom(place))
	}
	if l.backlog.since.Load() == 0 {
		return rounds, 0, nil
	}
	heads, err := l.jobs.Page(ctx, l.cfg.JobType, store.Shard{Of: l.layout.Shards(), Number: l.shard}, places, horizonSpan, 1)
	if err != nil {
		return nil, 0, err
	}
	for i, head := range heads {
		switch {
		case len(head) == 0:
			rounds[i].ended = time.Now()
		case l.abandoned(&head[0]):
			place, n, err := l.jobs.Abandoned(ctx, l.cfg.JobType, places[i].Lane, l.backlog.since.Load(), l.backlog.upTo)
			if err != nil {
				return nil, 0, err
			}
			rounds[i] = roundFrom(place)
			abandoned += n
		}
	}
	return rounds, abandoned, nil
}

// insistOnRows insists on a read of rows. The caller offers them and calls end. A try that fails ends by itself: while a read
// is under way, no row is forgotten, in any type.
func (l *loader) insistOnRows(ctx context.Context, read func(context.Context) error) (end func()) {
	end = func() {}
	l.insist(ctx, func(ctx context.Context) error {
		over := l.reads.begin()
		err := read(ctx)
		if err != nil {
			over()
			return err
		}
		end = over
		return nil
	})
	return end
}

// insist repeats a look at the table until it succeeds or ctx ends.
func (l *loader) insist(ctx context.Context, read func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	l.errlog.Retry(ctx, "load jobs", ground.Backoff{}, func() error { return l.looks.Look(l.lease.Context(), read) })
}
