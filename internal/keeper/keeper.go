package keeper

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

var (
	// ErrLost is the cause in [Lease.Context] if trust in the lease has ended or the table says that it is no longer
	// ours.
	ErrLost = errors.New("lease lost")
	// ErrReleased is the cause in [Lease.Context] if the lease was given back.
	ErrReleased = errors.New("lease released")
	// ErrCollision is the cause of an error if the table has a lease whose name is another one than the wanted name, and the
	// database does not tell the two apart.
	ErrCollision = errors.New("names collide")
)

// Want is a lease to be taken by [Keeper.Take].
type Want struct {
	Name    string
	Holder  string        // stands in the table as the holder; empty: the keeper's holder
	Lock    time.Duration // whole seconds, at least [lease.ShortestLock]
	MinLock time.Duration // whole seconds, from the taking on, in which nobody else gets it, even if it is given back
	Once    bool          // nobody takes a lease of this name again: its row is deleted when it is given back
	Layout  int64         // for which its row must be, see [store.Store.SetLayout]; 0: 1, as every row is made

	// Governed says that others may take the lease from an instance that they have not heard of, see life.go. They leave two kinds to their holder
	// all the same: a lease that is shorter than [ShortestGoverned], which ends as soon by itself, and a lease with a MinLock.
	Governed bool

	// Running counts what runs under the lease. Each renewal writes the number if it is another than before; nil: none is
	// written. A lease that was moved has its number written by [Keeper.Move] and [Keeper.NoteRunning] only.
	Running func(*Lease) int
}

func (w Want) layout() int64 { return cmp.Or(w.Layout, 1) }

// Lease is a lease that is or was held.
type Lease struct {
	Want   Want
	Term   int64
	owner  string
	taken  time.Time  // when the statement was sent that took it
	before store.Seen // the row before the lease was taken
	starts starts

	ctx     context.Context
	cancel  context.CancelCauseFunc
	lingers context.Context
	trust   *time.Timer  // cancels the context when trust ends
	until   atomic.Int64 // the end of trust, in nanoseconds after epoch
	noted   atomic.Int64 // what it may be, since a renewal may not count, and NoteRunning does not say whether it has renewed the row
	row     string       // its name in the table; guarded by the keeper's mutex
	maybe   string       // another name that a statement of unknown outcome may have written; guarded by it, too; empty: none
	owes    bool         // it has another name, and its own is not known to be given away; guarded by it, too
	renewal renewal
}

// starts is what allows jobs to start under a lease.
type starts struct {
	life *life       // nil: they may as long as the lease is trusted
	left atomic.Bool // its name is somebody else's
}

// renewal is what the next renewal of a lease needs. Only Run uses it.
type renewal struct {
	at      time.Time // when the lease is renewed, or given back if it is late
	expires time.Time // when the row expires unless it is renewed
	running int       // what the row says about what runs under the lease; unknown: nobody knows

	doubtful, doubtfulSince time.Time // a renewal that does not count yet, and when it was answered
}

const unknown = -1

const lingersFor = 500 * time.Millisecond

// partingMost is how many leases are given back at a time. Each takes a connection for a moment, of which a server may have 100.
const partingMost = 16

// epoch anchors moments to the monotonic clock, so that setting the wall clock has no effect on trust.
var epoch = time.Now()

// Trusted reports whether the lease is certainly held at this moment. Ask before every act that only the holder may do.
func (l *Lease) Trusted() bool {
	return int64(time.Since(epoch)) < l.until.Load() && l.ctx.Err() == nil
}

// Lingering returns a context that lives half a second longer than [Lease.Context]: a statement that is under way has its answer then,
// mostly, and what it has done can be taken back.
func (l *Lease) Lingering() context.Context { return l.lingers }

// FreeIn is how long it takes until the lease has ended, if it is not renewed.
func (l *Lease) FreeIn() time.Duration {
	return max(0, time.Until(lease.FreeAt(epoch.Add(time.Duration(max(l.until.Load(), l.noted.Load()))), l.Want.Lock)))
}

// Context returns a context that ends when the lease is lost or given back, with [ErrLost] or [ErrReleased] as its cause,
// or when the keeper's parent ends.
func (l *Lease) Context() context.Context { return l.ctx }

