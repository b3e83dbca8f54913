package pipeline

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// task is a row in memory, from loading to settling.
type task struct {
	store.Row
	dueMillis int64 // database time in milliseconds from which it may start; 0: at once
	refused   int16 // marks that failed, as far as they lengthen its wait
	wasLost   bool  // a process died with it in flight, or a mark would find that now
	suspect   bool  // it was lost so often that it runs alone
	alone     bool  // it runs as a suspect
	hasSlot   bool  // it has a slot of its key (keys)
	left      bool  // the queue does not know it any more
	*run            // nil while it waits: a queue has room for many rows
}

// run is what a task has only once it is marked.
type run struct {
	lease   *keeper.Lease             // under which it is marked
	seen    atomic.Pointer[time.Time] // when the last statement that found the row ours was sent: the mark, or a look of the watch
	since   time.Time                 // when it became ready
	index   int                       // in workers.atWork
	job     queue_job.Job             // as its handler has it
	cancel  context.CancelCauseFunc
	started time.Time
	waited  time.Duration // for its start
	begun   atomic.Bool   // the handler is about to be called, and the three above are set
	enough  *time.Timer   // when it fires, the suspect has run alone for long enough; nil: it is none
	gone    atomic.Bool   // its row was found to be no longer ours: cancelled, mostly
	cutOff  bool          // a stop does not wait for it any longer; guarded by workers.mu while it is at work
	read    time.Duration // how long its long parameters took to be read

	context jobContext // of its handler; of a batch, the first run has it
	err     error      // that the handler ended with
	took    time.Duration
	outcome outcome // when it has ended
}

// runsTogether is how many runs are allocated at a time. The memory of all is kept until the last has ended, so they are few.
const runsTogether = 4

// dueFrom is when the task may be marked if rows may be that many milliseconds before their time. A row whose mark was refused waits for its
// time, and so does a row that was lost: it may be why its process died.
func (t *task) dueFrom(ahead int64) int64 {
	if t.refused > 0 || t.wasLost {
		ahead = 0
	}
	return t.dueMillis - ahead
}

// refuse notes that the task's mark failed. The task waits, longer each time, so that others get past it.
func (t *task) refuse(now int64, longest time.Duration) {
	t.dueMillis = max(t.dueMillis, now+t.refusal(longest).Milliseconds())
}

// refusal counts a mark that failed, and returns how long to wait after it.
func (t *task) refusal(longest time.Duration) time.Duration {
	const doublings = 10
	wait := min(ground.RetryFirst<<min(2*t.refused, doublings), longest)
	t.refused = min(t.refused+1, doublings)
	return wait
}

// LogValue says which run it is.
func (t *task) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("job_id", t.ID),
		slog.Int("job_type", int(t.JobType)),
		slog.Int("attempt", int(t.Attempts)),
		slog.Int64("term", t.Term),
	)
}

const (
	levels = 4
	// passes is how many rows of higher levels a row of a lower one lets pass.
	passes = 10
)

// level holds the rows of one priority that wait.
type level struct {
	fresh    []*task
	timed    dueHeap
	unparked []*task // they were parked, and have their slot now
	turn     int     // whose turn it is
	passed   int     // rows of higher levels that were picked while some waited here
}

func (v *level) rows() int { return len(v.fresh) + len(v.timed) + len(v.unparked) }

func (v *level) lane(timed bool) int {
	if timed {
		return len(v.timed)
	}
	return len(v.fresh)
}

// levelOf is the level in which rows of a priority wait, or the nearest one if the priority is out of range.
func levelOf(priority int32) int { return min(max(0, int(2-priority)), levels-1) }

// takeOut takes a row out of the level; nil if it does not wait there.
func (v *level) takeOut(id uint64) *task {
	is := func(t *task) bool { return t.ID == id }
	for _, lane := range []*[]*task{&v.fresh, &v.unparked} {
		if i := slices.IndexFunc(*lane, is); i >= 0 {
			t := (*lane)[i]
			*lane = slices.Delete(*lane, i, i+1)
			return t
		}
	}
	if i := slices.IndexFunc(v.timed, is); i >= 0 {
		return heap.Remove(&v.timed, i).(*task)
	}
	return nil
}

// dueHeap orders tasks by when they fall due.
type dueHeap []*task

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].dueMillis < h[j].dueMillis || h[i].dueMillis == h[j].dueMillis && h[i].ID < h[j].ID
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(t any)   { *h = append(*h, t.(*task)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
