package find

import (
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// skipping is what a round knows beyond its place, if the type is fair by group. A row for which there is no room, since its group has many
// rows in memory, is skipped, and the round goes on: a small group's rows may lie behind a long backlog of another. For each group with
// skipped rows, the round keeps the place from which on its rows are not in memory.
//
//	               a's place            b's place             at
//	──────────────────┼────────────────────┼───────────────────┼───────────────────
//	in memory, or done│ but a's rows       │ but a's and b's   │ not read yet
//
// A row that is committed late, or that was let go, may lie before these places. For its sake, the rounds begin again, with nothing
// skipped ([passedOver], letGoEvery). So a place that is wrong delays rows, and loses none.
//
// When a group has room again that is worth a statement, a page is read from its place, by turns with what lies ahead. So a row is read
// once by the round that goes ahead and once for its group, and again if its group's rows are rare among others that are skipped. The round
// is over when nothing is skipped and the lane has no more; until then, it looks for later rows once a second. If too many groups have
// skipped rows, the round stands still, as it does in other types.
type skipping struct {
	groups map[string]store.Place
	from   store.Place // of the page that is read next
	wider  int         // how many times as many rows as there is room for, since the last pages brought few
	rests  time.Time   // until when no group's page is read …
	looks  time.Time   // … and nothing ahead
	ahead  bool        // the last page was a group's: if there is more ahead, that is next
}

const (
	skippedMax = 5000                  // groups of a lane that have skipped rows
	skipRest   = 50 * time.Millisecond // after a page from a group's place that brought little
	askRest    = 20 * time.Millisecond // after many groups had no room
	askFew     = 100                   // groups that are asked whenever rows have left
)

func newSkipping() *skipping { return &skipping{groups: map[string]store.Place{}, wider: 1} }

// page chooses from where the round reads next, and returns how many rows at most; 0: none for now.
func (s *skipping) page(at store.Place, sink Sink, pageRows int, now time.Time) (limit int) {
	s.from = at
	if !now.Before(s.looks) {
		if n, most := sink.Lane(at.Priority, at.Start == store.AtATime); worth(n, most, pageRows) {
			limit = min(pageRows, n)
		}
	}
	if now.Before(s.rests) || limit > 0 && s.ahead {
		return limit
	}
	room, from := 0, at
	for group, place := range s.groups {
		if n, most := sink.RoomOf(at.Lane, group); worth(n, most, pageRows) {
			room += n
			from = earlier(from, place)
		}
	}
	if room > 0 {
		s.from = from
		return min(pageRows, room*s.wider)
	}
	if len(s.groups) > askFew {
		s.rests = now.Add(askRest)
	}
	return limit
}

// worth reports whether so much room is worth a statement, if a page has so many rows and there is never more room than most.
func worth(room, most, pageRows int) bool {
	return room > 0 && room >= min(most, pageRows)/roomFraction
}

// takeFair is take for a type that is fair by group. The page is from skipped.from.
func (l *loader) takeFair(r *round, page []store.Row, limit int, took time.Duration) {
	s := r.skipped
	ahead, accepted, read := s.from == r.at, 0, s.from
	first := map[string]store.Place{} // right before the first row of the group that this page has and skips
	full := false
	for i := range page {
		row := &page[i]
		group := groupOf(row)
		place, skips := s.groups[group]
		_, again := first[group]
		switch {
		case l.others(row) || again || skips && before(place, s.from): // a row of the group lies before this one
		case l.offer(row):
			accepted++
		default:
			if n, _ := l.sink.Lane(r.at.Priority, r.at.Start == store.AtATime); n <= 0 || !skips && len(s.groups)+len(first) >= skippedMax {
				full = true
				break
			}
			first[group] = read
		}
		if full {
			break
		}
		read.StartTime, read.ID = row.StartTime, row.ID
	}
	end := !full && len(page) < limit
	if end && before(read, r.at) {
		read = r.at
	}
	for group, place := range s.groups {
		if !before(place, s.from) && before(place, read) {
			s.groups[group] = read
		}
	}
	for group, place := range first {
		s.groups[group] = place
	}
	if before(r.at, read) {
		r.at.StartTime, r.at.ID = read.StartTime, read.ID
	}
	for group, place := range s.groups {
		if !before(place, r.at) {
			delete(s.groups, group)
		}
	}
	s.pace(l.backlog.PageRows, ahead, accepted, len(page), took)
	if end && len(s.groups) == 0 {
		r.ended = time.Now()
	} else if ahead && (end || full && accepted == 0) {
		s.looks = time.Now().Add(restAfter(took))
	}
}

// pace has the loader rest after a page that brought little, and read wider pages.
func (s *skipping) pace(pageRows int, ahead bool, accepted, rows int, took time.Duration) {
	much := accepted == rows || accepted >= pageRows/roomFraction
	s.ahead = !ahead
	switch {
	case ahead && !much:
		s.looks = time.Now().Add(took)
	case much && !ahead:
		s.wider = 1
	case !ahead:
		const widest = 1 << 20
		s.wider = min(widest, 4*s.wider)
		s.rests = time.Now().Add(max(skipRest, took))
	}
}

// wakes is when a round may have more to read although no row has left the memory.
func (s *skipping) wakes(now, next time.Time) time.Time {
	for _, at := range []time.Time{s.rests, s.looks} {
		if now.Before(at) && at.Before(next) {
			next = at
		}
	}
	return next
}

func groupOf(row *store.Row) string { return strings.TrimRight(row.Group(), " ") }

// before reports whether a place lies before another one of its lane.
func before(a, b store.Place) bool {
	if a.Start == store.AtATime && a.StartTime != b.StartTime {
		return a.StartTime < b.StartTime
	}
	return a.ID < b.ID
}

func earlier(a, b store.Place) store.Place {
	if before(b, a) {
		return b
	}
	return a
}