func (l *Lease) trustUntil(moment time.Time) {
	l.until.Store(int64(moment.Sub(epoch)))
	if l.noted.Load() == 0 {
		l.noted.Store(l.until.Load()) // under virtual time, moments lie before epoch
	}
	l.trust.Reset(time.Until(moment))
}

// noteUntil notes that the row may have been renewed at a moment.
func (l *Lease) noteUntil(at time.Time) {
	l.noted.Store(max(l.noted.Load(), int64(lease.TrustedUntil(at, l.Want.Lock).Sub(epoch))))
}

func (l *Lease) end(cause error) {
	l.trust.Stop()
	l.cancel(cause)
}

// Owner is what stands in the table as who holds the lease.
func (l *Lease) Owner() string { return l.owner }

// HeldBefore names who held the lease under an earlier term, in readable words. The table has the name of the last holder
// only; for a holder before that, HeldBefore gives the term.
func (l *Lease) HeldBefore(term int64) string {
	if term != l.before.Term {
		return fmt.Sprintf("holder of term %d", term)
	}
	return share.Readable(l.before.Owner)
}

// Broken returns under which term the lease was held when somebody broke it, if it was taken after that, and which instance had it.
func (l *Lease) Broken() (term int64, instance string, broken bool) {
	return l.before.Term, share.OwnerOf(l.before.Owner).Instance, l.before.Running == store.Broken
}

// Leases is the keeper's view of the table of leases. [store.Store] implements it; the contracts are at its methods.
type Leases interface {
	SeeLeases(ctx context.Context, names []string) ([]store.Seen, error)
	MakeLeases(ctx context.Context, names []string) error
	TakeLeases(ctx context.Context, names []string, owner string, layout, lockSeconds int64, broken bool) (terms map[string]int64, err error)
	KeepLeases(ctx context.Context, names, owners []string, lockSeconds int64, running map[string]int) (kept map[string]time.Duration, err error)
	ReleaseLease(ctx context.Context, name, owner string, minLock time.Duration) (ours bool, err error)
	AbandonLeases(ctx context.Context, names []string, owner string) error
	CloseLease(ctx context.Context, name, owner string, layout int64) error

	Fleet(ctx context.Context, prefixes []string) (store.Fleet, error)
	MoveLease(ctx context.Context, name, owner string, term, layout, lockSeconds int64, running int) error
	NoteRunning(ctx context.Context, name, owner string, lockSeconds int64, running int) error
	DropLease(ctx context.Context, name, owner string) error
	EndedLeases(ctx context.Context, prefixes []string) ([]string, error)
	DropEnded(ctx context.Context, names []string) error

	LayDown(ctx context.Context, name, owner string) error
	Wake(ctx context.Context, names []string) error

	Beats
	Bury(ctx context.Context, name, owner string, term, seconds int64) (buried bool, err error)
	BuryDead(ctx context.Context, name, owner string, term, seconds int64, unexpired bool) (buried bool, err error)
	CopyLeases(ctx context.Context, copies []store.Copy) error
	FreeLeases(ctx context.Context, names, owners []string) error
}

// Keeper takes and keeps leases on one database. [Keeper.Run] renews what [Keeper.Take] has taken, so it must run as long
// as leases are held.
type Keeper struct {
	leases    Leases
	parent    context.Context
	holder    string // the readable part of locked_by: service, host, process
	identity  string // see Identify; empty: none
	id        string // the same in the owners of all leases of this keeper, and in no others
	takings   atomic.Int64
	onRenewal func(error)

	mu      sync.Mutex
	held    map[string]*Lease
	unsure  unsure
	changed chan struct{} // a lease was taken: Run looks anew when the next renewal is

	overdue   *Overdue
	onOverdue func(text string) // nil: nobody hears of it

	owed        map[string]*debt  // what is to be given back still, by the rows; guarded by mu
	parted      map[string]string // the owners of rests that others may write though nothing runs any more, by their names; guarded by mu
	pulse       pulse
	silence     silence
	successions map[string]time.Time // since when two lives of an identity are seen. Only looks use it
	census      census

	turns chan struct{} // of those who give leases back

	late []*Lease // leases whose rows are to be given back, see dropLate; only Run uses it
}

