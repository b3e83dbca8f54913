// Package wake tells the runners of this process that a job was added through it, so that they look at once instead of
// at their next poll. It is a hint: the row may not be committed yet, and jobs added elsewhere give none.
package wake

import "sync"

var (
	mu        sync.Mutex
	listeners = map[chan struct{}]struct{}{}
)

// Listen returns a channel that receives after every Notify, and the function that ends it. Notifications that are not
// read yet fall together into one.
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

// Notify wakes every listener.
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
