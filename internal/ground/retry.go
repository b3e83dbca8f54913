package ground

import (
	"context"
	"time"
)

const (
	RetryFirst   = 20 * time.Millisecond // wait before a failed statement is sent again …
	RetryLongest = time.Second           // … doubling up to this
)

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

// Retry tries until that succeeds, or ctx ends; then it returns the last error. It tries at least once.
func Retry(ctx context.Context, wait Backoff, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil || !Sleep(ctx, wait.Next()) {
			return err
		}
	}
}

// Retry does the same, and notes each error, and the success.
func (e *Errlog) Retry(ctx context.Context, doing string, wait Backoff, try func() error) error {
	return Retry(ctx, wait, func() error {
		err := try()
		e.On(ctx, doing, err)
		return err
	})
}