// NewID draws an identity for a keeper: twelve hexadecimal digits.
func NewID() string {
	var id [6]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// New returns a keeper. When parent ends, the contexts of its leases end. Holder and id stand in the table as the holder of its
// leases. The keeper calls onRenewal after each renewal, with nil or with the error after which it tries again.
func New(parent context.Context, leases Leases, holder, id string, onRenewal func(error)) *Keeper {
	return &Keeper{leases: leases, parent: parent, holder: holder, id: id, onRenewal: onRenewal, held: map[string]*Lease{},
		changed: make(chan struct{}, 1), overdue: &Overdue{}, turns: make(chan struct{}, partingMost), pulse: pulse{risen: make(chan struct{}, 1)}}
}

// ID is the keeper's identity.
func (k *Keeper) ID() string { return k.id }

// Take takes the wanted leases that are free, and returns them. If none is free, it locks nothing. If a
// statement fails, Take gives back the leases that this statement may have taken, and returns the leases taken before it.
func (k *Keeper) Take(ctx context.Context, wants []Want) ([]*Lease, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	seen, err := k.leases.SeeLeases(ctx, names(wants))
	if err != nil {
		return nil, err
	}
	for _, row := range seen {
		if !slices.ContainsFunc(wants, func(want Want) bool { return want.named(row.Name) }) {
			return nil, collision(names(wants), row.Name)
		}
	}
	if err := k.EndStrays(ctx, seen); err != nil {
		return nil, err
	}
	return k.TakeSeen(ctx, wants, seen)
}

// TakeSeen is Take for leases that a look has shown. Each holder takes a statement. When half of the time until ctx ends is over, TakeSeen
// sends no further ones: the caller needs the other half for what was taken.
func (k *Keeper) TakeSeen(ctx context.Context, wants []Want, seen []store.Seen) (leases []*Lease, err error) {
	taken, err := k.take(ctx, wants, seen)
	for _, t := range taken {
		lease := k.hold(t.Want, t.term, t.owner, t.sent)
		lease.before = t.seen
		leases = append(leases, lease)
	}
	return leases, err
}

// Asked is a lease that says that this keeper asks for something.
type Asked struct{ Name, owner string }

// Ask takes leases that nobody renews: they end by themselves. They say to everybody who looks that this keeper asks for
// something. Pass the result to [Keeper.Unask] to end them sooner.
func (k *Keeper) Ask(ctx context.Context, wants []Want, seen []store.Seen) (asked []Asked, err error) {
	taken, err := k.take(ctx, wants, seen)
	for _, t := range taken {
		asked = append(asked, Asked{t.Name, t.owner})
	}
	return asked, err
}

// Unask ends leases that Ask has taken before they end by themselves, so that others can ask.
func (k *Keeper) Unask(ctx context.Context, asked []Asked) error {
	of := map[string][]string{}
	for _, a := range asked {
		of[a.owner] = append(of[a.owner], a.Name)
	}
	for _, owner := range slices.Sorted(maps.Keys(of)) {
		if err := k.leases.AbandonLeases(ctx, of[owner], owner); err != nil {
			return err
		}
	}
	return nil
}

// taking is a lease that is free to be taken and, behind its row as it was read, what has come of it.
type taking struct {
	Want
	seen  store.Seen
	term  int64
	owner string
	sent  time.Time
}

func (k *Keeper) take(ctx context.Context, wants []Want, seen []store.Seen) (taken []taking, err error) {
	half := halfOf(ctx)
	free, err := k.free(ctx, wants, seen)
	if err != nil {
		return nil, err
	}
	for i, wants := range groupByLock(free) {
		if i > 0 && time.Now().After(half) {
			break
		}
		lock, sent, owner := wants[0].Lock, time.Now(), k.owner(wants[0].Holder, longest(wants), wants[0].TwoEnds())
		terms, err := k.leases.TakeLeases(ctx, names(wants), owner, wants[0].layout(), int64(lock/time.Second), wants[0].broken())
		if err != nil {
			k.abandon(ctx, wants, owner)
			return taken, err
		}
		for _, name := range slices.Sorted(maps.Keys(terms)) { // so that the order is the same each time
			i := slices.IndexFunc(wants, func(want taking) bool { return want.named(name) })
			if i < 0 {
				k.abandon(ctx, wants, owner)
				return taken, collision(names(wants), name)
			}
			wants[i].term, wants[i].owner, wants[i].sent = terms[name], owner, sent
			taken = append(taken, wants[i])
		}
	}
	return taken, nil
}

// halfOf is when half of the time is over that ctx has from now on.
func halfOf(ctx context.Context) time.Time {
	const long = 24 * time.Hour
	if deadline, limited := ctx.Deadline(); limited {
		return time.Now().Add(time.Until(deadline) / 2)
	}
	return time.Now().Add(long)
}

// named reports whether the lease has this name. MySQL and MariaDB ignore case in names, so the comparison does too.
func (w Want) named(name string) bool { return strings.EqualFold(w.Name, name) }

// abandon gives back the leases that a statement of unknown outcome may have taken. If this fails, or comes before that statement, the
// next look gives them back.
func (k *Keeper) abandon(ctx context.Context, wants []taking, owner string) {
	k.mu.Lock()
	k.unsure.note(owner, time.Now())
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	k.leases.AbandonLeases(ctx, names(wants), owner)
}

func names[W interface{ name() string }](wants []W) []string {
	list := make([]string, len(wants))
	for i, want := range wants {
		list[i] = want.name()
	}
	return list
}

func (w Want) name() string { return w.Name }

// broken reports whether the look has shown a lease that somebody broke. If it was broken after that look, it is not taken.
func (w taking) broken() bool { return w.seen.Running == store.Broken }

// free returns the wanted leases that nobody holds. If a lease has no row yet, free makes one, unless a layout has to open it.
func (k *Keeper) free(ctx context.Context, wants []Want, seen []store.Seen) (free []taking, err error) {
	var missing []string
	for _, want := range wants {
		switch i := slices.IndexFunc(seen, func(s store.Seen) bool { return want.named(s.Name) }); {
		case i < 0 && want.layout() > 1:
		case i < 0:
			missing = append(missing, want.Name)
			free = append(free, taking{Want: want})
		case seen[i].Free:
			free = append(free, taking{Want: want, seen: seen[i]})
		}
	}
	if len(missing) > 0 {
		err = k.leases.MakeLeases(ctx, missing)
	}
	return free, err
}

// collision is the error if the database returned a row that it was not asked for.
func collision(wanted []string, found string) error {
	return fmt.Errorf("%w: %q and %q, which the collation of the column lock_name holds for equal; use a name that differs in more than accents, "+
		"marks, width or emoji", ErrCollision, strings.Join(wanted, ", "), found)
}

// owner writes locked_by: the holder's readable name, the keeper's identity, and a number that is new at every call, so that a
// read-back never mistakes an earlier taking for this one. With the number goes the length of the leases, see [Overdue].
// [share.OwnerOf] takes the text apart.
func (k *Keeper) owner(readable string, length time.Duration, governed bool) string {
	taking := share.Taking(k.takings.Add(1), length)
	if governed {
		taking = share.Governed(taking)
	}
	return fmt.Sprintf("%s#%s.%s", cut(cmp.Or(readable, k.holder), holderMost), k.id, taking)
}

const holderMost = 220 // characters: the column has 255

func cut(text string, most int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), most)])
}

