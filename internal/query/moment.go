package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/words"
)

// Moment is a moment that somebody has written: a time, or how far it lies from now. Now is the database's clock, which decides what is due;
// the clock of the machine at which somebody sits may be another.
type Moment struct {
	at      time.Time     // zero: none is given, or it is counted from now
	counted bool          // from now
	from    time.Duration // now; below 0: ago
}

// FromNow is a moment that is counted from now.
func FromNow(from time.Duration) Moment { return Moment{counted: true, from: from} }

// Given reports whether there is a moment.
func (m Moment) Given() bool { return m.counted || !m.at.IsZero() }

// Counted reports whether it is counted from now.
func (m Moment) Counted() bool { return m.counted }

// By is the moment, if now is what the clock says from which it is counted. Zero: none is given.
func (m Moment) By(now time.Time) time.Time {
	if m.counted {
		return now.Add(m.from)
	}
	return m.at
}

// ParseMoment reads a moment; an empty text is none. Times of day are in the zone.
func ParseMoment(text string, zone *time.Location) (m Moment, err error) {
	if text == "" {
		return m, nil
	}
	if ago, err := words.ParseSpan(text); err == nil {
		return FromNow(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return Moment{at: at}, nil
		}
	}
	if m.at, err = time.Parse(time.RFC3339, text); err != nil {
		return m, fmt.Errorf("%q is no moment; write a time ago (5m, 2h, 7d), a day (2026-11-24) or a time (2026-11-24T10:30)", text)
	}
	return m, nil
}

// Range is the moments at which something begins and ends.
type Range struct{ From, To Moment }

// ParseRange reads FROM..TO, of which either may be left out.
func ParseRange(value string, zone *time.Location) (r Range, err error) {
	first, last, ok := strings.Cut(value, "..")
	if !ok {
		return r, fmt.Errorf("it is a range: write %s.. for what came after it, ..%[1]s for what came before", value)
	}
	if r.From, err = parseLimit(first, zone); err != nil {
		return r, err
	}
	r.To, err = parseLimit(last, zone)
	return r, err
}

// parseLimit reads the moment at which a range begins or ends; an empty text is none. A moment of long ago is refused before it becomes none,
// as the year 1 would. For that, any clock will do.
func parseLimit(text string, zone *time.Location) (Moment, error) {
	m, err := ParseMoment(text, zone)
	if at := m.By(time.Now()); err == nil && text != "" && at.Unix() <= 0 {
		err = fmt.Errorf("%q lies in the year %d, and no job is as old; write a moment after 1970, or leave it out for no limit", text, at.Year())
	}
	return m, err
}
