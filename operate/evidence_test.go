package operate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// A sentence is held against what it was made of. Each one that this package says has a claim here: its form, and what must be so if
// somebody says it. A sentence without a claim is an error, so whoever writes a new one has to say when it is true.
type claim struct {
	form  string // a regular expression
	holds func(said []string) bool
}

// contradiction returns what is wrong about a text: a sentence that no claim knows, or that is not so. Empty: nothing is.
func contradiction(text string, claims []claim, saw map[string]int) string {
	for rest := strings.TrimSpace(text); rest != ""; {
		known := false
		for i := range claims {
			said := formOf(claims[i].form).FindStringSubmatch(rest)
			if said == nil {
				continue
			}
			known = true
			saw[claims[i].form]++
			if !claims[i].holds(said) {
				return fmt.Sprintf("%q is not so", said[0])
			}
			rest = strings.TrimSpace(rest[len(said[0]):])
			break
		}
		if !known {
			return fmt.Sprintf("nothing says when %q is so", rest)
		}
	}
	return ""
}

var forms = map[string]*regexp.Regexp{}

func formOf(text string) *regexp.Regexp {
	if forms[text] == nil {
		forms[text] = regexp.MustCompile("^(?:" + text + ")")
	}
	return forms[text]
}

// evidence draws what a look may show.
type evidence struct{ *rand.Rand }

func (e evidence) one(in int) bool { return e.IntN(in) == 0 }

func (e evidence) upTo(n int) int { return e.IntN(n + 1) }

