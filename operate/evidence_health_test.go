package operate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// fleet draws what a look at all types shows.
func (e evidence) fleet() *queue_job.Fleet {
	f := &queue_job.Fleet{}
	for i := range e.upTo(3) {
		f.Instances = append(f.Instances, queue_job.Instance{Id: fmt.Sprint("i", i), Service: "shop", Host: fmt.Sprint("web-", i), Process: 17, Leaving: e.one(4)})
		e.live(&f.Instances[i])
		for lease := range e.upTo(7) {
			f.Instances[i].Leases = append(f.Instances[i].Leases, share.TypeLease(int32(lease)))
		}
	}
	for jobType := range int32(1 + e.upTo(3)) {
		if e.one(10) {
			continue
		}
		k := e.kind(now)
		k.JobType, k.Name = jobType, fmt.Sprint("type", jobType)
		f.Types = append(f.Types, k)
		for shard := range k.Shards {
			if e.one(5) {
				continue
			}
			l := queue_job.Lease{Name: share.ShardLease(jobType, shard), JobType: jobType, Shard: shard, Term: 64, Until: now.Add(-time.Duration(e.upTo(14*24)) * time.Hour)}
			if !e.one(4) {
				l.Holder, l.Until, l.Running = fmt.Sprintf("shop@web-%d/17", 1+e.upTo(2)), now.Add(time.Duration(1+e.upTo(90))*time.Second), e.upTo(4)
			}
			if e.one(4) {
				l.Remains = []queue_job.Remains{{Holder: "shop@web-9/1", Term: 1, Running: 1}}
			}
			f.Leases = append(f.Leases, l)
			if l.Holder != "" && !e.one(4) {
				f.Lines = append(f.Lines, e.line(&l))
			}
		}
	}
	return f
}

// live draws when an instance was heard of, and if it is buried.
func (e evidence) live(i *queue_job.Instance) {
	i.Running = e.upTo(3)
	if !e.one(3) {
		i.RunsUntil = now.Add(time.Duration(e.upTo(20_000)-4000) * time.Millisecond)
	}
	if e.one(4) {
		return // it has no life
	}
	if i.HeardOf = now.Add(-time.Duration(e.upTo(1000)) * time.Millisecond); e.one(6) {
		i.HeardOf = now.Add(-time.Duration(e.upTo(8000)) * time.Millisecond)
	}
	i.StartsUntil = i.HeardOf.Add(time.Duration(2500*(1+e.upTo(1))) * time.Millisecond)
	if !e.one(8) {
		return
	}
	if i.Buried = now.Add(-time.Duration(e.upTo(20)) * time.Second); e.one(3) {
		i.HeardOf = time.Time{}
		return
	}
	i.HeardOf, i.BuriedBy = i.Buried.Add(-2600*time.Millisecond), "shop@web-9/1"
}

// line draws what the holder of a lease has told, as package queue_job hands it on.
func (e evidence) line(l *queue_job.Lease) queue_job.Line {
	s := e.state(now)
	told := queue_job.Line{
		Lease: l.Name, JobType: l.JobType, Shard: l.Shard, Instance: "there", Told: now.Add(-time.Duration(e.upTo(75)+e.upTo(1)*e.upTo(1)*e.upTo(150)) * time.Second),
		Waiting: s.Waiting, Parked: s.Parked, Soon: s.Soon, More: s.Behind, Overdue: time.Duration(s.Overdue) * time.Millisecond, Marked: s.Marked, Running: s.Running,
		Workers: s.Workers, Elsewhere: s.Elsewhere, LeftAlone: s.LeftAlone, Failing: s.Failing,
	}
	if s.FailingSince > 0 {
		told.FailingSince = time.Unix(s.FailingSince, 0)
	}
	if e.one(2) {
		told.Runs = map[queue_job.JobStatus]int{queue_job.JobStatusRetry: e.upTo(20), queue_job.JobStatusFailed: e.upTo(2), queue_job.JobStatusSuccess: e.upTo(1) * e.upTo(9)}
	}
	if s.Gate != nil {
		told.HeldBy = s.Gate.Limit
	}
	if s.PutOff != nil {
		told.PutOff = &queue_job.PutOff{Jobs: s.PutOff.Jobs, AtLeast: s.PutOff.More, Since: time.UnixMilli(s.PutOff.Since)}
		for _, c := range s.PutOff.Causes {
			told.PutOff.Causes = append(told.PutOff.Causes, queue_job.Cause{Text: c.Text, Jobs: c.Jobs})
		}
	}
	return told
}

