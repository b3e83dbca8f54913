package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// health is what keeps an instance from running jobs. No other loop looks as regularly as the one that looks at the leases.
type health struct {
	looked  atomic.Int64          // when it last looked at the leases with success, since epoch; 0: never
	failed  atomic.Pointer[error] // the last error since; nil: none
	refused refused
	first   func() // is called when the instance has looked at the leases, and has taken its own
}

func (h *health) heed(err error) {
	if err != nil {
		h.failed.Store(&err)
		return
	}
	h.looked.Store(int64(time.Since(ground.Epoch)))
	h.failed.Store(nil)
}

// refused are the types of others, whose jobs are not run here, with the reasons.
type refused struct {
	mu    sync.Mutex
	types map[int32]error
}

func (r *refused) add(types map[int32]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil {
		r.types = map[int32]error{}
	}
	maps.Copy(r.types, types)
}

// forget has types be judged anew.
func (r *refused) forget(types []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range types {
		delete(r.types, jobType)
	}
}

// first is the reason for one of them; nil: there are none.
func (r *refused) first() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range slices.Sorted(maps.Keys(r.types)) {
		return r.types[jobType]
	}
	return nil
}
