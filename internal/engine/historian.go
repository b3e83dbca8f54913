package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	minuteLength = time.Minute
	noteSoon     = time.Second      // what befalls leases comes in bunches
	historyAgain = 10 * time.Second // after a statement that failed
	spreadMost   = 5 * time.Second  // the instances do not all write when a minute is over
	farAhead     = 10 * time.Minute // nobody would want to wait for the clock to get there again
	statsMax     = 10_000           // stats that wait to be written; of more, the oldest are given up
)

// historian writes down, once a minute, what each line has run, and a second after a lease has changed hands, who has it and how it
// ended. If nothing has run and no lease has moved, it sends nothing. What could not be written is written with the next. Nothing waits
// for it but Stop, for one last writing.
type historian struct {
	*database
	looks  ground.Looks
	known  map[*line]*ledger
	stats  map[statName]*stat
	begin  int64         // of the current minute, in unix seconds; it does not go back with the database's clock, unless that was farAhead
	tellAt time.Time     // zero: when the minute is over
	spread time.Duration // from the end of a minute to the writing
}

// ledger is what the historian knows of a line: the term under which it counts at present, and what was entered already.
type ledger struct {
	term    int64
	entered totals
}

// statName says which minute a row is for, and who writes it: terms of different instances differ.
type statName struct {
	begin int64
	lease string
	term  int64
}

// stat is what has been counted, and how much of it the table has.
type stat struct {
	store.Stat
	told, errors int64 // starts and ends of runs, and errors
}

// untold reports whether the table lacks something.
func (s *stat) untold() bool { return s.told < s.Counted() || s.errors < s.Errors.Runs() }

func newHistorian(d *database) *historian {
	return &historian{database: d, known: map[*line]*ledger{}, stats: map[statName]*stat{}, begin: minuteOf(d.clock.Now()), spread: rand.N(spreadMost)}
}

// minuteOf is when the minute begins in which a moment lies, in unix seconds. The moment is in milliseconds.
func minuteOf(now int64) int64 {
	const seconds = int64(minuteLength / time.Second)
	return now / 1000 / seconds * seconds
}

// loop writes until ctx ends, and then what is left.
func (h *historian) loop(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(h.rest(time.Now()))
		select {
		case <-timer.C:
			h.step(ctx, time.Now())
		case <-h.chronicle.came:
			h.tellWithin(noteSoon)
		case <-ctx.Done():
		}
		timer.Stop()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	h.errlog.On(last, "write the history", h.tell(last, time.Now().Add(expiredAfter), true))
}

// rest is how long until there is something to do.
func (h *historian) rest(now time.Time) time.Duration {
	const seconds = int64(minuteLength / time.Second)
	rest := min(minuteLength, time.Duration((h.begin+seconds)*1000-h.clock.Now())*time.Millisecond)
	if !h.tellAt.IsZero() {
		rest = min(rest, h.tellAt.Sub(now))
	}
	return max(rest, time.Millisecond)
}

func (h *historian) tellWithin(d time.Duration) {
	if at := time.Now().Add(d); h.tellAt.IsZero() || at.Before(h.tellAt) {
		h.tellAt = at
	}
}

// step enters what belongs to a minute that is over, and writes if it is time to.
func (h *historian) step(ctx context.Context, now time.Time) {
	switch begin := minuteOf(h.clock.Now()); {
	case begin > h.begin:
		h.enter(begin)
		h.begin = begin
		h.tellWithin(h.spread)
	case h.begin-begin > int64(farAhead/time.Second):
		h.begin = begin + int64(minuteLength/time.Second) // of the minute before, the table may have rows already
		h.tellWithin(h.spread)
	}
	if h.tellAt.IsZero() || now.Before(h.tellAt) {
		return
	}
	h.tellAt = time.Time{}
	statement, cancel := context.WithTimeout(h.patience, ground.LookLongest)
	defer cancel()
	if h.errlog.On(ctx, "write the history", ground.UnlessOver(h.patience, h.tell(statement, now, false))) { // what a stop cuts off is written at the end
		h.tellWithin(historyAgain)
	} else if next := h.chronicle.next(); !next.IsZero() {
		h.tellWithin(max(next.Sub(now), noteSoon)) // what is near comes with it
	}
}

