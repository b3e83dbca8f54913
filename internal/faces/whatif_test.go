package faces

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// event is a run, in seconds.
type event struct{ due, takes, started float64 }

// events are runs that fall due at random, as many in each minute as told, with handlers that take a time on average.
func events(perMinute []float64, takes float64, seed uint64) (list []event) {
	d := rand.New(rand.NewPCG(seed, 1))
	for minute, n := range perMinute {
		for at := d.ExpFloat64() / n; at < 1; at += d.ExpFloat64() / n {
			list = append(list, event{due: 60 * (float64(minute) + at), takes: takes * d.ExpFloat64()})
		}
	}
	return list
}

// run starts events one by one: each when it is due, a worker is idle, and the rate allows it.
func run(list []event, l StartLimits) []event {
	idleAt := make([]float64, l.Workers)
	tokens, last := float64(l.Burst), 0.0
	for i := range list {
		e := &list[i]
		next := 0
		for w := range idleAt {
			if idleAt[w] < idleAt[next] {
				next = w
			}
		}
		e.started = max(e.due, idleAt[next], last)
		if l.Rate > 0 {
			tokens = min(float64(l.Burst), tokens+(e.started-last)*l.Rate)
			if tokens < 1 {
				e.started += (1 - tokens) / l.Rate
				tokens = 1
			}
			tokens--
		}
		last = e.started
		idleAt[next] = e.started + e.takes
	}
	return list
}

// historyOf is what instances would have written of the events up to a moment.
func historyOf(list []event, minutes int) []operate.Period {
	periods := make([]operate.Period, minutes)
	in := func(seconds float64) int {
		i := 0
		for time.Duration(seconds*float64(time.Second)) >= record.RangeEnd(i) {
			i++
		}
		return i
	}
	for i := range periods {
		periods[i].Begin, periods[i].Length = time.Unix(int64(60*i), 0), time.Minute
	}
	for _, e := range list {
		if at := int(e.started / 60); at < minutes {
			periods[at].Delays[in(e.started-e.due)]++
		}
		if at := int((e.started + e.takes) / 60); at < minutes {
			periods[at].Durations[in(e.takes)]++
		}
	}
	return periods
}

// waitingOf is how many events fell due and did not start up to a moment.
func waitingOf(list []event, minutes int) (n int) {
	for _, e := range list {
		if end := float64(60 * minutes); e.due < end && e.started >= end {
			n++
		}
	}
	return n
}

// rush is three hours, of which twenty minutes are busy.
func rush(usual, busy float64) []float64 {
	perMinute := make([]float64, 180)
	for i := range perMinute {
		if perMinute[i] = usual; i >= 60 && i < 80 {
			perMinute[i] = busy
		}
	}
	return perMinute
}

// The model is held against a simulation of single runs. It sees what instances write, and has to say what they would write: how late
// runs are on average, and how many wait at the end, within a fifth, or a quarter under other limits; the delay that one of a hundred
// exceeds within what a histogram knows of it, a factor of two.
func TestAReplaySaysWhatOtherLimitsWouldHaveDone(t *testing.T) {
	for what, c := range map[string]struct {
		perMinute []float64
		takes     float64
		was       StartLimits
		others    []StartLimits
	}{
		"too few workers":     {rush(120, 720), 2, StartLimits{Workers: 15}, []StartLimits{{Workers: 15}, {Workers: 12}, {Workers: 18}, {Workers: 40}, {Workers: 15, TimeFactor: 0.8}}},
		"enough workers":      {rush(120, 720), 2, StartLimits{Workers: 60}, []StartLimits{{Workers: 60}, {Workers: 15}, {Workers: 10}, {Workers: 60, Rate: 5, Burst: 10}}},
		"a low rate":          {rush(120, 720), 0.02, StartLimits{Workers: 10, Rate: 6, Burst: 5}, []StartLimits{{Workers: 10, Rate: 6, Burst: 5}, {Workers: 10, Rate: 4, Burst: 5}, {Workers: 10, Rate: 8, Burst: 100}, {Workers: 10}}},
		"handlers of minutes": {rush(6, 30), 240, StartLimits{Workers: 60}, []StartLimits{{Workers: 60}, {Workers: 40}, {Workers: 150}}},
		"more than it does":   {rush(600, 600), 1, StartLimits{Workers: 30}, []StartLimits{{Workers: 8}, {Workers: 9}}},
	} {
		list := run(events(c.perMinute, c.takes, 7), c.was)
		past := historyOf(list, len(c.perMinute))
		for _, l := range c.others {
			other := slices.Clone(list)
			for i := range other {
				if l.TimeFactor > 0 {
					other[i].takes *= l.TimeFactor
				}
			}
			is := totalOf(historyOf(run(other, l), len(c.perMinute)))
			waiting := waitingOf(other, len(c.perMinute))
			r := WhatIf(&Past{Periods: past}, l)
			off := 0.25
			if l == c.was {
				off = 0.2
			}
			alike := func(said, is, least float64) bool { return math.Abs(said-is) <= max(least, is*off) }
			said, late, saidLate := mean(&r.Delays), is.Delays.Quantile(0.99).Seconds(), r.Delays.Quantile(0.99).Seconds()
			if !alike(said, mean(&is.Delays), 1) || math.Abs(math.Log2((saidLate+3)/(late+3))) > 1 || !alike(r.Waiting, float64(waiting), 20) {
				t.Errorf("%s, %+v: average delay %.1f s, want %.1f; 99 of 100 %.1f s, want %.1f; %.0f wait at the end, want %d", what, l, said, mean(&is.Delays), saidLate, late, r.Waiting, waiting)
			}
			started := 0.0
			for _, s := range r.Steps {
				started += s.Started
				if s.Busy > float64(l.Workers)+1e-6 {
					t.Fatalf("%s, %+v: %.2f workers are busy", what, l, s.Busy)
				}
			}
			if due := started + r.Waiting; math.Abs(due-float64(started64(past))) > 1 {
				t.Errorf("%s, %+v: %.1f runs start or wait, of %d", what, l, due, started64(past))
			}
		}
	}
}