// timetable draws how schedules stand. Their names say which they are.
func (e evidence) timetable() *record.Timetable {
	t := &record.Timetable{Keeper: "shop@web-1/17#aaaaaaaaaaaa.1", Left: float64(e.upTo(20) - 10)}
	if e.one(3) {
		t.Left = -float64(e.upTo(260))
	}
	ago := func() int64 { return now.Unix() - int64(e.upTo(1)*e.upTo(400)) - int64(e.upTo(200)) }
	for i := range e.upTo(9) {
		c := record.ScheduleState{Name: fmt.Sprint("s", i), JobType: int32(e.upTo(5)), PutAt: ago(), Reached: ago(), LastStatus: -1}
		if !e.one(3) {
			c.Next = ago() + int64(e.upTo(1)*3600)
		}
		if e.one(2) {
			c.LastAt, c.LastJob, c.LastStatus = c.Reached-int64(e.upTo(1)), uint64(100+i), e.upTo(5)
		}
		t.Schedules = append(t.Schedules, c)
	}
	return t
}

// TestNoFindingContradictsItsEvidence judges fleets that are drawn. What it says of them is held against the fleet itself.
func TestNoFindingContradictsItsEvidence(t *testing.T) {
	saw := map[string]int{}
	var ofFindings, ofVerdicts []claim
	for seed := range seedsOf(t, 20_000) { // the rarest sentence is said once in some ten thousand
		e := evidence{rand.New(rand.NewPCG(uint64(seed), 2))}
		fleet := e.fleet()
		h := &Health{At: now, Types: typesOf(fleet), Instances: fleet.Instances, After: time.Minute}
		if e.one(2) {
			h.Late, h.AtLeast = map[int32]int64{}, e.one(5)
			for jobType := range int32(5) {
				h.Late[jobType] = int64(e.upTo(1) * e.upTo(3))
			}
		}
		if e.one(2) {
			h.timetable = e.timetable()
		}
		h.judge()
		fail := func(what, wrong string) {
			if wrong != "" {
				t.Fatalf("seed %d: %s: %s\ntypes %+v\nleases %+v\nlines %+v\nlate %v\nschedules %+v", seed, what, wrong, fleet.Types, fleet.Leases, fleet.Lines, h.Late, h.timetable)
			}
		}
		for i := range h.Findings {
			f := &h.Findings[i]
			v := viewOf(fleet, h, f.JobType)
			ofFindings = v.claims(f)
			what := fmt.Sprintf("%s %s", f.Severity, f.Kind)
			fail(what, contradiction(f.Text, ofFindings, saw))
			fail("the remedy of "+what, contradiction(f.Remedy, ofFindings, saw))
		}
		fail("what is missing", missing(fleet, h))
		ofVerdicts = verdictClaims(fleet, h)
		fail("verdict", contradiction(h.Verdict(), ofVerdicts, saw))
		for _, typ := range h.Types {
			v := viewOf(fleet, h, &typ.JobType)
			fail("state", v.stateIsWrong(typ.State()))
		}
	}
	neverSaid(t, slices.Concat(ofFindings, ofVerdicts), saw)
}

// view is what a fleet shows of a type.
type view struct {
	h      *Health
	timed  []record.ScheduleState // schedules of the type
	late   int64
	kind   queue_job.Type
	leases []queue_job.Lease
	lines  []queue_job.Line
	all    []queue_job.Line // of all types

	allLeases []queue_job.Lease
	locks     map[int32]uint32 // LockSecond of all types

	held, workers, busy, due, leftAlone, putOff int
	more                                        bool
	overdue                                     time.Duration
	heldBy                                      map[string]bool // of holders with due jobs
}

func viewOf(f *queue_job.Fleet, h *Health, jobType *int32) *view {
	v := &view{h: h, all: f.Lines, allLeases: f.Leases, locks: map[int32]uint32{}, heldBy: map[string]bool{}}
	for _, k := range f.Types {
		v.locks[k.JobType] = k.Config.LockSecond
	}
	if jobType == nil {
		return v
	}
	v.late = h.Late[*jobType]
	if h.timetable != nil {
		for _, c := range h.timetable.Schedules {
			if c.JobType == *jobType {
				v.timed = append(v.timed, c)
			}
		}
	}
	for _, k := range f.Types {
		if k.JobType == *jobType {
			v.kind = k
		}
	}
	for _, l := range f.Leases {
		if l.JobType == *jobType {
			v.leases = append(v.leases, l)
			if l.Holder != "" {
				v.held++
			}
		}
	}
	for _, l := range f.Lines {
		if l.JobType != *jobType {
			continue
		}
		v.lines = append(v.lines, l)
		due := l.Waiting + l.Marked - l.Soon
		v.workers, v.busy, v.due, v.leftAlone = v.workers+l.Workers, v.busy+min(l.Workers, l.Running+l.Elsewhere), v.due+due, v.leftAlone+l.LeftAlone
		v.more, v.overdue = v.more || l.More, max(v.overdue, l.Overdue)
		if due > 0 {
			if l.HeldBy == store.HeldByWorkers && l.Running+l.Elsewhere < l.Workers {
				l.HeldBy = "" // it contradicts itself
			}
			v.heldBy[l.HeldBy] = true
		}
		if l.PutOff != nil {
			v.putOff += l.PutOff.Jobs
		}
	}
	return v
}

