package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// What many instances cost the server that they share. All of them work all types; LockSecond is 10.
const (
	manyInstances = 50
	manyTypes     = 200
	manyLock      = 10
	perProcess    = 10 // instances: fifty processes would be more than a small machine can hold
)

func TestFiftyIdleInstancesSendFewStatements(t *testing.T) {
	onServersOfMany(t, func(t *testing.T, name string) {
		const lasts, eachMost, leasesMost, serverMost = 30 * time.Second, 10.0, 2.0, 20.0
		x := newMany(t, name)
		balanced := x.startMany(manyInstances)
		time.Sleep(time.Minute) // then the tails rest, too
		before := x.meter()
		time.Sleep(lasts)
		m := x.meter().since(before)

		each, leases := m.busiest()
		if mean := m.perSecond(m.questions) / manyInstances; mean > eachMost || each > eachMost {
			x.Errorf("%.1f statements a second and instance, %.1f of the busiest; want at most %.0f", mean, each, eachMost)
		}
		if leases > leasesMost {
			x.Errorf("%.1f lease statements of an instance in a third of a lease, want at most %.0f", leases, leasesMost)
		}
		if m.ofCore() > serverMost {
			x.Errorf("the server uses %.1f %% of a core, want at most %.0f", m.ofCore(), serverMost)
		}
		x.stopWorkers()
		x.tell("many idle instances", 1, x.check(), 0, 0,
			"%d instances × %d types, balanced after %v; a second and instance: %.1f statements (%.1f SELECT, %.2f UPDATE; %.1f of the busiest); at most %.1f lease statements in a third of a lease; the server uses %.0f %% of a core%s",
			manyInstances, manyTypes, balanced.Round(time.Second), m.perSecond(m.questions)/manyInstances, m.perSecond(m.selects)/manyInstances, m.perSecond(m.updates)/manyInstances, each, leases, m.ofCore(), disturbed(m))
	})
}

func TestABusyTypeOfFiftyInstancesStartsItsJobsSoon(t *testing.T) {
	onServersOfMany(t, func(t *testing.T, name string) {
		const wanted, bound, few = 5000, 50 * time.Millisecond, 2
		x := newMany(t, name)
		x.startMany(manyInstances)
		rate, most := x.rateKept(wanted)
		many := x.busy(rate, 3, bound)
		x.within(many.p99, bound, "in 99 of 100 cases, a start")
		x.db.Close()
		x.server.stop()

		y := newMany(t, name)
		y.startMany(few)
		alone := y.busy(rate, 1, bound)
		each := (many.ofCore() - alone.ofCore()) / (manyInstances - few)
		kept := ""
		if many.inserts < 0.95*wanted {
			kept = fmt.Sprintf(" (of %d wanted, this machine did %.0f at most)", wanted, most)
		}
		y.tell("a busy type among many instances", many.tries, many.outcome, many.p99, bound,
			"%d instances × %d types, %.0f inserts/s of one type%s; insert to start p50 %v, p99 %v, commit to start p99 %v, with %d instances %v and %v; the server uses %.0f %% of a core, with %d instances %.0f %%: %.2f %% for each instance more%s",
			manyInstances, manyTypes, many.inserts, kept, inMS(many.p50), inMS(many.p99), inMS(many.commitP99), few, inMS(alone.p99), inMS(alone.commitP99), many.ofCore(), few, alone.ofCore(), each, disturbed(many.meter, alone.meter))
	})
}

func TestRowsOfOthersCostTwentyInstancesLittle(t *testing.T) {
	onServersOfMany(t, func(t *testing.T, name string) {
		const instances, rate, eachMost, serverMost = 20, 2000, 20.0, 25.0
		const warm, lasts = 5 * time.Second, 30 * time.Second
		x := newMany(t, name)
		measured := func() meter {
			time.Sleep(warm)
			before := x.meter()
			time.Sleep(lasts)
			return x.meter().since(before)
		}
		others := x.startLoadsOf([]int32{manyTypes + 1}, rate) // nobody works this type
		without := measured()
		for _, l := range others {
			l.stop()
		}
		x.startMany(instances)
		others = x.startLoadsOf([]int32{manyTypes + 1}, rate)
		before := x.added(others)
		m := measured()
		inserted := float64(x.added(others)-before) / (warm + lasts).Seconds()
		for _, l := range others {
			l.stop()
		}

		each, _ := m.busiest()
		if each > eachMost {
			x.Errorf("the busiest instance sends %.1f statements a second, want at most %.0f", each, eachMost)
		}
		costs := m.ofCore() - without.ofCore()
		if costs > serverMost {
			x.Errorf("the instances cost the server %.1f %% of a core, want at most %.0f", costs, serverMost)
		}
		if inserted < 0.9*rate {
			x.Errorf("%.0f rows a second were inserted, want %d", inserted, rate)
		}
		x.stopWorkers()
		x.execute("DELETE FROM async_job_tab")
		x.tell("rows of others", 1, outcome{}, 0, 0,
			"%d instances × %d types, and %.0f rows/s of a type that nobody works: the busiest instance sends %.1f statements a second; the server uses %.0f %% of a core, for the INSERTs alone %.0f %%%s",
			instances, manyTypes, inserted, each, m.ofCore(), without.ofCore(), disturbed(m, without))
	})
}

