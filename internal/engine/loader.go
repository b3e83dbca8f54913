package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	horizon      = 3 * time.Second // rows that fall due within it wait in memory, the others in the table
	sweepEvery   = time.Second
	fewRows      = 1000 // as many as the sweep of all types brings at once
	horizonSpan  = int64(horizon / time.Second)
	roomFraction = 4 // a page is loaded when this part of a lane is free
)

// loadBacklog brings in, page by page as there is room, what neither tail nor sweep will bring: everything when the
// lease was just taken, and whatever a full queue turned away. Then the sweep does, until the line falls behind again.
func (l *line) loadBacklog(ctx context.Context, lease *keeper.Lease) {
	var places []store.Place
	var abandoned int
	l.insist(ctx, func(ctx context.Context) (err error) {
		places, abandoned, err = l.firstPlaces(ctx)
		return err
	})
	if abandoned > 0 {
		l.log.Warn(l.about, fmt.Sprintf("%d jobs left alone: they fell due more than FirstPullDay = %d days before the start; set it to -1 to run them", abandoned, l.cfg.FirstPullDay))
	}
	for ctx.Err() == nil {
		began := time.Now()
		l.missed.Store(false)
		l.loadAll(ctx, lease, places)
		// The sweep of all types would read the abandoned rows, and many waiting ones, again and again.
		if l.missed.Load() || abandoned > 0 || l.queue.waiting() > fewRows {
			sleep(ctx, sweepEvery-time.Since(began))
			continue
		}
		l.behind.Store(false)
		if l.missed.Load() { // a row was turned away just now
			continue
		}
		select {
		case <-l.load:
		case <-ctx.Done():
		}
	}
}

// firstPlaces returns where loading begins in each lane: at its head, or behind the abandoned rows, which it counts.
func (l *line) firstPlaces(ctx context.Context) (places []store.Place, abandoned int, err error) {
	for _, lane := range store.Lanes() {
		places = append(places, store.Place{Lane: lane, StartTime: 1})
	}
	if l.since == 0 {
		return places, 0, nil
	}
	heads, err := l.store.Page(ctx, l.cfg.JobType, places, horizonSpan, 1)
	if err != nil {
		return nil, 0, err
	}
	for i, head := range heads {
		if len(head) == 0 || l.due(&head[0]) >= l.since {
			continue
		}
		place, n, err := l.store.Abandoned(ctx, l.cfg.JobType, places[i].Lane, l.since)
		if err != nil {
			return nil, 0, err
		}
		places[i] = place
		abandoned += n
	}
	return places, abandoned, nil
}

// loadAll goes once through all lanes.
func (l *line) loadAll(ctx context.Context, lease *keeper.Lease, places []store.Place) {
	places = slices.Clone(places)
	for len(places) > 0 && ctx.Err() == nil {
		room := l.awaitRoom(ctx, places)
		limit := max(1, min(room, l.cfg.LoadLimit)/len(places))
		var pages [][]store.Row
		end := l.loads.begin()
		l.insist(ctx, func(ctx context.Context) (err error) {
			pages, err = l.store.Page(ctx, l.cfg.JobType, places, horizonSpan, limit)
			return err
		})
		var more []store.Place
		for i, page := range pages {
			took := 0
			for took < len(page) && l.offer(lease, &page[took]) {
				places[i].StartTime, places[i].ID = page[took].StartTime, page[took].ID
				took++
			}
			if took < len(page) || len(page) == limit {
				more = append(more, places[i])
			}
		}
		end()
		places = more
	}
}

// awaitRoom waits until one of the lanes' queues has room for a good part of a page, and returns how much.
func (l *line) awaitRoom(ctx context.Context, places []store.Place) int {
	for {
		for _, place := range places {
			room, most := l.queue.room(place.Start == store.AtATime)
			if room > 0 && room >= min(most, l.cfg.LoadLimit)/roomFraction {
				return room
			}
		}
		select {
		case <-l.roomCame:
		case <-ctx.Done():
			return 1
		}
	}
}

// insist repeats an act until it succeeds or ctx ends.
func (l *line) insist(ctx context.Context, act func(context.Context) error) {
	for wait := retryFirst; ctx.Err() == nil; wait = min(2*wait, retryLongest) {
		statement, cancel := context.WithTimeout(ctx, loadMax)
		err := act(statement)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			l.log.Warn(l.about, err.Error())
		}
		sleep(ctx, wait)
	}
}