// takingOf is the end of an owner, which tells each taking from all others. The name before it is for people.
func takingOf(owner string) string { return owner[strings.LastIndexByte(owner, '#')+1:] }

func longest(wants []taking) (length time.Duration) {
	for _, want := range wants {
		length = max(length, want.length())
	}
	return length
}

// Holder returns the readable part of locked_by for a service in this process.
func Holder(service string) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s@%s/%d", service, host, os.Getpid())
}

// hold notes that a lease was taken by a statement that was sent at that moment, and wakes Run.
func (k *Keeper) hold(want Want, term int64, owner string, sent time.Time) *Lease {
	ctx, cancel := context.WithCancelCause(k.parent)
	lingers, end := context.WithCancel(context.WithoutCancel(k.parent))
	context.AfterFunc(ctx, func() { time.AfterFunc(lingersFor, end) })
	l := &Lease{Want: want, Term: term, owner: owner, taken: sent, row: want.Name, ctx: ctx, cancel: cancel, lingers: lingers,
		renewal: renewal{at: sent.Add(lease.RenewEvery(want.Lock)), expires: sent.Add(want.Lock)}}
	l.trust = time.AfterFunc(time.Hour, func() { cancel(ErrLost) })
	l.trustUntil(lease.TrustedUntil(sent, want.Lock))
	l.starts.life = k.lifeOf(owner)
	k.mu.Lock()
	k.held[l.row] = l
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
	return l
}

