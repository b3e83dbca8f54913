package upkeep

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
)

const (
	minuteLength = time.Minute
	noteSoon     = time.Second      // what befalls leases comes in bunches
	historyAgain = 10 * time.Second // after a statement that failed
	spreadMost   = 5 * time.Second  // the instances do not all write when a minute is over
	farAhead     = 10 * time.Minute // nobody would want to wait for the clock to get there again
	statsMax     = 10_000           // stats that wait to be written; of more, the oldest are given up
	lastMax      = 2 * time.Second  // for the last writing
)

// History is what stats and roll-up need of the tables to write down what has run, and who had the leases. *record.Store has it.
type History interface {
	WriteStats(ctx context.Context, stats []record.Stat) error
	WriteTenures(ctx context.Context, tenures []record.Tenure) error
	ExpireTenures(ctx context.Context, taken []record.Tenure) error
	RollUp(ctx context.Context, jobType int32, from, before, seconds int64) (begin int64, found bool, err error)
	DropStats(ctx context.Context, jobType int32, before int64) error
	DropTenures(ctx context.Context, before int64) error
	TypesKnown(ctx context.Context) ([]int32, error)
}

// stats writes down, once a minute, what each line has run, and a second after a lease has changed hands, who has it and how it
// ended. If nothing has run or waited, and no lease has moved, it sends nothing. What could not be written is written with the next. Nothing waits
// for it but Stop, for one last writing.
//
// A row is named by its minute, lease and term, and says how much it has counted. So a statement that comes again, or late, changes nothing.
// The engine never reads these rows. Readers add them up.
type stats struct {
	*Base
	table    History
	log      *LeaseLog
	patience context.Context
	looks    ground.Looks
	terms    map[Line]int64 // under which each line counts at present
	stats    map[statName]*stat
	begin    int64         // of the current minute, in unix seconds; it does not go back with the database's clock, unless that was farAhead
	writeAt  time.Time     // zero: when the minute is over
	spread   time.Duration // from the end of a minute to the writing
	sent     bool          // a statement, since flush began
}

// statName says which minute a row is for, and who writes it: terms of different instances differ.
type statName struct {
	begin int64
	lease string
	term  int64
}

// stat is what has been counted, and how much of it the table has.
type stat struct {
	record.Stat
	told, errors int64 // starts and ends of runs, and errors
	written      bool
}

// untold reports whether the table lacks something. A level alone is written once: a row changes only if it has counted more.
func (s *stat) untold() bool {
	return s.told < s.Counted() || s.errors < s.Errors.Runs() || !s.written && s.Level != (record.Level{})
}

// Stats is the task that writes down what has run, and who had the leases. Statements are given up when patience ends, but for the last.
func Stats(b *Base, table History, log *LeaseLog, patience context.Context) *Task {
	s := &stats{
		Base: b, table: table, log: log, patience: patience,
		terms: map[Line]int64{}, stats: map[statName]*stat{}, begin: minuteOf(b.Clock.Now()), spread: rand.N(spreadMost),
	}
	return &Task{Base: b, doing: "write the history", first: s.rest(time.Now()), wake: log.came, do: s.step, last: s.writeAll}
}

// minuteOf is when the minute begins in which a moment lies, in unix seconds. The moment is in milliseconds.
func minuteOf(now int64) int64 {
	const seconds = int64(minuteLength / time.Second)
	return now / 1000 / seconds * seconds
}

// rest is how long until there is something to do.
func (s *stats) rest(now time.Time) time.Duration {
	const seconds = int64(minuteLength / time.Second)
	rest := min(minuteLength, time.Duration((s.begin+seconds)*1000-s.Clock.Now())*time.Millisecond)
	if !s.writeAt.IsZero() {
		rest = min(rest, s.writeAt.Sub(now))
	}
	return max(rest, time.Millisecond)
}

func (s *stats) writeWithin(d time.Duration) {
	if at := time.Now().Add(d); s.writeAt.IsZero() || at.Before(s.writeAt) {
		s.writeAt = at
	}
}

// step enters what belongs to a minute that is over, and writes if it is time to.
func (s *stats) step(context.Context, Turn) (wait time.Duration, err error) {
	now := time.Now()
	if s.log.hasCome() {
		s.writeWithin(noteSoon)
	}
	switch begin := minuteOf(s.Clock.Now()); {
	case begin > s.begin:
		s.enter(begin)
		s.begin = begin
		s.writeWithin(s.spread)
	case s.begin-begin > int64(farAhead/time.Second):
		s.begin = begin + int64(minuteLength/time.Second) // of the minute before, the table may have rows already
		s.writeWithin(s.spread)
	}
	err = errIdle
	if !s.writeAt.IsZero() && !now.Before(s.writeAt) {
		err = s.writeNow(now)
	}
	return s.rest(time.Now()), err
}

