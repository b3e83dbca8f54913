package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
)

// moment is a moment that somebody has written; times of day are where somebody sits.
type moment = query.Moment

// now asks the database's clock.
func (a *app) now(ctx context.Context, db *database) (now time.Time, err error) {
	err = a.within(ctx, func(ctx context.Context) error {
		_, now, err = faces.Newest(ctx, db.jobs, db)
		return err
	})
	return now, err
}

// nowFor asks the database's clock, if one of the moments is counted from it.
func (a *app) nowFor(ctx context.Context, db *database, some ...moment) (now time.Time, err error) {
	if slices.ContainsFunc(some, moment.Counted) {
		now, err = a.now(ctx, db)
	}
	return now, err
}

// momentNow is a moment, by the database's clock if it is counted from now.
func (a *app) momentNow(ctx context.Context, db *database, m moment) (time.Time, error) {
	now, err := a.nowFor(ctx, db, m)
	return m.By(now), err
}

// momentOf reads a moment; an empty text is none.
func momentOf(text string) (moment, error) { return query.ParseMoment(text, time.Local) }

// futureOf reads a time that is to come: a time from now with a plus, or a time of day.
func futureOf(text string) (m moment, err error) {
	if from, ok := strings.CutPrefix(text, "+"); ok {
		d, err := words.ParseSpan(from)
		if err != nil {
			return m, exitf(exitUsage, "%q is no time from now; write +10m, +2h or +7d", text)
		}
		return query.FromNow(d), nil
	}
	if _, err := words.ParseSpan(text); err == nil {
		return m, exitf(exitUsage, "%q: write +%[1]s for that time from now", text)
	}
	if m, err = momentOf(text); err == nil && !m.Given() {
		err = errors.New("no time is given")
	}
	if err != nil {
		return m, &exit{exitUsage, err}
	}
	return m, nil
}