// Release gives a lease back: others can take it at once, or when MinLock has passed. It reports whether the lease was
// still ours; if not, it changes nothing in the table. If the lease is for once, or was moved, its row is deleted.
func (k *Keeper) Release(ctx context.Context, l *Lease) (ours bool, err error) {
	err = k.part(ctx, l, func(row string) (err error) {
		ours, err = k.giveBack(ctx, l, row)
		return err
	})
	return ours, err
}

// Close gives a lease back in such a way that nobody can take it until a later layout opens it.
func (k *Keeper) Close(ctx context.Context, l *Lease, layout int64) error {
	return k.part(ctx, l, func(row string) error {
		if row != l.Want.Name {
			return k.leases.DropLease(ctx, row, l.owner)
		}
		return k.leases.CloseLease(ctx, l.Want.Name, l.owner, layout)
	})
}

// LayDown gives a lease back, whose type becomes dormant: nobody can take the lease until [Keeper.Wake].
func (k *Keeper) LayDown(ctx context.Context, l *Lease) error {
	return k.part(ctx, l, func(row string) error {
		if row != l.Want.Name {
			return k.leases.DropLease(ctx, row, l.owner)
		}
		return k.leases.LayDown(ctx, l.Want.Name, l.owner)
	})
}

// part ends a lease here, and has its row given back, as soon as it is its turn: an instance that stops gives all its leases back at
// once, and is not to open a connection for each. If the lease was moved, and its name is not known to be given away, that goes first: nobody
// looks for its rest. What cannot be given back is owed.
func (k *Keeper) part(ctx context.Context, l *Lease, give func(row string) error) (err error) {
	rows := k.drop(l)
	l.end(ErrReleased)
	defer k.noteParted(l)
	select {
	case k.turns <- struct{}{}:
		defer func() { <-k.turns }()
		k.dropMaybe(ctx, l)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	for _, row := range rows {
		if err == nil {
			err = unlocked(ctx, func() error { return give(row) })
		}
		if err != nil {
			k.owe(row, l)
		} else {
			k.paid(row, l.owner) // an earlier try may have failed
		}
	}
	return err
}

// unlocked sends a statement again for as long as somebody has locked the row, until ctx ends. In between, renewals have the connection.
func unlocked(ctx context.Context, send func() error) error {
	const every = 50 * time.Millisecond
	for {
		err := send()
		if !errors.Is(err, store.ErrLocked) || !ground.Sleep(ctx, every) {
			return err
		}
	}
}

// Wake makes the leases of dormant types free. None of these leases may have been seen by a look.
func (k *Keeper) Wake(ctx context.Context, names []string) error { return k.leases.Wake(ctx, names) }

// Make writes a row for each lease that has none.
func (k *Keeper) Make(ctx context.Context, names []string) error {
	return k.leases.MakeLeases(ctx, names)
}

func (k *Keeper) giveBack(ctx context.Context, l *Lease, row string) (ours bool, err error) {
	if row == l.Want.Name && !l.Want.Once {
		return k.leases.ReleaseLease(ctx, l.Want.Name, l.owner, l.Want.MinLock)
	}
	return true, k.leases.DropLease(ctx, row, l.owner)
}

// drop forgets a lease and returns the names of its rows.
func (k *Keeper) drop(l *Lease) (rows []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[l.row] == l {
		delete(k.held, l.row)
	}
	if l.owes {
		return []string{l.Want.Name, l.row}
	}
	return []string{l.row}
}

// Look looks who works what, as [store.Store.Fleet] does. If it shows that somebody else has a lease of this keeper, or that somebody has
// set it free, the lease is lost at once: the next renewal, which would say the same, may be far away.
func (k *Keeper) Look(ctx context.Context, prefixes []string) (store.Fleet, error) {
	k.mu.Lock()
	held := maps.Clone(k.held)
	k.mu.Unlock()
	sent := time.Now()
	fleet, err := k.leases.Fleet(ctx, prefixes)
	for i := 0; i < len(fleet.Leases) && err == nil; i++ {
		row := &fleet.Leases[i]
		// A node of a cluster may not show yet what another node has written a moment ago.
		l := held[row.Name]
		switch {
		case l == nil || !row.Free && takingOf(row.Owner) == takingOf(l.owner) || sent.Sub(l.taken) < showsWithin:
		case l.livesOn(fleet.Leases):
			k.adopt(l)
		default:
			k.lose(row.Name, l)
		}
	}
	return fleet, err
}

// EndStrays ends the leases in a list that nobody works under: leases that last too long, see [Overdue]; leases and lives that began when their
// statement had been given up; rests that others have written when nothing ran any more; and what could not be given back. In the list, they are
// free then.
func (k *Keeper) EndStrays(ctx context.Context, seen []store.Seen) error {
	if err := k.endOverdue(ctx, seen); err != nil {
		return err
	}
	if err := k.dropParted(ctx, seen); err != nil {
		return err
	}
	if err := k.payDebts(ctx, seen); err != nil {
		return err
	}
	return k.endUnsure(ctx, seen)
}

// showsWithin is how long a node of a cluster may be behind another.
const showsWithin = time.Second

// lose ends a lease that was in a row, unless it has been given back or moved meanwhile.
func (k *Keeper) lose(row string, l *Lease) {
	k.mu.Lock()
	still := k.held[row] == l
	if still {
		delete(k.held, row)
	}
	k.mu.Unlock()
	if still {
		l.end(ErrLost)
	}
}

// Move gives the name of a lease away, so that somebody else can take it, while the lease lives on under another name: its
// term, its context and trust in it stay. Running is what the new row says about what runs under the lease. The new row is
// there before the name is given away, so whoever sees the one sees the other. If there is a later layout, the name is closed
// until that opens. After an error, the lease is as before; or it has its new name, and the next Move, the next look or the end of the lease gives
// its own away, whatever comes first.
func (k *Keeper) Move(ctx context.Context, l *Lease, row string, running int, later int64) error {
	if err := k.leases.MakeLeases(ctx, []string{row}); err != nil {
		return err
	}
	sent := time.Now()
	if err := k.leases.MoveLease(ctx, row, l.owner, l.Term, l.Want.layout(), int64(l.Want.Lock/time.Second), running); err != nil {
		k.mu.Lock()
		l.maybe = row
		over := k.held[l.row] != l
		k.mu.Unlock()
		if over { // nobody gives it back any more
			k.owe(row, l)
		}
		return err
	}
	k.mu.Lock()
	l.maybe = ""
	if k.held[l.row] != l { // the lease was lost while the statement was under way
		k.mu.Unlock()
		err := k.leases.DropLease(ctx, row, l.owner)
		if err != nil {
			k.owe(row, l)
		}
		return err
	}
	delete(k.held, l.row)
	l.row, l.owes = row, true
	k.held[row] = l
	l.trustUntil(lease.TrustedUntil(sent, l.Want.Lock))
	k.mu.Unlock()
	return k.giveName(ctx, l, later)
}

// giveName gives the name away of a lease that has another one.
func (k *Keeper) giveName(ctx context.Context, l *Lease, later int64) error {
	err := unlocked(ctx, func() (err error) {
		if later > 0 {
			return k.leases.CloseLease(ctx, l.Want.Name, l.owner, later)
		}
		_, err = k.leases.ReleaseLease(ctx, l.Want.Name, l.owner, l.Want.MinLock)
		return err
	})
	if err != nil {
		k.owe(l.Want.Name, l)
		return err
	}
	k.paid(l.Want.Name, l.owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	l.owes = false
	return nil
}

// dropMaybe deletes the row that a move of unknown outcome may have written, before the lease is given back: it would say that something
// runs on. If the move comes later, it finds no row.
func (k *Keeper) dropMaybe(ctx context.Context, l *Lease) {
	k.mu.Lock()
	row := l.maybe
	l.maybe = ""
	k.mu.Unlock()
	if row != "" && k.leases.DropLease(ctx, row, l.owner) != nil {
		k.owe(row, l)
	}
}

// NoteRunning writes into the row of a lease what runs under it.
func (k *Keeper) NoteRunning(ctx context.Context, l *Lease, running int) error {
	k.mu.Lock()
	row := l.row
	k.mu.Unlock()
	defer func() { l.noteUntil(time.Now()) }()
	return k.leases.NoteRunning(ctx, row, l.owner, int64(l.Want.Lock/time.Second), running)
}

// DropEnded deletes the rows of leases that have ended, and whose names begin with one of the prefixes and are of no further
// use.
func (k *Keeper) DropEnded(ctx context.Context, prefixes []string, useless func(name string) bool) error {
	names, err := k.leases.EndedLeases(ctx, prefixes)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !useless(name) })
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names) // so that instances that start together wait for each other in a line
	return k.leases.DropEnded(ctx, names)
}