// only reports whether this alone keeps due jobs of the type.
func (v *view) only(heldBy string) bool { return len(v.heldBy) == 1 && v.heldBy[heldBy] }

func (v *view) claims(f *Finding) []claim {
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	// about reports whether a span is said in its largest units.
	about := func(text string, is time.Duration) bool {
		said, unit := time.Duration(0), time.Duration(0)
		for _, part := range strings.Fields(text) {
			unit = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[part[len(part)-1]]
			said += time.Duration(number(part[:len(part)-1])) * unit
		}
		return is >= said-unit && is <= said+unit
	}
	const some = `(at least |At least )?(\d+) jobs?`
	late := func(atLeast, n string) bool {
		return v.late == int64(number(n)) && v.late > 0 && (atLeast != "") == v.h.AtLeast
	}
	cfg := &v.kind.Config
	divided := *cfg
	divided.Shards = v.kind.Shards
	lowered := func(text string) bool {
		told := !v.kind.Told.IsZero()
		now := v.kind.Limits.Apply(divided)
		workers, rate := 0, 0.0
		if m := regexp.MustCompile(`(\d+) at a time`).FindStringSubmatch(text); m != nil {
			workers = number(m[1])
		}
		if m := regexp.MustCompile(`(\S+) starts a second`).FindStringSubmatch(text); m != nil {
			rate, _ = strconv.ParseFloat(m[1], 64)
		}
		return (workers > 0 || rate > 0) && (workers == 0 || !told || workers == now.WorkerPoolCapacity && workers < cfg.WorkerPoolCapacity) &&
			(rate == 0 || !told || rate == now.RatePerSecond && rate != cfg.RatePerSecond)
	}
	paused := !v.kind.Paused.IsZero()
	// silent reports whether a holder has told nothing of a lease for as long as the text says, and whether it still renews the lease.
	silent := func(holder, lease, text string) (is, renews bool, left time.Duration) {
		for _, l := range v.allLeases {
			if l.Name != lease || l.Holder != holder {
				continue
			}
			i := slices.IndexFunc(v.all, func(told queue_job.Line) bool { return told.Lease == lease })
			since := now.Sub(v.all[i].Told)
			lock := time.Duration(v.locks[l.JobType]) * time.Second
			return since >= 2*time.Minute && about(text, since), lock > 0 && l.Until.Sub(now) > lock*2/3-10*time.Second, l.Until.Sub(now)
		}
		return false, false, 0
	}
	leftAlone := func(i *queue_job.Instance, handlers, left string) bool {
		is := i.RunsUntil.Sub(now)
		return (handlers != "") == (i.Running > 0 && is > 0) && (handlers == "" || number(handlers) == i.Running && about(left, is))
	}
	within := func(text string, is time.Duration) bool {
		said, err := time.ParseDuration(text)
		return err == nil && (said-is).Abs() <= 50*time.Millisecond
	}
	silentSince := func(i *queue_job.Instance, text string) bool {
		return i.Buried.IsZero() && now.Sub(i.HeardOf) >= 1500*time.Millisecond && within(text, now.Sub(i.HeardOf))
	}
	return []claim{
		{`(\S+) holds (\S+), and has not told for (\d+\w(?: \d+\w)?) what waits there, although it renews the lease\.`, func(said []string) bool {
			is, renews, _ := silent(said[1], said[2], said[3])
			return is && renews
		}},
		{`See to that process, and to what its user may write\. Its log has the errors\.`, func([]string) bool { return f.Kind == silentHolder }},
		{`(\S+) holds (\S+), and has told nothing for (\d+\w(?: \d+\w)?)\. If it has died, others go on in (\d+\w(?: \d+\w)?)\.`, func(said []string) bool {
			is, renews, left := silent(said[1], said[2], said[3])
			return is && !renews && about(said[4], left)
		}},
		{`See to that process\. If it has died, break the lease \(lease break\): then others go on at once\.`, func([]string) bool { return f.Kind == silentHolder }},
		{`shop@web-(\d)/17 is about to stop, and starts no more jobs of what nobody takes: (\S+(?:, \S+)*?)(?: and (\d+) more)?\.`, func(said []string) bool {
			i := v.h.Instances[number(said[1])]
			there := slices.ContainsFunc(v.h.Instances, func(i queue_job.Instance) bool { return !i.Leaving && i.Buried.IsZero() })
			names := strings.Split(said[2], ", ")
			return i.Leaving && slices.Equal(names, i.Leases[:len(names)]) && len(names)+number(said[3]) == len(i.Leases) && (f.Severity == Note) == there
		}},
		{`shop@web-(\d)/17 was buried (\d+\w) ago(?: by (\S+), which had not heard of it for 2\.6s)?: others take its leases\.(?: What it runs \((\d+) handlers?, as it said last\) is left alone for another (\d+\w) at most, and runs again then\.)?`, func(said []string) bool {
			i := v.h.Instances[number(said[1])]
			return f.Kind == buriedInstance && f.Severity == Warning && !i.Buried.IsZero() && about(said[2], now.Sub(i.Buried)) && said[3] == i.BuriedBy && leftAlone(&i, said[4], said[5])
		}},
		{`shop@web-(\d)/17 has not been heard of for (\S+)\. If that goes on, others take over in a moment\.`, func(said []string) bool {
			i := v.h.Instances[number(said[1])]
			return f.Kind == unheardInstance && f.Severity == Note && silentSince(&i, said[2]) && now.Sub(i.StartsUntil) < 2*time.Second
		}},
		{`shop@web-(\d)/17 has not been heard of for (\S+), so it starts no jobs, and nobody has taken its leases\.(?: What it runs \((\d+) handlers?, as it said last\) is left alone for another (\d+\w) at most, and runs again then\.)?`, func(said []string) bool {
			i := v.h.Instances[number(said[1])]
			return f.Kind == unheardInstance && f.Severity == Warning && silentSince(&i, said[2]) && now.Sub(i.StartsUntil) >= 2*time.Second && leftAlone(&i, said[3], said[4])
		}},
		{regexp.QuoteMeta(seeToIt), func([]string) bool { return f.Kind == buriedInstance || f.Kind == unheardInstance }},
		{`Start an instance that has these types\.`, func([]string) bool { return f.Kind == leavingHolder }},
		{`None of its (\d+) runs has succeeded since its holders took it; (their jobs are retried|(\d+) jobs? (?:has|have) failed for good)\.`, func(said []string) bool {
			retried, failed, others := 0, 0, 0
			for _, l := range v.lines {
				for status, n := range l.Runs {
					switch status {
					case queue_job.JobStatusRetry:
						retried += n
					case queue_job.JobStatusFailed:
						failed += n
					default:
						others += n
					}
				}
			}
			return number(said[1]) == retried+failed && retried+failed >= 10 && others == 0 && number(said[3]) == failed
		}},
		{`See what they ended with: job errors, or the page Errors of the console\.`, func([]string) bool { return f.Kind == failingRuns }},
		{`It has been paused for (\d+\w(?: \d+\w)?)\.`, func(said []string) bool { return paused && about(said[1], now.Sub(v.kind.Paused)) }},
		{`The pause ends at (\S+ \S+) UTC\.`, func(said []string) bool {
			return said[1] == v.kind.PausedUntil.UTC().Format(time.DateTime) && v.kind.PausedUntil.After(now)
		}},
		{`The pause was to end at (\S+ \S+) UTC: the next instance that looks lets the type go on\.`, func(said []string) bool {
			return said[1] == v.kind.PausedUntil.UTC().Format(time.DateTime) && !v.kind.PausedUntil.After(now)
		}},
		{`Behind it, ` + some + ` fell due more than 1m0s ago(?:, the first (\d+\w(?: \d+\w)?) ago)?\.`, func(said []string) bool {
			return paused && f.Severity >= Warning && late(said[1], said[2]) && (said[3] == "" || about(said[3], v.overdue))
		}},
		{`Behind it, (\d+) jobs? waits?( in memory, and more in the table)?, the first for (\d+\w(?: \d+\w)?)\.`, func(said []string) bool {
			return paused && f.Severity >= Warning && number(said[1]) == v.due && (said[2] != "") == v.more && about(said[3], v.overdue)
		}},
		{`Resume it when its jobs may run\.`, func([]string) bool { return paused }},
		{`Somebody has limited it to (.*?): take that back \(type unset, or its page in the console\), if what it calls allows it\.`, func(said []string) bool {
			return lowered(said[1]) && (strings.Contains(said[1], "starts") && v.only(store.HeldByRate) || strings.Contains(said[1], "at a time") && v.only(store.HeldByWorkers))
		}},
		{`Somebody has limited it to (.*?)\.(?: |$)`, func(said []string) bool { return lowered(said[1]) }},
		{`Take that back when what it calls allows it\.`, func([]string) bool { return v.kind.Limits != queue_job.Limits{} }},
		{`Nobody runs it, and ` + some + ` fell due more than 1m0s ago\.`, func(said []string) bool { return v.held == 0 && late(said[1], said[2]) && f.Severity == Critical }},
		{`Nobody runs it, and (?:schedule ("s\d")|(\d+) schedules) adds? jobs to it(?:: (.*?))?\.`, func(said []string) bool {
			return v.held == 0 && v.kind.Config.DormantAfter == 0 && v.names(said[1]+said[3], said[2], func(c record.ScheduleState) bool { return c.PutAt < now.Unix()-120 })
		}},
		{`Start an instance that has the type, or put it for another type\.`, func([]string) bool { return v.held == 0 && len(v.timed) > 0 }},
		{`Nobody adds the jobs of (?:its schedule ("s\d")|(\d+) of its schedules \((.*?)\))\.`, func(said []string) bool {
			return v.h.timetable.Left < -120 && v.names(said[1]+said[3], said[2], func(c record.ScheduleState) bool { return c.PutAt < now.Unix()-120 })
		}},
		{`The first time without a job was (\S+ \S+) UTC, (\d+\w(?: \d+\w)?) ago\.`, func(said []string) bool {
			at, err := time.Parse(time.DateTime, said[1])
			return err == nil && f.Severity == Critical && now.Sub(at) > 2*time.Minute && about(said[2], now.Sub(at)) &&
				v.any(func(c record.ScheduleState) bool { return c.Next == at.Unix() }) && !v.any(func(c record.ScheduleState) bool {
				return c.Next > 0 && c.Next < at.Unix() && c.PutAt < now.Unix()-120
			})
		}},
		{`Start an instance whose Runner has the option WithCron\.`, func([]string) bool { return v.h.timetable.Left < -120 }},
		{`(?:Its schedule ("s\d") has|(\d+) of its schedules \((.*?)\) have) stood still for (\d+\w(?: \d+\w)?)\. Who adds the jobs of schedules, or did so last: shop@web-1/17\.`, func(said []string) bool {
			stands := func(c record.ScheduleState) bool { return waits(c) > 2*time.Minute }
			return v.h.timetable.Left >= -120 && v.names(said[1]+said[3], said[2], stands) &&
				v.any(func(c record.ScheduleState) bool { return stands(c) && about(said[4], waits(c)) })
		}},
		{`See to that process: its log has the error\.`, func([]string) bool { return f.Kind == standingSchedules }},
		{`The last job of its schedule "(s\d)" has failed: job (\d+), for (\S+ \S+) UTC\.`, func(said []string) bool {
			at, err := time.Parse(time.DateTime, said[3])
			return err == nil && v.any(func(c record.ScheduleState) bool {
				return c.Name == said[1] && c.LastStatus == 2 && int(c.LastJob) == number(said[2]) && c.LastAt == at.Unix()
			})
		}},
		{`See what it ended with: job get (\d+), or its page in the console\.`, func(said []string) bool {
			return v.any(func(c record.ScheduleState) bool { return int(c.LastJob) == number(said[1]) && c.LastStatus == 2 })
		}},
		{`The last jobs of (\d+) of its schedules \((.*?)\) have failed\.`, func(said []string) bool {
			return v.names(said[2], said[1], func(c record.ScheduleState) bool { return c.LastStatus == 2 })
		}},
		{`See what they ended with: schedule list, or the page Schedules of the console\.`, func([]string) bool { return f.Kind == failedScheduled }},
		{`Nobody runs it\.`, func([]string) bool { return v.held == 0 }},
		{`Nobody runs some of its shards: (\d+) of (\d+) are held\.`, func(said []string) bool {
			return v.held == number(said[1]) && v.shards() == number(said[2]) && v.held < v.shards()
		}},
		{some + ` fell due more than 1m0s ago\.`, func(said []string) bool { return !paused && late(said[1], said[2]) && f.Severity >= Warning }},
		{`Start an instance that has the type\.`, func([]string) bool { return v.held < v.shards() || v.held == 0 }},
		{`A job has been due for (\d+\w(?: \d+\w)?), and (\d+) jobs? waits?( in memory, and more in the table)?\.`, func(said []string) bool {
			return !paused && about(said[1], v.overdue) && number(said[2]) == v.due && (said[3] != "") == v.more
		}},
		{`(\d+) of (\d+) workers? (?:are|were) busy\.`, func(said []string) bool {
			return number(said[1]) == v.busy && number(said[2]) == v.workers && v.workers > 0
		}},
		{`Other types have all workers that the process may have: raise WithMaxWorkers, or start more instances\.`, func([]string) bool { return v.only(store.HeldByPlaces) }},
		{`At most (\S+) of its jobs start in a second: raise RatePerSecond, if what they call allows it\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[1], 64)
			return v.only(store.HeldByRate) && rate == cfg.RatePerSecond && rate > 0 && v.kind.Limits.Apply(divided).RatePerSecond == rate
		}},
		{`They wait for other jobs of their groups, since each group runs one at a time \(OrderedByKey\): see what the first ones wait for, or make the handler quicker\.`, func([]string) bool { return v.only(store.HeldByKeys) && cfg.OrderedByKey }},
		{`They wait for other jobs of their groups: raise MaxPerKey, if what they share allows it, or make the handler quicker\.`, func([]string) bool { return v.only(store.HeldByKeys) && cfg.MaxPerKey > 0 }},
		{`At most (\S+) jobs of a group start in a second: raise RatePerKey, if what they call allows it\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[1], 64)
			return v.only(store.HeldByKeyRate) && rate == cfg.RatePerKey && rate > 0
		}},
		{`The pool of its process has no connection to lend: give the Runner a handle of its own \(WithDB\), or raise SetMaxOpenConns\.`, func([]string) bool { return v.only(store.HeldByConnections) }},
		{`Raise WorkerPoolCapacity, or make the handler quicker\. If handlers compute, start more instances and divide the type into shards\.`, func([]string) bool {
			return v.only(store.HeldByWorkers) && (v.kind.Told.IsZero() || v.kind.Limits.Apply(divided).WorkerPoolCapacity == cfg.WorkerPoolCapacity)
		}},
		{`Ask why of one of them: job explain, or its page in the console\.`, func([]string) bool { return v.late > 0 || v.due > 0 }},
		{`(\d+) jobs? (?:is|are) left alone by their age \(FirstPullDay\), and will not run by themselves\.`, func(said []string) bool { return number(said[1]) == v.leftAlone && v.leftAlone > 0 }},
		{`Set FirstPullDay to -1, or reschedule the jobs to now\.`, func([]string) bool { return v.leftAlone > 0 }},
		{`(At least )?(\d+) jobs? (?:is|are) put off by its handler, the first of them for (\d+\w(?: \d+\w)?)(?:: (.*?))?(?:; and (\d+) other causes?)?\.`, func(said []string) bool {
			first, atLeast := now, false
			for _, l := range v.lines {
				if l.PutOff != nil && l.PutOff.Since.Before(first) {
					first = l.PutOff.Since
				}
				atLeast = atLeast || l.PutOff != nil && l.PutOff.AtLeast
			}
			all, named := map[string]int{}, 0
			for _, l := range v.lines {
				if l.PutOff != nil {
					for _, c := range l.PutOff.Causes {
						all[c.Text] += c.Jobs
					}
				}
			}
			for _, m := range regexp.MustCompile(`(http://host\d:80 is broken) \((\d+) jobs?\)`).FindAllStringSubmatch(said[4], -1) {
				if named++; all[m[1]] != number(m[2]) {
					return false
				}
			}
			return !paused && number(said[2]) == v.putOff && (said[1] != "") == atLeast && about(said[3], now.Sub(first)) && named+number(said[5]) == len(all) && (f.Severity == Warning) == (len(all) > 0)
		}},
		{`See to what they wait for\.`, func([]string) bool { return v.putOff > 0 }},
		{`No instance is there\.`, func([]string) bool { return nobodyLives(v.h) }},
		{`Start one\.`, func([]string) bool { return nobodyLives(v.h) }},
		{`Statements of (\S+) have failed for (\d+\w(?: \d+\w)?)\. The last one: (.*?)\.`, func(said []string) bool {
			return slices.ContainsFunc(v.all, func(l queue_job.Line) bool {
				return !l.FailingSince.IsZero() && l.Failing == said[3] && about(said[2], now.Sub(l.FailingSince))
			})
		}},
		{regexp.QuoteMeta(failingRemedy), func([]string) bool {
			return slices.ContainsFunc(v.all, func(l queue_job.Line) bool { return l.Failing != "" })
		}},
	}
}

