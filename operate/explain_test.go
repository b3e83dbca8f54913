package operate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

var now = time.Unix(1_800_000_000, 0)

// waiting is a job of type 7 that is due, and whose type web-1 holds; the functions change what is seen.
func waiting(changes ...func(*facts)) *facts {
	f := &facts{id: 40, now: now,
		job: &queue_job.JobInfo{Id: 40, JobType: 7, Due: now.Add(-time.Minute), Updated: now.Add(-time.Minute)},
		fleet: store.Fleet{Leases: []store.Seen{
			{Name: "at-0123456789ab", Owner: "shop@web-1/17#0123456789ab.1", Layout: 1},
			{Name: "job-7", Owner: "shop@web-1/17#0123456789ab.2", Term: 41, Running: 3, Layout: 1, Left: 9},
		}},
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

func inFlightUnder(term int64) func(*facts) {
	return func(f *facts) { f.job.InFlight, f.job.Term, f.job.Attempts = true, term, 1 }
}

func leases(list ...store.Seen) func(*facts) {
	return func(f *facts) { f.fleet.Leases = list }
}

func withStatus(status queue_job.JobStatus) func(*facts) {
	return func(f *facts) { f.job.Status = status }
}

func dueIn(d time.Duration) func(*facts) {
	return func(f *facts) { f.job.Due = now.Add(d) }
}

func dormant(f *facts) { f.kind.Config.DormantAfter = time.Minute }

func paused(f *facts) { f.kind.Paused = now.Add(-time.Hour) }

func pausedUntil(end time.Duration) func(*facts) {
	return func(f *facts) { f.kind.Paused, f.kind.PausedUntil = now.Add(-time.Hour), now.Add(end) }
}

func pausedBy(actor, why string) func(*facts) {
	return func(f *facts) { f.kind.PausedBy, f.kind.PausedWhy = actor, why }
}

func told(cfg queue_job.Config) func(*facts) {
	return func(f *facts) { f.kind.Told, f.kind.Config = now.Add(-24*time.Hour), cfg }
}

func failing(lease string, term int64) func(*facts) {
	return func(f *facts) {
		f.lines = []store.Line{{Lease: lease, Term: term, LineState: store.LineState{FailingSince: now.Unix() - 60, Failing: "mark jobs: no space left"}}}
	}
}

// putOffFor is what a job is that was put off, as were ten for each of these causes.
func putOffFor(causes ...string) func(*facts) {
	return func(f *facts) {
		p := &store.PutOff{}
		for _, c := range causes {
			p.Jobs, p.Causes = p.Jobs+10, append(p.Causes, store.Cause{Text: c, Jobs: 10})
		}
		f.job.Deferred, f.job.Created = 42, now.Add(-time.Hour)
		f.lines = []store.Line{{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4, LineState: store.LineState{PutOff: p}}}
	}
}

// sleepsFor is what a job is that has had a step, and a sleep after that.
func sleepsFor(d time.Duration) func(*facts) {
	return func(f *facts) {
		f.steps = []queue_job.StepInfo{{Name: "charge", Attempt: 1, Ended: now.Add(-2 * time.Hour)},
			{Name: "cooling off", Attempt: 2, Ended: now.Add(-2 * time.Hour), Until: now.Add(d)}}
	}
}

// awaits is what a job is that waits for a signal, or did until that had come.
func awaits(d time.Duration, came time.Time) func(*facts) {
	return func(f *facts) {
		f.steps = []queue_job.StepInfo{{Name: "approval", Signal: true, Until: now.Add(d), Ended: came}}
	}
}

func utcIn(d time.Duration) string { return now.Add(d).UTC().Format(time.DateTime) }

// second is what a job of a group is, whose first one is 39.
func second(f *facts) { f.first, f.job.Group = 39, "a" }

func TestEachReasonIsNamedWithItsEvidence(t *testing.T) {
	freeFor := func(seconds float64) store.Seen {
		return store.Seen{Name: "job-7", Free: true, Owner: "shop@web-1/17#0123456789ab.2", Term: 41, Layout: 1, Left: -seconds}
	}
	lines := func(told ...store.Line) func(*facts) { return func(f *facts) { f.lines = told } }
	const closed = -2050
	present := store.Seen{Name: "at-0123456789ab", Owner: "shop@web-1/17#0123456789ab.1", Layout: 1}
	divided := func(f *facts) { f.fleet.Layouts = map[int32]int64{7: 2050} } // two shards; job 40 belongs to the second
	itsShard := share.ShardLease(7, share.ShardOf(40, "", 2))
	othersShard := share.ShardLease(7, 1-share.ShardOf(40, "", 2))
	for _, c := range []struct {
		what  string
		facts *facts
		kinds []string
		says  string // of the first reason
	}{
		{"no row", &facts{id: 40, now: now}, []string{NoJob}, "no such job"},
		{"done", waiting(withStatus(queue_job.JobStatusSuccess), paused), []string{Final}, "completed"},
		{"failed", waiting(withStatus(queue_job.JobStatusFailed), func(f *facts) {
			f.runs = []queue_job.Attempt{{Attempt: 3, Outcome: "failed", Error: "no route"}}
		}), []string{Final}, "Run 3: no route (failed)"},
		{"it runs", waiting(inFlightUnder(41), paused), []string{InFlight}, "shop@web-1/17 has it"},
		{"it runs on where the lease was", waiting(inFlightUnder(40), leases(
			store.Seen{Name: "job-7", Owner: "shop@web-2/18#aaaaaaaaaaaa.2", Term: 41, Layout: 1},
			store.Seen{Name: "rest-7-40", Owner: "shop@web-1/17#0123456789ab.2", Term: 40, Layout: 1},
		)), []string{InFlight}, "shop@web-1/17 has it: its handler runs, or is about to. The lease of the type has gone"},
		{"it runs on where the type was divided otherwise", waiting(inFlightUnder(40), leases(
			store.Seen{Name: "job-7", Owner: "shop@web-2/18#aaaaaaaaaaaa.2", Term: 41, Layout: 3073},
			store.Seen{Name: share.Remains(itsShard, 40), Owner: "shop@web-1/17#0123456789ab.2", Term: 40, Layout: 2050},
		)), []string{InFlight}, "shop@web-1/17"},
		{"both shards have the same term", waiting(inFlightUnder(40), leases(
			store.Seen{Name: othersShard, Owner: "shop@web-1/17#0123456789ab.2", Term: 40, Layout: 2050},
			store.Seen{Name: itsShard, Owner: "shop@web-2/18#aaaaaaaaaaaa.2", Term: 40, Layout: 2050},
		)), []string{InFlight}, "shop@web-2/18"},
		{"it runs, and renews its lease", waiting(inFlightUnder(41), told(queue_job.Config{LockSecond: 12})), []string{InFlight}, "shop@web-1/17 has it: its handler runs, or is about to."},
		{"its lease ends soon", waiting(inFlightUnder(41), told(queue_job.Config{LockSecond: 18})), []string{InFlight}, "But it has not renewed its lease in time. If it has died, another instance goes on in 10s."},
		{"the holder of the type may have died", waiting(told(queue_job.Config{LockSecond: 18})), []string{InLine}, "and runs 3 handlers. But it has not renewed its lease"},
		{"the last loss it may have", waiting(inFlightUnder(40), told(queue_job.Config{LostLimit: 3}), func(f *facts) { f.job.Lost = 2 }), []string{Died}, "the job has failed then: LostLimit is 3."},
		{"a loss that it survives", waiting(inFlightUnder(40), told(queue_job.Config{LostLimit: 3}), func(f *facts) { f.job.Lost = 1 }), []string{Died}, "and runs the job again."},
		{"the term is another type's", waiting(inFlightUnder(40), func(f *facts) {
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: "job-70", Owner: "x@y/1#0123456789ab.2", Term: 40, Layout: 1},
				store.Seen{Name: "rest-70-40", Owner: "x@y/1#0123456789ab.2", Layout: 1})
		}), []string{Died}, "has died"},
		{"its holder died, and the next one has the lease", waiting(inFlightUnder(40)), []string{Died}, "has died, or was cut off"},
		{"its holder died, and nobody has the lease", waiting(inFlightUnder(41), leases(freeFor(20))), []string{Died, NoInstance}, "has died"},
		{"what remained has ended with its process", waiting(inFlightUnder(40), func(f *facts) {
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: "rest-7-40", Free: true, Owner: "shop@web-3/1#0123456789ab.2"})
		}), []string{Died}, ""},
		{"added for later", waiting(dueIn(time.Hour)), []string{NotDue}, "added, or put off"},
		{"it has failed and waits", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusRetry), func(f *facts) {
			f.runs, f.job.Retries = []queue_job.Attempt{{Attempt: 2, Outcome: "retry", Error: "timeout"}}, 2
		}), []string{NotDue}, "Its last run failed, and the next one has to wait. That will be retry 2. Run 2: timeout (retry)."},
		{"it has failed, and may so often", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusRetry), told(queue_job.Config{MaxRetries: 5})), []string{NotDue}, "retry 0 of 5."},
		{"it runs, and has a time limit", waiting(inFlightUnder(41), told(queue_job.Config{Timeout: time.Minute})), []string{InFlight}, "Its time limit is 1m0s."},
		{"snoozed", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue)), []string{NotDue}, "handler has put it off"},
		{"waits for a signal", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), awaits(time.Hour, time.Time{})), []string{NotDue},
			`It waits for the signal "approval", until ` + utcIn(time.Hour) + ` UTC.`},
		{"the signal has come", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), awaits(time.Hour, now)), []string{NotDue}, "handler has put it off"},
		{"waits for a signal, and rescheduled since", waiting(dueIn(2*time.Hour), withStatus(queue_job.JobStatusContinue), awaits(time.Hour, time.Time{})),
			[]string{NotDue}, "handler has put it off"},
		{"asleep", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), sleepsFor(time.Hour-time.Second)), []string{NotDue},
			`It sleeps: its handler has called Sleep ("cooling off") in run 2, and goes on when that is over.`},
		{"asleep, and rescheduled since", waiting(dueIn(2*time.Hour), withStatus(queue_job.JobStatusContinue), sleepsFor(time.Hour)), []string{NotDue}, "handler has put it off"},
		{"awake again, and snoozed", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), sleepsFor(-time.Hour)), []string{NotDue}, "handler has put it off"},
		{"all at once", waiting(dueIn(time.Hour), paused, leases()), []string{NotDue, NoInstance, Paused}, ""},
		{"nobody ever ran the type", waiting(leases(store.Seen{Name: "at-0123456789ab", Owner: "shop@web-1/17#0123456789ab.1"})), []string{NoInstance}, "No instance has ever run job type 7."},
		{"the type is dormant", waiting(dormant, leases(present)), []string{Dormant}, "wakes it within a second"},
		{"the type is dormant, and nobody is there", waiting(dormant, leases()), []string{NoInstance}, "no instance that could wake it"},
		{"no type was given", waiting(leases(), func(f *facts) { f.job.JobType = 0 }), []string{NoInstance}, "without a JobType has type 0"},
		{"the lease is between two holders", waiting(leases(freeFor(0.1))), []string{NoInstance}, "takes it within a second"},
		{"nobody has the lease", waiting(leases(freeFor(60))), []string{NoInstance}, "nobody holds its lease, job-7"},
		{"paused", waiting(paused), []string{Paused}, "Job type 7 is paused."},
		{"paused, and who did it is noted", waiting(paused, pausedBy("mary@ops", "")), []string{Paused}, "Job type 7 is paused by mary@ops."},
		{"paused, and why is noted, too", waiting(paused, pausedBy("mary@ops", "the bank is closed")), []string{Paused}, "Job type 7 is paused by mary@ops (the bank is closed)."},
		{"paused, and the end has passed", waiting(pausedUntil(0)), []string{Paused}, "Job type 7 is paused. The pause is over, and the next instance"},
		{"its lease is closed", waiting(divided, leases(present, store.Seen{Name: itsShard, Layout: closed, Left: 1e8})), []string{Divided}, "being divided"},
		{"its lease is not there yet", waiting(divided, leases(present, store.Seen{Name: "job-7", Layout: closed, Left: 1e8})), []string{Divided}, ""},
		{"the lease of the earlier shards is free, and will be closed", waiting(divided, leases(present, freeFor(1))), []string{Divided}, ""},
		{"an earlier shard is free, and another is held", waiting(divided, leases(present, freeFor(60),
			store.Seen{Name: share.ShardLease(7, (share.ShardOf(40, "", 3)+1)%3), Owner: "shop@web-1/17#0123456789ab.2", Term: 41, Layout: 3})), []string{Divided}, ""},
		{"nobody is there to divide it", waiting(divided, leases(store.Seen{Name: itsShard, Layout: closed, Left: 1e8})), []string{NoInstance}, "nobody holds a lease of it"},
		{"no instance has divided the type for a minute", waiting(divided, leases(present, freeFor(60))), []string{NoInstance}, "divides it into 2 shards before jobs start"},
		{"the type is to be divided, and its lease is held still", waiting(divided), []string{InLine}, "which holds job-7 and"},
		{"it is in a shard", waiting(divided, leases(store.Seen{Name: itsShard, Owner: "shop@web-4/2#0123456789ab.2", Term: 41, Running: 1, Layout: 2050})),
			[]string{InLine}, "in the line of shop@web-4/2, which holds " + itsShard + " and runs 1 handler."},
		{"the holder has told what waits", waiting(lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4, LineState: store.LineState{Running: 20, Workers: 20, Waiting: 340, Marked: 10, Overdue: 61_400, Behind: true}})),
			[]string{InLine}, "which holds job-7. 4s ago, 20 of its 20 workers were busy and 350 jobs waited in its memory, the first of them for 1m1s; more were in the table."},
		{"groups take turns", waiting(told(queue_job.Config{FairByGroup: true}), lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix(), LineState: store.LineState{Running: 2, Workers: 2, Waiting: 9}})),
			[]string{InLine}, "9 jobs waited in its memory. Groups take turns there (FairByGroup), so it does not wait for all of these."},
		{"groups take turns, and its own has others", waiting(told(queue_job.Config{FairByGroup: true}), func(f *facts) { f.job.Group, f.earlierOfGroup = "small", 3 },
			lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix(), LineState: store.LineState{Running: 2, Workers: 2, Waiting: 9}})),
			[]string{InLine}, `it does not wait for all of these. Of its group, "small", 3 jobs that came before it did not end yet. Each other group has a start for each of theirs`},
		{"the rate is used up", waiting(lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4, LineState: store.LineState{Workers: 100, Waiting: 1303, Soon: 3, Gate: &store.Gate{Limit: store.HeldByRate, Next: 480, Rate: 2}}})),
			[]string{InLine}, "4s ago, 0 of its 100 workers were busy and 1300 jobs waited in its memory. The rate of 2 a second was used up: the next job could start after 480ms. At this rate, what waited takes about 10m 50s."},
		{"its group has used up its rate", waiting(told(queue_job.Config{RatePerKey: 10}), func(f *facts) { f.job.Group = "a" }, lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4,
			LineState: store.LineState{Workers: 100, Waiting: 340, Gate: &store.Gate{}, KeyRate: []store.KeyWaits{{Key: store.HashOfKey("b"), Jobs: 1}, {Key: store.HashOfKey("a"), Jobs: 12, Next: 80}}}})),
			[]string{InLine}, "340 jobs waited in its memory. Its group had used up its rate of 10 a second (RatePerKey): 12 jobs of it waited there, and the next could start after 80ms."},
		{"groups have used up their rate", waiting(func(f *facts) { f.job.Group = "a" }, lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4,
			LineState: store.LineState{Workers: 100, Waiting: 340, Parked: 340, Gate: &store.Gate{Limit: store.HeldByKeyRate, Rate: 10, Next: 80}}})),
			[]string{InLine}, "340 jobs waited in its memory. Each of them waited for its group, and groups had used up their rate of 10 a second (RatePerKey)."},
		{"all workers are busy", waiting(lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix() - 4, LineState: store.LineState{Workers: 2, Running: 2, Waiting: 1, Gate: &store.Gate{Limit: store.HeldByWorkers}}})),
			[]string{InLine}, "2 of its 2 workers were busy and 1 job waited in its memory. So a job waited until one of them ended."},
		{"a worker has ended since its gate was looked at", waiting(lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix(), LineState: store.LineState{Workers: 2, Running: 1, Gate: &store.Gate{Limit: store.HeldByWorkers}}})),
			[]string{InLine}, "1 of its 2 workers were busy and 0 jobs waited in its memory."},
		{"other types have all workers", waiting(lines(store.Line{Lease: "job-7", Term: 41, ToldAt: now.Unix(), LineState: store.LineState{Workers: 2, Marked: 1, Gate: &store.Gate{Limit: store.HeldByPlaces}}})),
			[]string{InLine}, "Other types had all workers that its process may have (WithMaxWorkers)."},
		{"put off, for a destination that its parameters name", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), putOffFor("http://a:80 is broken", "http://a:8 is broken"), func(f *facts) { f.job.JobParams = `{"url":"http://a:8/x"}` }),
			[]string{NotDue}, "Its handler has put it off 42 times since it was added, at 2027-01-15 07:00:00 UTC: these runs ended before they had begun (Defer). It waits for this: http://a:8 is broken; 9 others wait for it."},
		{"put off, and it is not known for what", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), putOffFor("http://a:80 is broken", "http://a:8 is broken")),
			[]string{NotDue}, "(Defer). Jobs of its type wait for this: http://a:80 is broken (10 jobs); http://a:8 is broken (10 jobs)."},
		{"put off, and the handler does not say why", waiting(dueIn(time.Hour), withStatus(queue_job.JobStatusContinue), putOffFor()), []string{NotDue}, "(Defer)."},
		{"the holder before it has told what waited", waiting(lines(store.Line{Lease: "job-7", Term: 40, ToldAt: now.Unix()})), []string{InLine}, "and runs 3 handlers."},
		{"it waits for its turn", waiting(), []string{InLine}, "in the line of shop@web-1/17, which holds job-7 and runs 3 handlers."},
	} {
		e := explain(c.facts)
		var kinds []string
		for _, r := range e.Reasons {
			kinds = append(kinds, r.Kind)
		}
		if !slices.Equal(kinds, c.kinds) || !strings.Contains(e.Reasons[0].Text, c.says) {
			t.Errorf("%s: %+v, want %q and the text %q", c.what, e.Reasons, c.kinds, c.says)
		}
		if inLine := kinds[0] == InLine; inLine != (len(e.Perhaps) > 0) {
			t.Errorf("%s: perhaps %+v", c.what, e.Perhaps)
		}
	}
}

