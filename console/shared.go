package console

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	freshFor = 2 * time.Second // then something is read again
	readMax  = 5 * time.Second // what takes longer fails
)

// shared is something that all who look share: it is read once in two seconds at most, by the first of them, and the others wait for that.
type shared[T any] struct {
	fresh time.Duration // 0: freshFor

	mu  sync.Mutex
	at  time.Time // when it was read; zero: never
	got T
	err error
}

// get reads it, unless that was done a moment ago. The reading does not end with the request that began it, for others wait for it.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) > s.keptFor() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readMax)
		defer cancel()
		s.got, s.err = read(ctx)
		s.at = time.Now()
	}
	return s.got, s.err
}

// keptFor is for how long what was read stays. An error stays for a moment only, for the next look may succeed.
func (s *shared[T]) keptFor() time.Duration {
	if s.err != nil {
		return freshFor
	}
	return cmp.Or(s.fresh, freshFor)
}

// forget has the next one who looks read it again.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

// sharedBy is shared things by what they are about.
type sharedBy[K comparable, T any] struct {
	most int // when there are as many, all are read anew; 0: sharedMax

	mu  sync.Mutex
	was map[K]*shared[T]
}

const sharedMax = 1000

// of returns what is shared about something, which stays as it is for a time after it was read, unless that was an error.
func (s *sharedBy[K, T]) of(fresh time.Duration, about K) *shared[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.was == nil || len(s.was) >= cmp.Or(s.most, sharedMax) {
		s.was = map[K]*shared[T]{}
	}
	if s.was[about] == nil {
		s.was[about] = &shared[T]{fresh: fresh}
	}
	return s.was[about]
}

// forget has the next one who looks at anything read it again.
func (s *sharedBy[K, T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.was = nil
}
