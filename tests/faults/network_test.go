package faults

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// proxy puts a proxy before the trial's server.
func (x *trial) proxy() *proxy {
	x.Helper()
	address, err := x.dialect.address(x.dsn)
	if err != nil {
		x.Fatal(err)
	}
	return newProxy(x, x.dialect.wire, address)
}

// startOnly starts a worker behind the proxy, and ends all others.
func (x *trial) startOnly(p *proxy) *worker {
	x.Helper()
	only := x.startWorker(workerSettings{DSN: x.through(p.address())})
	for _, w := range x.living() {
		if w != only {
			w.end(syscall.SIGTERM)
		}
	}
	return only
}

// isMark and isSettle know the statements by their text.
func isMark(c command) bool { return strings.Contains(c.text, "attempts = attempts + 1") }
func isSettle(c command) bool {
	return strings.Contains(c.text, " SET job_status = 1, update_time")
}

func TestABlackHoleBeforeTheHolder(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		var o outcome
		worst, bound := time.Duration(0), lock+time.Second
		load := x.startLoad(200, work{MS: 5}, 0)
		deaf := x.startLoad(20, work{MS: 1000, Deaf: true}, 0) // it ends when its outcome cannot be written
		for _, after := range []afterwards{arriveLate, neverArrive} {
			p := x.proxy()
			cutOff := x.startOnly(p)
			x.awaitHolder(time.Now())
			other := x.startWorker(workerSettings{})
			since := time.Now()
			p.blackhole(after)
			gap := x.awaitStart(since, 20*time.Second, cutOff)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			time.Sleep(time.Until(since.Add(seconds(30, 7))))
			p.heal()
			x.awaitStandBy(p, bound) // else the next start is late
			since = time.Now()
			other.end(syscall.SIGTERM)
			gap = x.awaitStart(since, 20*time.Second, other)
			x.within(gap, bound, "the one that was cut off won again, and started a job")
			worst = max(worst, gap)
		}
		o = x.conclude(time.Minute, load, deaf)
		x.noneFailed()
		x.stopWorkers()
		x.tell("blackhole without RST before the holder", 2, o, worst, bound, "%v long", seconds(30, 7))
	})
}

// awaitStandBy waits until an instance behind the proxy has asked again which leases are free, and been answered.
func (x *trial) awaitStandBy(p *proxy, within time.Duration) {
	x.Helper()
	var answered atomic.Bool
	p.intercept(func(c command) fate {
		if strings.Contains(c.text, " AS held_until FROM ") {
			return fate{afterReply: func() { answered.Store(true) }}
		}
		return fate{}
	})
	defer p.intercept(nil)
	x.await(within, "who was cut off does not stand by again", answered.Load)
}

func TestABlackHoleBeforeTheOnlyInstance(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		worst, bound := time.Duration(0), lock+time.Second
		load := x.startLoad(200, work{MS: 5}, 0)
		deaf := x.startLoad(20, work{MS: 1000, Deaf: true}, 0)
		p := x.proxy()
		x.startWorker(workerSettings{DSN: x.through(p.address())})
		for _, after := range []afterwards{arriveLate, neverArrive} {
			x.awaitHolder(time.Now())
			p.blackhole(after)
			time.Sleep(seconds(30, 7))
			p.heal()
			gap := x.awaitStart(time.Now(), 40*time.Second)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
		}
		o := x.conclude(time.Minute, load, deaf)
		x.noneFailed()
		x.stopWorkers()
		x.tell("blackhole without RST before the only instance", 2, o, worst, bound, "%v long", seconds(30, 7))
	})
}

func TestRepliesAreLostAndRequestsArrive(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		// The server renews the lease until the holder, which hears nothing of it, trusts it no longer.
		times, bound := repeat(5, 1), 2*lock+time.Second
		worst := time.Duration(0)
		load := x.startLoad(200, work{MS: 5}, 0)
		deaf := x.startLoad(20, work{MS: 1000, Deaf: true}, 0)
		for range times {
			p := x.proxy()
			cutOff := x.startOnly(p)
			x.awaitHolder(time.Now())
			x.startWorker(workerSettings{})
			since := time.Now()
			p.swallowReplies(neverArrive)
			gap := x.awaitStart(since, 20*time.Second, cutOff)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			time.Sleep(time.Until(since.Add(seconds(15, 8))))
			p.heal()
		}
		o := x.conclude(time.Minute, load, deaf)
		x.noneFailed()
		x.stopWorkers()
		x.tell("replies lost, requests arriving", times, o, worst, bound, "")
	})
}

// noneFailed is for faults that are no job's fault.
func (x *trial) noneFailed() {
	x.Helper()
	if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status NOT IN (1)"); n > 0 {
		x.Errorf("%d jobs did not succeed: %s", n, x.describe("job_status NOT IN (1)"))
	}
}

// seconds is how long a fault lasts: in the whole run, and in the short one.
func seconds(full, quick int) time.Duration { return time.Duration(repeat(full, quick)) * time.Second }
