package faults

import (
	"fmt"
	"testing"
	"time"
)

// semisync is how a server is made to have each commit wait for a replica, of which there is none, and to let them all go.
type semisync struct {
	server  string
	options []string
	hang    []string
	release []string
	seen    string // of a commit that waits
}

var semisyncs = []semisync{
	{"MariaDB", []string{"--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--rpl-semi-sync-master-timeout=3600000"},
		[]string{"SET GLOBAL rpl_semi_sync_master_enabled = ON"}, []string{"SET GLOBAL rpl_semi_sync_master_enabled = OFF"}, "others see it"},
	{"MySQL", []string{"--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-timeout=3600000"},
		[]string{"SET GLOBAL rpl_semi_sync_source_enabled = ON"}, []string{"SET GLOBAL rpl_semi_sync_source_enabled = OFF"}, "it holds its locks"},
	{"PostgreSQL", nil,
		[]string{"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"},
		[]string{"ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"}, "it holds its locks"},
}

// Reads are answered, and commits are not: no beat is, either, so nobody judges who lives. What was sent meanwhile takes effect when its sender has
// given it up.
func TestCommitsThatWaitForAReplicaCostNoRun(t *testing.T) {
	t.Parallel()
	for _, way := range semisyncs {
		if testing.Short() && way.server == "PostgreSQL" {
			skipPostgreSQL(t, onlyMainFaults)
			continue
		}
		onOwnServer(t, way.server, func(s *server) {
			x := ownTrial(s)
			settings := workerSettings{Types: busyTypes, LockSecond: longLock}
			times, still := repeat(20, 2), 5*time.Second
			loads := x.startBusy()
			x.startWorker(settings)
			x.startWorker(settings)
			moved, worst := 0, time.Duration(0)
			for range times {
				x.awaitEvenShares(busyTypes)
				before := x.owners()
				x.executeAll(way.hang)
				hung := time.Now()
				time.Sleep(still)
				for _, l := range loads {
					if n := l.committedSince(hung.Add(time.Second)); n > 0 {
						x.Fatalf("%d jobs were committed: nothing waits", n)
					}
				}
				x.executeAll(way.release)
				released := time.Now()
				worst = max(worst, x.awaitStart(released, 20*time.Second))
				time.Sleep(still)
				for name, owner := range x.owners() {
					if was := before[name]; was != "" && was != owner {
						moved++
					}
				}
			}
			for _, l := range loads {
				l.heldUp = still
			}
			x.within(worst, resumesWithin, "the next start")
			o := x.conclude(2*time.Minute, loads...)
			x.stopWorkers()
			x.noneFailed()
			x.nothingTwice(o)
			if most := times * len(busyTypes) / 10; moved > most {
				x.Errorf("%d leases have moved, and at most %d may", moved, most)
			}
			x.tell(fmt.Sprintf("commits wait 5 s for a replica, leases of %d s, ten types", longLock), times, o, worst, resumesWithin, "%s; %d of %d leases moved",
				way.seen, moved, times*len(busyTypes))
		}, way.options...)
	}
}

func (x *trial) executeAll(statements []string) {
	x.Helper()
	for _, statement := range statements {
		x.execute(statement)
	}
}

// committedSince counts the jobs that were committed after a moment.
func (l *load) committedSince(moment time.Time) (n int) {
	l.note(func() {
		for _, at := range l.committedAt {
			if at.After(moment) {
				n++
			}
		}
	})
	return n
}
