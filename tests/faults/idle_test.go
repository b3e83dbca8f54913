package faults

import (
	"syscall"
	"testing"
	"time"
)

// A server, and what stands before it, closes connections that are idle for a while. The leases' own is idle from one
// renewal to the next, which with long leases is longer.
func TestACleanStopGivesItsLeaseBackThoughTheServerHasClosedTheIdleConnection(t *testing.T) {
	t.Parallel()
	const idle, long = 3 * time.Second, 60 // seconds, of which twenty lie between renewals
	limits := map[string][]string{"MariaDB": {"--wait-timeout=3"}, "MySQL": {"--wait-timeout=3"}, "PostgreSQL": {"-c", "idle_session_timeout=3s"}}
	for name, limit := range limits {
		onOwnServer(t, name, func(s *server) {
			x := ownTrial(s)
			x.db.SetConnMaxIdleTime(idle / 2)
			holder := x.startWorker(workerSettings{LockSecond: long})
			x.addMany(1, 1, work{})
			x.awaitHolder(time.Time{})
			x.startWorker(workerSettings{LockSecond: long})
			time.Sleep(2 * idle)
			x.addMany(1, 1, work{MS: 1})
			stopped := time.Now()
			if err := holder.end(syscall.SIGTERM); err != nil {
				x.Errorf("the holder did not end cleanly: %v", err)
			}
			added := time.Now() // before: it may have started when the INSERT returns
			x.addMany(1, 1, work{})
			gap := x.awaitStart(added, (long+10)*time.Second, holder)
			x.within(gap, 2*time.Second, "the next start")
			o := x.conclude(time.Minute)
			x.noneFailed()
			x.noDuplicates(o)
			x.stopWorkers()
			x.tell("clean stop after the server closed the leases' idle connection", 1, o, gap, 2*time.Second, "idle limit %v, LockSecond %d; the stop took %v", idle, long, time.Since(stopped).Round(time.Millisecond))
		}, limit...)
	}
}
