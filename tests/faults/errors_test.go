package faults

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestThirtyPercentOfStatementsFail(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		lasts, refusals := seconds(60, renewedLock), x.dialect.refusals
		var proxies []*proxy
		for range 2 {
			p := x.proxy()
			proxies = append(proxies, p)
			x.startWorker(workerSettings{LockSecond: renewedLock, DSN: x.through(p.address())})
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
		x.tell("30 % of statements fail: "+x.dialect.refusalCodes+", cut connections", 1, o, gap, 2*time.Second, "for %v; %.0f jobs ran a second, of 300 added", lasts, float64(ran)/lasts.Seconds())
	})
}
