package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
)

// moment is a moment that somebody has written: a time, or how far it lies from now. Now is the database's clock, which decides what is due;
// the clock of the machine at which somebody sits may be another.
type moment struct {
	at      time.Time     // zero: none is given, or it is counted from now
	counted bool          // from now
	from    time.Duration // now; below 0: ago
}

func (m moment) given() bool { return m.counted || !m.at.IsZero() }

// by is the moment, if now is what the clock says from which it is counted. Zero: none is given.
func (m moment) by(now time.Time) time.Time {
	if m.counted {
		return now.Add(m.from)
	}
	return m.at
}

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
	if slices.ContainsFunc(some, func(m moment) bool { return m.counted }) {
		now, err = a.now(ctx, db)
	}
	return now, err
}

// momentNow is a moment, by the database's clock if it is counted from now.
func (a *app) momentNow(ctx context.Context, db *database, m moment) (time.Time, error) {
	now, err := a.nowFor(ctx, db, m)
	return m.by(now), err
}

// momentOf reads a moment; an empty text is none.
func momentOf(text string) (m moment, err error) {
	if text == "" {
		return m, nil
	}
	if ago, err := words.ParseSpan(text); err == nil {
		return moment{counted: true, from: -ago}, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return moment{at: at}, nil
		}
	}
	if m.at, err = time.Parse(time.RFC3339, text); err != nil {
		return m, fmt.Errorf("%q is no moment; write a time ago (5m, 2h, 7d), a day (2026-11-24) or a time (2026-11-24T10:30)", text)
	}
	return m, nil
}

// futureOf reads a time that is to come: a time from now with a plus, or a time of day.
func futureOf(text string) (m moment, err error) {
	if from, ok := strings.CutPrefix(text, "+"); ok {
		d, err := words.ParseSpan(from)
		if err != nil {
			return m, exitf(exitUsage, "%q is no time from now; write +10m, +2h or +7d", text)
		}
		return moment{counted: true, from: d}, nil
	}
	if _, err := words.ParseSpan(text); err == nil {
		return m, exitf(exitUsage, "%q: write +%[1]s for that time from now", text)
	}
	if m, err = momentOf(text); err == nil && !m.given() {
		err = errors.New("no time is given")
	}
	if err != nil {
		return m, &exit{exitUsage, err}
	}
	return m, nil
}

// moments are a range: the moments at which it begins and ends.
type moments struct{ from, to moment }

func rangeOf(value string) (r moments, err error) {
	first, last, ok := strings.Cut(value, "..")
	if !ok {
		return r, fmt.Errorf("it is a range: write %s.. for what came after it, ..%[1]s for what came before", value)
	}
	if r.from, err = limitOf(first); err != nil {
		return r, err
	}
	r.to, err = limitOf(last)
	return r, err
}

// limitOf reads the moment at which a range begins or ends; an empty text is none. A moment of long ago is refused before it becomes none, as
// the year 1 would. For that, any clock will do.
func limitOf(text string) (moment, error) {
	m, err := momentOf(text)
	if at := m.by(time.Now()); err == nil && text != "" && at.Unix() <= 0 {
		err = fmt.Errorf("%q lies in the year %d, and no job is as old; write a moment after 1970, or leave it out for no limit", text, at.Year())
	}
	return m, err
}
