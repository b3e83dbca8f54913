package faults

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

func TestAConnectionCutAtEveryByteOfAMarkAndASettle(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		p := x.proxy()
		x.startWorker(workerSettings{LockSecond: calmLock, DSN: x.through(p.address())})
		x.cutOnce(p, isMark, fate{}) // both are at work
		step, cuts, again := repeat(1, 16), 0, 0
		worst, bound := time.Duration(0), time.Second
		// A cut after which the job is late is made again: the library would be late each time, the machine is not.
		cutAt := func(of func(command) bool, f fate) {
			took := x.cutOnce(p, of, f).took
			for tries := 1; took > bound && tries < 3; tries++ {
				x.Logf("cut %d took %v; made again", cuts, took)
				again++
				took = x.cutOnce(p, of, f).took
			}
			x.within(took, bound, "a job whose statement was cut has ended")
			worst = max(worst, took)
			cuts++
		}
		for _, of := range []func(command) bool{isMark, isSettle} {
			request := x.cutOnce(p, of, cutRequest(0)).bytes
			for n := 0; n <= request; n += step {
				cutAt(of, cutRequest(n))
			}
			const replyBytes = 64 // and no more
			for n := 0; n <= replyBytes; n += step {
				cutAt(of, cutReply(n))
			}
		}
		o := x.conclude(time.Minute)
		x.noneFailed()
		x.noDuplicates(o)
		x.stopWorkers()
		x.tell("connection cut at every byte of a mark, a settle and their replies", cuts, o, worst, bound, "%d made again", again)
	})
}

// cut is what came of one.
type cut struct {
	bytes int // of the statement
	took  time.Duration
}

// cutOnce adds a job and gives its first statement of a kind the fate. It returns when the job has ended.
func (x *trial) cutOnce(p *proxy, of func(command) bool, f fate) (c cut) {
	x.Helper()
	var met atomic.Int64
	p.intercept(func(c command) fate {
		if of(c) && met.CompareAndSwap(0, int64(c.bytes)) {
			return f
		}
		return fate{}
	})
	defer p.intercept(nil)
	began := time.Now()
	tx, err := x.db.BeginTx(context.Background(), nil)
	if err != nil {
		x.Fatal(err)
	}
	if _, err := x.insert(context.Background(), tx, 1, 1, work{}); err != nil {
		x.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		x.Fatal(err)
	}
	x.awaitDone(20 * time.Second)
	if met.Load() == 0 {
		x.Fatal("the statement was never sent")
	}
	return cut{int(met.Load()), time.Since(began)}
}
