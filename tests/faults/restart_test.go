package faults

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// eachOwnTrial is eachServer with a server that the test may hurt.
func eachOwnTrial(t *testing.T, test func(x *trial, s *server)) {
	t.Helper()
	eachOwnServer(t, func(s *server) { test(ownTrial(s), s) })
}

// ownTrial makes a trial on a server of the test's own.
func ownTrial(s *server) *trial {
	s.Helper()
	admin := dbtest.Open(s.T, s.dialect.driver, s.dsn(""))
	if _, err := admin.Exec("CREATE DATABASE trial"); err != nil {
		s.Fatal(err)
	}
	return newTrial(s.T, s.name, s.dsn("trial"))
}

// resumesWithin is how soon a job starts after the server accepts connections again.
const resumesWithin = 2 * time.Second

func TestAServerIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	eachOwnServerInShortToo(t, func(s *server) {
		x := ownTrial(s)
		times := repeat(10, 2)
		load := x.startLoad(300, work{MS: 20}, 0)
		for range 2 {
			x.startWorker(workerSettings{})
		}
		worst := time.Duration(0)
		for range times {
			x.awaitHolder(time.Now())
			x.awaitStart(time.Now().Add(time.Second), 20*time.Second) // work goes on for a while
			s.kill()
			gap := x.awaitStart(s.start(), 20*time.Second)
			x.within(gap, resumesWithin, "the next start")
			worst = max(worst, gap)
		}
		o := x.conclude(time.Minute, load)
		x.noneFailed()
		x.stopWorkers()
		x.tell("server SIGKILLed and restarted during work", times, o, worst, resumesWithin, "2 instances; %d business transactions failed", load.failed)
	})
}

func TestResultsAreKeptWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	eachOwnTrial(t, func(x *trial, s *server) {
		down := seconds(60, renewedLock+1) // and then the lease is over
		load := x.startLoad(200, work{MS: 500, Deaf: true}, 0)
		x.startWorker(workerSettings{LockSecond: renewedLock})
		x.awaitHolder(time.Now())
		time.Sleep(time.Second) // of work, so that much is in flight
		s.kill()
		time.Sleep(down)
		gap := x.awaitStart(s.start(), 20*time.Second)
		x.within(gap, resumesWithin, "the next start")
		o := x.conclude(time.Minute, load)
		x.noneFailed()
		x.noDuplicates(o) // all that ran had ended well, and nobody else took it over
		x.stopWorkers()
		x.tell("server down while busy, one instance", 1, o, gap, resumesWithin, "%v long", down)
	})
}

func TestAServerIsAwayWhileNothingIsToBeDone(t *testing.T) {
	t.Parallel()
	eachOwnTrial(t, func(x *trial, s *server) {
		down := seconds(60, renewedLock+1)
		for range 2 {
			x.startWorker(workerSettings{LockSecond: renewedLock})
		}
		x.addMany(1, 1, work{})
		x.awaitDone(20 * time.Second)
		s.kill()
		time.Sleep(down)
		accepted := s.start()
		x.await(20*time.Second, "the test itself cannot add a job", func() bool {
			_, err := x.db.Exec("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, 0, 1, 1)")
			return err == nil
		})
		gap := x.awaitStart(accepted, 20*time.Second)
		x.within(gap, resumesWithin, "the next start")
		o := x.conclude(time.Minute)
		x.noDuplicates(o)
		x.stopWorkers()
		x.tell("server down while idle", 1, o, gap, resumesWithin, "%v long, 2 instances", down)
	})
}
