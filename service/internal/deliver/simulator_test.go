package deliver

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// simulation is a topic with workers, tasks and receivers in virtual time (testing/synctest). What is between them is the real thing, but
// for the network: connections are pipes. Its queue does what the engine does: tasks start in the order of their due seconds.
type simulation struct {
	t         *testing.T
	deliverer *Deliverer
	at        sync.Mutex
	receivers map[string]*simReceiver // by host

	mu     sync.Mutex
	queue  taskHeap
	wake   chan struct{}
	open   int // tasks that have not come to their end
	tasks  []*simTask
	sent   sync.WaitGroup
	nextID int
}

type simTask struct {
	id, attempts, deferrals int
	topic                   *Topic
	host                    string
	added, due, done        time.Time
	failed                  bool
}

// simReceiver is a host. Its script says what becomes of a connection, and its handler of a request.
type simReceiver struct {
	connect func() error // nil: it is made
	serve   http.HandlerFunc

	mu       sync.Mutex
	arrivals []time.Time
	inFlight int
	most     int
}

// standardWaits are those of Standard Webhooks; the last one goes on here, since these worlds ask whether anything is lost.
var standardWaits = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour}

// simulate runs a world in virtual time, with so many workers.
func simulate(t *testing.T, workers int, world func(*simulation)) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: it takes long; make test-all runs it")
	}
	synctest.Test(t, func(t *testing.T) {
		guard, err := NewGuard([]string{"*.sim"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(Config{Guard: guard, Resolver: anyName{}})
		if err != nil {
			t.Fatal(err)
		}
		s := &simulation{t: t, deliverer: d, receivers: map[string]*simReceiver{}, wake: make(chan struct{}, 1)}
		d.dialer.open = s.connect
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan *simTask)
		var running sync.WaitGroup
		running.Go(func() { s.dispatch(ctx, work) })
		for range workers {
			running.Go(func() {
				for task := range work {
					s.run(ctx, task)
				}
			})
		}
		defer func() {
			cancel()
			running.Wait()
			d.Close()
			s.sent.Wait()
		}()
		world(s)
	})
}

// anyName gives each host an address that stands for it.
type anyName struct{}

func (anyName) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var a [4]byte
	for i, r := range host {
		a[1+i%3] = a[1+i%3]*31 + byte(r)
	}
	a[0] = 99
	return []netip.Addr{netip.AddrFrom4(a)}, nil
}

func (s *simulation) receiver(host string, r *simReceiver) *simReceiver {
	s.at.Lock()
	defer s.at.Unlock()
	s.receivers[host] = r
	return r
}

// connect is how the dialer makes connections here.
func (s *simulation) connect(ctx context.Context, _ *net.Dialer, to netip.AddrPort) (net.Conn, error) {
	s.at.Lock()
	receivers := maps.Clone(s.receivers)
	s.at.Unlock()
	for host, r := range receivers {
		if addrs, _ := (anyName{}).LookupNetIP(ctx, "", host); addrs[0] != to.Addr() {
			continue
		}
		if r.connect != nil {
			if err := r.connect(); err != nil {
				return nil, &net.OpError{Op: "dial", Err: err}
			}
		}
		ours, theirs := net.Pipe()
		s.sent.Go(func() { r.serveOn(theirs) })
		return ours, nil
	}
	return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("no receiver has the address %v", to)}
}

func (r *simReceiver) serveOn(c net.Conn) {
	closed := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(r.handle), ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}}
	_ = server.Serve(&oneConn{c: c})
	<-closed
}

func (r *simReceiver) handle(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body) // only then the server notices that the caller has gone
	r.mu.Lock()
	r.arrivals = append(r.arrivals, time.Now())
	r.inFlight++
	r.most = max(r.most, r.inFlight)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.inFlight--
		r.mu.Unlock()
	}()
	if r.serve != nil {
		r.serve(w, req)
	}
}

// oneConn is a listener with one connection.
type oneConn struct{ c net.Conn }

