package pipeline

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// keyRate limits how many jobs of one key start in a time; keyOf says which key a row has. Each key has a bucket of tokens. A type without
// RatePerKey has none of this.
//
// # Why no more start than are promised
//
// A token is reserved when a row is picked, and spent right before its handler is called. There are never more reservations than tokens: a row is
// picked only if there is one token more, tokens only become more with the time, and a start takes a token and a reservation together. So a start
// never waits for its token, however long its mark took, and what is counted is starts. A row that does not start gives its reservation back: its
// mark was refused or taken back, it is locked, its end had come. A run has spent its token, whatever becomes of it.
//
// Whoever takes a lease begins with empty buckets, also of keys that it does not know: the holder before may have used all tokens up to the
// moment at which its lease ended. So over both of them, no more than a full bucket and what has come since have started. All rows of a key
// belong to one shard, so the shards have nothing to divide; and if the type is divided anew, each shard is a lease that was just taken. Times are
// those of this process, and a step of its clock changes nothing.
//
// # How rows wait
//
// A row without a token is parked, as a row without a slot is: apart, within bounds, unmarked, in nobody's way. Its key gets into a heap by
// when it has the next token. A key whose tokens are all reserved has no such time; it gets in when one of these rows starts, or gives its
// reservation back.
//
// A bucket that is full is as one that is not known, and is forgotten.
type keyRate struct {
	interval time.Duration // in which a token comes
	burst    int           // tokens of a full bucket
	full     time.Time     // when buckets are full that are not known
	buckets  map[string]*bucket
	reserved map[uint64]string // the keys of rows that were picked and have not started
	waiting  bucketHeap        // of keys that have a parked row and no token; the next token's time is known
	forgets  int               // when there are so many buckets, those are forgotten that are full
}

type bucket struct {
	key      string
	full     time.Time // when it is full if nothing starts until then
	reserved int
	waits    bool      // a row found no token
	opens    time.Time // the next token comes then
	inHeap   int       // place in keyRate.waiting; -1: it is not there
}

const (
	bucketsKept = 1024 // full or not
	toldKeys    = 20   // that have used up their rate
)

// rateKeys gives the keys of a queue their buckets, if the configuration asks for that.
func (q *queue) rateKeys(cfg *queue_job.Config) {
	if cfg.RatePerKey == 0 {
		return
	}
	q.keys.rate = &keyRate{
		interval: time.Duration(math.Ceil(float64(time.Second) / cfg.RatePerKey)), burst: cfg.BurstPerKey,
		buckets: map[string]*bucket{}, reserved: map[uint64]string{}, forgets: bucketsKept,
	}
	if q.keys.most == 0 {
		q.keys.most = noLimit
	}
}

// emptyBuckets begins a lease. What an earlier one has left reserved stays so until it is given back.
func (q *queue) emptyBuckets(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.keys.rate
	r.full = now.Add(time.Duration(r.burst) * r.interval)
	r.waiting = nil
	for key, b := range r.buckets {
		if b.reserved == 0 {
			delete(r.buckets, key)
		}
		b.full, b.waits, b.inHeap = r.full, false, -1
	}
}

// start spends the tokens of rows whose handlers are about to be called. It reports whether a parked row now knows when its token comes.
func (q *queue) start(tasks []*task) (news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, now := q.keys.rate, time.Now()
	for _, t := range tasks {
		if t.row.Group() == "" {
			continue
		}
		r.unreserve(t)
		b := r.bucketOf(keyOf(t))
		if b.full.Before(now) {
			b.full = now
		}
		b.full = b.full.Add(r.interval)
		news = r.await(b) || news
	}
	return news
}

// openKeys passes parked rows on whose keys have a token again.
func (q *queue) openKeys() {
	if q.keys.rate == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, now := q.keys.rate, time.Now()
	for len(r.waiting) > 0 && !r.waiting[0].opens.After(now) {
		b := heap.Pop(&r.waiting).(*bucket)
		for b.waits = false; q.passOn(b.key); {
		}
	}
}

