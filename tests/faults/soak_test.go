package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// soakVariable says for how long the soak lasts, as in 30m.
const soakVariable = "PQ_FAULTS_SOAK"

// Phases of some faults each, on instances that live on from phase to phase unless a fault ends them. After each phase
// all is healed, and held against the invariants.
func TestASoakOfMixedFaultsBreaksNoInvariant(t *testing.T) {
	if os.Getenv(soakVariable) == "" {
		t.Skipf("left out: %s is not set; \"make soak\" sets it", soakVariable)
	}
	lasts, err := time.ParseDuration(os.Getenv(soakVariable))
	if err != nil {
		t.Fatalf("%s: %v", soakVariable, err)
	}
	eachOwnTrial(t, func(x *trial, server *server) {
		s := &soak{trial: x, server: server, dice: x.dice(), shaken: map[string]int{}}
		x.oneTry = true
		var err error
		if s.jobs, err = queue_job.Open(x.db); err != nil {
			x.Fatal(err)
		}
		for range 2 {
			s.proxies = append(s.proxies, x.proxy())
		}
		for range 3 + s.dice.IntN(3) {
			s.startOne()
		}
		for began := time.Now(); time.Since(began) < lasts && !x.Failed(); {
			s.phase()
		}
		x.stopWorkers()
		var remark strings.Builder
		for _, name := range slices.Sorted(maps.Keys(s.shaken)) {
			fmt.Fprintf(&remark, "; %d × %s", s.shaken[name], name)
		}
		x.tell("all of it mixed", s.faults, s.all, s.worst, soakBound, "%v, %d phases, heap at most %.1f MB%s", lasts, s.phases, mb(s.heap), remark.String())
	})
}

// soakBound is within what time work flows again when everything is healed: that of the worst single fault, after which
// a lease is renewed once more by one who hears nothing of it.
const soakBound = 2*lock + time.Second

type soak struct {
	*trial
	server  *server
	dice    *rand.Rand
	jobs    *queue_job.Jobs
	proxies []*proxy
	load    *load

	frozen  map[*worker]bool // they cannot be asked to stop
	healing sync.WaitGroup   // faults that end by themselves

	phases, faults int
	shaken         map[string]int // how often what was done
	all            outcome
	worst          time.Duration
	heap           int
}

// shock is something that goes wrong. It may go on for a while; healing waits for its end.
type shock struct {
	name  string
	alone bool // not while others go on
	do    func(*soak)
}

var shocks = []shock{
	{"SIGKILL", false, (*soak).killOne},
	{"SIGTERM and start", false, (*soak).replaceOne},
	{"start", false, (*soak).joinOne},
	{"SIGTERM", false, (*soak).leaveOne},
	{"HandOver", false, (*soak).handOver},
	{"SetShards", false, (*soak).divide},
	{"SIGSTOP", false, (*soak).freezeOne},
	{"late end of a transaction", false, (*soak).endLate},
	{"rows locked", false, (*soak).lockRows},
	{"black hole", false, (*soak).blackhole},
	{"replies lost", false, (*soak).swallow},
	{"connections cut", false, (*soak).cut},
	{"statements fail", false, (*soak).refuse},
	{"lease deleted", true, (*soak).deleteLease},
	{"server killed", true, (*soak).killServer},
}

func (s *soak) phase() {
	s.Helper()
	s.phases++
	s.frozen = map[*worker]bool{}
	s.load = s.startLoadOf([]int32{1, 2, 3}, 200, work{MS: 5, Deaf: true}, 0.1)
	long := s.startLoadOf([]int32{1, 2, 3}, 20, work{MS: 500, Deaf: true}, 0)
	s.awaitHolder(time.Now())
	var done []string
	for range 3 + s.dice.IntN(5) {
		shock := shocks[s.dice.IntN(len(shocks))]
		if shock.alone {
			s.healing.Wait()
		}
		done = append(done, shock.name)
		s.addMany(1, 200, work{MS: 20, Deaf: true}) // so that many are marked or run when it comes
		shock.do(s)
		time.Sleep(s.upTo(2 * time.Second))
	}
	s.healing.Wait()
	gap := s.awaitStart(time.Now(), 40*time.Second)
	s.within(gap, soakBound, "when all was healed, the next start")
	s.load.stop()
	long.stop()
	s.load.forgiveIdsUsedAgain()
	o := s.conclude(2*time.Minute, s.load, long)
	if n := s.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1 AND lost < 3"); n > 0 {
		s.Errorf("%d jobs did not succeed: %s", n, s.describe("job_status <> 1 AND lost < 3"))
	}
	heap := 0
	for _, w := range s.living() {
		heap = max(heap, w.askMemory().heap)
	}
	s.Logf("phase %d: %s; %v, flows again after %v, heap at most %.1f MB, %d transactions failed", s.phases, strings.Join(done, ", "), o, gap.Round(time.Millisecond), mb(heap), s.load.failed)
	s.note(done, o, gap, heap)
	s.forget()
}