func totalOf(past []operate.Period) (total operate.Period) {
	for i := range past {
		total.Delays.Add(&past[i].Delays)
	}
	return total
}

func started64(past []operate.Period) int64 {
	total := totalOf(past)
	return total.Started()
}

func TestTheLeastThatIsEnoughIsFound(t *testing.T) {
	perMinute := rush(120, 720)
	had := StartLimits{Workers: 15}
	list := run(events(perMinute, 2, 7), had)
	past := &Past{Periods: historyOf(list, len(perMinute)), At: time.Unix(int64(60*len(perMinute)), 0)}
	for _, within := range []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute} {
		n := Advise(past, had, StartLimits{}, within).Workers
		if n == 0 {
			t.Fatalf("no number of workers is enough for %v", within)
		}
		for workers, enough := range map[int]bool{n: true, n - 1: false} {
			if got := courseOf(past).meets(StartLimits{Workers: workers}, within); got != enough {
				t.Errorf("%v: %d workers are enough: %t", within, workers, got)
			}
		}
		is := totalOf(historyOf(run(slices.Clone(list), StartLimits{Workers: n}), len(perMinute)))
		if late := is.Delays.Quantile(0.99); late > 3*within/2 {
			t.Errorf("%v: with %d workers, 99 of 100 start within %v", within, n, late)
		}
		rate := Advise(past, had, StartLimits{Workers: 100, Rate: 1, Burst: 10}, within).Rate
		if rate == 0 || courseOf(past).meets(StartLimits{Workers: 100, Burst: 10, Rate: rate * 0.97}, within) {
			t.Errorf("%v: a rate of %.2f", within, rate)
		}
	}
	if a := Advise(past, had, StartLimits{Rate: 1, Burst: 1}, time.Minute); a.Workers != 0 || !strings.HasPrefix(a.Text(), "At this rate, no number of workers") {
		t.Errorf("at a rate that is too low: %s", a.Text())
	}
	fair := *past
	fair.ByGroup = true
	if a := Advise(&fair, had, had, time.Minute); !strings.Contains(a.Text(), "Groups take turns (FairByGroup), and the model does not know them") {
		t.Errorf("of a type whose groups take turns: %s", a.Text())
	}
	rated := *past
	rated.RatePerKey = 2.5
	if a := Advise(&rated, had, had, time.Minute); !strings.Contains(a.Text(), "At most 2.5 jobs of a group start in a second (RatePerKey)") {
		t.Errorf("of a type whose groups have a rate: %s", a.Text())
	}
	if a := Advise(past, had, StartLimits{Workers: 1, Rate: 5}, time.Minute); a.Rate != 0 || !strings.HasSuffix(a.Text(), "With 1 worker, no rate does.") {
		t.Errorf("with one worker: %s", a.Text())
	}
}

func TestARateIsRoundedUp(t *testing.T) {
	for is, want := range map[float64]float64{2.97: 2.97, 2.9701: 2.98, 0.012341: 0.0124, 1234.5: 1240, 3: 3, 99.91: 100} {
		if got := roundUp(is); got != want {
			t.Errorf("%v: %v, want %v", is, got, want)
		}
	}
}