// Run renews the held leases, and gives late ones back, until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	if k.pulse.beats != nil {
		var beating sync.WaitGroup
		defer beating.Wait()
		beating.Go(func() { k.live(ctx) })
	}
	for {
		wait := time.NewTimer(time.Until(k.nextRenewal()))
		select {
		case <-wait.C:
			k.giveBackLate(ctx)
			if k.isDue() {
				k.keep(ctx)
			}
		case <-k.changed:
			k.countLater()
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// isDue reports whether a held lease must be renewed now. Then all are renewed, so that they go on together.
func (k *Keeper) isDue() bool {
	now := time.Now()
	return slices.ContainsFunc(k.all(), func(l *Lease) bool { return !l.renewal.at.After(now) })
}

// nextRenewal returns when the first of the held leases must be renewed, or a late one given back.
func (k *Keeper) nextRenewal() time.Time {
	next := time.Now().Add(time.Hour)
	for _, l := range append(k.all(), k.late...) {
		if l.renewal.at.Before(next) {
			next = l.renewal.at
		}
	}
	return next
}

// keep renews all held leases. If a statement fails, its leases are tried again after a moment. Trust in them still
// ends when it would have ended.
func (k *Keeper) keep(ctx context.Context) {
	const retryAfter = 100 * time.Millisecond
	all := slices.DeleteFunc(k.all(), func(l *Lease) bool {
		over := !l.Trusted()
		if over { // if it were renewed now, it would keep others out while nobody works
			k.dropLate(l)
		}
		return over
	})
	var left []*Lease
	patience := k.patience(all)
	for _, leases := range groupByLock(all) {
		lock, sent := leases[0].Want.Lock, time.Now()
		statement, cancel := context.WithTimeout(ctx, patience)
		rows, owners := k.rowsAndOwners(leases)
		running := changedNumbers(leases, rows)
		kept, err := k.leases.KeepLeases(statement, rows, owners, int64(lock/time.Second), running)
		cancel()
		if ctx.Err() == nil {
			k.onRenewal(err)
		}
		for i, l := range leases {
			before, held := heldIn(kept, rows[i])
			if n, written := running[rows[i]]; written && err == nil && before == 0 {
				l.renewal.running = n
			} else if written {
				l.renewal.running = unknown
			}
			if held || err != nil { // it may last until then, also if that does not count here
				l.noteUntil(time.Now().Add(-before))
			}
			switch {
			case l.ctx.Err() != nil: // the lease ended while the statement was under way
				k.dropLate(l)
			case err != nil:
				l.renewal.at = time.Now().Add(retryAfter)
			case k.moved(l, rows[i]): // which has renewed it
				l.renewal.at = sent.Add(lease.RenewEvery(lock))
			case held && l.starts.life != nil && rows[i] == l.Want.Name && !l.starts.life.lasts(time.Now()):
				l.later(sent.Add(-before))
			case held:
				l.renewed(sent.Add(-before))
			case l.starts.life != nil:
				l.starts.left.Store(true) // nothing starts, whatever comes of it
				left = append(left, l)
			default:
				k.drop(l)
				l.end(ErrLost)
			}
		}
	}
	k.heedLeft(ctx, left)
}

// patience is how long a renewal may take: a sixth of the shortest lease, since a statement for long leases must not keep the short ones waiting. It
// is longer on a slow database, where a renewal waits for a look, and then takes two answers.
func (k *Keeper) patience(all []*Lease) time.Duration {
	patience := time.Hour
	for _, l := range all {
		patience = min(patience, lease.RenewEvery(l.Want.Lock)/2)
	}
	return max(patience, min(4*time.Duration(k.pulse.slowest.Load()), 3*patience))
}

// heldIn reports whether KeepLeases has found a row held, and how long before it the row was renewed. MySQL and MariaDB ignore case.
func heldIn(kept map[string]time.Duration, row string) (before time.Duration, held bool) {
	if before, held = kept[row]; held {
		return before, true
	}
	for name, before := range kept {
		if strings.EqualFold(name, row) {
			return before, true
		}
	}
	return 0, false
}

// renewed notes that the lease was renewed as if by a statement that was sent at that moment. If that is long ago, because somebody has
// locked its row, the lease is as trusted as it was, and is tried again soon.
func (l *Lease) renewed(at time.Time) {
	const longest = time.Second
	every := lease.RenewEvery(l.Want.Lock)
	if until := lease.TrustedUntil(at, l.Want.Lock); int64(until.Sub(epoch)) > l.until.Load() {
		l.trustUntil(until)
		l.renewal.expires = at.Add(l.Want.Lock)
	}
	l.renewal.at = at.Add(every)
	if soon := time.Now().Add(min(every/8, longest)); l.renewal.at.Before(soon) {
		l.renewal.at = soon
	}
}

// changedNumbers counts what runs under the leases, and returns the numbers, by the names of rows, that are not the numbers in
// the table.
func changedNumbers(leases []*Lease, rows []string) (changed map[string]int) {
	for i, l := range leases {
		if l.Want.Running == nil || rows[i] != l.Want.Name { // it was moved
			continue
		}
		if n := l.Want.Running(l); n != l.renewal.running {
			if changed == nil {
				changed = map[string]int{}
			}
			changed[rows[i]] = n
		}
	}
	return changed
}

// dropLate drops a lease whose context or trust has ended, and has its row given back. A renewal that came too late, or
// whose answer did not come, may have taken effect, and others would then wait until the lease expires once more. The
// row is given back when it would have expired without that renewal, because work that was under way may need that
// time. If the lease was released, it is given back at once.
func (k *Keeper) dropLate(l *Lease) {
	k.drop(l)
	l.renewal.at = l.renewal.expires
	if errors.Is(context.Cause(l.ctx), ErrReleased) {
		l.renewal.at = time.Now()
	}
	k.late = append(k.late, l)
}

func (k *Keeper) giveBackLate(ctx context.Context) {
	statement, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	k.late = slices.DeleteFunc(k.late, func(l *Lease) bool {
		due := !time.Now().Before(l.renewal.at)
		if due {
			k.dropMaybe(statement, l)
			if _, err := k.giveBack(statement, l, l.row); err != nil {
				k.owe(l.row, l)
			}
		}
		return due
	})
}

func (k *Keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.held), func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(a.Want.Name, b.Want.Name), cmp.Compare(a.Term, b.Term))
	})
}

