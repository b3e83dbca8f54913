package faults

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"testing"
	"time"
)

// What an instance sends through its two connections for leases.
var (
	looksAtLeases = regexp.MustCompile(`(?s) AS held_until\s.*\sUNION ALL\s`)
	isBeat        = regexp.MustCompile(`\sAND running >= 0 AND layout < `)
)

// pauseMost is how long a job may wait for its start when nothing is wrong with its process.
const pauseMost = 300 * time.Millisecond

// Somebody kills the connection again and again through which an instance sees and renews its leases, or also the one through which it says that it
// lives. Neither costs a lease or a pause.
func TestAConnectionForLeasesThatIsKilledAgainAndAgainCostsNoLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		of   []*regexp.Regexp
	}{
		{"the connection for leases", []*regexp.Regexp{looksAtLeases}},
		{"the connections for leases and for beats", []*regexp.Regexp{looksAtLeases, isBeat}},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachServerAtOnce(t, func(x *trial) {
				lasts, kills := seconds(60, 10), 0
				x.keepsItsLeases("every 300 ms for a minute, somebody kills "+c.what, func(_ *worker, kill func(*regexp.Regexp) bool) {
					ctx, cancel := context.WithTimeout(x.Context(), lasts)
					defer cancel()
					every(ctx, 300*time.Millisecond, func() {
						for _, what := range c.of {
							if kill(what) {
								kills++
							}
						}
					})
					if least := int(lasts/time.Second) * len(c.of); kills < least {
						x.Errorf("%d connections were killed, want %d", kills, least)
					}
				}, func() string { return fmt.Sprintf("%d connections were killed", kills) })
			})
		})
	}
}

// Somebody locks the row of a lease for as long as the lease lasts, nearly.
func TestALockedRowOfALeaseCostsNoLease(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		locked := seconds(20, 6)
		x.keepsItsLeases("the row of a lease is locked for 20 s", func(first *worker, _ func(*regexp.Regexp) bool) {
			tx := x.transaction("SELECT lock_name FROM shedlock_tab WHERE lock_name = '" + leaseName(x.heldBy(first, numbered(10))[0]) + "' FOR UPDATE")
			time.Sleep(locked)
			tx.Rollback()
		}, func() string { return "" })
	})
}

// keepsItsLeases has two processes share ten types while something is wrong with what the first one does about leases. Kill ends its connection that
// was used last for something.
func (x *trial) keepsItsLeases(fault string, wrong func(first *worker, kill func(*regexp.Regexp) bool), remark func() string) {
	x.Helper()
	types := numbered(10)
	p := x.proxy()
	used := x.linesOf(p) // before anything is prepared
	quick, long := x.startLoadOf(types, 300, work{MS: 5}, 0), x.startLoadOf(types, 10, work{MS: 10000}, 0)
	first := x.startWorker(workerSettings{Types: types, LockSecond: longLock, DSN: x.through(p.address())})
	x.startWorker(workerSettings{Types: types, LockSecond: longLock})
	x.awaitEvenShares(types)
	before, taken := x.awaitRest(), x.takings(types...)
	began := time.Now()
	wrong(first, func(what *regexp.Regexp) bool { return x.killSession(p.port(used.of(what))) })
	over := time.Now()
	if owners, n := x.owners(), x.takings(types...)-taken; n > 0 || !maps.Equal(owners, before) {
		x.Errorf("%d leases were taken:\n%v\n%v", n, before, owners)
	}
	if n := x.number("SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%' AND running < 0"); n > 0 {
		x.Errorf("%d processes were buried that are well", n)
	}
	o := x.conclude(time.Minute, quick, long)
	x.stopWorkers()
	x.noDuplicates(o)
	x.noneFailed()
	x.noneRetried()
	p99, longest := x.waits(window{began, over}, quick, long)
	x.withinDuring(window{began, over}, longest, pauseMost, "a start")
	text := fmt.Sprintf("commit to start p99 %v; no lease has moved", p99.Round(time.Millisecond))
	if more := remark(); more != "" {
		text = more + "; " + text
	}
	x.tell(fmt.Sprintf("%s, leases of %d s, ten types", fault, longLock), 1, o, longest, pauseMost, "%s", text)
}

// latest are the connections through which statements of a kind came last.
type latest struct {
	mu   sync.Mutex
	last map[*regexp.Regexp]int
}

func (l *latest) of(what *regexp.Regexp) (connection int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[what]
}

// linesOf notes from now on which connection of a proxy is used for what.
func (x *trial) linesOf(p *proxy) *latest {
	l := &latest{last: map[*regexp.Regexp]int{}}
	p.intercept(func(c command) fate {
		for _, what := range []*regexp.Regexp{looksAtLeases, isBeat} {
			if what.MatchString(c.text) {
				l.mu.Lock()
				l.last[what] = c.connection
				l.mu.Unlock()
			}
		}
		return fate{}
	})
	return l
}

// killSession has the server end the connection that comes from a port, and reports whether there was one.
func (x *trial) killSession(port int) bool {
	var session int64
	if port == 0 || x.row(x.dialect.session, port).Scan(&session) != nil {
		return false
	}
	_, err := x.db.Exec(fmt.Sprintf(x.dialect.endSession, session))
	return err == nil
}