// keysOpenIn is how long until the first key has a token again that has a parked row and none.
func (q *queue) keysOpenIn(now time.Time) time.Duration {
	if q.keys.rate == nil {
		return time.Hour
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys.rate.opensIn(now)
}

func (r *keyRate) opensIn(now time.Time) time.Duration {
	if len(r.waiting) == 0 {
		return time.Hour
	}
	return max(0, r.waiting[0].opens.Sub(now))
}

// keysWithoutTokens are the keys that have used up their rate; first, those of which most rows wait.
func (q *queue) keysWithoutTokens(now time.Time) (keys []store.KeyWaits) {
	if q.keys.rate == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, parked := range q.keys.parked {
		if !q.keys.rate.waits(key) {
			continue
		}
		k := store.KeyWaits{Key: store.HashOfKey(key), Jobs: len(parked)}
		if b := q.keys.rate.buckets[key]; b.inHeap >= 0 {
			k.Next = max(0, b.opens.Sub(now).Milliseconds())
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b store.KeyWaits) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Key, b.Key)) })
	return keys
}

// reserve reserves a token for a row that is picked. If there is none, the key waits for the next one.
func (r *keyRate) reserve(key string, t *task) bool {
	if _, has := r.reserved[t.row.ID]; has {
		return true
	}
	b := r.bucketOf(key)
	if b.reserved >= r.burst || r.opens(b).After(time.Now()) {
		b.waits = true
		r.await(b)
		return false
	}
	b.reserved++
	r.reserved[t.row.ID] = key
	return true
}

func (r *keyRate) bucketOf(key string) *bucket {
	b := r.buckets[key]
	if b == nil {
		r.forgetFull(time.Now())
		b = &bucket{key: key, full: r.full, inHeap: -1}
		r.buckets[key] = b
	}
	return b
}

// opens is when a bucket has a token that is not reserved. One of them is not.
func (r *keyRate) opens(b *bucket) time.Time {
	return b.full.Add(-time.Duration(r.burst-b.reserved-1) * r.interval)
}

// unreserve takes a row's reservation away, and returns its key's bucket; nil: it had none.
func (r *keyRate) unreserve(t *task) *bucket {
	key, ok := r.reserved[t.row.ID]
	if !ok {
		return nil
	}
	delete(r.reserved, t.row.ID)
	b := r.buckets[key]
	b.reserved--
	return b
}

// giveBack gives the token back that was reserved for a row, if it has not started.
func (r *keyRate) giveBack(t *task) {
	if b := r.unreserve(t); b != nil {
		r.await(b)
	}
}

// await puts a key that waits where it belongs among the others. It reports whether the key waits for a time that is known.
func (r *keyRate) await(b *bucket) bool {
	if !b.waits || b.reserved >= r.burst {
		if b.inHeap >= 0 {
			heap.Remove(&r.waiting, b.inHeap)
		}
		return false
	}
	if b.opens = r.opens(b); b.inHeap < 0 {
		heap.Push(&r.waiting, b)
	} else {
		heap.Fix(&r.waiting, b.inHeap)
	}
	return true
}

// waits reports whether the first parked row of a key waits for a token.
func (r *keyRate) waits(key string) bool {
	if r == nil {
		return false
	}
	b := r.buckets[key]
	return b != nil && b.waits
}

// forgetFull forgets the buckets that are full, when there are many.
func (r *keyRate) forgetFull(now time.Time) {
	if len(r.buckets) < r.forgets {
		return
	}
	for key, b := range r.buckets {
		if b.reserved == 0 && !b.waits && !b.full.After(now) {
			delete(r.buckets, key)
		}
	}
	r.forgets = max(bucketsKept, 2*len(r.buckets))
}

// bucketHeap orders buckets by when they open.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].opens.Before(h[j].opens) }
func (h bucketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].inHeap, h[j].inHeap = i, j
}
func (h *bucketHeap) Push(b any) {
	b.(*bucket).inHeap = len(*h)
	*h = append(*h, b.(*bucket))
}
func (h *bucketHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1], last.inHeap = nil, -1
	*h = old[:len(old)-1]
	return last
}