func TestThePauseOfATypeIsExplainedUntilItsEnd(t *testing.T) {
	r := explain(waiting(pausedUntil(time.Minute))).Reasons[0]
	if !r.Since.Equal(now.Add(-time.Hour)) || !r.Until.Equal(now.Add(time.Minute)) || strings.Contains(r.Text, "over") {
		t.Errorf("%+v", r)
	}
}

func TestWhatTheTablesDoNotTellIsOnlyPerhapsSo(t *testing.T) {
	for _, c := range []struct {
		what  string
		facts *facts
		kinds []string
	}{
		{"nothing is known", waiting(), []string{Limits}},
		{"statements of the holder fail", waiting(failing("job-7", 41)), []string{Failing, Limits}},
		{"statements of an earlier holder failed", waiting(failing("job-7", 40)), []string{Limits}},
		{"statements of another type's holder fail", waiting(failing("job-70", 41)), []string{Limits}},
		{"it is the first of its group", waiting(func(f *facts) { f.first, f.job.Group = 40, "a" }), []string{Limits}},
		{"another one is", waiting(second), []string{EarlierJob, Limits}},
		{"another one is, and groups do not count", waiting(second, told(queue_job.Config{FirstPullDay: -1})), []string{Limits}},
		{"another one is, and two may run", waiting(second, told(queue_job.Config{MaxPerKey: 2})), []string{EarlierJob, Limits}},
		{"another one is, and the type goes in order", waiting(second, told(queue_job.Config{OrderedByKey: true})), []string{EarlierJob, Limits}},
		{"lost once", waiting(func(f *facts) { f.job.Lost = 1 }), []string{Limits}},
		{"lost twice", waiting(func(f *facts) { f.job.Lost = 2 }), []string{Suspect, Limits}},
		{"lost twice, of a type that does not mind", waiting(func(f *facts) { f.job.Lost = 2 }, told(queue_job.Config{LostLimit: -1})), []string{Limits}},
		{"long overdue", waiting(dueIn(-50 * time.Hour)), []string{LeftAlone, Limits}},
		{"not long enough", waiting(dueIn(-50*time.Hour), told(queue_job.Config{FirstPullDay: 7})), []string{Limits}},
		{"long enough", waiting(dueIn(-200*time.Hour), told(queue_job.Config{FirstPullDay: 7})), []string{LeftAlone, Limits}},
		{"no age is too long", waiting(dueIn(-200*time.Hour), told(queue_job.Config{FirstPullDay: -1})), []string{Limits}},
	} {
		e := explain(c.facts)
		var kinds []string
		for _, r := range e.Perhaps {
			kinds = append(kinds, r.Kind)
		}
		if !slices.Equal(kinds, c.kinds) || e.Reasons[0].Kind != InLine {
			t.Errorf("%s: %+v", c.what, e)
		}
	}
}

func TestLimitsThatSomebodyHasSetAreNamedIfTheyAreBelowTheConfiguration(t *testing.T) {
	cfg := queue_job.Config{WorkerPoolCapacity: 10, RatePerSecond: 50, RateBurst: 5, Shards: 1}
	for _, c := range []struct {
		limits queue_job.Limits
		says   []string
	}{
		{queue_job.Limits{}, []string{"at most 10 handlers of the type at a time (WorkerPoolCapacity)", "at most 50 starts a second (RatePerSecond)"}},
		{queue_job.Limits{Workers: 2}, []string{"at most 2 handlers of the type at a time (SetLimits, below WorkerPoolCapacity)", "(RatePerSecond)"}},
		{queue_job.Limits{Workers: 1000, RatePerSecond: 0.5}, []string{"at most 10 handlers of the type at a time (WorkerPoolCapacity)", "at most 0.5 starts a second (SetLimits, below RatePerSecond)"}},
	} {
		text := waiting(told(cfg), func(f *facts) { f.kind.Limits = c.limits }).limits(&store.Seen{}).Text
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: %q, want %q", c.limits, text, want)
			}
		}
	}
}
