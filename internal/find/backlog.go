package find

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

// Backlog is what is known of rows that neither tail nor sweep brings. Whoever has no room for a row leaves it to the loader.
type Backlog struct {
	UpTo        uint64          // the newest row at the start: rows that came later are never left alone
	PageRows    int             // a page is no longer than that
	ByGroup     bool            // the type is fair by group: there may be room for some groups, and none for others
	RoomCame    <-chan struct{} // rows have left the sink
	OnLeftAlone func(n int)     // n jobs are left alone

	since     atomic.Int64 // what fell due before is left alone, in unix seconds; 0: nothing is
	sinceSet  atomic.Bool  // since has changed
	leftAlone atomic.Int64 // jobs that FirstPullDay left alone, when they were counted last
	behind    atomic.Bool  // the loader is to bring what tail and sweep do not
	missed    atomic.Bool  // since the loader began its round, there was no room for a row
	passed    passedOver
	wake      chan struct{} // the loader
	sweep     atomic.Pointer[chan struct{}]
}

// NewBacklog leaves rows alone that fell due before since, in unix seconds; 0: none.
func NewBacklog(since int64, upTo uint64) *Backlog {
	b := &Backlog{UpTo: upTo, wake: make(chan struct{}, 1)}
	b.since.Store(since)
	return b
}

// begin leaves everything to the loader, which waits for the first look. A call that the last lease's loader left unheard is not
// for it. What falls due without an event is asked of the sweep.
func (b *Backlog) begin(sweep chan struct{}) {
	b.sweep.Store(&sweep)
	b.behind.Store(true)
	b.missed.Store(false)
	b.hush()
}

// hush takes a call back that the loader has not heard.
func (b *Backlog) hush() {
	select {
	case <-b.wake:
	default:
	}
}

// Fell leaves rows to the loader for which there was no room.
func (b *Backlog) Fell() {
	b.missed.Store(true)
	b.Ask()
}

// Ask has the loader look what there is. Until it has, the sweep leaves the type to it.
func (b *Backlog) Ask() {
	b.behind.Store(true)
	ground.Signal(b.wake)
}

// Behind reports whether the loader has not brought everything yet that tail and sweep do not bring.
func (b *Backlog) Behind() bool { return b.behind.Load() }

// Abandoned reports whether a row is one of those that are left alone.
func (b *Backlog) Abandoned(row *store.Row) bool {
	return row.ID <= b.UpTo && row.DueSecond() < b.since.Load()
}

// Since returns the moment before which what fell due is left alone, in unix seconds; 0: nothing is.
func (b *Backlog) Since() int64 { return b.since.Load() }

// Bounds are the moment before which what fell due is left alone, and the newest row that may be.
func (b *Backlog) Bounds() (since int64, upTo uint64) { return b.since.Load(), b.UpTo }

// SetSince sets that moment. The loader looks again at what it has left alone.
func (b *Backlog) SetSince(since int64) {
	b.since.Store(since)
	b.sinceSet.Store(true)
}

// LeftAlone returns how many jobs are left alone, as they were counted last.
func (b *Backlog) LeftAlone() int { return int(b.leftAlone.Load()) }

// LeaveAlone notes how many jobs are left alone, and tells it if there are any.
func (b *Backlog) LeaveAlone(n int) {
	if b.leftAlone.Store(int64(n)); n > 0 {
		b.OnLeftAlone(n)
	}
}

// passedOver are rows behind the loader that are to run and are not in memory. If nothing else is done, the next round of their lane brings
// them, and a backlog that is longer than the queue keeps that round waiting for hours.
type passedOver struct {
	mu      sync.Mutex
	terms   []int64       // for whose sake rows were left alone
	ended   bool          // of one of these terms, or the memory was emptied
	lookAt  time.Time     // while jobs run under such a term, its marks of others may be taken back: when to look for these
	lookIn  time.Duration // from the last look to that one
	left    bool          // rows have left the memory
	restart time.Time     // when the rounds began again for the sake of such rows
}

const letGoEvery = 5 * time.Second // what was in memory is read once more, since it lies behind the loader, too

// PassOver notes that a row was left alone, since what was marked under its term still runs elsewhere.
func (b *Backlog) PassOver(term int64) {
	p := &b.passed
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.terms, term) {
		p.terms = append(p.terms, term)
		p.lookAt, p.lookIn = time.Now().Add(letGoEvery), letGoEvery
	}
}

// LetGo notes that a row has left the memory, or was never taken in, and is to run.
func (b *Backlog) LetGo() {
	b.passed.mu.Lock()
	defer b.passed.mu.Unlock()
	b.passed.left = true
}

// LoadAgain has the loader begin anew. The memory was emptied, and the loader has passed the rows that were in it.
func (b *Backlog) LoadAgain() {
	b.passed.mu.Lock()
	b.passed.ended = true
	b.passed.mu.Unlock()
	b.Ask()
}

// HeedTerms notes under which terms jobs still run. Rows that were left alone for the sake of others are to be loaded, or swept at once: since
// their process died, they have waited for as long as its lease lasted.
func (b *Backlog) HeedTerms(running []int64) {
	p := &b.passed
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.terms)
	p.terms = slices.DeleteFunc(p.terms, func(term int64) bool { return !slices.Contains(running, term) })
	if len(p.terms) == before {
		return
	}
	p.ended = true
	if sweep := b.sweep.Load(); sweep != nil {
		ground.Signal(*sweep)
	}
}

// again reports, once, whether rows that were passed over are to be loaded; rows that have left the memory, once in a while.
func (p *passedOver) again(now time.Time, every time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	look := len(p.terms) > 0 && !now.Before(p.lookAt)
	if !look && !p.ended && !(p.left && now.Sub(p.restart) >= every) {
		return false
	}
	if look { // such marks are taken back soon, or hardly ever
		const rarer = 4
		p.lookIn *= rarer
		p.lookAt = now.Add(p.lookIn)
	}
	p.ended, p.left, p.restart = false, false, now
	return true
}
