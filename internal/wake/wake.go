// Package wake tells the runners of this process that a job was added through it, so that they look at once and not at
// their next poll, and those who wait for a job that one was ended. It is only a hint: the row may not be committed yet, and what other processes
// do gives none.
package wake

import "sync"

var (
	mu        sync.Mutex
	listeners = map[chan struct{}]struct{}{}
	ofPuts    = map[chan struct{}]struct{}{}
	ofFlows   = map[chan struct{}]struct{}{}
)

// Listen returns a channel that receives after every [Notify], and a function that ends it. If several notifications come
// before the channel is read, it receives once.
func Listen() (<-chan struct{}, func()) { return listen(listeners) }

// Notify wakes every listener of this process. It does not block.
func Notify() { notify(listeners) }

// ListenForPuts is [Listen] for schedules that are put.
func ListenForPuts() (<-chan struct{}, func()) { return listen(ofPuts) }

// Put tells those who listen that a schedule was put, as [Notify] does of jobs.
func Put() { notify(ofPuts) }

// ListenForFlows is [Listen] for flows that are added, or go on again.
func ListenForFlows() (<-chan struct{}, func()) { return listen(ofFlows) }

// Flow tells those who listen that there is a flow, as [Notify] does of jobs.
func Flow() { notify(ofFlows) }

func listen(among map[chan struct{}]struct{}) (<-chan struct{}, func()) {
	heard := make(chan struct{}, 1)
	mu.Lock()
	defer mu.Unlock()
	among[heard] = struct{}{}
	return heard, func() {
		mu.Lock()
		defer mu.Unlock()
		delete(among, heard)
	}
}

func notify(those map[chan struct{}]struct{}) {
	mu.Lock()
	defer mu.Unlock()
	for heard := range those {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