// enter enters what all lines have counted since the last entry into the current minute. A line that the database has no more has
// nothing more to count. Next is the minute into which the next entry goes.
func (h *historian) enter(next int64) {
	lines := h.lines.all()
	for l, of := range h.known {
		h.enterLine(l, of, next)
		if !slices.Contains(lines, l) {
			delete(h.known, l)
		}
	}
}

func (h *historian) enterLine(l *line, of *ledger, next int64) {
	name := statName{h.begin, l.name, of.term}
	now := l.counts.now()
	errors, lost := l.errors.enter(name, statName{next, l.name, of.term})
	if now == of.entered && lost == 0 && len(errors.Errors) == 0 {
		return
	}
	s := h.stats[name]
	if s == nil {
		s = &stat{Stat: store.Stat{JobType: l.cfg.JobType, Begin: name.begin, Lease: name.lease, Term: name.term, Seconds: int64(minuteLength / time.Second)}}
		h.stats[name] = s
	}
	news := now.since(&of.entered)
	news.Errors, news.Lost = errors, lost
	s.Add(&news)
	of.entered = now
}

// tell writes what befell the leases, and the minutes that are over, or whose leases are not held any more. At the end, it writes all.
func (h *historian) tell(ctx context.Context, now time.Time, all bool) error {
	news, old, takings := h.chronicle.take(now)
	for _, t := range takings { // the terms are all of this instance, so it does not matter which of them a run counts under
		if h.known[t.line] == nil {
			h.known[t.line] = &ledger{}
		}
		h.known[t.line].term = t.term
	}
	h.enter(h.begin)
	return errors.Join(h.tellTenures(ctx, news, old), h.tellStats(ctx, all))
}

func (h *historian) tellTenures(ctx context.Context, news map[tenureName]store.Tenure, old []expired) error {
	var tenures, takers []store.Tenure
	for _, t := range news {
		tenures = append(tenures, t)
	}
	for _, e := range old {
		takers = append(takers, e.by)
	}
	err := h.send(ctx, tenures, h.tables.History.TellTenures)
	if err == nil {
		news = nil
		err = h.send(ctx, takers, h.tables.History.ExpireTenures)
	}
	if err != nil {
		h.chronicle.back(news, old)
	}
	return err
}

func (h *historian) send(ctx context.Context, tenures []store.Tenure, statement func(context.Context, []store.Tenure) error) error {
	if len(tenures) == 0 {
		return nil
	}
	slices.SortFunc(tenures, func(a, b store.Tenure) int {
		return compareNames(statName{0, a.Lease, a.Term}, statName{0, b.Lease, b.Term})
	})
	return h.looks.Look(ctx, func(ctx context.Context) error { return statement(ctx, tenures) })
}

func (h *historian) tellStats(ctx context.Context, all bool) error {
	names := h.untold(all)
	if len(names) == 0 {
		return nil
	}
	stats := make([]store.Stat, len(names))
	for i, name := range names {
		stats[i] = h.stats[name].Stat
	}
	if err := h.looks.Look(ctx, func(ctx context.Context) error { return h.tables.History.TellStats(ctx, stats) }); err != nil {
		return err
	}
	for i, name := range names {
		h.stats[name].told, h.stats[name].errors = stats[i].Counted(), stats[i].Errors.Runs()
	}
	maps.DeleteFunc(h.stats, func(name statName, s *stat) bool { return name.begin != h.begin && !s.untold() })
	return nil
}

// untold are the stats that are to be written, in the order in which they begin. If there are too many, it gives the first ones up.
func (h *historian) untold(all bool) (names []statName) {
	held := map[tenureName]bool{}
	for _, l := range h.heldLines() {
		held[tenureName{l.lease.Name, l.lease.Term}] = true
	}
	for name, s := range h.stats {
		if over := name.begin != h.begin; s.untold() && (over || all || !held[tenureName{name.lease, name.term}]) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	for len(names) > statsMax {
		delete(h.stats, names[0])
		names = names[1:]
	}
	return names
}

func compareNames(a, b statName) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.lease, b.lease), cmp.Compare(a.term, b.term))
}
