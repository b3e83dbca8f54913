package console

import (
	"context"
	"sync"
	"time"
)

const (
	freshFor = time.Second     // then something is read again
	readMax  = 5 * time.Second // what takes longer fails
)

// shared is something that all who look share: it is read once a second at most, by the first of them, and the others wait for that.
type shared[T any] struct {
	mu  sync.Mutex
	at  time.Time // when it was read; zero: never
	got T
	err error
}

// get reads it, unless that was done a moment ago. The reading does not end with the request that began it, for others wait for it.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) > freshFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readMax)
		defer cancel()
		s.got, s.err = read(ctx)
		s.at = time.Now()
	}
	return s.got, s.err
}

// forget has the next one who looks read it again.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}
