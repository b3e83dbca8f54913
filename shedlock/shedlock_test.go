package shedlock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

// away is a database that does not answer.
type away struct{}

var errAway = errors.New("connection refused")

func (away) Exec(string, ...any) (sql.Result, error) { return nil, errAway }
func (away) Query(string, ...any) (*sql.Rows, error) { return nil, errAway }
func (away) Ping() error                             { return errAway }
func (away) Close() error                            { return nil }

// silent is a log that nobody reads.
type silent struct{}

func (silent) GetNewContext(string) context.Context { return context.Background() }
func (silent) Info(context.Context, string)         {}
func (silent) Warn(context.Context, string)         {}
func (silent) Error(context.Context, string)        {}
func (silent) Debug(context.Context, string)        {}

var _ logger.Logger = silent{}

func newLock(t *testing.T) *Lock {
	t.Helper()
	l, err := New(Config{DB: away{}, ServiceName: "nightly"}, silent{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestABadConfigIsRefusedWithItsFieldAndTheRemedy(t *testing.T) {
	for _, c := range []struct {
		breakIt       func(*Config)
		field, remedy string
	}{
		{func(c *Config) { c.DB = nil }, "DB", "set it to your *sql.DB"},
		{func(c *Config) { c.DB = (*sql.DB)(nil) }, "DB", "set it to your *sql.DB"},
		{func(c *Config) { c.ServiceName = "" }, "ServiceName", "it is the lock's name"},
		{func(c *Config) { c.ServiceName = " nightly" }, "ServiceName", "begins or ends with a space"},
		{func(c *Config) { c.ServiceName = "nightly\n" }, "ServiceName", "begins or ends with a space"},
		{func(c *Config) { c.ServiceName = strings.Repeat("é", 65) }, "ServiceName", "65 characters; the column lock_name holds 64"},
		{func(c *Config) { c.TablePrefix = "a b" }, "TablePrefix", "use letters, digits and underscores"},
		{func(c *Config) { c.LockSecond = 1 }, "LockSecond", "use 2 or more, or 0 for the default of 10"},
		{func(c *Config) { c.LockSecond = 86_401 }, "LockSecond", "use 86400 (a day) or less"},
		{func(c *Config) { c.MinLockSecond = 86_401 }, "MinLockSecond", "use 86400 (a day) or less"},
	} {
		cfg := Config{DB: away{}, ServiceName: "nightly"}
		c.breakIt(&cfg)
		_, err := New(cfg, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "shedlock.Config") || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	for _, cfg := range []Config{
		{DB: away{}, ServiceName: "x"},
		{DB: away{}, ServiceName: strings.Repeat("é", 64), LockSecond: 2},
		{DB: away{}, ServiceName: "two words", LockSecond: 86_400, MinLockSecond: 86_400},
	} {
		if _, err := New(cfg, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestALockIsNotHeldUntilItIsTaken(t *testing.T) {
	l := newLock(t)
	if l.Term() != 0 || !errors.Is(context.Cause(l.Context()), ErrNotHeld) {
		t.Errorf("term %d, cause %v", l.Term(), context.Cause(l.Context()))
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, ErrNotHeld) || !strings.Contains(err.Error(), `"nightly"`) {
		t.Error(err)
	}
}

func TestTryingALockWhoseDatabaseIsAwayIsAnErrorAndRunsNothing(t *testing.T) {
	l := newLock(t)
	if took, err := l.TryLock(t.Context()); took || !errors.Is(err, errAway) {
		t.Errorf("TryLock: %v, %v", took, err)
	}
	ran, err := l.TryDo(t.Context(), func(context.Context) error { panic("it ran") })
	if ran || !errors.Is(err, errAway) {
		t.Errorf("TryDo: %v, %v", ran, err)
	}
}

func TestWaitingForALockWhoseDatabaseIsAwayEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLock(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := l.Do(ctx, func(context.Context) error { panic("it ran") })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// frozen is a database that answers when the channel is closed.
type frozen struct {
	away
	asked  chan struct{}
	answer chan struct{}
}

func (f frozen) Query(string, ...any) (*sql.Rows, error) {
	select {
	case f.asked <- struct{}{}:
	default:
	}
	<-f.answer
	return nil, errAway
}

func TestALockSaysWhatItIsWhileItsTakingWaitsForTheDatabase(t *testing.T) {
	f := frozen{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	l, err := New(Config{DB: f, ServiceName: "nightly"}, silent{})
	if err != nil {
		t.Fatal(err)
	}
	tried, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(tried)
		l.TryLock(t.Context())
	}()
	<-f.asked
	go func() {
		defer close(said)
		if err := l.Unlock(t.Context()); l.Term() != 0 || l.Context().Err() == nil || !errors.Is(err, ErrNotHeld) {
			t.Errorf("term %d, %v, %v", l.Term(), l.Context().Err(), err)
		}
	}()
	select {
	case <-said:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the database")
	}
	close(f.answer)
	<-tried
	<-said
}