// alike is what the leases in one statement have in common.
type alike struct {
	lock   time.Duration
	holder string
	layout int64
	broken int
	ends   int // how many the leases have
}

func (a alike) compare(b alike) int {
	return cmp.Or(cmp.Compare(a.lock, b.lock), cmp.Compare(a.holder, b.holder), cmp.Compare(a.layout, b.layout), cmp.Compare(a.broken, b.broken),
		cmp.Compare(a.ends, b.ends))
}

// groupByLock makes a group for each statement. A statement writes only one length of a lease and, if it takes leases,
// only one holder and one layout, and either leases that were broken or others. The shortest leases come first.
func groupByLock[L interface{ alike() alike }](list []L) (groups [][]L) {
	compare := func(a, b L) int { return a.alike().compare(b.alike()) }
	list = slices.SortedStableFunc(slices.Values(list), compare)
	for len(list) > 0 {
		n := 1
		for n < len(list) && compare(list[n], list[0]) == 0 {
			n++
		}
		groups, list = append(groups, list[:n:n]), list[n:]
	}
	return groups
}

func (w taking) alike() alike {
	a := alike{lock: w.Lock, holder: w.Holder, layout: w.layout(), ends: 1}
	if w.TwoEnds() {
		a.ends = 2
	}
	if w.broken() {
		a.broken = 1
	}
	return a
}

// alike leaves holder and layout out: a statement renews leases of all.
func (l *Lease) alike() alike { return alike{lock: l.Want.Lock} }

func (k *Keeper) rowsAndOwners(leases []*Lease) (rows, owners []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		rows = append(rows, l.row)
		if !slices.Contains(owners, l.owner) {
			owners = append(owners, l.owner)
		}
	}
	return rows, owners
}

// moved reports whether a lease has another row by now.
func (k *Keeper) moved(l *Lease, row string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.row != row
}