func TestAReplayOfNothingIsNothing(t *testing.T) {
	for what, past := range map[string][]operate.Period{"no step": nil, "steps without runs": historyOf(nil, 3)} {
		for _, l := range []StartLimits{{}, {Workers: 3}, {Workers: 3, Rate: 1}} {
			if r := WhatIf(&Past{Periods: past}, l); len(r.Steps) != len(past) || r.Waiting != 0 || r.Busy != 0 || r.Delays.Count() != 0 {
				t.Errorf("%s: %+v", what, r)
			}
		}
	}
	past := historyOf(run(events([]float64{60, 60}, 1, 3), StartLimits{Workers: 99}), 2)
	if r := WhatIf(&Past{Periods: past}, StartLimits{}); r.Delays.Count() != 0 || math.Abs(r.Waiting-float64(started64(past))) > 0.1 || r.Oldest < 100*time.Second {
		t.Errorf("without workers, %d runs start, %.1f wait, the first for %v", r.Delays.Count(), r.Waiting, r.Oldest)
	}
}

// Config says one shard, as long as SetShards has not divided the type.
func TestLimitsHeedTheShardsThatATypeHas(t *testing.T) {
	known := &queue_job.Type{
		Config: queue_job.Config{WorkerPoolCapacity: 20, Shards: 1, BatchSize: 1}, Shards: 8,
		Limits: queue_job.Limits{Workers: 3, RatePerSecond: 2},
	}
	if l := LimitsOf(known); l != (StartLimits{Workers: 8, Rate: 2, Burst: 8}) {
		t.Errorf("%+v, and each of eight shards keeps a worker and a burst", l)
	}
	if burst := BurstAt(known, 2); burst != 8 {
		t.Errorf("a burst of %d for eight shards", burst)
	}
}

// shopOf is what jobs do that fail at random and are retried, in a line that has too small a rate or too few workers: they start one
// by one, first runs and retries by turns, as an engine has them. For some minutes, from the fifteenth on, none starts. It returns what instances would have written after some minutes.
func shopOf(d *rand.Rand, minutes int, perSecond, takes, fails float64, waits []queue_job.Wait, l StartLimits, stands int) (past *Past, inTime func(within time.Duration) float64) {
	type job struct {
		due     float64
		retries int
	}
	var first, retried []job // retried is a heap in effect: sorted when it is looked at
	for at := d.ExpFloat64() / perSecond; at < float64(60*minutes); at += d.ExpFloat64() / perSecond {
		first = append(first, job{due: at})
	}
	busyUntil := make([]float64, l.Workers)
	tokens, last, turn := float64(l.Burst), 0.0, false
	end := float64(60 * minutes)
	var list []event
	runs := make([]map[queue_job.JobStatus]int64, minutes)
	for len(first)+len(retried) > 0 {
		next := 0
		for w := range busyUntil {
			if busyUntil[w] < busyUntil[next] {
				next = w
			}
		}
		slices.SortFunc(retried, func(a, b job) int { return cmp.Compare(a.due, b.due) })
		soonest := math.Inf(1)
		for _, lane := range [][]job{first, retried} {
			if len(lane) > 0 {
				soonest = min(soonest, lane[0].due)
			}
		}
		at := max(soonest, busyUntil[next], last)
		if begin := 15 * 60.0; at >= begin {
			at = max(at, begin+60*float64(stands))
		}
		if l.Rate > 0 {
			tokens = min(float64(l.Burst), tokens+(at-last)*l.Rate)
			if tokens < 1 {
				at += (1 - tokens) / l.Rate
				tokens = 1
			}
			tokens--
		}
		last = at
		if at >= end {
			break
		}
		lane := &first
		if turn = !turn; len(first) == 0 || first[0].due > at || turn && len(retried) > 0 && retried[0].due <= at {
			lane = &retried
		}
		j := (*lane)[0]
		*lane = (*lane)[1:]
		e := event{due: j.due, takes: takes * d.ExpFloat64(), started: at}
		list = append(list, e)
		busyUntil[next] = at + e.takes
		status := queue_job.JobStatusSuccess
		if d.Float64() < fails {
			status = queue_job.JobStatusRetry
			w := waits[min(j.retries, len(waits)-1)]
			retried = append(retried, job{at + e.takes + w.Least.Seconds() + d.Float64()*(w.Most-w.Least).Seconds(), j.retries + 1})
		}
		if in := int((at + e.takes) / 60); in < minutes {
			if runs[in] == nil {
				runs[in] = map[queue_job.JobStatus]int64{}
			}
			runs[in][status]++
		}
	}
	past = &Past{Periods: historyOf(list, minutes), At: time.Unix(int64(end), 0), RetryWaits: waits}
	for i := range past.Periods {
		past.Periods[i].Runs = runs[i]
	}
	for _, j := range slices.Concat(first, retried) {
		if j.due < end {
			past.Waiting++
			past.Oldest = max(past.Oldest, seconds(end-j.due))
		}
	}
	return past, func(within time.Duration) float64 {
		in := 0
		for _, e := range list {
			if seconds(e.started-e.due) <= within {
				in++
			}
		}
		return float64(in) / float64(len(list)+past.Waiting)
	}
}

