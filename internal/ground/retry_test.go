package ground

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaitDoublesAfterEachFailureAndBeginsAnewAfterASuccess(t *testing.T) {
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		wait Backoff
		want []time.Duration
	}{
		"by itself":                {Backoff{}, []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second}},
		"with limits":              {Backoff{First: 3 * ms, Longest: 10 * ms}, []time.Duration{3 * ms, 6 * ms, 10 * ms, 10 * ms}},
		"the first is the longest": {Backoff{First: time.Minute, Longest: time.Second}, []time.Duration{time.Second, time.Second}},
	} {
		for range 2 {
			var got []time.Duration
			for range c.want {
				got = append(got, c.wait.Next())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: waits %v, want %v", what, got, c.want)
			}
			if !c.wait.Failing() {
				t.Errorf("%s: it has failed", what)
			}
			if c.wait.Reset(); c.wait.Failing() {
				t.Errorf("%s: it has succeeded", what)
			}
		}
	}
}

func TestARetryTellsEachErrorAndTriesUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		e, began, tries := NewErrlog(&log, t.Context(), nil), time.Now(), 0
		err := e.Retry(t.Context(), "look", Backoff{}, func() error {
			if tries++; tries < 4 {
				return errGone
			}
			return nil
		})
		if took := time.Since(began); err != nil || tries != 4 || took != (20+40+80)*time.Millisecond {
			t.Errorf("%d tries in %v: %v", tries, took, err)
		}
		if len(log) != 1 || !e.Lately() {
			t.Errorf("the log hears %q", log)
		}
	})
}

func TestARetryTriesOnceAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, want := range []time.Duration{time.Minute, 0} {
			began, tries := time.Now(), 0
			err := Retry(ctx, Backoff{}, func() error { tries++; return errGone })
			if took := time.Since(began); !errors.Is(err, errGone) || took != want || tries == 0 {
				t.Errorf("%d tries in %v: %v", tries, took, err)
			}
		}
	})
}