// many is a trial on a server of its own, whose work is measured.
type many struct {
	*trial
	server *server
}

// onServersOfMany tries something on MariaDB and MySQL, each alone on the machine: it is not parallel to anything.
func onServersOfMany(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: it needs the processors for itself; make faults runs it")
	}
	for _, name := range []string{"MariaDB", "MySQL"} {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

// newMany leaves the audit's triggers away: they would be the server's work, too.
func newMany(t *testing.T, name string) many {
	t.Helper()
	s := newServer(t, name, "--max-connections=2000")
	x := many{ownTrial(s), s}
	x.execute(x.dialect.auditNoJobs)
	x.db.SetMaxIdleConns(2 * loads)
	return x
}

// startMany starts instances, and waits until the types are shared out and nothing moves any more.
func (x many) startMany(instances int) (balanced time.Duration) {
	x.Helper()
	began := time.Now()
	for n := instances; n > 0; n -= perProcess {
		x.startWorker(workerSettings{Types: numbered(manyTypes), LockSecond: manyLock, Instances: min(n, perProcess), Quiet: true})
	}
	x.await(90*time.Second, "the types are not shared out", func() bool {
		time.Sleep(100 * time.Millisecond) // the looks are work for the server
		held, all := x.shares(), 0
		for _, n := range held {
			all += n
		}
		return all == manyTypes && len(held) == instances && held[instances-1]-held[0] <= 1
	})
	balanced = time.Since(began)
	time.Sleep(manyLock / 3 * time.Second) // until each instance has renewed its leases once
	return balanced
}

// meter is what instances and their server have done.
type meter struct {
	at                          time.Time
	lasted                      time.Duration
	questions, selects, updates int64         // by the server's count
	processors                  time.Duration // the server's
	others                      time.Duration // what all else took of the processors that is not of this test
	sent                        []sent        // by each instance's own
}

func (x many) meter() (m meter) {
	x.Helper()
	for _, w := range x.living() {
		m.sent = append(m.sent, w.askSent()...)
	}
	rows, err := x.db.Query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Com_select', 'Com_update')")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			x.Fatal(err)
		}
		counts[name] = n
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	m.questions, m.selects, m.updates = counts["Questions"], counts["Com_select"], counts["Com_update"]
	m.processors, m.others = x.processors()
	m.at = time.Now()
	return m
}

// processors is what the server has used of them, and what those have used who are not of this test; 0 where nobody tells.
func (x many) processors() (server, others time.Duration) {
	x.Helper()
	others, err := machineTime()
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, 0
	}
	ours := []*os.Process{x.server.process, {Pid: os.Getpid()}}
	for _, w := range x.living() {
		ours = append(ours, w.Process)
	}
	for _, p := range ours {
		used, errUsed := processorTime(p)
		if err = errors.Join(err, errUsed); p == x.server.process {
			server = used
		}
		others -= used
	}
	if err != nil {
		x.Fatal(err)
	}
	return server, others
}

// since is what was done between two readings.
func (m meter) since(before meter) meter {
	m.lasted = m.at.Sub(before.at)
	m.questions -= before.questions
	m.selects -= before.selects
	m.updates -= before.updates
	m.processors -= before.processors
	m.others -= before.others
	for i := range m.sent {
		m.sent[i].All -= before.sent[i].All
		m.sent[i].Leases -= before.sent[i].Leases
	}
	return m
}

func (m meter) perSecond(n int64) float64 { return float64(n) / m.lasted.Seconds() }

// ofCore is how much of a core the server uses, in percent.
func (m meter) ofCore() float64 { return 100 * m.processors.Seconds() / m.lasted.Seconds() }

// disturbed says that others used the machine so much that what was measured may be theirs.
func disturbed(meters ...meter) string {
	const much = 20
	most := 0.0
	for _, m := range meters {
		most = max(most, 100*m.others.Seconds()/m.lasted.Seconds())
	}
	if most < much {
		return ""
	}
	return fmt.Sprintf("; others used up to %.0f %% of a core", most)
}

