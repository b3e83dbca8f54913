package ground

import (
	"context"
	"errors"
	"time"
)

const (
	StatementMax = 10 * time.Second // a statement that takes longer is given up and sent again
	LookFirst    = 3 * time.Second  // the same for a look at the table, as long as looks are answered quickly
	LookLongest  = 30 * time.Second // the same on a slow table
)

// Wait waits until d is over, somebody signals wake, or ctx ends. It reports whether it was the signal. Nobody signals a nil wake.
func Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
		woken = true
	case <-ctx.Done():
	}
	return woken
}

// Sleep waits, but no longer than ctx lives. It reports whether ctx still does.
func Sleep(ctx context.Context, d time.Duration) bool {
	Wait(ctx, d, nil)
	return ctx.Err() == nil
}

// Signal wakes the reader of a channel that holds one signal, now or when it next looks.
func Signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Looks are one loop's reads of the table. Each has a time limit, since its connection may have died without a word. On a slow
// table, the limit grows.
type Looks struct {
	patience time.Duration
}

// Look reads while the lease holds; after that, nobody needs the answer. The end of the loop does not cut the read off, since
// that would cost the connection.
func (k *Looks) Look(holding context.Context, read func(context.Context) error) error {
	k.patience = max(k.patience, LookFirst)
	ctx, cancel := context.WithTimeout(holding, k.patience)
	defer cancel()
	began := time.Now()
	err := read(ctx)
	switch {
	case err == nil:
		k.patience = min(4*time.Since(began), LookLongest)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		k.patience = min(2*k.patience, LookLongest)
	}
	return err
}

// Smooth updates a moving average of how long something takes.
func Smooth(mean *time.Duration, took time.Duration) {
	const weight = 8
	if *mean == 0 {
		*mean = took
	}
	*mean = max(1, *mean+(took-*mean)/weight)
}