func (s *soak) note(done []string, o outcome, gap time.Duration, heap int) {
	for _, name := range done {
		s.shaken[name]++
	}
	s.faults += len(done)
	s.all.jobs += o.jobs
	s.all.lost += o.lost
	s.all.duplicates += o.duplicates
	s.all.inFlight += o.inFlight
	s.worst, s.heap = max(s.worst, gap), max(s.heap, heap)
}

// forget clears away what was checked. Of the leases' terms, the last ones go on.
func (s *soak) forget() {
	s.Helper()
	for _, statement := range []string{
		"DELETE FROM async_job_tab",
		"DELETE FROM async_job_log_tab",
		"DELETE FROM audit_job",
		"DELETE FROM audit_lease WHERE seq NOT IN (SELECT last FROM (SELECT MAX(seq) AS last FROM audit_lease GROUP BY name) AS newest)",
	} {
		s.execute(statement)
	}
	s.seized = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		w.mu.Lock()
		w.starts = nil
		w.mu.Unlock()
	}
}

// forgiveIdsUsedAgain: a server that was killed may hand out the ids of a transaction again that was rolled back before.
func (l *load) forgiveIdsUsedAgain() {
	given := map[uint64]bool{}
	for _, id := range l.committed {
		given[id] = true
	}
	l.rolledBack = slices.DeleteFunc(l.rolledBack, func(id uint64) bool { return given[id] || l.uncertain[id] })
}

// upTo is a while that the dice decide.
func (s *soak) upTo(most time.Duration) time.Duration {
	return 100*time.Millisecond + time.Duration(s.dice.Int64N(int64(most)))
}

// startOne starts an instance, which reaches the server directly or through a proxy.
func (s *soak) startOne() {
	s.Helper()
	settings := workerSettings{Types: []int32{1, 2, 3}}
	if i := s.dice.IntN(2 * len(s.proxies)); i < len(s.proxies) {
		settings.DSN = s.through(s.proxies[i].address())
	}
	s.startWorker(settings)
}

// one is any instance that is not frozen, or nil; by turns the holder, if there is one.
func (s *soak) one() *worker {
	awake := slices.DeleteFunc(s.living(), func(w *worker) bool { return s.frozen[w] })
	if holder := s.holder(1); s.dice.IntN(2) == 0 && slices.Contains(awake, holder) {
		return holder
	}
	if len(awake) == 0 {
		return nil
	}
	return awake[s.dice.IntN(len(awake))]
}

func (s *soak) killOne() {
	if w := s.one(); w != nil {
		w.end(syscall.SIGKILL)
		s.startOne()
	}
}

func (s *soak) replaceOne() {
	if w := s.one(); w != nil {
		s.startOne()
		if err := w.end(syscall.SIGTERM); err != nil {
			s.Errorf("%s did not end cleanly: %v", w.name, err)
		}
	}
}

// An application has two to eight instances.
const fewestInstances, mostInstances = 2, 8

func (s *soak) joinOne() {
	if len(s.living()) < mostInstances {
		s.startOne()
	}
}

func (s *soak) leaveOne() {
	if w := s.one(); w != nil && len(s.living())-len(s.frozen) > fewestInstances {
		if err := w.end(syscall.SIGTERM); err != nil {
			s.Errorf("%s did not end cleanly: %v", w.name, err)
		}
	}
}

