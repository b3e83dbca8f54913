package cron

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

// Parse reads a schedule whose times are in UTC, or in the zone that a leading CRON_TZ= or TZ= names.
func Parse(spec string) (*Schedule, error) { return ParseIn(spec, time.UTC) }

// MustParse is [Parse] for texts that are constants of the program. It panics if the text is wrong.
func MustParse(spec string) *Schedule {
	s, err := Parse(spec)
	if err != nil {
		panic(err)
	}
	return s
}

// ParseIn reads a schedule whose times are in the zone, unless the text itself names one. The zone is one that
// time.LoadLocation returns, or a fixed one, which the text of the schedule has as its offset. All instances must use the
// same zone; time.Local is the host's. An image without zone data (scratch) needs an import of time/tzdata.
func ParseIn(spec string, zone *time.Location) (*Schedule, error) {
	bad := func(err error) (*Schedule, error) { return nil, fmt.Errorf("cron %q: %w", spec, err) }
	fields, inText := strings.Fields(spec), false
	if len(fields) > 0 {
		if name, ok := zoneOf(fields[0]); ok {
			named, err := load(name)
			if err != nil {
				return bad(fmt.Errorf("time zone %q: %w; use a name like Europe/Berlin, and import time/tzdata where the host has no zones", name, err))
			}
			zone, fields, inText = named, fields[1:], true
		}
	}
	switch {
	case zone == nil:
		return bad(errNoZone)
	case len(fields) == 0:
		return bad(errors.New("is empty; write five fields, or a word like @hourly"))
	case fields[0] == "@every":
		return every(spec, fields[1:])
	case strings.HasPrefix(fields[0], "@"):
		word := strings.ToLower(fields[0])
		if words[word] == "" || len(fields) > 1 {
			return bad(errors.New("unknown word; use @hourly, @daily, @weekly, @monthly, @yearly or @every with a duration"))
		}
		fields = strings.Fields(words[word])
	case len(fields) != 5:
		return bad(fmt.Errorf("has %d fields; write five: minute, hour, day of the month, month, day of the week", len(fields)))
	}
	text := strings.Join(fields, " ")
	zone, err := readable(zone, inText)
	if err != nil {
		return bad(err)
	}
	if err := supported(fields); err != nil {
		return bad(err)
	}
	times, err := parserFor(fields).Parse("CRON_TZ=UTC " + strings.Join(fields, " "))
	if err != nil {
		return bad(err)
	}
	s := &Schedule{text: fmt.Sprintf("CRON_TZ=%s %s", zone, text), zone: zone, times: times, byHours: !strings.HasPrefix(fields[1], "*")}
	if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return bad(errors.New("there is no such day; look at the day of the month and the month"))
	}
	return s, nil
}

var errNoZone = errors.New("no time zone")

// load returns the zone with a name, or the fixed one that is written as its offset from UTC: +08:00, or +08:00:30.
func load(name string) (*time.Location, error) {
	for _, layout := range []string{"-07:00", "-07:00:00"} {
		if at, err := time.Parse(layout, name); err == nil {
			_, offset := at.Zone()
			return time.FixedZone(offsetText(offset), offset), nil
		}
	}
	if name == "" {
		return nil, errNoZone
	}
	return time.LoadLocation(name)
}

func offsetText(offset int) string {
	layout := "-07:00"
	if offset%60 != 0 {
		layout += ":00"
	}
	return time.Unix(0, 0).In(time.FixedZone("", offset)).Format(layout)
}

// readable returns the zone under a name that load reads. A program may give a zone any name, so a fixed zone that load does not return is
// called by its offset. What load has read from the text is as it should be.
func readable(zone *time.Location, inText bool) (*time.Location, error) {
	if inText {
		return zone, nil
	}
	if read, err := load(zone.String()); err == nil && (read == zone || alike(read, zone)) {
		return zone, nil
	}
	_, offset := time.Unix(0, 0).In(zone).Zone()
	if fixed := time.FixedZone(offsetText(offset), offset); alike(fixed, zone) {
		return fixed, nil
	}
	return nil, fmt.Errorf("time zone %q: no zone with this name has the same times; use one that time.LoadLocation returns", zone)
}

// alike reports whether the clocks of two zones show the same, from 1970 on and for longer than schedules have times.
func alike(a, b *time.Location) bool {
	const last = 1 << 33 // the year 2242
	for at := int64(0); at < last; {
		of := time.Unix(at, 0)
		_, one := of.In(a).Zone()
		_, other := of.In(b).Zone()
		if one != other {
			return false
		}
		next := int64(last)
		for _, zone := range []*time.Location{a, b} {
			if _, end := of.In(zone).ZoneBounds(); !end.IsZero() {
				next = min(next, end.Unix())
			}
		}
		at = max(next, at+24*60*60) // on the last day of a leap year, the end is sometimes said to be now
	}
	return true
}

