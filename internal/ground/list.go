package ground

import (
	"slices"
	"sync"
)

// List has things in an order. Whoever reads it has it as it was, and need not be quick.
type List[T comparable] struct {
	compare func(a, b T) int

	mu   sync.Mutex
	list []T // never changed in place
}

func NewList[T comparable](compare func(a, b T) int) *List[T] { return &List[T]{compare: compare} }

func (l *List[T]) All() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

func (l *List[T]) Add(more ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.Concat(l.list, more)
	slices.SortStableFunc(l.list, l.compare)
}

func (l *List[T]) Remove(one T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(slices.Clone(l.list), func(other T) bool { return other == one })
}
