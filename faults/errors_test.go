package faults

import (
	"math/rand/v2"
	"testing"
	"time"
)

// refusals are what servers say when nobody is to blame: a deadlock, a lock wait, a changed record under a snapshot, a
// Galera node that is not ready.
var refusals = []fate{
	answer(1213, "40001", "Deadlock found when trying to get lock; try restarting transaction"),
	answer(1205, "HY000", "Lock wait timeout exceeded; try restarting transaction"),
	answer(1020, "HY000", "Record has changed since last read in table 'async_job_tab'"),
	answer(1047, "08S01", "WSREP has not yet prepared node for application use"),
}

func TestThirtyPercentOfStatementsFail(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		lasts := seconds(60, 8)
		var proxies []*proxy
		for range 2 {
			p := x.proxy()
			proxies = append(proxies, p)
			x.startWorker(workerSettings{DSN: x.through(p.address())})
		}
		load := x.startLoad(300, work{MS: 5}, 0)
		x.awaitHolder(time.Now())
		for _, p := range proxies {
			p.intercept(func(c command) fate {
				if rand.Float64() > 0.3 {
					return fate{}
				}
				switch n := rand.IntN(len(refusals) + 2); n {
				case len(refusals):
					return cutRequest(rand.IntN(c.bytes))
				case len(refusals) + 1:
					return cutReply(rand.IntN(11))
				default:
					return refusals[n]
				}
			})
		}
		began := time.Now()
		time.Sleep(lasts)
		ran := 0
		for _, s := range x.starts() {
			if s.at.After(began) {
				ran++
			}
		}
		for _, p := range proxies {
			p.intercept(nil)
		}
		gap := x.awaitStart(time.Now(), 20*time.Second)
		x.within(gap, 2*time.Second, "the next start")
		o := x.conclude(time.Minute, load)
		x.noneFailed()
		x.noDuplicates(o)
		x.stopWorkers()
		x.tell("30 % of statements fail: 1213, 1205, 1020, 1047, cut connections", 1, o, gap, 2*time.Second, "%v long, %.0f jobs/s meanwhile of 300 added", lasts, float64(ran)/lasts.Seconds())
	})
}
