package faults

import (
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// What the statements of a hand-over, and of a division into shards, look like.
var (
	moves    = regexp.MustCompile(`shedlock_tab .*SET term = .*running = `)                                   // the row of what still runs
	releases = regexp.MustCompile(`shedlock_tab .*SET lock_until = .* WHERE lock_name = .* AND locked_by = `) // the lease's name
	takes    = regexp.MustCompile(`shedlock_tab .*SET term = \(?GREATEST`)
	closes   = regexp.MustCompile(`shedlock_tab .*SET layout = -`)
	opens    = regexp.MustCompile(`shedlock_tab .*SET layout = \d+, term = GREATEST`)
)

// A process is frozen at each statement of a hand-over for longer than two leases. The statement arrives before it, or only when the
// process wakes.
func TestAProcessFrozenInTheMiddleOfAHandOver(t *testing.T) {
	t.Parallel()
	states := []struct {
		what     string
		at       *regexp.Regexp
		after    int  // so many like it
		asker    bool // is frozen, not the giver
		division bool
	}{
		{what: "the row of what still runs", at: moves},
		{what: "the lease is freed", at: releases},
		{what: "the lease is taken", at: takes, after: 2, asker: true}, // its presence, and its ask
		{what: "the lease is closed", at: closes, division: true},
		{what: "the shards open", at: opens, division: true, asker: true},
	}
	eachServer(t, func(x *trial) {
		frozen := 0
		for i, state := range states {
			for _, late := range []bool{true, false} {
				if testing.Short() && (i+frozen)%3 > 0 {
					continue
				}
				// The other instance may be quicker with a statement that either may send: in one of two times, as with a coin.
				for try := 1; !x.freezeInHandOver(state.at, state.after, state.asker, state.division, late); try++ {
					if try == 15 {
						x.Fatalf("%s: no such statement came through the proxy in %d tries", state.what, try)
					}
				}
				frozen++
			}
		}
		o := x.conclude(time.Minute)
		x.tell("SIGSTOP in a hand-over, for 2 L", frozen, o, 0, 0, "at the row of what runs, at the freeing, the taking, the closing and the opening of a lease")
	})
}

// freezeInHandOver reports false if no such statement came.
func (x *trial) freezeInHandOver(at *regexp.Regexp, after int, asker, division, late bool) (came bool) {
	x.Helper()
	x.execute("DELETE FROM async_job_type_tab")
	x.execute("DELETE FROM shedlock_tab")
	types, p := numbered(2), x.proxy()
	behind, direct := workerSettings{DSN: x.through(p.address()), Types: types}, workerSettings{Types: types}
	if asker {
		behind, direct = direct, behind
	}
	x.startWorker(behind)
	x.await(20*time.Second, "the first worker does not hold both types", func() bool { return len(x.owners()) == 2 })
	load := x.startLoadOf(types, 100, work{MS: 400}, 0)
	x.awaitStart(time.Now(), 20*time.Second)

	frozen, release := make(chan *worker, 1), make(chan struct{})
	var once sync.Once
	var seen atomic.Int64
	p.intercept(func(c command) (f fate) {
		if at.MatchString(c.text) && seen.Add(1) > int64(after) {
			once.Do(func() {
				victim := x.living()[0]
				if asker {
					victim = x.living()[1]
				}
				if late {
					x.freeze(victim)
					f.holdUntil = release
				} else {
					f.afterReply = func() { x.freeze(victim) }
				}
				frozen <- victim
			})
		}
		return f
	})
	x.startWorker(direct)
	if division {
		x.awaitPresent(2)
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		for _, jobType := range types {
			if err := jobs.SetShards(x.Context(), x.db, jobType, 2); err != nil {
				x.Fatal(err)
			}
		}
	}
	select {
	case victim := <-frozen:
		x.startWorker(workerSettings{Types: types}) // somebody has to go on, whoever was frozen
		x.awaitStart(time.Now(), lock+20*time.Second, victim)
		time.Sleep(2 * lock)
		victim.signal(syscall.SIGCONT)
		close(release)
		came = true
	case <-time.After(5 * time.Second):
	}
	x.conclude(time.Minute, load)
	p.intercept(nil)
	x.stopWorkers()
	return came
}
