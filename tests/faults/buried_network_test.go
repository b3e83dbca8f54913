package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// busyTypes are those of two processes of which something happens to one: each has jobs all the time.
var busyTypes = numbered(10)

// leftAlone is for how long a process is away from which nothing is to run elsewhere meanwhile: less than its leases last, whenever they were
// renewed.
const leftAlone = 10 * time.Second

// tellsOn is for how long jobs go on elsewhere after a fault, at least, before a test looks at how they did.
const tellsOn = buriedWithin + time.Second

// startBusy adds jobs of the busy types: many short ones, and some that run for three seconds.
func (x *trial) startBusy() (loads []*load) {
	return []*load{x.startLoadOf(busyTypes, 200, work{MS: 5}, 0), x.startLoadOf(busyTypes, 20, work{MS: 3000}, 0)}
}

// heldBy are the types whose leases a worker holds.
func (x *trial) heldBy(w *worker, types []int32) (held []int32) {
	x.Helper()
	for _, jobType := range types {
		if x.holder(jobType) == w {
			held = append(held, jobType)
		}
	}
	return held
}

// awaitElsewhere waits until each of these types has started a job on another worker, and returns how long after the moment that was.
func (x *trial) awaitElsewhere(held []int32, since time.Time, but *worker) (gaps []time.Duration) {
	x.Helper()
	for _, jobType := range held {
		gaps = append(gaps, x.awaitStartOf(jobType, since, but))
	}
	return gaps
}

// usualAndWorst holds the gaps against the bounds, and returns what they came to. A few of them say nothing of what is usual.
func (x *trial) usualAndWorst(gaps []time.Duration, usualBound, worstBound time.Duration) (usual, worst time.Duration) {
	x.Helper()
	const many = 40
	slices.Sort(gaps)
	usual, worst = gaps[len(gaps)/2], gaps[len(gaps)-1]
	if len(gaps) >= many {
		x.within(usual, usualBound, "the next start of half of the types")
	}
	x.within(worst, worstBound, "the next start of a type")
	return usual, worst
}

// tellElsewhere ends the trial of a process that was away, and tells how soon its types started elsewhere. Nothing has started twice.
func (x *trial) tellElsewhere(fault string, times int, gaps []time.Duration, usualBound time.Duration, loads []*load) {
	x.Helper()
	usual, worst := x.usualAndWorst(gaps, usualBound, buriedWithin)
	o := x.conclude(2*time.Minute, loads...)
	x.stopWorkers()
	x.noneFailed()
	x.nothingTwice(o)
	x.tell(fmt.Sprintf("%s, leases of %d s, ten types", fault, longLock), times, o, worst, buriedWithin,
		"the next start elsewhere of each of its types: half of them within %v, of %d", usual.Round(time.Millisecond), len(gaps))
}

// nothingTwice is for processes that were away for less than their leases last.
func (x *trial) nothingTwice(o outcome) {
	x.Helper()
	if o.duplicates > 0 {
		x.Errorf("%d jobs were started twice, and nobody has died", o.duplicates)
	}
}

// Packets are dropped for ten seconds, and the connections live on or are dead; no side hears of it. The other process goes on with the types, and
// leaves alone what runs behind the cut. That ends where it runs, and its outcomes count.
func TestAProcessWhoseWireIsCutWithoutAResetFinishesWhatItRuns(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		times := repeat(10, 2)
		settings := workerSettings{Types: busyTypes, LockSecond: longLock, Ordered: []int32{1, 2}}
		loads := x.startBusy()
		x.startWorker(settings)
		var gaps []time.Duration
		for n := range times {
			p := x.proxy()
			behind := settings
			behind.DSN = x.through(p.address())
			cutOff := x.startWorker(behind)
			x.awaitEvenShares(busyTypes)
			held := x.heldBy(cutOff, busyTypes)
			p.blackhole(afterwards(n%2 == 1))
			since := time.Now()
			gaps = append(gaps, x.awaitElsewhere(held, since, cutOff)...)
			time.Sleep(time.Until(since.Add(leftAlone)))
			p.heal()
			x.awaitEvenShares(busyTypes) // it has its part again
			x.endCleanly(cutOff)
		}
		x.tellElsewhere("one of two cut off for 10 s without RST", times, gaps, usuallyBuriedWithin, loads)
	})
}

