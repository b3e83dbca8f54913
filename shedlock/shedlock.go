// Package shedlock is a named lock, held as a row of shedlock_tab with an expiry: for cron jobs, leader election, or
// anything that one instance at a time may do. It extends itself while it is held; if its process dies, it expires.
//
// [New] makes a [Lock]. [Lock.Do] waits for it and runs a function under it, [Lock.TryDo] runs the function only if the
// lock is free. [Lock.Lock], [Lock.TryLock] and [Lock.Unlock] are the steps.
//
// A lock expires. If a process is frozen or cut off from the database, it loses the lock and may notice that too late.
// If work must never overlap, check [Lock.Context] before each step, and pass [Lock.Term] to the system that you write
// to, so that it can refuse a smaller term.
package shedlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// tellEvery is how often the log says that a lock cannot be renewed.
const tellEvery = 10 * time.Second

// Config says which lock it is, and how it behaves. The field names are those of the original library, for
// compatibility: the lock's name is ServiceName, and DB is spelled differently in [queue_job.Config].
type Config struct {
	// DB is the database that holds shedlock_tab; [github.com/create-info/persistent-queue/schema.Migrate] creates the
	// table. Required.
	DB queue_job.DB
	// ServiceName is the lock's name, at most 64 characters: all processes that use the same name share the lock. On MySQL
	// and MariaDB, upper and lower case are the same; and the collation of the table may hold further names for equal, which
	// differ in accents, marks, width or emoji (é and e, バ and パ, 😀 and 😁). Of such names, the one that came first can be
	// used: for the others, taking the lock is an error, see [ErrCollision]. Two names of ASCII never collide. A name made of "job-"
	// and a number is the name of a job type's lease. Required.
	ServiceName string
	// TablePrefix stands before the name of the table, like [queue_job.Config.TablePrefix]. Default: none.
	TablePrefix string
	// LockSecond is how many seconds the lock outlives the sudden death of its holder. At least 2, at most a day; default
	// 10.
	LockSecond uint32
	// MinLockSecond is how many seconds the lock stays taken at least, even if it is unlocked sooner. Make it longer than
	// the difference between the clocks of the instances, so that a cron job that takes a millisecond does not run once on
	// each instance. At most a day; default 0.
	MinLockSecond uint32
}

var (
	// ErrHeld is the cause of an error if [Lock.Lock] or [Lock.Do] is called while this Lock is held.
	ErrHeld = errors.New("the lock is held already")
	// ErrNotHeld is the cause of an error if [Lock.Unlock] finds that the lock is not held, or was lost before. It is also
	// the cause in [Lock.Context] while the lock is not held.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrLost is the cause in the context of a lock that expired before it was unlocked.
	ErrLost = keeper.ErrLost
	// ErrCollision is the cause of an error if the table has a lock with another name, and the database does not tell the two
	// names apart, see [Config.ServiceName]. The error tells both.
	ErrCollision = keeper.ErrCollision
)

// Lock is a lock that this process can hold, one holder at a time. Its methods may be called from many goroutines. [New]
// makes one.
type Lock struct {
	want        keeper.Want
	log         logger.Logger
	db          queue_job.DB
	tablePrefix string
	advised     sync.Once // says once that a pooler mixes up statements

	taking  sync.Mutex // nobody else takes it meanwhile; the database may let it wait
	overdue keeper.Overdue

	mu   sync.Mutex
	held *holding // the last acquisition; it may be over
}

// holding is one acquisition of the lock.
type holding struct {
	lease    *keeper.Lease
	keeper   *keeper.Keeper
	released context.CancelFunc // called when the row has been given back
	kept     chan struct{}      // closed when the keeper has ended
}

func (h *holding) over() bool { return h == nil || h.lease.Context().Err() != nil }