func seedsOf(t *testing.T, usual int) int {
	t.Helper()
	if text := os.Getenv("PQ_SIM_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return usual
}

// config draws a configuration, with the defaults that a registry has.
func (e evidence) config() queue_job.Config {
	c := queue_job.Config{
		WorkerPoolCapacity: 1 + e.upTo(9), LockSecond: uint32(3 + e.upTo(60)), LostLimit: e.upTo(4) - 1, FirstPullDay: e.upTo(8) - 1, MaxRetries: e.upTo(5) - 1, BatchSize: 1,
		Shards: 1, OrderedByKey: e.one(4),
	}
	if e.one(3) {
		c.RatePerSecond, c.RateBurst = float64(1+e.upTo(20))/2, 3
	}
	if e.one(3) {
		c.Timeout = time.Duration(1+e.upTo(90)) * time.Second
	}
	if !c.OrderedByKey && e.one(4) {
		c.MaxPerKey = 1 + e.upTo(3)
	}
	if e.one(4) {
		c.RatePerKey = float64(1+e.upTo(20)) / 2
	}
	if e.one(5) {
		c.DormantAfter = time.Minute
	}
	if e.one(5) {
		c.BatchSize, c.BatchWait = 5, time.Second
	}
	return c
}

// kind draws a type as its row has it.
func (e evidence) kind(now time.Time) queue_job.Type {
	k := queue_job.Type{JobType: 7, Shards: 1 + e.upTo(2)}
	if !e.one(4) {
		k.Told, k.Config = now.Add(-time.Hour), e.config()
	}
	if e.one(4) {
		k.Paused = now.Add(-time.Duration(1+e.upTo(7200)) * time.Second)
		if e.one(2) {
			k.PausedUntil = now.Add(time.Duration(e.upTo(7200)-3600) * time.Second)
		}
		if e.one(2) {
			k.PausedBy, k.PausedWhy = "mary@ops", [...]string{"", "the bank is closed"}[e.upTo(1)]
		}
	}
	if e.one(4) {
		k.Limits.Workers = 1 + e.upTo(11)
	}
	if e.one(4) {
		k.Limits.RatePerSecond = float64(1+e.upTo(20)) / 2
	}
	return k
}

// state draws what a holder has told. Its numbers are of different moments now and then, as they were before a holder took them together.
func (e evidence) state(now time.Time) store.LineState {
	s := store.LineState{Workers: 1 + e.upTo(9), Behind: e.one(4)}
	s.Running, s.Elsewhere = e.upTo(s.Workers), e.upTo(2)
	if e.one(2) {
		s.Running = s.Workers
	}
	if !e.one(3) {
		s.Waiting, s.Marked = e.upTo(400), e.upTo(3)
		s.Parked = e.upTo(s.Waiting)
		s.Soon = e.upTo(s.Waiting + s.Marked)
		if s.Waiting+s.Marked > s.Soon {
			s.Overdue = int64(e.upTo(90_000))
		}
	}
	if !e.one(4) {
		s.Gate = &store.Gate{Limit: [...]string{"", store.HeldByWorkers, store.HeldByPlaces, store.HeldByRate, store.HeldByKeys, store.HeldByKeyRate, store.HeldByConnections}[e.upTo(6)]}
		switch s.Gate.Limit {
		case store.HeldByRate:
			s.Gate.Rate, s.Gate.Next = float64(1+e.upTo(20))/2, int64(e.upTo(2000))
		case store.HeldByConnections:
			s.Gate.Most = 1 + e.upTo(20)
		case store.HeldByKeys:
			s.Parked = s.Waiting
		case store.HeldByKeyRate:
			s.Parked, s.Gate.Rate, s.Gate.Next = s.Waiting, float64(1+e.upTo(20))/2, int64(e.upTo(2000))
		}
	}
	if e.one(4) {
		s.KeyRate = []store.KeyWaits{{Key: store.HashOfKey([...]string{"a", "b"}[e.upTo(1)]), Jobs: 1 + e.upTo(20), Next: int64(e.upTo(2) * e.upTo(900))}}
	}
	if e.one(4) {
		s.FailingSince, s.Failing = now.Unix()-int64(e.upTo(600)), "mark jobs: no space left"
	}
	if e.one(5) {
		s.LeftAlone = e.upTo(5)
	}
	if e.one(2) {
		p := &store.PutOff{More: e.one(2), Since: now.Add(-time.Duration(e.upTo(120)) * time.Second).UnixMilli()}
		for i := range e.upTo(4) {
			c := store.Cause{Text: fmt.Sprintf("http://host%d:80 is broken", i), Jobs: 1 + e.upTo(20)}
			if e.one(2) {
				c.Until = now.Add(time.Minute).UnixMilli()
			}
			p.Jobs, p.Causes = p.Jobs+c.Jobs, append(p.Causes, c)
		}
		p.Jobs = max(1, p.Jobs+e.upTo(1)*e.upTo(9)) // for some, no cause is told
		slices.SortStableFunc(p.Causes, func(a, b store.Cause) int { return b.Jobs - a.Jobs })
		s.PutOff = p
	}
	return s
}

// facts draws a look at a job.
func (e evidence) facts() *facts {
	f := &facts{id: 40, now: now, kind: e.kind(now), fleet: store.Fleet{Now: float64(now.Unix()), Layouts: map[int32]int64{}}}
	if e.one(30) {
		return f
	}
	f.job = &queue_job.JobInfo{Id: 40, JobType: 7, Status: queue_job.JobStatus(e.upTo(5)), Attempts: e.upTo(3), Lost: e.upTo(3), Retries: e.upTo(4), Deferred: e.upTo(2) * e.upTo(3),
		Priority: queue_job.Priority(e.upTo(3) - 1), Created: now.Add(-time.Hour), Updated: now.Add(-time.Minute), Group: [...]string{"", "a"}[e.upTo(1)],
		JobParams: [...]string{"{}", `{"url": "http://host0:80/x"}`, `{"url": "http://host1:800/x"}`}[e.upTo(2)]}
	if e.one(4) {
		f.job.Status, f.job.Deferred = queue_job.JobStatusContinue, e.upTo(3)
	}
	f.job.Due = now.Add(time.Duration(e.upTo(240)-120) * time.Second)
	if e.one(8) {
		f.job.Due = now.Add(-time.Duration(e.upTo(300)) * time.Hour)
	}
	if f.job.Status == queue_job.JobStatusContinue && e.one(2) {
		before := e.upTo(240)
		f.steps = []queue_job.StepInfo{{Name: "charge", Attempt: 1},
			{Name: "cooling off", Attempt: 2, Signal: before%4 == 0, Until: f.job.Due.Add(-time.Duration(before-60) * time.Second)}}
		if before%8 == 0 { // the signal has come
			f.steps[1].Ended = now.Add(-time.Minute)
		}
	}
	if e.one(4) {
		f.job.MaxRetries = &[]int{e.upTo(5)}[0]
	}
	if f.job.Attempts > 0 && e.one(2) {
		f.runs = []queue_job.Attempt{{Attempt: f.job.Attempts, Outcome: "retry", Error: "no route"}}
	}
	const term = 7 * 64
	shards, owner := 1+e.upTo(1), func() string {
		taking := share.Taking(2, 10*time.Second)
		if !e.one(3) {
			taking = share.Governed(taking)
		}
		return fmt.Sprintf("shop@web-%d/17#%012x.%s", 1+e.upTo(2), e.upTo(2), taking)
	}
	layout := int64(1)
	if shards == 2 {
		layout = 2050
	}
	for id := range e.upTo(3) {
		o := fmt.Sprintf("shop@web-1/17#%012x.1", id)
		f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: share.Presence(share.OwnerOf(o).Instance), Owner: o, Layout: 1, Free: e.one(5), Running: []int{0, 2, share.Leaves}[e.upTo(2)], Left: 5})
	}
	if e.one(4) { // it is to be divided otherwise
		f.fleet.Layouts[7] = 2050
	} else {
		f.fleet.Layouts[7] = layout
	}
	names := share.Layout(layout).Leases(7)
	for i, name := range names {
		switch e.upTo(6) {
		case 0:
		case 1:
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: name, Layout: -2050, Left: 1e8})
		case 2:
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: name, Owner: owner(), Free: true, Layout: layout, Term: term + int64(i), Left: -e.Float64() * 10})
		default:
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: name, Owner: owner(), Layout: layout, Term: term + int64(i), Running: e.upTo(4), Left: e.Float64() * float64(max(3, f.kind.Config.LockSecond))})
			if !e.one(3) {
				f.lines = append(f.lines, store.Line{Lease: name, Term: term + int64(i) - int64(64*e.upTo(1)*e.upTo(1)), ToldAt: now.Unix() - int64(e.upTo(100)), LineState: e.state(now)})
			}
		}
		if e.one(4) {
			f.fleet.Leases = append(f.fleet.Leases, store.Seen{Name: share.Remains(name, term-64+int64(i)), Owner: owner(), Layout: layout, Free: e.one(4), Running: 1, Left: 5})
		}
	}
	for id := range 3 {
		if row := e.life(id); !e.one(3) {
			f.fleet.Leases = append(f.fleet.Leases, row)
		}
	}
	if f.job.Pending() && e.one(3) {
		f.job.InFlight, f.job.Term = true, term-64*int64(e.upTo(2))+int64(e.upTo(1))
	}
	if f.job.Group != "" {
		f.first = uint64(38 + e.upTo(2))
	}
	e.inFlow(f)
	return f
}