// busiest is what an instance sends at most: statements a second, and those about leases in a third of a lease.
func (m meter) busiest() (all, leases float64) {
	for _, s := range m.sent {
		all, leases = max(all, m.perSecond(s.All)), max(leases, m.perSecond(s.Leases)*manyLock/3)
	}
	return all, leases
}

// loads is how many connections add jobs at a time.
const loads = 10

// startLoads adds so many jobs of type 1 a second, which do nothing.
func (x many) startLoads(perSecond int) []*load { return x.startLoadsOf([]int32{1}, perSecond) }

func (x many) startLoadsOf(types []int32, perSecond int) (all []*load) {
	for range loads {
		all = append(all, x.startLoadOf(types, perSecond/loads, work{}, 0))
		time.Sleep(time.Second * rowsPerTransaction / time.Duration(perSecond)) // so they take turns
	}
	return all
}

// rateKept is the highest rate, up to the wanted, at which inserts keep their pace and starts keep up with them; or, if the machine
// keeps none for long, the last one that was tried. Most is the most inserts a second that were seen.
func (x many) rateKept(wanted int) (rate int, most float64) {
	x.Helper()
	const lasts, least, patience = 3 * time.Second, 200, 40 * time.Second
	rate = wanted
	for began, again := time.Now(), true; ; again = false {
		all := x.startLoads(rate)
		time.Sleep(time.Second)
		from, before := time.Now(), x.added(all)
		time.Sleep(lasts)
		did := float64(x.added(all)-before) / time.Since(from).Seconds()
		waiting := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = 1 AND job_status IN (0, 3, 4)")
		for _, l := range all {
			l.stop()
		}
		x.awaitDone(time.Minute)
		most = max(most, did)
		x.Logf("%d inserts/s: %.0f done, %d jobs wait at the end", rate, did, waiting)
		kept := did >= 0.95*float64(rate) && waiting <= int64(rate)/4
		if kept || rate == least || time.Since(began) > patience {
			return rate, most
		}
		if !again { // the machine may have stood still the first time
			rate = max(least, 3*min(rate, int(most))/4)
		}
	}
}

// added is how many jobs were committed so far.
func (x many) added(all []*load) (n int) {
	for _, l := range all {
		l.note(func() { n += len(l.committed) })
	}
	return n
}

// busy is how it went while jobs of a type were added at a rate.
type busy struct {
	meter
	outcome
	tries               int
	inserts             float64       // per second
	p50, p99, commitP99 time.Duration // from before the INSERT to the start; from the commit to the start
}

// busy adds jobs for a while, and ends the instances. If the starts are later than they should be, it measures again: a machine that
// stands still for a moment says nothing about the library.
func (x many) busy(perSecond, triesMax int, bound time.Duration) (best busy) {
	x.Helper()
	const warm, lasts = 3 * time.Second, 10 * time.Second
	all := x.startLoads(perSecond)
	time.Sleep(warm)
	for try := 1; try <= triesMax && (try == 1 || best.p99 > bound); try++ {
		before, added := x.meter(), x.added(all)
		time.Sleep(lasts)
		b := busy{meter: x.meter().since(before)}
		b.inserts = b.perSecond(int64(x.added(all) - added))
		b.p50, b.p99, b.commitP99 = x.latencies(all, before.at, b.at)
		if try == 1 || b.p99 < best.p99 {
			best = b
		}
		best.tries = try
	}
	best.outcome = x.conclude(time.Minute, all...)
	x.noDuplicates(best.outcome)
	x.stopWorkers()
	return best
}

// latencies are how long the jobs waited for their start whose transactions began in a span of time. If a job has not started yet,
// it starts now.
func (x many) latencies(all []*load, from, to time.Time) (p50, p99, commitP99 time.Duration) {
	x.Helper()
	started := map[uint64]time.Time{}
	for _, s := range x.starts() {
		started[s.job] = s.at
	}
	var fromInsert, fromCommit []time.Duration
	for _, l := range all {
		l.note(func() {
			for id, began := range l.begunAt {
				if began.Before(from) || began.After(to) {
					continue
				}
				at, ok := started[id]
				if !ok {
					at = time.Now()
				}
				fromInsert, fromCommit = append(fromInsert, at.Sub(began)), append(fromCommit, at.Sub(l.committedAt[id]))
			}
		})
	}
	n := len(fromInsert)
	if n == 0 {
		x.Fatal("no job was added")
	}
	slices.Sort(fromInsert)
	slices.Sort(fromCommit)
	return fromInsert[n/2], fromInsert[n*99/100], fromCommit[n*99/100]
}

func inMS(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