// any reports whether a schedule of the type is so.
func (v *view) any(so func(record.ScheduleState) bool) bool { return slices.ContainsFunc(v.timed, so) }

// names reports whether a text names schedules of the type that are so, all of them, or the first five and how many more.
func (v *view) names(text, many string, so func(record.ScheduleState) bool) bool {
	all, named := 0, 0
	for _, c := range v.timed {
		if so(c) {
			all++
			if strings.Contains(text, strconv.Quote(c.Name)) {
				named++
			}
		}
	}
	more := 0
	if m := regexp.MustCompile(`and (\d+) more`).FindStringSubmatch(text); m != nil {
		more, _ = strconv.Atoi(m[1])
	}
	said, _ := strconv.Atoi(many)
	return all > 0 && all == max(1, said) && named+more == all && strings.Count(text, `"`) == 2*named
}

// waits is for how long a schedule waits for somebody to look at it. One that may be caught up just now does not.
func waits(c record.ScheduleState) time.Duration {
	switch {
	case c.Next > 0:
		return now.Sub(time.Unix(max(c.Next, c.PutAt), 0))
	case c.Reached == c.LastAt:
		return 0
	}
	return now.Sub(time.Unix(max(c.Reached, c.PutAt), 0))
}

// shards are the leases that there are, or have to be.
func (v *view) shards() int { return len(v.leases) }

