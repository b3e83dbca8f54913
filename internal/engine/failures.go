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
	againFinds   = 3                // cuts, until an outcome stands alone
	againSure    = 8                // statements in a row that were answered, until larger ones are tried: it was the database, and no lock
)

// failures are the outcomes of a settler whose statements were cut. They are sent apart from the others, for a transaction may have locked
// their rows. Each cut makes the next statement an eighth as large, until each locked outcome stands alone.
type failures struct {
	list     []*outcome // by the number of cuts, least first; outcomes that stand alone take turns
	at       time.Time  // before, none is sent
	answered int        // of these statements, since one was cut
	inRow    int        // of these statements that were cut, since one was answered
}

// may is how many may be sent now, in one statement. There are some.
func (f *failures) may() (n int) {
	if time.Now().Before(f.at) {
		return 0
	}
	stage := f.list[0].stage()
	most := max(1, batchRowsMax>>(3*stage))
	most = min(most<<min(max(0, f.answered-againSure), 10), batchRowsMax)
	for n < len(f.list) && n < most && f.list[n].stage() == stage {
		n++
	}
	return n
}

// stage is how often an outcome was cut, until it stands alone.
func (o *outcome) stage() int { return min(o.cuts, againFinds+1) }

// take takes the first ones.
func (f *failures) take(n int) (batch []*outcome) {
	batch, f.list = f.list[:n:n], f.list[n:]
	return batch
}

// in is how long it takes until one may be sent.
func (f *failures) in() time.Duration { return time.Until(f.at) }

// add keeps outcomes.
func (f *failures) add(outcomes []*outcome) {
	if len(f.list) == 0 {
		f.answered, f.inRow = 0, 0
	}
	f.list = append(f.list, outcomes...)
	slices.SortStableFunc(f.list, func(a, b *outcome) int { return cmp.Compare(a.stage(), b.stage()) })
}

// after notes how a statement for them ended.
func (f *failures) after(answered bool, took time.Duration) {
	if answered {
		f.answered, f.inRow = f.answered+1, 0
		return
	}
	f.answered, f.inRow = 0, f.inRow+1
	f.at = time.Now().Add(min(3*took<<min(f.inRow/againOften, 4), againRest))
}
