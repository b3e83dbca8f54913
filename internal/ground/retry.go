package ground

import "context"

// Retry tries until that succeeds, or ctx ends; then it returns the last error. It tries at least once.
func Retry(ctx context.Context, wait Backoff, try func() error) error {
	for {
		err := try()
		if err == nil || !Sleep(ctx, wait.Next()) {
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
