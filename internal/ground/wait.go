package ground

import (
	"context"
	"errors"
	"time"
)

// Horizon is how far ahead of its time a row may wait in memory. What falls due later waits in the table.
const Horizon = 3 * time.Second

const (
	StatementMax = 10 * time.Second // a statement that takes longer is given up and sent again
	LookFirst    = 3 * time.Second  // the same for a look at the table, as long as looks are answered quickly
	LookLongest  = 30 * time.Second // the same on a slow table

	RetryFirst   = 20 * time.Millisecond // wait before a failed statement is sent again …
	RetryLongest = time.Second           // … doubling up to this
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

// Backoff says how long to wait after one failure after the other: First, and then twice as long each time, up to Longest. Where these are
// zero, RetryFirst and RetryLongest count. After a success, Reset has it begin anew.
type Backoff struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	first, longest := b.First, b.Longest
	if first == 0 {
		first = RetryFirst
	}
	if longest == 0 {
		longest = RetryLongest
	}
	wait := min(max(b.next, first), longest)
	b.next = 2 * wait
	return wait
}

// Reset has the next wait be the first one.
func (b *Backoff) Reset() { b.next = 0 }

// Failing reports whether the last try was a failure.
func (b *Backoff) Failing() bool { return b.next > 0 }

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

// On notes the error of a loop's statement, or its success, and reports whether it was an error. Doing says in a few words
// what the loop does, for the log. The log does not hear of errors after the end of ctx.
func (e *Errlog) On(ctx context.Context, doing string, err error) bool {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.failed(doing, err)
	case e.any.Load():
		e.succeeded(doing)
	}
	return err != nil
}

// UnlessOver ignores the error of a look if the lease under which the look was taken has ended.
func UnlessOver(holding context.Context, err error) error {
	if holding.Err() != nil {
		return nil
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