// Handlers run for longer than leases last. One of two processes is cut off, or frozen, for longer than its leases last; what runs there begins anew elsewhere, and
// not before they have ended.
func TestNothingRunsAgainBeforeTheLeasesOfAProcessThatIsAwayHaveEnded(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		is   string
		away func(x *trial, w *worker, p *proxy)
		back func(x *trial, w *worker, p *proxy)
	}{
		{"cut off without RST",
			func(_ *trial, _ *worker, p *proxy) { p.blackhole(neverArrive) },
			func(_ *trial, _ *worker, p *proxy) { p.heal() }},
		{"SIGSTOPped, and its connections cut",
			func(x *trial, w *worker, p *proxy) { x.freeze(w); p.cutAll() },
			func(_ *trial, w *worker, _ *proxy) { w.signal(syscall.SIGCONT) }},
	} {
		t.Run(way.is, func(t *testing.T) {
			t.Parallel()
			eachServerAtOnce(t, func(x *trial) {
				length, outlasting := repeat(longLock, 8), work{MS: repeat(60_000, 20_000)}
				bound := time.Duration(length+1) * time.Second
				settings := workerSettings{Types: busyTypes, LockSecond: uint32(length), LostLimit: -1}
				p := x.proxy()
				behind := settings
				behind.DSN = x.through(p.address())
				x.startWorker(settings)
				gone := x.startWorker(behind)
				loads := []*load{x.startLoadOf(busyTypes, 200, work{MS: 5}, 0)}
				x.awaitEvenShares(busyTypes)
				for _, jobType := range busyTypes {
					x.addMany(jobType, 2, outlasting)
				}
				held := x.heldBy(gone, busyTypes)
				running := x.awaitRunning(gone, 2*len(held), outlasting)

				way.away(x, gone, p)
				since := time.Now()
				ends := x.leaseEnds(held)
				gaps := x.awaitElsewhere(held, since, gone)
				first, last, late := x.awaitAgain(running, gone, since, ends)
				way.back(x, gone, p)
				_, worst := x.usualAndWorst(gaps, usuallyBuriedWithin, buriedWithin)
				x.within(last, bound, "the last of what ran there began anew")
				o := x.conclude(3*time.Minute, loads...)
				x.stopWorkers()
				x.noneFailed()
				x.tell(fmt.Sprintf("one of two %s beyond its leases of %d s, ten types", way.is, length), 1, o, last, bound,
					"%d long jobs ran there, and began anew after %v at the soonest, each within %v of the second in which its lease ended; other jobs of each of its types started elsewhere within %v",
					len(running), first.Round(time.Millisecond), late.Round(time.Millisecond), worst.Round(time.Millisecond))
			})
		})
	}
}

// awaitRunning waits until so many jobs run on a worker that have this to do, and returns their types.
func (x *trial) awaitRunning(w *worker, jobs int, do work) (running map[uint64]int32) {
	x.Helper()
	rows, err := x.db.Query(dbtest.Rebind(x.db, "SELECT id FROM async_job_tab WHERE params = ?"), do.params())
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	those := map[uint64]bool{}
	for id := uint64(0); rows.Next(); those[id] = true {
		if err := rows.Scan(&id); err != nil {
			x.Fatal(err)
		}
	}
	x.await(20*time.Second, fmt.Sprintf("%d long jobs do not run on %s", jobs, w.name), func() bool {
		running = map[uint64]int32{}
		for _, s := range w.started() {
			if those[s.job] {
				running[s.job] = s.jobType
			}
		}
		return len(running) == jobs
	})
	return running
}

// leaseEnds are the ends of the leases of types, by the database's clock, which is this machine's.
func (x *trial) leaseEnds(types []int32) map[int32]time.Time {
	x.Helper()
	ends := map[int32]time.Time{}
	for _, jobType := range types {
		ends[jobType] = time.Unix(x.number("SELECT UNIX_TIMESTAMP(lock_until) FROM shedlock_tab WHERE lock_name = ?", leaseName(jobType)), 0)
	}
	return ends
}

// awaitAgain waits until all these jobs have started on another worker. It returns how long after the moment the first and the last of them did,
// and how long after the second in which its lease ended one of them did at most. It complains of each that did before its lease had ended.
func (x *trial) awaitAgain(running map[uint64]int32, but *worker, since time.Time, ends map[int32]time.Time) (first, last, late time.Duration) {
	x.Helper()
	again := map[uint64]time.Time{}
	x.await((longLock+20)*time.Second, "what ran there does not begin anew", func() bool {
		for _, s := range x.starts() {
			if _, ran := running[s.job]; ran && s.worker != but && s.at.After(since) {
				again[s.job] = s.at
			}
		}
		return len(again) == len(running)
	})
	first = time.Hour
	for _, id := range sortedKeys(again) {
		if at, end := again[id], ends[running[id]]; at.Before(end) {
			x.Errorf("job %d began anew %v before its lease had ended", id, end.Sub(at))
		}
		first, last = min(first, again[id].Sub(since)), max(last, again[id].Sub(since))
		late = max(late, again[id].Sub(ends[running[id]]))
	}
	return first, last, late
}

// haproxy is one before the trial's server, which a test may take away.
type haproxy struct {
	x       *trial
	command []string
	at      string
	stop    func() // it is gone, and what went through it is reset
}

