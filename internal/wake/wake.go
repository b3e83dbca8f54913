// Package wake tells the runners of this process that a job was added through it, so that they look at once and not at
// their next poll. It is only a hint: the row may not be committed yet, and jobs that other processes add give no hint.
package wake

import "sync"

var (
	mu        sync.Mutex
	listeners = map[chan struct{}]struct{}{}
)

// Listen returns a channel that receives after every [Notify], and a function that ends it. If several notifications come
// before the channel is read, it receives once.
func Listen() (<-chan struct{}, func()) {
	heard := make(chan struct{}, 1)
	mu.Lock()
	defer mu.Unlock()
	listeners[heard] = struct{}{}
	return heard, func() {
		mu.Lock()
		defer mu.Unlock()
		delete(listeners, heard)
	}
}

// Notify wakes every listener of this process. It does not block.
func Notify() {
	mu.Lock()
	defer mu.Unlock()
	for heard := range listeners {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
