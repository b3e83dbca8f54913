package upkeep

import "time"

const (
	retainRows  = 125                    // are read at a time, and deleted in a transaction, at most
	retainLeast = 25                     // are deleted by a statement, at least
	retainSteps = 3                      // statements delete what one transaction deletes
	retainNap   = 100 * time.Millisecond // is how long a transaction stays open for between two of them, at most
	retainLook  = time.Minute            // then it looks how many rows there are
	retainEvery = 10 * time.Minute       // one instance gets the lease in this time
)

// perRow passes for each row that a calm walk deletes, or less if that does not keep up: what was deleted, the database purges, and writes
// its pages, later and on its own.
const perRow = time.Second / 500

// pace is how much a walk takes of the database.
type pace struct {
	statement time.Duration // is what a statement should take: as long as that, others may wait
	part      time.Duration // of the time: one in this many
}

var (
	calm  = pace{2 * time.Millisecond, 20}
	haste = pace{5 * time.Millisecond, 10} // if the calm pace is too slow to keep up
)

// pacing is how fast the pruner deletes: a little faster than rows are added on average, in small statements, and in a small part of the
// time. Others wait for the statements that delete, and longer for their commits (docs/inside/measurements.md).
//
//	page of ≤ 125 rows: │ 2 ms │── rest ──│ 2 ms │── rest ──│ 2 ms │ commit │── rest: 19 times the work ──│ next page
//
// A calm walk deletes at most 500 rows a second, or 110 % of the average rate at which rows were added since the row that it has reached, if
// that is more. The rate of the last minute does not count: in the hours in which most rows are added, the database has enough to do, and a
// row that comes of age now was added long ago. If a calm walk does not keep up, it makes haste: 5 ms, rests of nine times the work, and no
// limit in rows.
type pacing struct {
	least, most int // rows to read at a time

	pace pace
	rows int           // to read at a time, now
	row  time.Duration // passes for each row while the pace is calm
	next time.Time     // from this moment on, the pace in rows allows the next statement
	debt time.Duration // the time that it has yet to rest

	looked time.Time // how many rows there are
	since  progress  // when it last decided whether to make haste
}

// progress is how far a walk had come at some time.
type progress struct {
	looked time.Time
	at     uint64 // the row
}

func newPacing(least, most int) pacing {
	return pacing{least: least, most: most, rows: retainLeast, row: perRow}
}

// begin begins a walk.
func (p *pacing) begin() { p.pace, p.debt, p.since = calm, 0, progress{} }

// owe notes how long work took. The pruner rests for it later, because its work must not take more of the time than the pace allows.
func (p *pacing) owe(took time.Duration) { p.debt += (p.pace.part - 1) * took }

// claim keeps the pace in rows: the next statement waits until the time of these rows is over. If it is late already, the wait is shorter,
// by retainNap at most.
func (p *pacing) claim(rows int, now time.Time) {
	if p.pace == haste {
		return
	}
	if late := now.Add(-retainNap); p.next.Before(late) {
		p.next = late
	}
	p.next = p.next.Add(time.Duration(rows) * p.row)
}

// rest says how long to sleep before the next statement, but no longer than most, and takes the debt for paid.
func (p *pacing) rest(most time.Duration, now time.Time) time.Duration {
	nap := min(most, max(p.debt, p.next.Sub(now)))
	p.debt = max(0, p.debt-nap)
	return nap
}

// step is how many rows a statement should delete.
func (p *pacing) step() int { return max(retainLeast, (p.rows+retainSteps-1)/retainSteps) }

// resize sets how many rows to read at a time, by how long the statements for the last page took: as many as the pace has time for. After
// an error, it halves the number.
func (p *pacing) resize(took time.Duration, err error) {
	fits := 2 * p.rows
	if err != nil {
		fits = p.rows / 2
	} else if took > 0 {
		fits = min(fits, max(p.rows/2, int(int64(p.rows)*retainSteps*int64(p.pace.statement)/int64(took))))
	}
	p.rows = min(max(fits, p.least), p.most)
}

// toLook reports, once in retainLook, that it is time to look how many rows there are.
func (p *pacing) toLook(now time.Time) bool {
	if now.Sub(p.looked) < retainLook {
		return false
	}
	p.looked = now
	return true
}

// saw is told which row the walk has reached, how old the row is, and the largest id. A calm walk deletes up to 110 % of the average rate
// at which rows were added since then. If it passes fewer rows than that average for as long as retainEvery, it makes haste.
func (p *pacing) saw(at uint64, age time.Duration, newest uint64) {
	every := age / time.Duration(max(newest, at+1)-at) // a row was added
	p.row = min(perRow, every/11*10)
	passed := p.looked.Sub(p.since.looked)
	if p.since.at > 0 && passed < retainEvery {
		return
	}
	if p.since.at > 0 && time.Duration(at-p.since.at) < passed/max(1, every) {
		p.pace = haste
	}
	p.since = progress{p.looked, at}
}