// life draws the row of a life. It began before the leases were taken, or behind that: then they are of an earlier life.
func (e evidence) life(id int) store.Seen {
	counts := 2500 + 2500*e.upTo(1)
	row := store.Seen{Name: fmt.Sprintf("live-%012x", id), Owner: fmt.Sprintf("shop@web-1/17#%012x.%s", id, share.Taking(int64(1+2*e.upTo(1)*e.upTo(1)), 10*time.Second)),
		Running: counts, Term: now.UnixMilli() + int64(counts-e.upTo(9000)), Layout: 4, Free: e.one(6), Left: 5}
	if e.one(3) {
		row.Running, row.Term = [...]int{store.Buried, store.Buried - 1}[e.upTo(1)], now.UnixMilli()-int64(e.upTo(9000))
	}
	return row
}

// lifeOf is the row of the life in which a governed lease was taken, unless its instance has begun another one since.
func (f *facts) lifeOf(l *store.Seen) *store.Seen {
	of := regexp.MustCompile(`#(\w{12})\.00(\d+)\d{5}$`).FindStringSubmatch(l.Owner)
	for i := range f.fleet.Leases {
		row := &f.fleet.Leases[i]
		if of == nil || row.Name != "live-"+of[1] || row.Free {
			continue
		}
		began := regexp.MustCompile(`\.0(\d+)\d{5}$`).FindStringSubmatch(row.Owner)[1]
		if a, _ := strconv.Atoi(began); a > 0 && began <= of[2] {
			return row
		}
	}
	return nil
}

// TestNoExplanationContradictsItsEvidence asks why of jobs in looks that are drawn, among them such that no engine would leave.
func TestNoExplanationContradictsItsEvidence(t *testing.T) {
	saw := map[string]int{}
	var all []claim
	for seed := range seedsOf(t, 10_000) {
		f := evidence{rand.New(rand.NewPCG(uint64(seed), 1))}.facts()
		e := explain(f)
		all = claimsOf(f)
		if wrong := wrongAbout(f, e, all, saw); wrong != "" {
			t.Fatalf("seed %d: %s\nof %+v\n%+v\nleases %+v\nlines %+v", seed, wrong, f.job, f.kind, f.fleet.Leases, f.lines)
		}
	}
	neverSaid(t, all, saw)
}

func neverSaid(t *testing.T, all []claim, saw map[string]int) {
	t.Helper()
	for _, c := range all {
		if saw[c.form] == 0 {
			t.Errorf("%q was never said: that proves nothing", c.form)
		}
	}
}

func wrongAbout(f *facts, e *Explanation, claims []claim, saw map[string]int) string {
	if len(e.Reasons) == 0 {
		return "no reason"
	}
	for _, r := range append(slices.Clone(e.Reasons), e.Perhaps...) {
		if wrong := contradiction(r.Text, claims, saw); wrong != "" {
			return fmt.Sprintf("%s: %s", r.Kind, wrong)
		}
		if wrong := contradiction(r.Remedy, claims, saw); wrong != "" {
			return fmt.Sprintf("the remedy of %s: %s", r.Kind, wrong)
		}
		if !r.Until.IsZero() && r.Until.Before(f.now) && r.Kind != Paused {
			return fmt.Sprintf("%s ends at %v, which has been", r.Kind, r.Until)
		}
		if r.Since.After(f.now) {
			return fmt.Sprintf("%s began at %v, which is to come", r.Kind, r.Since)
		}
	}
	if wrong := silenceIsWrong(f, &e.Reasons[0]); wrong != "" {
		return wrong
	}
	if r := e.Reasons[0]; r.Kind == InLine && !strings.Contains(r.Text, "is about to stop") {
		held, _ := f.lease()
		if life := f.lifeOf(held); (life == nil || life.Running >= 0) && slices.ContainsFunc(f.fleet.Leases, func(l store.Seen) bool {
			return !l.Free && l.Running == share.Leaves && l.Name == share.Presence(share.OwnerOf(held.Owner).Instance)
		}) {
			return held.Owner + " is about to stop, and nobody says so"
		}
	}
	if kind := e.Reasons[0].Kind; len(e.Perhaps) > 0 && kind != InLine {
		return fmt.Sprintf("%s is certain, and other reasons are perhaps so", kind)
	}
	return ""
}

