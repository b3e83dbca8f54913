package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

func TestAFleetUnderRandomKillsKeepsItsLeasesWithFewStatementsAndNoDeadlock(t *testing.T) {
	eachServerInTurn(t, func(x *trial) { // twenty processes are many for a machine
		instances, types, lasts, bound := repeat(20, 6), repeat(50, 20), time.Duration(repeat(300, 12))*time.Second, lock+time.Second
		dice := x.dice()
		x.auditLeaseStatements()
		deadlocksBefore := x.deadlocks()
		f := fleet{trial: x, dice: dice}
		for i := range types {
			f.types = append(f.types, int32(i+1))
		}
		load := x.startLoadOf(f.types, 300, work{MS: 50}, 0.05)
		for range instances {
			f.startOne()
		}
		f.awaitAllHeld()
		for began := time.Now(); time.Since(began) < lasts; {
			time.Sleep(time.Second + time.Duration(dice.Int64N(int64(3*time.Second))))
			f.killOne()
		}
		f.awaitAllHeld()
		o := x.conclude(time.Minute, load)
		x.stopWorkers()

		worst := f.checkRecoveries(bound)
		s := x.leaseStatements()
		for worker, list := range s.renewals {
			if over := overPace(list, lock/3); over > lock/3 {
				x.Errorf("%s sent %d renewals, and at worst %v ahead of one in %v", worker, len(list), over, lock/3)
			}
		}
		if n := x.deadlocks() - deadlocksBefore; n > 0 {
			x.Errorf("%d deadlocks; the last one: %s", n, x.dialect.lastDeadlock(x.db))
		}
		x.tell("random kills in a fleet", len(f.kills), o, worst, bound,
			"%d instances × %d types for %v; at most %.2f renewals per process and third of L; %d takings, %d releases; no deadlock; business transaction at most %v",
			instances, types, lasts, s.densest(lock/3), s.takings, s.releases, load.slowest.Round(time.Millisecond))
	})
}

// A new application has no rows yet, of leases or of job types: all instances make them at once, each in the order of its own
// configuration, then take the leases and tell what they do.
func TestInstancesThatStartTogetherMakeTheirRowsWithoutADeadlock(t *testing.T) {
	eachServer(t, func(x *trial) {
		const instances, types = 20, 50
		times := repeat(60, 10)
		st, err := record.Open(x.Context(), x.db, "")
		if err != nil {
			x.Fatal(err)
		}
		before := x.deadlocks()
		for range times {
			for _, table := range []string{"shedlock_tab", "async_job_type_tab", "async_job_now_tab"} {
				x.execute("DELETE FROM " + table)
			}
			begin := make(chan struct{})
			var started sync.WaitGroup
			for i := range instances {
				started.Go(func() {
					<-begin
					if err := startRows(x.Context(), st, types, fmt.Sprint("instance ", i)); err != nil {
						x.Error(err)
					}
				})
			}
			close(begin)
			started.Wait()
		}
		if n := x.deadlocks() - before; n > 0 {
			x.Errorf("%d deadlocks; the last one: %s", n, x.dialect.lastDeadlock(x.db))
		}
		x.tell("a new fleet starts", times, outcome{}, 0, 0, "%d instances make and take %d leases at once", instances, types)
	})
}