func zoneOf(field string) (name string, ok bool) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if name, ok = strings.CutPrefix(field, prefix); ok {
			return name, true
		}
	}
	return "", false
}

// supported returns an error if a field has something that other programs know and a crontab does not.
func supported(fields []string) error {
	for i, field := range fields {
		if strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,") {
			return fmt.Errorf("%q: has an empty place in its list", field)
		}
		rest := strings.ToUpper(field)
		for _, name := range names[i] {
			rest = strings.ReplaceAll(rest, name, "")
		}
		if at := strings.IndexAny(rest, "#~HLW"); at >= 0 {
			return fmt.Errorf("%q: %c is not supported", field, rest[at])
		}
	}
	return nil
}

// names are what the fields may have instead of numbers.
var names = [5][]string{
	3: {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	4: {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
}

const (
	dayOfMonth = 2
	dayOfWeek  = 4
)

// parserFor returns the parser that combines the days as a crontab does. If both day fields are limited, a time counts if either fits. A
// field that begins with * is not limited, though it has a step; a * behind other days is written as all days, which are limited.
func parserFor(fields []string) parser.Parser {
	either := true
	for day, all := range map[int]string{dayOfMonth: "1-31", dayOfWeek: "0-6"} {
		if strings.HasPrefix(fields[day], "*") || strings.HasPrefix(fields[day], "?") {
			either = false
		} else {
			fields[day] = strings.ReplaceAll(fields[day], ",*", ","+all)
		}
	}
	if either {
		return eitherDay
	}
	return bothDays
}

var (
	bothDays  = parser.MustNewParser(parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow)
	eitherDay = parser.MustNewParser(parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow | parser.DowOrDom)
)

var words = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

func every(spec string, fields []string) (*Schedule, error) {
	step, err := time.ParseDuration(strings.Join(fields, " "))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cron %q: %w; write a duration like 90s or 1h30m", spec, err)
	case step < time.Second || step%time.Second != 0:
		return nil, fmt.Errorf("cron %q: use whole seconds, one or more", spec)
	}
	return &Schedule{text: "@every " + step.String(), step: int64(step / time.Second)}, nil
}

// Schedule is a schedule that [Parse] or [ParseIn] has read. It never changes and may be used from many goroutines.
type Schedule struct {
	text    string
	step    int64 // seconds; 0: five fields
	zone    *time.Location
	times   parser.Schedule // asked in UTC only
	byHours bool            // it names hours
}

// String is the schedule as [Parse] reads it, with its zone. Two schedules with equal texts have the same times.
func (s *Schedule) String() string { return s.text }

// Next returns the first time after the given one, in whole seconds and in UTC. It depends on nothing else. The zero
// time means that there is none within the next years.
func (s *Schedule) Next(after time.Time) time.Time {
	from := after.Unix()
	var next int64
	if s.step > 0 {
		next = from - mod(from, s.step) + s.step
	} else if next = s.next(from); next == never {
		return time.Time{}
	}
	return time.Unix(next, 0).UTC()
}

// next goes through the stretches of time between two changes of the zone's clocks. In each stretch, local time differs
// from UTC by a constant, so the parser can be asked in UTC for the time that local clocks show.
func (s *Schedule) next(after int64) int64 {
	const stretchesMost = 100 // some fifty years; the parser gives up long before
	for range stretchesMost {
		first := time.Unix(after+1, 0).In(s.zone)
		start, end := first.ZoneBounds()
		_, offset := first.Zone()
		local := after + int64(offset) // as local clocks show it, if they are never changed
		if s.byHours && !start.IsZero() {
			_, before := start.Add(-time.Second).Zone()
			from, to := start.Unix()+int64(before), start.Unix()+int64(offset) // the clocks were set from the one to the other
			if to < from {
				local = max(local, from-1) // until here, the clocks repeat times
			} else if next := s.local(from - 1); first.Equal(start) && next != never && next < to {
				return start.Unix()
			}
		}
		next := s.local(local)
		if next == never || end.IsZero() || next-int64(offset) < end.Unix() {
			return utc(next, offset)
		}
		after = end.Unix() - 1
	}
	return never
}

// never stands for a time that does not exist.
const never = math.MinInt64

// local returns the first time after the given one, both as local clocks show them.
func (s *Schedule) local(after int64) int64 {
	next := s.times.Next(time.Unix(after, 0).UTC())
	if next.IsZero() {
		return never
	}
	return next.Unix()
}

func utc(local int64, offset int) int64 {
	if local == never {
		return never
	}
	return local - int64(offset)
}

func mod(a, b int64) int64 { return (a%b + b) % b }
