package engine

import (
	"cmp"
	"slices"
	"time"
)

const (
	settleMax = 3 * time.Second // a statement for outcomes that has no answer by then is cut: somebody may have locked one of its rows

	// While such a statement is sent again, others wait. So it is cut sooner, and then there is a rest.
	againLeast   = 250 * time.Millisecond
	againLongest = time.Second      // if the database is not slow
	againRest    = 10 * time.Second // at most: a statement that was cut goes on in some servers, and keeps a session
	againOften   = 8                // statements in a row that were cut, until the rests become twice as long
	againFinds   = 3                // tries, until an outcome stands alone
	againSure    = 8                // statements in a row that were answered, until larger ones are tried: it was the database, and no row
	lockedLooks  = time.Second      // from one look at locked rows to the next
)

// failures are the outcomes of a settler whose statements have failed. They are sent apart from the others: a transaction may have locked
// their rows, or a trigger refuses one. While a statement waits for a row, no other outcome of the type is written, and when unsettledMax of
// them wait, none of its jobs starts. So a statement is cut after settleMax.
//
//	a statement is cut, or refused ──► locked: the server says which rows are locked; one look a second at a thousand of them
//	                               └─► list:   it does not say, or refuses a row: statements of an eighth of the size each time,
//	                                           until each outcome stands alone; after a cut, a rest
//
// MySQL and MariaDB do not notice that nobody waits for a statement any more: it keeps a session for up to innodb_lock_wait_timeout. So from
// the first cut on, as long as rows may be locked, a read that waits for no lock says which rows are free, and only they are written
// (passOver). If statements have no answer wherever they lead, the database is slow, and they get more time (settler.patience).
type failures struct {
	locked []*outcome // by when they are looked at
	lookAt time.Time  // at some of these

	list     []*outcome // the others, by the number of tries, least first; outcomes that stand alone take turns
	at       time.Time  // before, none of these is sent
	answered int        // of these statements, since one has failed
	cuts     int        // of these statements in a row that had no answer in time
}

// any reports whether there are outcomes of a kind.
func (f *failures) any(of func(*outcome) bool) bool {
	return slices.ContainsFunc(f.locked, of) || slices.ContainsFunc(f.list, of)
}

// in is how long until some may be sent.
func (f *failures) in() time.Duration {
	in := time.Hour
	if len(f.list) > 0 {
		in = time.Until(f.at)
	}
	if len(f.locked) > 0 {
		in = min(in, time.Until(f.lookAt))
	}
	return in
}

// take takes those of the next statement. There are some.
func (f *failures) take() (batch []*outcome) {
	if n := min(len(f.locked), batchRowsMax); n > 0 && time.Until(f.lookAt) <= 0 {
		batch, f.locked = f.locked[:n:n], f.locked[n:]
		f.lookAt = time.Now().Add(lockedLooks)
		return batch
	}
	stage, n := f.list[0].stage(), 0
	most := max(1, batchRowsMax>>(3*stage))
	most = min(most<<min(max(0, f.answered-againSure), 10), batchRowsMax)
	for n < len(f.list) && n < most && f.list[n].stage() == stage {
		n++
	}
	batch, f.list = f.list[:n:n], f.list[n:]
	return batch
}

// stage is how often an outcome was tried, until it stands alone.
func (o *outcome) stage() int { return min(o.tries, againFinds+1) }

// lock keeps outcomes whose rows were found locked.
func (f *failures) lock(outcomes []*outcome) {
	if len(f.locked) == 0 {
		f.lookAt = time.Now().Add(lockedLooks)
	}
	f.locked = append(f.locked, outcomes...)
}

// add keeps other outcomes.
func (f *failures) add(outcomes []*outcome) {
	if len(f.list) == 0 {
		f.answered, f.cuts = 0, 0
	}
	f.list = append(f.list, outcomes...)
	slices.SortStableFunc(f.list, func(a, b *outcome) int { return cmp.Compare(a.stage(), b.stage()) })
}

// after notes how statements for them ended. If one was cut, that was after a time.
func (f *failures) after(ok bool, cut time.Duration) {
	switch {
	case cut > 0:
		f.answered, f.cuts = 0, f.cuts+1
		f.at = time.Now().Add(min(3*cut<<min(f.cuts/againOften, 4), againRest))
	case ok:
		f.answered, f.cuts = f.answered+1, 0
	default:
		f.answered, f.cuts = 0, 0
	}
}