func (x *trial) newHAProxy(program []string) *haproxy {
	x.Helper()
	to, err := x.dialect.address(x.dsn)
	if err != nil {
		x.Fatal(err)
	}
	h := &haproxy{x: x, at: fmt.Sprintf("127.0.0.1:%d", dbtest.FreePort(x.T))}
	file := filepath.Join(x.TempDir(), "haproxy.cfg")
	text := strings.NewReplacer("{mode}", "tcp", "{at}", h.at, "{to}", to, "{more}", "").Replace(haproxyConfig)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		x.Fatal(err)
	}
	h.command = append(slices.Clone(program), "-f", file)
	h.start()
	return h
}

// start returns when it accepts connections.
func (h *haproxy) start() {
	h.x.Helper()
	cmd := exec.Command(h.command[0], h.command[1:]...)
	var said lines
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := startUntilTheEnd(h.x.T, cmd)
	h.stop = func() {
		cmd.Process.Kill()
		<-ended
	}
	connector, err := h.x.dialect.connector(h.x.through(h.at))
	if err != nil {
		h.x.Fatal(err)
	}
	h.x.await(acceptWait, "HAProxy lets nobody in", func() bool {
		if isClosed(ended) {
			h.x.Fatalf("HAProxy has ended: %s", said.String())
		}
		connection, err := connector.Connect(h.x.Context())
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}

// For the server, a frozen process whose connections the proxy has closed looks like a dead one. What it runs is left alone all the same.
func TestAFrozenProcessIsLeftAloneWhenTheHAProxyBetweenIsStartedAnew(t *testing.T) {
	t.Parallel()
	program := readProgram(t, "PQ_TEST_HAPROXY")
	eachServerAtOnce(t, func(x *trial) {
		times := repeat(10, 2)
		h := x.newHAProxy(program)
		settings := workerSettings{DSN: x.through(h.at), Types: busyTypes, LockSecond: longLock, Ordered: []int32{1, 2}}
		loads := x.startBusy()
		x.startWorker(settings)
		var gaps []time.Duration
		for range times {
			frozen := x.startWorker(settings)
			x.awaitEvenShares(busyTypes)
			held := x.heldBy(frozen, busyTypes)
			x.freeze(frozen)
			since := time.Now()
			h.stop()
			h.start()
			gaps = append(gaps, x.awaitElsewhere(held, since, frozen)...)
			time.Sleep(time.Until(since.Add(leftAlone)))
			frozen.signal(syscall.SIGCONT)
			x.awaitEvenShares(busyTypes)
			x.endCleanly(frozen)
		}
		x.tellElsewhere("one of two SIGSTOPped for 10 s, HAProxy started anew", times, gaps, buriedWithin, loads)
	})
}

// The process is well, and cannot say so. Whether its types move or wait for it, they go on in time, and nothing runs twice.
func TestASidecarProxyThatIsAwayForThreeSecondsCostsNoRun(t *testing.T) {
	t.Parallel()
	program := readProgram(t, "PQ_TEST_HAPROXY")
	eachServerAtOnce(t, func(x *trial) {
		times, away := repeat(10, 2), 3*time.Second
		settings := workerSettings{Types: busyTypes, LockSecond: longLock, Ordered: []int32{1, 2}}
		loads := x.startBusy()
		x.startWorker(settings)
		worst, moved, all := time.Duration(0), 0, 0
		for n := range times {
			h := x.newHAProxy(program)
			behind := settings
			behind.DSN = x.through(h.at)
			cutOff := x.startWorker(behind)
			x.awaitEvenShares(busyTypes)
			held := x.heldBy(cutOff, busyTypes)
			time.Sleep(time.Duration(n) * 100 * time.Millisecond) // its beats come once a second
			since := time.Now()
			h.stop()
			time.Sleep(away)
			h.start()
			time.Sleep(tellsOn)
			until := time.Now()
			for _, jobType := range held {
				all++
				pause := x.longestPause(jobType, since, until)
				x.withinDuring(window{since, until}, pause, buriedWithin, fmt.Sprintf("the next start of type %d", jobType))
				worst = max(worst, pause)
				if slices.ContainsFunc(x.starts(), func(s start) bool { return s.jobType == jobType && s.worker != cutOff && s.at.After(since) }) {
					moved++
				}
			}
			x.awaitEvenShares(busyTypes)
			x.endCleanly(cutOff)
		}
		o := x.conclude(2*time.Minute, loads...)
		x.stopWorkers()
		x.noneFailed()
		x.nothingTwice(o)
		x.tell(fmt.Sprintf("the proxy of one of two away for 3 s, leases of %d s, ten types", longLock), times, o, worst, buriedWithin, "%d of its %d types have moved meanwhile",
			moved, all)
	})
}
