package intake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

const (
	// RoomDefault is how many bytes requests and their answers may take in memory together.
	RoomDefault = 128 << 20

	smallLeast = 8 << 20 // so that a single task of the largest size always fits
	patience   = 5 * time.Second
	// patienceLarge is how long a large request waits for others: each of these takes a second or two.
	patienceLarge = 30 * time.Second
)

// Rooms are the memory that requests and answers may take, in three parts, so that none of the three waits for another: small bodies, large
// ones, and answers that are being written. Of each part, one caller gets half at most.
type Rooms struct{ Small, Large, Answers *Room }

func newRooms(size int64) Rooms {
	return Rooms{
		Small:   newRoom(max(smallLeast, size/4), patience),
		Large:   newRoom(size*5/8, patienceLarge),
		Answers: newRoom(max(smallLeast, size/8), patience),
	}
}

// Room is memory that may be taken. Who finds it full waits for a time; who came first goes first, unless it is only its own share that is full.
type Room struct {
	size, share int64 // share: of one caller
	patience    time.Duration

	mu      sync.Mutex
	taken   int64
	of      map[string]int64
	waiting []*waiter
}

type waiter struct {
	who   string
	bytes int64
	in    chan struct{} // closed when the bytes are taken
}

func newRoom(size int64, patience time.Duration) *Room {
	return &Room{size: size, share: size / 2, patience: patience, of: map[string]int64{}}
}

// Take takes bytes for a caller, until release is called; a second call of that does nothing. What is larger than the room, or than the
// caller's share, gets in when it is alone, so nothing is refused for ever.
func (r *Room) Take(ctx context.Context, who string, bytes int64) (release func(), full *problem.Problem) {
	r.mu.Lock()
	if r.fits(who, bytes) && !r.overtakes(who) {
		r.take(who, bytes)
		r.mu.Unlock()
		return r.releaser(who, bytes), nil
	}
	w := &waiter{who, bytes, make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	end := time.NewTimer(r.patience)
	defer end.Stop()
	select {
	case <-w.in:
		return r.releaser(who, bytes), nil
	case <-ctx.Done():
	case <-end.C:
	}
	return r.leave(w)
}

// leave takes a waiter out of the row, unless its turn has come at this moment.
func (r *Room) leave(w *waiter) (release func(), full *problem.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.in:
		return r.releaser(w.who, w.bytes), nil
	default:
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(other *waiter) bool { return other == w })
	r.letIn() // those behind it may fit
	return nil, r.full(w)
}

// full says why there was no room.
func (r *Room) full(w *waiter) *problem.Problem {
	text := fmt.Sprintf("requests and answers of others take all the memory that there is for them (%d bytes)", r.size)
	if !r.hasShare(w.who, w.bytes) {
		text = fmt.Sprintf(
			"other requests of this caller, or answers that it has not read yet, take all the memory that one caller may (%d bytes); send fewer at a time",
			r.share)
	}
	p := problem.New(problem.Busy, "%s; nothing was stored, send the request again", text)
	p.RetryAfter = time.Second
	return p
}

func (r *Room) hasShare(who string, bytes int64) bool {
	return r.of[who] == 0 || r.of[who]+bytes <= r.share
}

func (r *Room) fits(who string, bytes int64) bool {
	return (r.taken == 0 || r.taken+bytes <= r.size) && r.hasShare(who, bytes)
}

// overtakes reports whether somebody waits who came before and is in the way of a caller: one of its own requests, or one that waits for
// something else than its own caller's share.
func (r *Room) overtakes(who string) bool {
	own := map[string]bool{}
	for _, w := range r.waiting {
		if w.who == who || !own[w.who] && r.hasShare(w.who, w.bytes) {
			return true
		}
		own[w.who] = true
	}
	return false
}

func (r *Room) take(who string, bytes int64) {
	r.taken += bytes
	r.of[who] += bytes
}

func (r *Room) releaser(who string, bytes int64) func() {
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken -= bytes
		if r.of[who] -= bytes; r.of[who] == 0 {
			delete(r.of, who)
		}
		r.letIn()
	})
}

// letIn lets in who waits and fits, the first one first. Who only waits for its own share is in the way of nobody but itself.
func (r *Room) letIn() {
	var stay []*waiter
	full, own := false, map[string]bool{}
	for _, w := range r.waiting {
		if !full && !own[w.who] && r.fits(w.who, w.bytes) {
			r.take(w.who, w.bytes)
			close(w.in)
			continue
		}
		full = full || !own[w.who] && r.hasShare(w.who, w.bytes)
		own[w.who] = true
		stay = append(stay, w)
	}
	r.waiting = stay
}