// noneSucceeds reports whether all runs that have ended under the leases of a type have failed.
func (v *view) noneSucceeds() bool {
	return !slices.ContainsFunc(v.lines, func(l queue_job.Line) bool {
		for status, n := range l.Runs {
			if n > 0 && status != queue_job.JobStatusRetry && status != queue_job.JobStatusFailed {
				return true
			}
		}
		return false
	})
}

func nobodyLives(h *Health) bool {
	return !slices.ContainsFunc(h.Instances, func(i queue_job.Instance) bool { return i.Buried.IsZero() })
}

// missing names what a fleet shows and no finding says.
func missing(f *queue_job.Fleet, h *Health) string {
	has := func(jobType int32, kinds ...string) bool {
		return slices.ContainsFunc(h.Findings, func(f Finding) bool {
			return f.JobType != nil && *f.JobType == jobType && slices.Contains(kinds, f.Kind) && f.Severity >= Warning
		})
	}
	for jobType, n := range h.Late {
		if n > 0 && !has(jobType, lateType, unheld, pausedType) {
			return fmt.Sprintf("%d jobs of type %d are late", n, jobType)
		}
	}
	if h.timetable != nil {
		for _, c := range h.timetable.Schedules {
			old, v := c.PutAt < now.Unix()-120, viewOf(f, h, &c.JobType)
			switch {
			case old && h.timetable.Left < -120 && !has(c.JobType, standingSchedules), h.timetable.Left >= -120 && waits(c) > 2*time.Minute && !has(c.JobType, standingSchedules):
				return fmt.Sprintf("schedule %s stands still", c.Name)
			case c.LastStatus == 2 && !has(c.JobType, failedScheduled):
				return fmt.Sprintf("the last job of schedule %s has failed", c.Name)
			case old && v.held == 0 && v.kind.Paused.IsZero() && v.kind.Config.DormantAfter == 0 && !has(c.JobType, unheld):
				return fmt.Sprintf("schedule %s adds jobs that nobody runs", c.Name)
			}
		}
	}
	for _, i := range h.Instances {
		said := slices.ContainsFunc(h.Findings, func(f Finding) bool {
			return (f.Kind == buriedInstance || f.Kind == unheardInstance) && strings.HasPrefix(f.Text, fmt.Sprintf("shop@%s/17 ", i.Host))
		})
		if bad := !i.Buried.IsZero() || !i.HeardOf.IsZero() && now.Sub(i.HeardOf) >= 1500*time.Millisecond; bad != said {
			return fmt.Sprintf("%s was heard of at %v, and buried at %v; said %t", i.Host, i.HeardOf, i.Buried, said)
		}
		if i.Leaving && i.Buried.IsZero() && len(i.Leases) > 0 && !slices.ContainsFunc(h.Findings, func(f Finding) bool {
			return f.Kind == leavingHolder && strings.HasPrefix(f.Text, fmt.Sprintf("shop@%s/17 ", i.Host))
		}) {
			return fmt.Sprintf("%s is about to stop, and has %v", i.Host, i.Leases)
		}
	}
	for _, l := range f.Lines {
		if l.Overdue > 10*time.Second && !has(l.JobType, lateType, unheld, pausedType) {
			return fmt.Sprintf("%s has been overdue for %v", l.Lease, l.Overdue)
		}
		if now.Sub(l.Told) >= 2*time.Minute && !slices.ContainsFunc(h.Findings, func(f Finding) bool { return f.Kind == silentHolder }) {
			return fmt.Sprintf("nothing was told of %s for %v", l.Lease, now.Sub(l.Told))
		}
		if runs := l.Runs[queue_job.JobStatusRetry] + l.Runs[queue_job.JobStatusFailed]; runs >= 10 && viewOf(f, h, &l.JobType).noneSucceeds() && !has(l.JobType, failingRuns) {
			return fmt.Sprintf("%d runs of %s have failed, and no other has ended", runs, l.Lease)
		}
		if l.Failing != "" && !slices.ContainsFunc(h.Findings, func(f Finding) bool { return f.Kind == failingStatements }) {
			return "statements fail"
		}
	}
	return ""
}