func (s *stats) writeNow(now time.Time) error {
	s.writeAt = time.Time{}
	statement, cancel := context.WithTimeout(s.patience, ground.LookLongest)
	defer cancel()
	if err := ground.UnlessOver(s.patience, s.flush(statement, now, false)); err != nil { // what a stop cuts off is written at the end
		s.writeWithin(historyAgain)
		return err
	}
	if next := s.log.next(); !next.IsZero() {
		s.writeWithin(max(next.Sub(now), noteSoon)) // what is near comes with it
	}
	if !s.sent {
		return errIdle
	}
	return nil
}

// writeAll writes what is left.
func (s *stats) writeAll() {
	last, cancel := context.WithTimeout(context.WithoutCancel(s.patience), lastMax)
	defer cancel()
	s.Errlog.On(last, "write the history", s.flush(last, time.Now().Add(expiredAfter), true))
}

// enter enters what all lines have counted since the last entry into the current minute. A line that the instance has no more has
// nothing more to count. Next is the minute into which the next entry goes.
func (s *stats) enter(next int64) {
	lines := s.Lines()
	for l, term := range s.terms {
		s.enterLine(l, term, next)
		if !slices.Contains(lines, l) {
			delete(s.terms, l)
		}
	}
}

func (s *stats) enterLine(l Line, term, next int64) {
	news := l.Ran(s.begin, next, term)
	if news.Counted() == 0 && len(news.Errors.Errors) == 0 && news.Level == (record.Level{}) {
		return
	}
	name := statName{s.begin, l.Lease(), term}
	of := s.stats[name]
	if of == nil {
		const seconds = int64(minuteLength / time.Second)
		of = &stat{Stat: record.Stat{JobType: l.JobType(), Begin: name.begin, Lease: name.lease, Term: name.term, Seconds: seconds}}
		s.stats[name] = of
	}
	of.Add(&news)
}

// flush writes the changes of leases, and the minutes that are over or whose leases have ended. At the end, it writes the current minute, too.
func (s *stats) flush(ctx context.Context, now time.Time, all bool) error {
	s.sent = false
	news, old, takings := s.log.take(now)
	for _, t := range takings { // the terms are all of this instance, so it does not matter which of them a run counts under
		s.terms[t.line] = t.term
	}
	s.enter(s.begin)
	return errors.Join(s.writeTenures(ctx, news, old), s.writeStats(ctx, all))
}

func (s *stats) writeTenures(ctx context.Context, news map[tenureName]record.Tenure, old []expired) error {
	var tenures, takers []record.Tenure
	for _, t := range news {
		tenures = append(tenures, t)
	}
	for _, e := range old {
		takers = append(takers, e.by)
	}
	err := s.send(ctx, tenures, s.table.WriteTenures)
	if err == nil {
		news = nil
		err = s.send(ctx, takers, s.table.ExpireTenures)
	}
	if err != nil {
		s.log.back(news, old)
	}
	return err
}

func (s *stats) send(ctx context.Context, tenures []record.Tenure, statement func(context.Context, []record.Tenure) error) error {
	if len(tenures) == 0 {
		return nil
	}
	slices.SortFunc(tenures, func(a, b record.Tenure) int {
		return compareNames(statName{0, a.Lease, a.Term}, statName{0, b.Lease, b.Term})
	})
	return s.look(ctx, func(ctx context.Context) error { return statement(ctx, tenures) })
}

func (s *stats) look(ctx context.Context, statement func(context.Context) error) error {
	s.sent = true
	return s.looks.Look(ctx, statement)
}

func (s *stats) writeStats(ctx context.Context, all bool) error {
	names := s.untold(all)
	if len(names) == 0 {
		return nil
	}
	rows := make([]record.Stat, len(names))
	for i, name := range names {
		rows[i] = s.stats[name].Stat
	}
	if err := s.look(ctx, func(ctx context.Context) error { return s.table.WriteStats(ctx, rows) }); err != nil {
		return err
	}
	for i, name := range names {
		of := s.stats[name]
		of.told, of.errors, of.written = rows[i].Counted(), rows[i].Errors.Runs(), true
	}
	maps.DeleteFunc(s.stats, func(name statName, of *stat) bool { return name.begin != s.begin && !of.untold() })
	return nil
}

// untold are the stats that are to be written, in the order in which they begin. If there are too many, it gives the first ones up.
func (s *stats) untold(all bool) (names []statName) {
	held := map[tenureName]bool{}
	for _, h := range s.Held() {
		held[tenureName{h.Lease(), h.Term}] = true
	}
	for name, of := range s.stats {
		if over := name.begin != s.begin; of.untold() && (over || all || !held[tenureName{name.lease, name.term}]) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	for len(names) > statsMax {
		delete(s.stats, names[0])
		names = names[1:]
	}
	return names
}

func compareNames(a, b statName) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.lease, b.lease), cmp.Compare(a.term, b.term))
}
