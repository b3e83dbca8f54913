package engine

import (
	"cmp"
	"slices"
	"time"
)

const (
	settleMax = 3 * time.Second // a statement that takes longer is cut: somebody may have locked one of its rows

	// Others wait while such a statement is sent again. So it is cut sooner, and all of them together take a part of the time.
	againLeast   = 250 * time.Millisecond
	againLongest = time.Second // if the database is not slow itself
	againSlower  = 4           // than the last statement that was written, such a statement may be
	againOneIn   = 4           // parts of the time are for these statements
	againFinds   = 3           // cuts, until an outcome stands alone
	againSure    = 8           // statements in a row that were written, until larger ones are tried: it was the database, and no lock
)

// failures are the outcomes of a settler whose writing has failed. They are sent again apart from the others, for a transaction may have
// locked one of their rows. Each time that a statement was cut, its outcomes are sent in statements of an eighth of its size: in the end,
// those that are locked stand alone.
type failures struct {
	list    []*outcome    // those first that were cut least often
	at      time.Time     // before, none is sent again
	written int           // of these statements, since the last one that failed
	takes   time.Duration // what the last statement took that was written, of these or of others
	cut     int           // statements, since then
}

// may is how many outcomes may be sent again now, in one statement.
func (f *failures) may() (n int) {
	if len(f.list) == 0 || time.Now().Before(f.at) {
		return 0
	}
	cuts := f.list[0].cuts
	most := max(1, batchRowsMax>>(3*min(cuts, againFinds+1)))
	most = min(most<<min(max(0, f.written-againSure), 10), batchRowsMax)
	for n < len(f.list) && n < most && f.list[n].cuts == cuts {
		n++
	}
	return n
}

// take takes the first outcomes.
func (f *failures) take(n int) (batch []*outcome) {
	batch, f.list = f.list[:n:n], f.list[n:]
	return batch
}

// in is how long it takes until an outcome may be sent again.
func (f *failures) in() time.Duration {
	if len(f.list) == 0 {
		return time.Hour
	}
	return time.Until(f.at)
}

// add keeps outcomes whose writing has failed.
func (f *failures) add(failed []*outcome) {
	for _, o := range failed {
		o.sentBefore = true
	}
	f.list = append(f.list, failed...)
	slices.SortStableFunc(f.list, func(a, b *outcome) int { return cmp.Compare(a.cuts, b.cuts) })
}

// after notes how a statement ended that was sent again.
func (f *failures) after(ok bool, took time.Duration) {
	if f.written++; !ok {
		f.written, f.at = 0, time.Now().Add(max(retryFirst, (againOneIn-1)*took))
	}
}

// noteCut notes that a statement about these outcomes was cut.
func (f *failures) noteCut(outcomes []*outcome) {
	f.cut++
	for _, o := range outcomes {
		o.cuts++
	}
}

// noteWritten notes that all outcomes of a batch were written. If that took longer than others were given, it was the database that was slow,
// and the cuts say nothing of the outcomes.
func (f *failures) noteWritten(took time.Duration) {
	if took >= againLongest {
		for _, o := range f.list {
			o.cuts = 0
		}
	}
	f.takes, f.cut = took, 0
}

// patience is how long a statement may take whose outcomes were cut so often. While some outcomes are known to have been cut, others are
// cut sooner. If nothing is written any more, it is the database that is slow, and each statement may take longer than the one before.
func (f *failures) patience(cuts int) time.Duration {
	slow := min(max(againLeast, againSlower*f.takes)<<min(max(0, f.cut-againFinds), 10), statementMax)
	switch {
	case cuts > 0:
		return min(max(slow, againLeast<<min(max(0, cuts-againFinds), 10)), max(slow, againLongest))
	case len(f.list) > 0 && f.list[len(f.list)-1].cuts > 0:
		return max(slow, againLongest)
	default:
		return max(slow, settleMax)
	}
}
