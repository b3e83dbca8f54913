package faults

import (
	"syscall"
	"testing"
	"time"
)

func TestAMillionWaitingRowsCostATakeoverNeitherTimeNorMemory(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		waiting, queueMaxSize, bound := repeat(1_000_000, 50_000), repeat(50_000, 5_000), lock+time.Second
		x.auditNoJobs()
		x.addMany(1, waiting, work{})
		for range 2 {
			x.startWorker(workerSettings{QueueMaxSize: queueMaxSize})
		}
		holder := x.awaitHolder(time.Time{})
		x.await(5*time.Minute, "the holder has hardly begun", func() bool { return len(holder.started()) > waiting/10 })
		load := x.startLoad(100, work{}, 0)
		since := time.Now()
		holder.end(syscall.SIGKILL)
		left := waiting - len(holder.started())
		successor := x.living()[0]
		time.Sleep(time.Second) // by now it stands by
		idle := successor.askMemory()
		gap := x.awaitStart(since, 20*time.Second, holder)
		x.within(gap, bound, "the next start")

		busy, samples := memory{}, 0
		for len(successor.started()) < left {
			m := successor.askMemory()
			busy.heap, busy.sys, busy.goroutines = max(busy.heap, m.heap), max(busy.sys, m.sys), max(busy.goroutines, m.goroutines)
			samples++
			time.Sleep(500 * time.Millisecond)
			if time.Since(since) > 5*time.Minute {
				x.Fatalf("%d of %d jobs have started", len(successor.started()), left)
			}
		}
		took := time.Since(since.Add(gap))
		o := x.conclude(time.Minute, load)
		after := successor.askMemory()
		x.stopWorkers()

		if most := idle.heap + (queueMaxSize+besideQueue)*bytesPerRow; busy.heap > most {
			x.Errorf("the heap was %d KB, and %d KB before the takeover; want at most %d KB with a queue of %d rows", busy.heap>>10, idle.heap>>10, most>>10, queueMaxSize)
		}
		if most := idle.heap + heapKept; after.heap > most {
			x.Errorf("the heap is %d KB when all is done, and was %d KB before the takeover", after.heap>>10, idle.heap>>10)
		}
		if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1 OR attempts <> 1 + lost"); n > 0 {
			x.Errorf("%d jobs did not succeed at the first run that nobody killed: %s", n, x.describe("job_status <> 1 OR attempts <> 1 + lost"))
		}
		x.tell("SIGKILL, and a backlog waits", 1, o, gap, bound,
			"%d rows wait, queue of %d: heap of the successor at most %.1f MB (%.1f idle, %.1f when done; %d samples), %.1f from the system, %d goroutines; drained at %.0f/s",
			left, queueMaxSize, mb(busy.heap), mb(idle.heap), mb(after.heap), samples, mb(busy.sys), busy.goroutines, float64(left)/took.Seconds())
	})
}

const (
	// A row that waits takes a task of 128 bytes, its parameters (few here), a place in the lane and one in the map of
	// known ids: 200 bytes by measurement. A page that is being loaded exists three times for a moment.
	bytesPerRow = 512
	// Rows in memory that the queue's limit does not count: marked ahead, running, and outcomes that wait to be written.
	besideQueue = 4000
	// A map does not give back what it once needed.
	heapKept = 8 << 20
)

// auditNoJobs lets the rows change without a record of each change: what cannot be told from the rows and the starts is
// not checked.
func (x *trial) auditNoJobs() {
	x.Helper()
	x.execute(x.dialect.auditNoJobs)
}

func mb(bytes int) float64 { return float64(bytes) / (1 << 20) }