// verdictClaims says when the sentence above all findings is so.
func verdictClaims(f *queue_job.Fleet, h *Health) []claim {
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	looks := 0
	for _, finding := range h.Findings {
		if finding.Severity != Note {
			looks++
		}
	}
	runs, paused, dormant, nobody, silent, leftAlone, longest := 0, 0, 0, 0, 0, 0, time.Duration(0)
	for _, t := range h.Types {
		v := viewOf(f, h, &t.JobType)
		switch {
		case !v.kind.Paused.IsZero():
			paused++
		case len(v.leases) == 0 && v.kind.Config.DormantAfter > 0:
			dormant++
		case v.held == 0:
			nobody++
		default:
			runs++
		}
		switch dormant := len(v.leases) == 0 && v.kind.Config.DormantAfter > 0; {
		case v.held == 0 && h.Late == nil && !dormant:
			silent++ // nobody knows
		case v.held > 0 && (len(v.lines) == 0 || slices.ContainsFunc(v.lines, func(l queue_job.Line) bool { return now.Sub(l.Told) > 75*time.Second })):
			silent++
		}
		leftAlone += v.leftAlone
		for _, l := range v.lines {
			longest = max(longest, l.Overdue)
			if l.PutOff != nil {
				longest = max(longest, now.Sub(l.PutOff.Since))
			}
		}
	}
	others := func(text string) bool {
		said := map[string]int{}
		for _, m := range regexp.MustCompile(`(\d+) (?:is|are) (paused|dormant|run by nobody)`).FindAllStringSubmatch(text, -1) {
			said[m[2]] = number(m[1])
		}
		return said["paused"] == paused && said["dormant"] == dormant && said["run by nobody"] == nobody
	}
	nothingLate := longest < time.Second && silent == 0 && leftAlone == 0 && late(h) == 0
	is := func(ok bool) func([]string) bool { return func([]string) bool { return ok } }
	calm := looks == 0 && len(h.Types) > 0
	return []claim{
		{`No job type is known yet: no instance has run here, and no job type was paused or divided\.`, func([]string) bool { return len(h.Types) == 0 && looks == 0 }},
		{`One thing should be looked at\.`, func([]string) bool { return looks == 1 }},
		{`(\d+) things should be looked at\.`, func(said []string) bool { return looks == number(said[1]) && looks > 1 }},
		{`All (known )?job types run(\.|, and nothing is late\.)`, func(said []string) bool {
			return calm && runs == len(h.Types) && (said[1] == "") == (h.Late != nil) && (said[2] == "." || nothingLate)
		}},
		{`(No|\d+) job types? runs?[:;] ((?:\d+ (?:is|are) (?:paused|dormant|run by nobody)(?:, )?)+)\.`, func(said []string) bool { return calm && number(said[1]) == runs && others(said[2]) }},
		{`The job that has waited longest has been due for (\d+)(\w)(?: \d+\w)?\.`, func(said []string) bool {
			d, _ := time.ParseDuration(said[1] + said[2])
			return longest >= d-time.Second && longest > 0
		}},
		{`What waits of (one|\d+) of them is not known\.`, func(said []string) bool {
			return said[1] == "one" && silent == 1 || number(said[1]) == silent && silent > 1
		}},
		{`Nothing is late but old jobs that are left alone\.`, func([]string) bool { return longest < time.Second && silent == 0 && leftAlone > 0 && late(h) == 0 }},
		{`Nothing is late\.`, is(nothingLate)},
	}
}

func late(h *Health) (n int64) {
	for _, of := range h.Late {
		n += of
	}
	return n
}

// stateIsWrong says what is wrong about the words for a type.
func (v *view) stateIsWrong(state string) string {
	var want string
	switch {
	case !v.kind.Paused.IsZero():
		want = "paused"
	case len(v.leases) == 0 && v.kind.Config.DormantAfter > 0:
		want = "dormant"
	case v.held == 0:
		want = "nobody runs it"
	case v.held < v.shards():
		want = fmt.Sprintf("%d of %d shards run", v.held, v.shards())
	default:
		want = "runs"
	}
	if state != want {
		return fmt.Sprintf("%q, want %q", state, want)
	}
	return ""
}