// New checks the configuration and returns a [Lock] that is not held. It asks no database. A nil log writes to
// slog.Default().
func New(cfg Config, log logger.Logger) (*Lock, error) {
	if log == nil {
		log = logger.QueueLog{}
	}
	if cfg.LockSecond == 0 {
		cfg.LockSecond = uint32(lease.DefaultLock / time.Second)
	}
	const most = 24 * 60 * 60
	prefixErr := conn.CheckPrefix(cfg.TablePrefix)
	switch n := len([]rune(cfg.ServiceName)); {
	case conn.NoHandle(cfg.DB):
		return nil, errors.New("shedlock.Config.DB: is nil; set it to your *sql.DB")
	case prefixErr != nil:
		return nil, fmt.Errorf("shedlock.Config.TablePrefix: %w", prefixErr)
	case n == 0:
		return nil, errors.New("shedlock.Config.ServiceName: is empty; it is the lock's name")
	case !utf8.ValidString(cfg.ServiceName) || strings.ContainsRune(cfg.ServiceName, 0):
		return nil, fmt.Errorf("shedlock.Config.ServiceName: %q is no text: it has a zero byte or is not UTF-8", cfg.ServiceName)
	case strings.TrimSpace(cfg.ServiceName) != cfg.ServiceName:
		return nil, fmt.Errorf("shedlock.Config.ServiceName: %q begins or ends with a space, which the database may not tell apart", cfg.ServiceName)
	case n > 64:
		return nil, fmt.Errorf("shedlock.Config.ServiceName: has %d characters; the column lock_name holds 64", n)
	case time.Duration(cfg.LockSecond)*time.Second < lease.ShortestLock:
		return nil, fmt.Errorf("shedlock.Config.LockSecond: is %d; use %d or more, or 0 for the default of 10",
			cfg.LockSecond, lease.ShortestLock/time.Second)
	case cfg.LockSecond > most || cfg.MinLockSecond > most:
		return nil, fmt.Errorf("shedlock.Config: LockSecond is %d and MinLockSecond %d; use %d (a day) or less", cfg.LockSecond, cfg.MinLockSecond, most)
	}
	return &Lock{
		want: keeper.Want{
			Name:    cfg.ServiceName,
			Lock:    time.Duration(cfg.LockSecond) * time.Second,
			MinLock: time.Duration(cfg.MinLockSecond) * time.Second,
		},
		log: log, db: cfg.DB, tablePrefix: cfg.TablePrefix,
	}, nil
}

// TryLock takes the lock if it is free and reports whether it did. An error means that something broke. It is no error
// if the lock is held, here or elsewhere.
func (l *Lock) TryLock(ctx context.Context) (bool, error) {
	h, err := l.take(ctx)
	return h != nil, err
}

// take returns the new holding, or nil if the lock is not free.
func (l *Lock) take(ctx context.Context) (*holding, error) {
	l.taking.Lock()
	defer l.taking.Unlock()
	if !l.holding().over() {
		return nil, nil
	}
	st, err := store.Open(ctx, l.db, l.tablePrefix)
	if err != nil {
		return nil, err
	}
	about := l.log.GetNewContext(l.want.Name)
	st.Advise(func(err error) { l.advised.Do(func() { l.log.Error(about, err.Error()) }) })
	reserved, giveBack := st.Reserve()
	var told time.Time
	k := keeper.New(context.Background(), reserved, keeper.Holder(l.want.Name), keeper.NewID(), func(err error) {
		if err != nil && time.Since(told) > tellEvery {
			told = time.Now()
			l.log.Warn(about, err.Error()+"; trying again while the lock lasts")
		}
	})
	k.OnOverdue(&l.overdue, func(text string) { l.log.Error(about, text) })
	taken, err := k.Take(ctx, []keeper.Want{l.want})
	if len(taken) == 0 {
		giveBack()
		return nil, err
	}
	released, release := context.WithCancel(context.Background())
	h := &holding{taken[0], k, release, make(chan struct{})}
	go func() {
		defer close(h.kept)
		defer giveBack()
		k.Run(h.lease.Context())
		if context.Cause(h.lease.Context()) == keeper.ErrReleased {
			<-released.Done() // the statement that gives the row back still needs the connection
		}
	}()
	l.mu.Lock()
	l.held = h
	l.mu.Unlock()
	return h, nil
}