// startRows writes what an instance writes about its types when it starts, and ends their pauses, as when many end at once.
func startRows(ctx context.Context, st *record.Store, types int, owner string) error {
	leases, lines := make([]string, types), make([]store.Line, types)
	numbers, names, settings := make([]int32, types), make([]record.TypeName, types), make([]record.TypeSettings, types)
	for i, n := range rand.Perm(types) {
		numbers[i] = int32(n + 1)
		leases[i] = leaseName(numbers[i])
		names[i] = record.TypeName{JobType: numbers[i], Name: "worker"}
		settings[i] = record.TypeSettings{JobType: numbers[i], Settings: fmt.Sprintf("{%q: 1}", owner)}
		lines[i] = store.Line{Lease: leases[i]}
	}
	steps := []func() error{
		func() error { _, err := st.NameTypes(ctx, names); return err },
		func() error { return st.MakeLeases(ctx, leases) },
		func() error { _, err := st.TakeLeases(ctx, leases, owner, 1, lockSecond, false); return err },
		func() error { return st.WriteSettings(ctx, settings) },
		func() error { return st.WriteLines(ctx, lines) },
		func() error { _, err := st.PauseUntil(ctx, numbers[0], 1); return err },
		func() error { _, err := st.EndPauses(ctx, numbers); return err },
		func() error { _, err := st.Resume(ctx, numbers[1]); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// seedVariable repeats the dice of an earlier run; without it they are thrown anew.
const seedVariable = "PQ_FAULTS_SEED"

// dice decide what breaks when. Their seed is printed.
func (x *trial) dice() *rand.Rand {
	x.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			x.Fatalf("%s: %v", seedVariable, err)
		}
	}
	x.Logf("%s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fleet is many instances of one application: all work all types.
type fleet struct {
	*trial
	dice  *rand.Rand
	types []int32
	kills []kill
}

type kill struct {
	of *worker
	at time.Time
	by syscall.Signal
}

// startOne starts an instance. No two have their configurations in the same order.
func (f *fleet) startOne() {
	f.Helper()
	types := make([]int32, len(f.types))
	for i, j := range f.dice.Perm(len(types)) {
		types[i] = f.types[j]
	}
	f.startWorker(workerSettings{Types: types, MaxOpenConns: 10})
}

func (f *fleet) awaitAllHeld() {
	f.Helper()
	f.await(20*time.Second, "some lease has no holder", func() bool {
		return f.number("SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()") == int64(len(f.types))
	})
}

// killOne ends an instance and starts another: by turns one that holds a lease, and any one. Every third is asked to
// stop, so that its leases are scattered over the others: whoever looks first takes what is free at that moment.
func (f *fleet) killOne() {
	f.Helper()
	living := f.living()
	victim := living[f.dice.IntN(len(living))]
	if holder := f.holder(f.types[f.dice.IntN(len(f.types))]); holder != nil && len(f.kills)%2 == 0 {
		victim = holder
	}
	by := syscall.SIGKILL
	if len(f.kills)%3 == 2 {
		by = syscall.SIGTERM
	}
	f.kills = append(f.kills, kill{victim, time.Now(), by})
	if err := victim.end(by); err != nil && by == syscall.SIGTERM {
		f.Errorf("%s did not end cleanly: %v", victim.name, err)
	}
	f.addOneOfEach()
	f.startOne()
}

// addOneOfEach sees to it that there is something to start for each type.
func (f *fleet) addOneOfEach() {
	f.Helper()
	rows := make([]string, len(f.types))
	for i, jobType := range f.types {
		rows[i] = fmt.Sprintf("('{}', %d, 0, 0, UNIX_TIMESTAMP(), UNIX_TIMESTAMP())", jobType)
	}
	f.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " + strings.Join(rows, ", "))
}

// checkRecoveries follows each lease from holder to holder: after one was killed, the next one starts a job within the
// bound. One that is ended before it could do so leaves that to its own successor, from its end on.
func (f *fleet) checkRecoveries(bound time.Duration) (worst time.Duration) {
	f.Helper()
	firstStarts := map[leaseTerm]time.Time{}
	for _, s := range f.starts() {
		t := leaseTerm{leaseName(s.jobType), s.term}
		if _, again := firstStarts[t]; !again {
			firstStarts[t] = s.at
		}
	}
	terms := f.tenures()
	since := map[string]time.Time{} // when the lease lost its holder; none: somebody works
	recovered := func(lease string, at time.Time) {
		gap := at.Sub(since[lease])
		f.withinDuring(window{since[lease], at}, gap, bound, "the next start of "+lease)
		worst = max(worst, gap)
		delete(since, lease)
	}
	for _, t := range slices.SortedFunc(maps.Keys(terms), func(a, b leaseTerm) int { return cmp.Compare(a.term, b.term) }) {
		started, atWork := firstStarts[t]
		if _, waited := since[t.lease]; waited && atWork {
			recovered(t.lease, started)
		}
		k := f.endOf(terms[t])
		if k == nil {
			continue
		}
		if _, waited := since[t.lease]; waited {
			recovered(t.lease, k.at)
			since[t.lease] = k.at
		} else if k.by == syscall.SIGKILL {
			since[t.lease] = k.at
		}
	}
	for lease := range since {
		f.Errorf("the holder of %s was killed, and nobody has worked it since", lease)
	}
	return worst
}

// endOf is what ended the holder during its tenure, nil if nothing did.
func (f *fleet) endOf(held tenure) *kill {
	for i, k := range f.kills {
		if k.of.name == held.worker && k.at.After(held.from) && (held.till.IsZero() || k.at.Before(held.till)) {
			return &f.kills[i]
		}
	}
	return nil
}

// auditLeaseStatements lets the database record which statements changed leases of job types. All rows that one statement changes see
// the same moment, on the same connection. An UPDATE that finds its row as it would leave it fires the trigger too; one
// that finds no row does not.
func (x *trial) auditLeaseStatements() {
	x.Helper()
	for _, statement := range x.dialect.auditLeaseStatements {
		x.execute(statement)
	}
}

// leaseStatements are the statements that changed leases.
type leaseStatements struct {
	renewals          map[string][]time.Time // by worker
	takings, releases int
}

func (x *trial) leaseStatements() leaseStatements {
	x.Helper()
	s := leaseStatements{renewals: map[string][]time.Time{}}
	rows, err := x.db.Query("SELECT at, worker, what FROM audit_lease_statement ORDER BY at")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		var worker, what string
		if err := rows.Scan(&at, &worker, &what); err != nil {
			x.Fatal(err)
		}
		switch what {
		case "keep":
			s.renewals[worker] = append(s.renewals[worker], time.UnixMicro(at))
		case "take":
			s.takings++
		default:
			s.releases++
		}
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return s
}

// overPace is how far the moments run ahead of one every so often, at worst, between any two of them.
func overPace(moments []time.Time, every time.Duration) (worst time.Duration) {
	latest := time.Duration(0) // of those before, against the pace
	for i, at := range moments {
		late := at.Sub(moments[0]) - time.Duration(i)*every
		latest = max(latest, late)
		worst = max(worst, latest-late)
	}
	return worst
}

// densest is how many renewals the busiest process sent for each span of this length, from its first to its last.
func (s leaseStatements) densest(span time.Duration) (most float64) {
	for _, list := range s.renewals {
		if lasted := list[len(list)-1].Sub(list[0]); lasted > 3*span {
			most = max(most, float64(len(list)-1)/(float64(lasted)/float64(span)))
		}
	}
	return most
}

// deadlocks is how many the server has found since it began.
func (x *trial) deadlocks() int64 {
	x.Helper()
	return x.number(x.dialect.deadlocks)
}
