package ground

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaitEndsWithItsTimeASignalOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		for what, c := range map[string]struct {
			after func(cancel context.CancelFunc)
			takes time.Duration
			woken bool
		}{
			"nothing happens":   {func(context.CancelFunc) {}, time.Minute, false},
			"there is a signal": {func(context.CancelFunc) { Signal(wake) }, time.Second, true},
			"its context ends":  {func(cancel context.CancelFunc) { cancel() }, time.Second, false},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { c.after(cancel) })
			began := time.Now()
			woken := Wait(ctx, time.Minute, wake)
			if took := time.Since(began); took != c.takes || woken != c.woken {
				t.Errorf("%s: took %v, want %v; woken: %t", what, took, c.takes, woken)
			}
			time.Sleep(time.Second)
			cancel()
		}
	})
}

func TestASleepSaysWhetherItsContextStillLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if !Sleep(ctx, time.Minute) {
			t.Error("it was cut off")
		}
		if Sleep(ctx, time.Minute) {
			t.Error("it went on without its context")
		}
	})
}

func TestALookIsPatientWithASlowTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks Looks
		takes := func(d time.Duration) func(context.Context) error {
			return func(ctx context.Context) error {
				if Sleep(ctx, d); ctx.Err() != nil {
					return ctx.Err()
				}
				return nil
			}
		}
		tries := 0
		for err := errors.New("not asked yet"); err != nil; tries++ {
			began := time.Now()
			err = looks.Look(t.Context(), takes(20*time.Second))
			if took := time.Since(began); took > LookLongest {
				t.Fatalf("a look took %v", took)
			}
		}
		if tries != 4 { // 3, 6, 12 and 24 seconds
			t.Errorf("%d tries", tries)
		}
		if err := looks.Look(t.Context(), takes(29*time.Second)); err != nil {
			t.Errorf("it has forgotten that the table is slow: %v", err)
		}
		if err := looks.Look(t.Context(), takes(time.Second)); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := looks.Look(t.Context(), takes(time.Hour)); err == nil || time.Since(began) != 4*time.Second {
			t.Errorf("after a quick answer, it waits %v", time.Since(began))
		}
	})
}