// silenceIsWrong says what is missing in a reason of whose holder nothing is heard, or what is too much.
func silenceIsWrong(f *facts, r *Reason) string {
	var held *store.Seen
	switch r.Kind {
	case InFlight:
		held, _ = f.holderOf(f.job.Term)
	case InLine:
		held, _ = f.lease()
	default:
		return ""
	}
	life := f.lifeOf(held)
	buried := life != nil && life.Running < 0
	silent := buried || life != nil && now.UnixMilli()-(life.Term-int64(life.Running)) >= 1500
	again := r.Kind == InFlight && buried
	switch {
	case strings.Contains(r.Text, "has not been heard of") != silent:
		return fmt.Sprintf("its life is %+v, and %q is said", life, r.Text)
	case strings.Contains(r.Text, "buried") != buried:
		return fmt.Sprintf("its life is %+v, and %q is said", life, r.Text)
	case again && r.Until.Sub(now.Add(time.Duration(held.Left*float64(time.Second)))).Abs() > time.Millisecond, !again && !r.Until.IsZero():
		return fmt.Sprintf("it is to run again at %v, and the lease of the run lasts for %v s", r.Until, held.Left)
	}
	return ""
}

// claimsOf says when a sentence about a job is so. It looks at the facts in its own way, and not as explain does.
func claimsOf(f *facts) []claim {
	j, k := f.job, &f.kind
	cfg := &k.Config
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	span := func(text string) time.Duration { d, _ := time.ParseDuration(text); return d }
	// its is the lease under which the job would run, among the names that the layout gives. Its rows may be of the layout before.
	forIt := func(name string, layout int64) bool {
		if layout <= 0 {
			return false
		}
		shards := share.Layout(layout).Leases(7)
		return shards[share.ShardOf(j.Id, j.Group, len(shards))] == name
	}
	var its *store.Seen // held
	var runs []*store.Seen
	anyHeld, present := false, 0
	buried := map[string]bool{} // instances
	for _, l := range f.fleet.Leases {
		if id, is := strings.CutPrefix(l.Name, "live-"); is && !l.Free && l.Running < 0 {
			buried[id] = true
		}
	}
	leaving := map[string]bool{} // instances
	var free []*store.Seen
	for i := range f.fleet.Leases {
		l := &f.fleet.Leases[i]
		lease, of, rest := share.ParseRemains(l.Name)
		_, here := share.ParsePresence(l.Name)
		switch {
		case here:
			switch {
			case l.Free:
			case l.Running != share.Leaves && buried[l.Name[len("at-"):]]:
			case l.Running == share.Leaves:
				leaving[share.OwnerOf(l.Owner).Instance] = true
			default:
				present++
			}
		case j == nil, strings.HasPrefix(l.Name, "live-"):
		case rest:
			if !l.Free && j.InFlight && of == j.Term && forIt(lease, l.Layout) {
				runs = append(runs, l)
			}
		default:
			if !l.Free && l.Layout > 0 {
				anyHeld = true
			}
			if !l.Free && forIt(l.Name, l.Layout) {
				its = l
				if j.InFlight && l.Term == j.Term {
					runs = append(runs, l)
				}
			}
			if l.Free {
				free = append(free, l)
			}
		}
	}
	var line *store.Line // of its holder
	for i := range f.lines {
		if its != nil && f.lines[i].Lease == its.Name && f.lines[i].Term == its.Term {
			line = &f.lines[i]
		}
	}
	due := func() int { return line.Waiting + line.Marked - line.Soon }
	fresh := func() bool { return line != nil && now.Unix()-line.ToldAt <= 75 }
	held := func(by string) bool { return fresh() && line.Gate != nil && line.Gate.Limit == by && due() > 0 }
	pending := func() bool { return j != nil && j.Pending() }
	waits := func() bool {
		return pending() && !j.InFlight && !j.Due.After(now) && its != nil && k.Paused.IsZero()
	}
	told := !k.Told.IsZero()
	divided := *cfg
	divided.Shards = k.Shards
	effective := k.Limits.Apply(divided)
	is := func(ok bool) func([]string) bool { return func([]string) bool { return ok } }
	last := func(said []string) bool { // run, error, outcome
		r := f.runs[len(f.runs)-1]
		return number(said[1]) == r.Attempt && said[2] == r.Error && said[3] == r.Outcome
	}
	cause := func(text string) *store.Cause {
		for i := range line.PutOff.Causes {
			if c := &line.PutOff.Causes[i]; strings.HasPrefix(text, c.Text) && (c.Until > 0) == strings.Contains(text, ", until ") {
				return c
			}
		}
		return nil
	}
	// mute reports whether the holder of a lease is buried, or has been silent for that long.
	mute := func(l *store.Seen, isBuried bool, text string) bool {
		if l == nil || f.lifeOf(l) == nil {
			return false
		}
		life := f.lifeOf(l)
		counts := int64(life.Running)
		if counts < 0 {
			counts = 2500 // or more
		}
		since := now.UnixMilli() - (life.Term - counts)
		return (life.Running < 0) == isBuried && (isBuried || since >= 1500) && span(text).Milliseconds() <= max(0, since) && span(text).Milliseconds() > since-100
	}
	inSeconds := func(text string, left float64) bool {
		said := span(text).Seconds()
		return said >= left && said < left+1 || said == 0 && left <= 0
	}
	others := present
	if its != nil && slices.ContainsFunc(f.fleet.Leases, func(l store.Seen) bool {
		return l.Name == "at-"+share.OwnerOf(its.Owner).Instance && !l.Free && l.Running != share.Leaves && !buried[l.Name[len("at-"):]]
	}) {
		others--
	}
	putOff := func() bool {
		return pending() && j.Status == queue_job.JobStatusContinue && j.Deferred > 0 && j.Due.After(now) && fresh() && line.PutOff != nil
	}
	return append(claimsOfPlace(f), []claim{
		{`There is no such job: the transaction that adds it has not committed, it was deleted, or it is in another database or under another table prefix\.`, is(j == nil)},
		{`It is (\w+), so it does not run any more\.`, func(said []string) bool { return !j.Pending() && said[1] == j.State() }},
		{`Retry the job\.`, is(j != nil && !j.Pending() && j.Status != queue_job.JobStatusSuccess)},
		{`Run (\d+): (no route) \((\w+)\)\.`, last},
		{`(\S+) has it: its handler runs, or is about to\.`, func(said []string) bool {
			return pending() && slices.ContainsFunc(runs, func(l *store.Seen) bool { return share.Readable(l.Owner) == said[1] })
		}},
		{`Its time limit is (\S+)\.`, func(said []string) bool { return told && cfg.Timeout > 0 && span(said[1]) == cfg.Timeout }},
		{`If it takes too long, cancel the job\. Config\.Timeout ends such runs by itself\.`, is(len(runs) > 0 && cfg.Timeout == 0)},
		{`If it takes too long, cancel the job\.`, is(len(runs) > 0 && cfg.Timeout > 0)},
		{`The lease of the type has gone to another instance since; what runs, runs on there\.`, func([]string) bool {
			return len(runs) > 0 && (its == nil || its.Term != j.Term)
		}},
		{`But it has not renewed its lease in time\. If it has died, another instance goes on in (\S+)\.`, func(said []string) bool {
			return told && slices.ContainsFunc(append(runs, its), func(l *store.Seen) bool {
				left := span(said[1]).Seconds() - 1
				return l != nil && f.heardOf(l) && math64(l.Left) == int(left) && l.Left+1 < float64(cfg.LockSecond)*2/3
			})
		}},
		{`It runs on an instance that has not been heard of for (\S+), (\S+): that was buried, and others take its leases\. As long as it may still run the job, nobody else does\. When the lease of this run has ended, or Jobs\.Bury has said that the process is gone, the run counts as lost, and the job (?:runs again|has failed: LostLimit is (\d+))\.`, func(said []string) bool {
			fails := cfg.LostLimit > 0 && j.Lost+1 >= cfg.LostLimit
			return pending() && fails == (said[3] != "") && (!fails || number(said[3]) == cfg.LostLimit) && slices.ContainsFunc(runs, func(l *store.Seen) bool {
				return mute(l, true, said[1]) && share.Readable(l.Owner) == said[2]
			})
		}},
		{`See to that process: it has died, was frozen, or could not write to shedlock_tab each second\.`, func([]string) bool { return len(runs) > 0 && len(buried) > 0 }},
		{`But it has not been heard of for (\S+)\. If it has died, this run counts as lost in (\S+)\.`, func(said []string) bool {
			return slices.ContainsFunc(runs, func(l *store.Seen) bool { return mute(l, false, said[1]) && inSeconds(said[2], l.Left) })
		}},
		{`But it has not been heard of for (\S+), and was buried: others take its leases\.`, func(said []string) bool { return waits() && mute(its, true, said[1]) }},
		{`But it has not been heard of for (\S+)\. If it has died, the next instance that starts takes over within some seconds\.`, func(said []string) bool {
			return waits() && mute(its, false, said[1]) && others == 0
		}},
		{`But it has not been heard of for (\S+)\. If that goes on, others take over within (\S+)\.`, func(said []string) bool {
			left := float64(f.lifeOf(its).Term+2000-now.UnixMilli()) / 1000
			return waits() && mute(its, false, said[1]) && others > 0 && left > 0 && inSeconds(said[2], left)
		}},
		{`But it has not been heard of for (\S+)\. The others have not taken over yet; they do so in (\S+) at the latest, when its lease ends\.`, func(said []string) bool {
			return waits() && mute(its, false, said[1]) && others > 0 && f.lifeOf(its).Term+2000 <= now.UnixMilli() && inSeconds(said[2], its.Left)
		}},
		{`The process that had the job has died, or was cut off for longer than its lease\. The next holder of the job type counts this run as lost(, and runs the job again|, and the job has failed then: LostLimit is (\d+))\.`, func(said []string) bool {
			fails := cfg.LostLimit > 0 && j.Lost+1 >= cfg.LostLimit
			return pending() && j.InFlight && len(runs) == 0 && fails == (said[2] != "") && (!fails || number(said[2]) == cfg.LostLimit)
		}},
		{`Its last run failed, and the next one has to wait\.`, func([]string) bool { return j.Status == queue_job.JobStatusRetry && j.Due.After(now) }},
		{`That will be retry (\d+) of (\d+)\.`, func(said []string) bool {
			most := cfg.MaxRetries
			if j.MaxRetries != nil {
				most = *j.MaxRetries
			}
			return number(said[1]) == j.Retries && number(said[2]) == most && (told || j.MaxRetries != nil)
		}},
		{`That will be retry (\d+)\.`, func(said []string) bool {
			return number(said[1]) == j.Retries && (j.MaxRetries == nil && (!told || cfg.MaxRetries == queue_job.Unlimited) || j.MaxRetries != nil && *j.MaxRetries == queue_job.Unlimited)
		}},
		{`Its handler has put it off (\d+) times? since it was added, at (\S+ \S+) UTC: these runs ended before they had begun \(Defer\)\.`, func(said []string) bool {
			return j.Status == queue_job.JobStatusContinue && j.Due.After(now) && number(said[1]) == j.Deferred && j.Deferred > 0 && said[2] == j.Created.UTC().Format(time.DateTime)
		}},
		{`It waits for this: (http://host\d:80 is broken(?:, until \S+ UTC)?); (\d+) others? waits? for it\.`, func(said []string) bool {
			c := cause(said[1])
			host, _, _ := strings.Cut(strings.TrimPrefix(said[1], "http://"), " ")
			its := strings.Contains(j.JobParams, `"http://`+host+`/`) || c != nil && c.Jobs == line.PutOff.Jobs
			return putOff() && its && c != nil && number(said[2]) == c.Jobs-1
		}},
		{`Jobs of its type wait for this: ((?:http://host\d:80 is broken(?:, until \S+ UTC)? \(\d+ jobs?\)(?:; )?)+)\.`, func(said []string) bool {
			for _, one := range strings.Split(said[1], "; ") {
				text, jobs, _ := strings.Cut(strings.TrimRight(one, ")jobs "), " (")
				if c := cause(text); !putOff() || c == nil || c.Jobs != number(jobs) {
					return false
				}
			}
			return true
		}},
		{`See to what it waits for\. If the job is rescheduled to now, its handler may put it off again\.`, func([]string) bool { return putOff() && len(line.PutOff.Causes) > 0 }},
		{`Its handler has put it off, or somebody has rescheduled it since\.`, func([]string) bool {
			return j.Status == queue_job.JobStatusContinue && j.Deferred == 0 && j.Due.After(now)
		}},
		{`It sleeps: its handler has called Sleep \("([^"]+)"\) in run (\d+), and goes on when that is over\.`, func(said []string) bool {
			return j.Status == queue_job.JobStatusContinue && slices.ContainsFunc(f.steps, func(s queue_job.StepInfo) bool {
				return s.Name == said[1] && !s.Signal && s.Attempt == number(said[2]) && s.Until.After(now) && !s.Until.After(j.Due)
			})
		}},
		{`It waits for the signal "([^"]+)", until (\S+ \S+) UTC\.`, func(said []string) bool {
			return j.Status == queue_job.JobStatusContinue && slices.ContainsFunc(f.steps, func(s queue_job.StepInfo) bool {
				return s.Name == said[1] && s.Signal && s.Ended.IsZero() && s.Until.UTC().Format(time.DateTime) == said[2] && s.Until.After(now) && !s.Until.After(j.Due)
			})
		}},
		{`Send the signal, with Jobs\.Signal\. If the job is rescheduled to now, its handler waits again\.`, func([]string) bool { return len(f.steps) > 0 && j.Due.After(now) }},
		{`Wait\. If the job is rescheduled to now, its handler sleeps for the rest\.`, func([]string) bool { return len(f.steps) > 0 && j.Due.After(now) }},
		{`It was added, or put off, for a later time\.`, func([]string) bool {
			return (j.Status == queue_job.JobStatusInit) && j.Due.After(now)
		}},
		{`Reschedule the job to now\.`, func([]string) bool { return j.Due.After(now) }},
		{`No instance has ever run job type 7\.`, func([]string) bool { return !anyHeld && len(free) == 0 && cfg.DormantAfter == 0 }},
		{`That instance is about to stop: it gives the lease to an instance that asks for it, and if none does, it starts no more jobs\.`, func([]string) bool {
			return waits() && leaving[share.OwnerOf(its.Owner).Instance] && (f.lifeOf(its) == nil || f.lifeOf(its).Running >= 0)
		}},
		{`Start an instance that has a configuration for job type 7\.`, func([]string) bool {
			return pending() && (its == nil || leaving[share.OwnerOf(its.Owner).Instance] && present == 0)
		}},
		{`No instance is there at all\.`, is(present == 0)},
		{`One instance is there, and does not take it\.`, is(present == 1)},
		{`(\d+) instances are there, and none takes it\.`, func(said []string) bool { return number(said[1]) == present && present > 1 }},
		{`Job type 7 is dormant: it had no job for (\S+)\. An instance wakes it within a second of an INSERT, and within fifteen seconds if the job became pending in another way\.`, func(said []string) bool {
			return !anyHeld && present > 0 && span(said[1]) == cfg.DormantAfter && cfg.DormantAfter > 0
		}},
		{`Job type 7 is dormant, and there is no instance that could wake it\.`, func([]string) bool { return !anyHeld && present == 0 && cfg.DormantAfter > 0 }},
		{`Nobody holds (\S+), the lease of its job type, at this moment\. An instance that has a configuration for the type takes it within a second\.`, func(said []string) bool {
			return its == nil && slices.ContainsFunc(free, func(l *store.Seen) bool {
				return l.Name == said[1] && forIt(l.Name, l.Layout) && l.Left > -3
			})
		}},
		{`No instance runs job type 7: nobody holds its lease, (\S+)\.`, func(said []string) bool {
			return its == nil && slices.ContainsFunc(free, func(l *store.Seen) bool {
				return l.Name == said[1] && forIt(l.Name, l.Layout) && l.Left <= -3
			})
		}},
		{`No instance runs job type 7: nobody holds a lease of it\. The first that comes divides it into (\d+) shards? before jobs start\.`, func(said []string) bool {
			return !anyHeld && number(said[1]) == share.Layout(f.fleet.Layouts[7]).Shards()
		}},
		{`Job type 7 is being divided into another number of shards\. Jobs start again as soon as every instance has given up its leases of the earlier shards\.`, func([]string) bool { return pending() && its == nil }},
		{`Job type 7 is paused(?: by (\S+?))?(?: \(([^)]*)\))?\.`, func(said []string) bool {
			return pending() && !k.Paused.IsZero() && said[1] == k.PausedBy && said[2] == k.PausedWhy
		}},
		{`The pause is over, and the next instance that looks lets the type go on\.`, func([]string) bool { return !k.PausedUntil.IsZero() && !k.PausedUntil.After(now) }},
		{`Resume the type\.`, func([]string) bool { return !k.Paused.IsZero() }},
		{`It waits in the line of (\S+), which holds (\S+?)(?: and runs (\d+) handlers?)?\.`, func(said []string) bool {
			return waits() && share.Readable(its.Owner) == said[1] && its.Name == said[2] && (said[3] == "" || line == nil && number(said[3]) == its.Running)
		}},
		{`(\S+) ago, (\d+) of its (\d+) workers? were busy and (\d+) jobs? waited in its memory(?:, the first of them for (\S+?))?(; more were in the table)?\.`, func(said []string) bool {
			return line != nil && span(said[1]) == time.Duration(now.Unix()-line.ToldAt)*time.Second && number(said[2]) == min(line.Running+line.Elsewhere, line.Workers) &&
				number(said[3]) == line.Workers && number(said[4]) == due() && due() >= 0 && (said[5] == "") == (line.Overdue == 0) && (line.Overdue == 0 || due() > 0) && (said[6] != "") == line.Behind
		}},
		{`So a job waited until one of them ended\.`, func([]string) bool { return held(store.HeldByWorkers) && line.Running+line.Elsewhere >= line.Workers }},
		{`Other types had all workers that its process may have \(WithMaxWorkers\)\.`, func([]string) bool { return held(store.HeldByPlaces) }},
		{`The rate of (\S+) a second was used up: the next job could start after (\S+)\. At this rate, what waited takes about (\S+(?: \d+[smh])?)\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[1], 64)
			takes := span(strings.ReplaceAll(said[3], " ", "")).Seconds()
			exactly := float64(due()) / rate
			return held(store.HeldByRate) && rate == line.Gate.Rate && span(said[2]) == time.Duration(line.Gate.Next)*time.Millisecond && takes >= exactly-60 && takes <= exactly+60
		}},
		{`Each of them waited for another job of its group \((OrderedByKey|MaxPerKey|OrderedByKey, MaxPerKey)\)\.`, func(said []string) bool {
			setting := !told || said[1] == "OrderedByKey" && cfg.OrderedByKey || said[1] == "MaxPerKey" && !cfg.OrderedByKey
			return held(store.HeldByKeys) && line.Parked >= line.Waiting-line.Soon && j.Group != "" && setting
		}},
		{`Its group had used up its rate(?: of (\S+) a second)? \(RatePerKey\): (\d+) jobs? of it waited there, and the next could start (?:after (\S+)|as soon as others of it had started that were about to)\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[1], 64)
			k := line.KeyRate[0]
			return fresh() && due() > 0 && j.Group != "" && k.Key == store.HashOfKey(j.Group) && number(said[2]) == k.Jobs && (said[1] == "" || told && rate == cfg.RatePerKey) &&
				(said[3] == "" && k.Next == 0 || span(said[3]) == time.Duration(k.Next)*time.Millisecond)
		}},
		{`Each of them waited for its group, and groups had used up their rate of (\S+) a second \(RatePerKey\)\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[1], 64)
			return held(store.HeldByKeyRate) && line.Parked >= line.Waiting-line.Soon && j.Group != "" && rate == line.Gate.Rate
		}},
		{`The pool of its process had no connection to lend, as when handlers use them all \(SetMaxOpenConns is (\d+)\); the statements that start jobs had to wait\.`, func(said []string) bool {
			return held(store.HeldByConnections) && number(said[1]) == line.Gate.Most
		}},
		{`Statements of (\S+) fail\. The last one: (.*?)\.`, func(said []string) bool {
			return waits() && line.FailingSince > 0 && line.Failing == said[2] && share.Readable(its.Owner) == said[1]
		}},
		{regexp.QuoteMeta(failingRemedy), func([]string) bool { return line.FailingSince > 0 }},
		{`Job (\d+) has the same group, "a", and comes first\.`, func(said []string) bool { return number(said[1]) == int(f.first) && f.first < j.Id && j.Group == "a" }},
		{`If the type goes in the order of its groups \(OrderedByKey\), this job waits for that one; with MaxPerKey, it may\.`, is(!told)},
		{`The type goes in the order of its groups \(OrderedByKey\), so this job waits for that one, unless that one was committed when this one's turn had come already\.`, is(told && cfg.OrderedByKey)},
		{`At most (\d+) jobs? of a group may run at a time \(MaxPerKey\)\.`, func(said []string) bool { return told && number(said[1]) == cfg.MaxPerKey && !cfg.OrderedByKey }},
		{`It was lost with its process (\d+) times\. Such a job runs alone, so that no other is lost with it: it waits until nothing else of its type runs there, and no other such job in that process\.`, func(said []string) bool {
			return number(said[1]) == j.Lost && j.Lost >= 2 && cfg.LostLimit >= 0
		}},
		{`It was due (\d+) days? ago\. A holder leaves alone what was due more than FirstPullDay days before its start\.`, func(said []string) bool {
			return number(said[1]) == int(now.Sub(j.Due)/(24*time.Hour)) && number(said[1]) >= cfg.FirstPullDay && cfg.FirstPullDay >= 0
		}},
		{`Set FirstPullDay to -1, or reschedule the job to now\.`, is(!told || cfg.FirstPullDay >= 0)},
		{`What it waits for is not known\. Jobs in line wait for a worker \(WorkerPoolCapacity, WithMaxWorkers\), for the rate \(RatePerSecond\), or until a batch is full \(BatchWait\)\.`, is(!told)},
		{`Its turn depends on these limits: at most (\d+) handlers? of the type at a time \((SetLimits, below )?WorkerPoolCapacity\), or fewer in this process \(WithMaxWorkers\)(?:; at most (\S+) starts a second \((SetLimits, below )?RatePerSecond\))?(?:; at most (\S+) starts a second of its group \(RatePerKey\))?(?:; a batch of (\d+), which waits up to (\S+) until it is full \(BatchWait\))?\.`, func(said []string) bool {
			rate, _ := strconv.ParseFloat(said[3], 64)
			ofGroup, _ := strconv.ParseFloat(said[5], 64)
			return told && ofGroup == map[bool]float64{true: cfg.RatePerKey}[j.Group != ""] && number(said[1]) == effective.WorkerPoolCapacity && (said[2] != "") == (effective.WorkerPoolCapacity < cfg.WorkerPoolCapacity) &&
				rate == effective.RatePerSecond && (said[4] != "") == (effective.RatePerSecond != cfg.RatePerSecond) && number(said[6]) == map[bool]int{true: cfg.BatchSize}[cfg.BatchWait > 0]
		}},
		{`Somebody has limited the type to (.*?) \(SetLimits\)\.`, func(said []string) bool { return !told && said[1] == k.Limits.String() }},
		{`Jobs of a higher priority come first\.`, is(j != nil && j.Priority < queue_job.PriorityUrgent)},
		{`The log of the holder says if its statements fail\.`, func([]string) bool { return line == nil || line.FailingSince == 0 }},
	}...)
}

func math64(f float64) int { return int(time.Duration(f+1)) - 1 }

// heardOf reports whether the holder of a lease is heard of, or need not be.
func (f *facts) heardOf(l *store.Seen) bool {
	life := f.lifeOf(l)
	return life == nil || life.Running >= 0 && now.UnixMilli()-(life.Term-int64(life.Running)) < 1500
}
