// Package shedlock is a named lock, held as a row of shedlock_tab with an expiry: for cron jobs, leader election, or
// anything that one instance at a time may do. It extends itself while it is held; if its process dies, it expires.
//
// A lock is a promise with an end. A process that is frozen or cut off loses it without noticing in time, so work that
// must never overlap checks the context before each step, and hands the lock's Term to whatever it writes to, which can
// then refuse a smaller one.
package shedlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Config says which lock, and how it behaves.
type Config struct {
	// DB is the database that holds shedlock_tab; schema.Migrate creates it. Required.
	DB queue_job.DB
	// ServiceName is the lock's name, at most 64 characters: who uses the same name shares the lock. Names that begin
	// with "job-" and a number belong to the runners of job types. Required.
	ServiceName string
	// LockSecond is how long the lock outlives the sudden death of its holder. At least 2; default 10.
	LockSecond uint32
	// MinLockSecond is how long the lock stays taken at least, even if it is unlocked sooner: longer than the clocks of
	// instances differ, so that a cron job that takes a millisecond does not run once on each. Default 0.
	MinLockSecond uint32
}

var (
	// ErrHeld is what Lock and Unlock return when it does not fit: the lock is held already, or is not.
	ErrHeld    = errors.New("the lock is held already")
	ErrNotHeld = errors.New("the lock is not held")
	// ErrLost is the cause in the context of a lock that expired before it was unlocked.
	ErrLost = keeper.ErrLost
)

// Lock is a lock that this process can hold, one holder at a time. Its methods may be called from many goroutines.
type Lock struct {
	want keeper.Want
	log  logger.Logger
	db   queue_job.DB

	mu     sync.Mutex
	held   *keeper.Lease
	keeper *keeper.Keeper
	stop   func() // ends the keeping of the held lease
}

// New checks the configuration and returns a lock that is not held. It asks no database. A nil log writes to
// slog.Default().
func New(cfg Config, log logger.Logger) (*Lock, error) {
	if log == nil {
		log = logger.QueueLog{}
	}
	if cfg.LockSecond == 0 {
		cfg.LockSecond = uint32(lease.DefaultLock / time.Second)
	}
	const most = 24 * 60 * 60
	switch n := len([]rune(cfg.ServiceName)); {
	case isNil(cfg.DB):
		return nil, errors.New("shedlock.Config.DB: is nil; set it to your *sql.DB")
	case n == 0:
		return nil, errors.New("shedlock.Config.ServiceName: is empty; it is the lock's name")
	case n > 64:
		return nil, fmt.Errorf("shedlock.Config.ServiceName: has %d characters; the column lock_name holds 64", n)
	case time.Duration(cfg.LockSecond)*time.Second < lease.ShortestLock:
		return nil, fmt.Errorf("shedlock.Config.LockSecond: is %d; use %d or more, or 0 for the default of 10", cfg.LockSecond, lease.ShortestLock/time.Second)
	case cfg.LockSecond > most || cfg.MinLockSecond > most:
		return nil, fmt.Errorf("shedlock.Config: LockSecond is %d and MinLockSecond %d; use %d (a day) or less", cfg.LockSecond, cfg.MinLockSecond, most)
	}
	return &Lock{
		want: keeper.Want{
			Name:    cfg.ServiceName,
			Lock:    time.Duration(cfg.LockSecond) * time.Second,
			MinLock: time.Duration(cfg.MinLockSecond) * time.Second,
		},
		log: log, db: cfg.DB,
	}, nil
}

// TryLock takes the lock if it is free and reports whether it did. An error means that something broke; a lock that
// somebody holds, here or elsewhere, is none.
func (l *Lock) TryLock(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil && l.held.Context().Err() == nil {
		return false, nil
	}
	l.letGo()
	st, err := store.Open(ctx, l.db)
	if err != nil {
		return false, err
	}
	reserved, giveBack := st.Reserve()
	about := l.log.GetNewContext(l.want.Name)
	k := keeper.New(context.Background(), reserved, keeper.Holder(l.want.Name), func(err error) {
		l.log.Warn(about, err.Error()+"; trying again while the lock lasts")
	})
	taken, err := k.Take(ctx, []keeper.Want{l.want})
	if len(taken) == 0 {
		giveBack()
		return false, err
	}
	keeping, quit := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.Run(keeping) })
	l.held, l.keeper = taken[0], k
	l.stop = func() { quit(); done.Wait(); giveBack() }
	return true, nil
}

// Lock waits until it has taken the lock, or ctx ends. It looks twice a second. Errors of the database are logged and
// waited out. If this process holds the lock already, that is ErrHeld.
func (l *Lock) Lock(ctx context.Context) error {
	const lookEvery = 500 * time.Millisecond
	for {
		if l.Context().Err() == nil {
			return fmt.Errorf("lock %q: %w", l.want.Name, ErrHeld)
		}
		locked, err := l.TryLock(ctx)
		if locked {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn(l.log.GetNewContext(l.want.Name), err.Error()+"; trying again")
		}
		select {
		case <-time.After(lookEvery*3/4 + rand.N(lookEvery/4)):
		case <-ctx.Done():
			return fmt.Errorf("lock %q: %w", l.want.Name, context.Cause(ctx))
		}
	}
}

// Unlock gives the lock back: at once, or when MinLockSecond has passed since it was taken. It releases only what is
// its own: if the lock was lost and another has it, nothing happens to that one, and the error is ErrNotHeld.
func (l *Lock) Unlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return fmt.Errorf("unlock %q: %w", l.want.Name, ErrNotHeld)
	}
	lost := l.held.Context().Err() != nil
	err := l.keeper.Release(ctx, l.held)
	l.letGo()
	switch {
	case err != nil:
		return fmt.Errorf("unlock %q: %w", l.want.Name, err)
	case lost:
		return fmt.Errorf("unlock %q: %w: it expired before", l.want.Name, ErrNotHeld)
	}
	return nil
}

// letGo ends the keeping of a lease that is over.
func (l *Lock) letGo() {
	if l.held != nil {
		l.stop()
		l.held, l.keeper, l.stop = nil, nil, nil
	}
}

// Context lives while the lock is held for certain. It ends when the lock is lost (cause ErrLost) or unlocked; if the
// lock is not held, it has ended already.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return notHeld
	}
	return l.held.Context()
}

// Term numbers the current acquisition: it grows each time the lock changes hands. 0: the lock is not held.
func (l *Lock) Term() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return 0
	}
	return l.held.Term
}

var notHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// Do waits for the lock, runs fn and unlocks: leader election, when fn runs for as long as it leads. The context that fn
// gets ends when the lock is lost or ctx ends. The error is fn's, or says why fn did not run.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := l.Lock(ctx); err != nil {
		return err
	}
	return l.run(ctx, fn)
}

// TryDo runs fn and unlocks if the lock is free, and reports whether it ran: for cron, where who comes late may go.
func (l *Lock) TryDo(ctx context.Context, fn func(context.Context) error) (ran bool, err error) {
	if locked, err := l.TryLock(ctx); !locked {
		return false, err
	}
	return true, l.run(ctx, fn)
}

func (l *Lock) run(ctx context.Context, fn func(context.Context) error) (err error) {
	const unlockWithin = 5 * time.Second
	held := l.Context()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	defer func() {
		unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWithin)
		defer cancel()
		if errUnlock := l.Unlock(unlocking); errUnlock != nil {
			err = errors.Join(err, errUnlock)
		}
	}()
	return fn(ctx)
}

func isNil(db queue_job.DB) bool {
	v := reflect.ValueOf(db)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
