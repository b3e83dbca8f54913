package wake

import "sync/atomic"

// Waiters is how many callers of this process wait for the end of a job. Whoever ends jobs calls [Ended] only if it is not 0, so that an end for
// which nobody waits costs one reading of it.
var Waiters atomic.Int64

var hearers = map[*func(ids []uint64)]struct{}{}

// OnEnd calls a function after every [Ended], until stop is called. The function must not block.
func OnEnd(do func(ids []uint64)) (stop func()) {
	mu.Lock()
	defer mu.Unlock()
	hearers[&do] = struct{}{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(hearers, &do)
	}
}

// Ended tells those who wait in this process that jobs have ended. It is only a hint: jobs of another database may have the same ids.
func Ended(ids []uint64) {
	mu.Lock()
	defer mu.Unlock()
	for do := range hearers {
		(*do)(ids)
	}
}