func (s *soak) handOver() {
	leases := slices.Sorted(maps.Keys(s.owners()))
	if len(leases) > 0 {
		s.jobs.HandOver(s.Context(), s.db, leases[s.dice.IntN(len(leases))]) // an error, if it changes hands just then
	}
}

// shardsMost is into how many shards a type is divided at most.
const shardsMost = 4

func (s *soak) divide() {
	if err := s.jobs.SetShards(s.Context(), s.db, 1+s.dice.Int32N(3), 1+s.dice.IntN(shardsMost)); err != nil {
		s.Error(err)
	}
}

func (s *soak) freezeOne() {
	w := s.one()
	if w == nil {
		return
	}
	s.frozen[w] = true
	s.freeze(w)
	s.later(3*lock, func() { w.signal(syscall.SIGCONT) })
}

// later heals what was broken, after a while that is no longer than most.
func (s *soak) later(most time.Duration, heal func()) {
	after := s.upTo(most)
	s.healing.Go(func() {
		time.Sleep(after)
		heal()
	})
}

func (s *soak) endLate() {
	open, rollBack := s.upTo(5*time.Second), s.dice.IntN(2) == 0
	s.healing.Go(func() { s.load.longTransaction(open, work{MS: 5, Deaf: true}, rollBack) })
}

// lockRows locks some of the rows that wait or run.
func (s *soak) lockRows() {
	ctx := context.Background()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		s.Error(err)
		return
	}
	var ids []uint64
	rows, err := tx.Query("SELECT id FROM async_job_tab WHERE job_status IN (0, 3, 4) ORDER BY id DESC LIMIT 20")
	if err != nil {
		s.Error(err)
		tx.Rollback()
		return
	}
	for rows.Next() {
		var id uint64
		rows.Scan(&id)
		ids = append(ids, id)
	}
	rows.Close()
	for _, id := range ids {
		// One at a time, so that it waits for no statement that waits for it.
		tx.Exec(fmt.Sprintf("SELECT id FROM async_job_tab %s WHERE id = %d FOR UPDATE", s.dialect.byPrimary, id))
	}
	s.later(4*time.Second, func() { tx.Rollback() })
}

func (s *soak) anyProxy() *proxy { return s.proxies[s.dice.IntN(len(s.proxies))] }

func (s *soak) blackhole() {
	p := s.anyProxy()
	p.blackhole(afterwards(s.dice.IntN(2) == 0))
	s.later(3*lock, p.heal)
}

func (s *soak) swallow() {
	p := s.anyProxy()
	p.swallowReplies(afterwards(s.dice.IntN(2) == 0))
	s.later(3*lock, p.heal)
}

func (s *soak) cut() { s.anyProxy().cutAll() }

// refuse lets a third of the statements fail.
func (s *soak) refuse() {
	p, refusals := s.anyProxy(), s.dialect.refusals
	p.intercept(func(c command) fate {
		switch n := rand.IntN(3 * (len(refusals) + 1)); {
		case n < len(refusals):
			return refusals[n]
		case n == len(refusals):
			return cutReply(rand.IntN(11))
		default:
			return fate{}
		}
	})
	s.later(5*time.Second, func() { p.intercept(nil) })
}

// deleteLease takes a lease of the first type from its holder, who learns it by the next renewal; until then nothing else shall
// happen.
func (s *soak) deleteLease() {
	leases := slices.DeleteFunc(slices.Sorted(maps.Keys(s.owners())), func(name string) bool {
		return name != leaseName(1) && !strings.HasPrefix(name, leaseName(1)+"/")
	})
	if len(leases) == 0 {
		return
	}
	lease := leases[s.dice.IntN(len(leases))]
	s.seized = append(s.seized, time.Now())
	s.execute("DELETE FROM shedlock_tab WHERE lock_name = ?", lease)
	time.Sleep(lock/3 + 500*time.Millisecond)
}

func (s *soak) killServer() {
	s.server.kill()
	time.Sleep(s.upTo(2 * lock))
	s.server.start()
	s.await(10*time.Second, "the test itself finds no way to the server", func() bool { return s.db.Ping() == nil })
}