func (o *oneConn) Accept() (net.Conn, error) {
	if c := o.c; c != nil {
		o.c = nil
		return c, nil
	}
	return nil, io.EOF
}
func (*oneConn) Close() error   { return nil }
func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// add adds tasks that are due now.
func (s *simulation) add(n int, topic *Topic, host string) (added []*simTask) {
	s.mu.Lock()
	for range n {
		s.nextID++
		task := &simTask{id: s.nextID, topic: topic, host: host, added: time.Now(), due: time.Now()}
		heap.Push(&s.queue, task)
		added = append(added, task)
	}
	s.tasks = append(s.tasks, added...)
	s.open += n
	s.mu.Unlock()
	s.ring()
	return added
}

func (s *simulation) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// dispatch gives due tasks to the workers.
func (s *simulation) dispatch(ctx context.Context, work chan<- *simTask) {
	defer close(work)
	for ctx.Err() == nil {
		s.mu.Lock()
		var task *simTask
		wait := time.Hour
		if len(s.queue) > 0 {
			if wait = time.Until(s.queue[0].due); wait <= 0 {
				task = heap.Pop(&s.queue).(*simTask)
			}
		}
		s.mu.Unlock()
		if task != nil {
			select {
			case work <- task:
			case <-ctx.Done():
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// run is what a handler does with a result.
func (s *simulation) run(ctx context.Context, task *simTask) {
	result := s.deliverer.Deliver(ctx, &Call{Topic: task.topic, URL: "http://" + task.host + "/", ID: fmt.Sprint("pq_", task.id), Body: []byte("{}")})
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if result.Outcome.IsAttempt() {
		task.attempts++
	}
	switch result.Outcome {
	case Succeeded:
		task.done = now
		s.open--
	case Failed:
		task.failed = true
		s.open--
	case Retry:
		if task.attempts > len(standardWaits) {
			task.failed = true
			s.open--
			return
		}
		wait := standardWaits[task.attempts-1]
		s.later(task, now, wait+wait/64*time.Duration(rand.N(16))) // a quarter more at most, in 16 steps
	case Deferred:
		task.deferrals++
		s.later(task, now, result.Wait)
	}
}

// later puts a task back. The engine keeps short waits in memory; the table has whole seconds.
func (s *simulation) later(task *simTask, now time.Time, wait time.Duration) {
	if task.due = now.Add(wait); wait > 3*time.Second {
		task.due = task.due.Add(time.Second - 1).Truncate(time.Second)
	}
	heap.Push(&s.queue, task)
	s.ring()
}

// until waits until no task is open, for so long at most.
func (s *simulation) until(most time.Duration) {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s.mu.Lock()
		open := s.open
		s.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Since(began) > most {
			s.t.Fatalf("%d of %d tasks are open after %v", open, len(s.tasks), most)
		}
	}
}

// arrived is how many requests a receiver got from one moment to another.
func (r *simReceiver) arrived(from, to time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.arrivals {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// sums are over some tasks.
type sums struct {
	tasks, done, failed, attempts, mostAttempts, deferrals, mostDeferrals int
	last                                                                  time.Time
	lateness                                                              []time.Duration
}

// sum adds up what has become of tasks.
func (in *simulation) sum(tasks []*simTask) (s sums) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s.tasks = len(tasks)
	for _, t := range tasks {
		s.attempts, s.mostAttempts = s.attempts+t.attempts, max(s.mostAttempts, t.attempts)
		s.deferrals, s.mostDeferrals = s.deferrals+t.deferrals, max(s.mostDeferrals, t.deferrals)
		if t.failed {
			s.failed++
		}
		if !t.done.IsZero() {
			s.done++
			s.last = later(s.last, t.done)
			s.lateness = append(s.lateness, t.done.Sub(t.added))
		}
	}
	slices.Sort(s.lateness)
	return s
}

func (s sums) String() string {
	return fmt.Sprintf("%d tasks: %d done, %d failed; %d attempts, %d at most; %d deferrals, %d at most", s.tasks, s.done, s.failed, s.attempts, s.mostAttempts,
		s.deferrals, s.mostDeferrals)
}

type taskHeap []*simTask

func (h taskHeap) Len() int { return len(h) }
func (h taskHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].id < h[j].id
}
func (h taskHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *taskHeap) Push(x any)   { *h = append(*h, x.(*simTask)) }
func (h *taskHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