// What is advised is done, in a simulation of single runs that was held up, and the same jobs have to start in time. Advice that is seldom
// given would be no advice, so it is counted.
func TestWhatIsAdvisedWouldHaveBeenEnough(t *testing.T) {
	waits := []queue_job.Wait{{Least: 4 * time.Second, Most: 5 * time.Second}, {Least: 8 * time.Second, Most: 10 * time.Second}, {Least: 20 * time.Second, Most: 30 * time.Second}}
	const minutes = 40
	var advised, held, stood, misled int
	worlds := 120
	if more, err := strconv.Atoi(os.Getenv("PQ_SIM_SEEDS")); err == nil {
		worlds = min(more, 2000)
	}
	for seed := range worlds {
		d := rand.New(rand.NewPCG(uint64(seed), 3))
		perSecond, takes, fails := 0.5+6*d.Float64(), 0.05+2*d.Float64(), []float64{0, 0.1, 0.3, 0.5}[d.IntN(4)]
		demand := perSecond / (1 - fails)
		had := StartLimits{Workers: 200, Rate: demand * (0.5 + 0.7*d.Float64()), Burst: 1 + d.IntN(5)}
		byWorkers := d.IntN(2) == 0
		if byWorkers {
			had = StartLimits{Workers: max(1, int(demand*takes*(0.5+0.7*d.Float64())))}
		}
		stands := []int{0, 0, 0, 4}[d.IntN(4)] // as in a pause, of which the model does not know
		jobs := d.Uint64()
		past, _ := shopOf(rand.New(rand.NewPCG(jobs, 4)), minutes, perSecond, takes, fails, waits, had, stands)
		const within = 10 * time.Second
		asked := had
		a := Advise(past, had, asked, within)
		stood += min(1, stands)
		if a.Doubt != "" {
			continue
		}
		if says := WhatIf(past, had).Waiting; math.Abs(says-float64(past.Waiting)) > max(15, 0.25*float64(past.Waiting), 0.015*float64(started64(past.Periods))) {
			t.Errorf("seed %d: %.0f wait at the end, says the model with the limits as they were, and %d do", seed, says, past.Waiting)
		}
		better := had
		if byWorkers {
			better.Workers = a.Workers
		} else {
			better.Rate = a.Rate
		}
		if byWorkers && a.Workers == 0 || !byWorkers && a.Rate == 0 {
			t.Errorf("seed %d: nothing is enough, says %q", seed, a.Text())
		}
		_, inTime := shopOf(rand.New(rand.NewPCG(jobs, 5)), minutes, perSecond, takes, fails, waits, better, stands)
		part := inTime(within)
		switch {
		case stands == 0:
			advised++
			if part >= 0.98 {
				held++
			}
		case part < 0.98:
			misled++
		}
		if part < 0.98 && testing.Verbose() {
			t.Logf("seed %d: %.2f a second, %.2f s each, %.0f %% fail: with %+v, %.3f start in time instead of 0.99; it had %+v, and %d waited", seed, perSecond, takes, 100*fails, better, part, had, past.Waiting)
		}
		if byWorkers && float64(a.Workers) > 1.6*demand*takes+6 || !byWorkers && a.Rate > 1.6*demand+1 {
			t.Errorf("seed %d: %s; %.2f come in a second, with retries, and take %.2f s", seed, a.Text(), demand, takes)
		}
	}
	t.Logf("%d worlds: advice in %d of %d, and it was enough in %d; in %d others, nothing started for some minutes, and %d were misled", worlds, advised, worlds-stood, held, stood, misled)
	if advised < (worlds-stood)*6/10 || held < advised*96/100 {
		t.Errorf("of %d worlds, %d got advice, and it was enough in %d", worlds-stood, advised, held)
	}
	if misled > stood/20 {
		t.Errorf("of %d worlds in which nothing started for some minutes, %d got advice that was not enough", stood, misled)
	}
}

// A shop that opened ten seconds ago has run all of its jobs in a small part of a step.
func TestFewRunsAreNoGroundForAdvice(t *testing.T) {
	had := StartLimits{Workers: 100}
	for what, c := range map[string]struct {
		perMinute []float64
		advice    bool
	}{"few runs": {[]float64{20, 20, 20, 20}, false}, "few steps": {[]float64{0.001, 600, 0.001}, false}, "enough": {[]float64{200, 200, 200}, true}} {
		past := &Past{Periods: historyOf(run(events(c.perMinute, 0.1, 7), had), len(c.perMinute)), At: time.Unix(int64(60*len(c.perMinute)), 0)}
		if a := Advise(past, had, had, time.Minute); strings.HasPrefix(a.Text(), "No advice yet: ") == c.advice {
			t.Errorf("%s: %s", what, a.Text())
		}
	}
}
