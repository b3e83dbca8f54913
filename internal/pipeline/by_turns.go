package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// byTurns orders the tasks that are marked and wait for a worker, if the type is fair by group. Many rows are marked ahead of busy workers, and
// when a group's first row comes, all of these may be of another. The first row does not wait for them: it goes where its turn is, as rows do
// that wait to be marked (type fair). Tags are counted from the start that was last, not from the mark that was last. So how many rows are
// marked ahead does not tell for how long a small group waits.
//
// A row goes before none that is more urgent, and before none that has been ready for overtakenFor: whatever the weights are, what is marked starts
// before its mark would be taken back (surplusAfter). The rows of a group stay in the order in which they became ready.
type byTurns struct {
	weight weights
	last   map[string]float64 // of each group: the tag of the row that became ready last; if it is missing, it is not beyond the clock
	clock  float64            // the tag of the row that started last
	extra  time.Time          // when rows were marked last for the sake of a group that had none ready
	looked time.Time          // when …
	oldest time.Time          // … that was since when a row had been ready
}

const (
	fairMark     = 500                   // rows of a mark, unless more workers are idle: a small group's next row waits for the one that is under way
	extraMark    = 100                   // rows of a mark for the sake of a group that has none ready
	extraEvery   = 20 * time.Millisecond // each is a commit
	lookEvery    = 20 * time.Millisecond // at how long rows have been ready
	overtakenFor = surplusAfter / 3
)

// byGroup has ready tasks start by turns of their groups, if the configuration asks for that.
func (w *workers) byGroup() {
	if w.cfg.FairByGroup {
		w.turns = &byTurns{weight: w.cfg.GroupWeight, last: map[string]float64{}}
	}
}

// join gives the tasks from an index on their turns among all that are ready.
func (b *byTurns) join(ready []*task, from int) {
	for i := from; i < len(ready); i++ {
		t := ready[i]
		name := keyOf(t)
		t.run.tag = max(b.clock, b.last[name]) + 1/b.weight.of(name)
		b.last[name] = t.run.tag
		place := placeByTurn(ready[:i], t)
		copy(ready[place+1:i+1], ready[place:i])
		ready[place] = t
	}
	const few = 100
	if len(b.last) > few+2*len(ready) {
		maps.DeleteFunc(b.last, func(_ string, tag float64) bool { return tag <= b.clock })
	}
}

// InTurns puts rows in the order in which a type that is fair by group starts them, if all are there at once. They are in the order in which they
// would start otherwise: the most urgent first.
func InTurns(cfg *queue_job.Config, rows []*store.Row) {
	type turn struct {
		row   *store.Row
		level int
		tag   float64
	}
	type groupOf struct {
		level int
		name  string
	}
	last, turns := map[groupOf]float64{}, make([]turn, len(rows))
	for i, row := range rows {
		g := groupOf{levelOf(row.Priority), strings.TrimRight(row.Group(), " ")}
		last[g] += 1 / weights(cfg.GroupWeight).of(g.name)
		turns[i] = turn{row, g.level, last[g]}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.tag, b.tag)) })
	for i := range turns {
		rows[i] = turns[i].row
	}
}

// placeByTurn is where a task goes that is ready now: before all with a later turn, behind the last one that is more urgent or has been ready for
// long.
func placeByTurn(ready []*task, t *task) (place int) {
	place = len(ready)
	level := levelOf(t.row.Priority)
	for i := len(ready) - 1; i >= 0; i-- {
		switch its := levelOf(ready[i].row.Priority); {
		case t.run.since.Sub(ready[i].run.since) >= overtakenFor:
			return place
		case its == level && ready[i].run.tag > t.run.tag:
			place = i
		case its <= level:
			return place
		}
	}
	return place
}

// start notes that ready tasks go to a worker.
func (b *byTurns) start(call []*task) {
	for _, t := range call {
		b.clock = max(b.clock, t.run.tag)
	}
}

// forget forgets all turns: what was ready goes back.
func (b *byTurns) forget() {
	clear(b.last)
}

// longestReady is since when a task has been ready, as it was a moment ago: any may be the first, if they go by turns.
func (b *byTurns) longestReady(now time.Time, ready []*task) time.Time {
	if now.Sub(b.looked) < lookEvery {
		return b.oldest
	}
	b.looked, b.oldest = now, ready[0].run.since
	for _, t := range ready {
		if t.run.since.Before(b.oldest) {
			b.oldest = t.run.since
		}
	}
	return b.oldest
}

// roomForTurn is how many rows to mark although the workers have enough for now, since the next row is of a group that has none ready: it
// would wait until half of what is ready is gone. There are none if what is ready waits for anything but a worker that is about to come.
func (w *workers) roomForTurn(group string, markTakes time.Duration, most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	capacity, cycle := w.pace() // and no batches: these have a gate
	ahead := min(aheadMax, most, aheadOf(capacity, cycle, markTakes))
	now, waits := time.Now(), len(w.ready)-(capacity-w.alive+w.coming)
	switch b := w.turns; {
	case w.gate != nil, waits <= 0, waits > ahead, now.Sub(w.runs.ended) >= surplusAfter:
	case b.last[group] > b.clock, now.Sub(b.extra) < extraEvery:
	default:
		b.extra = now
		return extraMark
	}
	return 0
}

// nextGroup is the group whose turn it is; false: none has a row that is due.
func (q *queue) nextGroup() (name string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.levels {
		if f := q.levels[i].fair; f != nil && len(f.turns) > 0 {
			return f.turns[0].name, true
		}
	}
	return "", false
}