// Lock waits until it has taken the lock, or ctx ends. It tries about twice a second, also after errors of the
// database, which it logs. If this Lock is held already, the cause of the error is [ErrHeld]; if its name cannot be used, [ErrCollision].
func (l *Lock) Lock(ctx context.Context) error {
	_, err := l.await(ctx)
	return err
}

func (l *Lock) await(ctx context.Context) (*holding, error) {
	const lookEvery = 500 * time.Millisecond
	for {
		if l.Context().Err() == nil {
			return nil, fmt.Errorf("lock %q: %w", l.want.Name, ErrHeld)
		}
		h, err := l.take(ctx)
		if h != nil {
			return h, nil
		}
		if errors.Is(err, ErrCollision) {
			return nil, fmt.Errorf("lock %q: %w", l.want.Name, err)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn(l.log.GetNewContext(l.want.Name), err.Error()+"; trying again")
		}
		select {
		case <-time.After(lookEvery*3/4 + rand.N(lookEvery/4)):
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %q: %w", l.want.Name, context.Cause(ctx))
		}
	}
}

// Unlock gives the lock back: at once, or when [Config.MinLockSecond] has passed since it was taken. If the lock was
// lost and another process has it now, that process keeps it. If the lock was lost or is not held, the cause of the
// error is [ErrNotHeld].
func (l *Lock) Unlock(ctx context.Context) error {
	return l.unlock(ctx, l.holding())
}

func (l *Lock) holding() *holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *Lock) unlock(ctx context.Context, h *holding) error {
	l.mu.Lock()
	ours := h != nil && h == l.held
	if ours {
		l.held = nil
	}
	l.mu.Unlock()
	if h == nil {
		return fmt.Errorf("unlock %q: %w", l.want.Name, ErrNotHeld)
	}
	lost := h.over()
	ours, err := h.keeper.Release(ctx, h.lease)
	h.released()
	<-h.kept
	switch {
	case err != nil:
		return fmt.Errorf("unlock %q: %w", l.want.Name, err)
	case lost || !ours:
		return fmt.Errorf("unlock %q: %w: it was lost before", l.want.Name, ErrNotHeld)
	}
	return nil
}

// Context returns a context that lives while the lock is certainly held. It ends when the lock is lost, with the cause
// [ErrLost], or unlocked. If the lock is not held, it has ended already.
func (l *Lock) Context() context.Context {
	if h := l.holding(); h != nil {
		return h.lease.Context()
	}
	return notHeld
}

// Term numbers the current acquisition: it grows each time the lock is taken. 0: the lock is not held.
func (l *Lock) Term() int64 {
	if h := l.holding(); !h.over() {
		return h.lease.Term
	}
	return 0
}

var notHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// Do waits for the lock, runs fn and unlocks. For leader election, fn runs as long as this process leads. The context
// that fn gets ends when the lock is lost or ctx ends.
//
// The error says why fn did not run; or it is fn's error, joined with the error of unlocking, which has the cause
// [ErrNotHeld] if the lock was lost while fn ran.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error) error {
	h, err := l.await(ctx)
	if err != nil {
		return err
	}
	return l.run(ctx, h, fn)
}

// TryDo runs fn and unlocks if the lock is free, and reports whether fn ran. It is for cron jobs, where an instance
// that comes late has nothing to do. It is no error if the lock is not free; all other errors are those of [Lock.Do].
func (l *Lock) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	h, err := l.take(ctx)
	if h == nil {
		return false, err
	}
	return true, l.run(ctx, h, fn)
}

// run runs fn under a holding and releases that holding, even if another process has the lock by then.
func (l *Lock) run(ctx context.Context, h *holding, fn func(context.Context) error) (err error) {
	const unlockWithin = 5 * time.Second
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.lease.Context(), func() { cancel(context.Cause(h.lease.Context())) })()
	defer func() {
		unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWithin)
		defer cancel()
		err = errors.Join(err, l.unlock(unlocking, h))
	}()
	return fn(running)
}
