package faces

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// StartLimits decide how soon the jobs of a type start once they are due, on all instances together.
type StartLimits struct {
	// Workers is how many handlers may run at a time: [queue_job.Config].WorkerPoolCapacity.
	Workers int
	// Rate is how many runs may start in a second, and Burst how many at once after a rest: RatePerSecond and RateBurst. A rate of 0 is
	// no limit.
	Rate  float64
	Burst int
	// TimeFactor is how many times as long handlers take as they did. 0 counts as 1.
	TimeFactor float64

	spare float64 // of the workers: they are kept in reserve
}

// LimitsOf returns the limits of a job type: of its configuration, or lower, if somebody has set others.
func LimitsOf(t *queue_job.Type) StartLimits {
	cfg := t.Limits.Apply(asDivided(t))
	return StartLimits{Workers: cfg.WorkerPoolCapacity, Rate: cfg.RatePerSecond, Burst: cfg.RateBurst}
}

// BurstAt returns how many runs may start at once if a job type is limited to a rate. At a rate that is not lower than its own, it is its
// own burst.
func BurstAt(t *queue_job.Type, rate float64) int {
	return queue_job.Limits{RatePerSecond: rate}.Apply(asDivided(t)).RateBurst
}

// asDivided is the configuration of a type with the number of shards that it has: each of them keeps a worker, and a burst.
func asDivided(t *queue_job.Type) queue_job.Config {
	cfg := t.Config
	cfg.Shards = t.Shards
	return cfg
}

// Replay is what a job type would have done under limits, as a model says. The numbers of runs are expected values, so they need not be
// whole.
type Replay struct {
	Limits StartLimits
	Steps  []ReplayStep
	// Delays are of the runs that start: how long they have been due.
	Delays operate.Histogram
	// Waiting is how many runs are due and have not started at the end, and Oldest for how long the first of them has been due.
	Waiting float64
	Oldest  time.Duration
	// Busy is how many workers are busy on average.
	Busy float64
}

// ReplayStep is a step of a [Replay].
type ReplayStep struct {
	Begin        time.Time
	Length       time.Duration
	Due, Started float64
	Waiting      float64 // at its end
	Busy         float64 // workers, on average
	Delays       operate.Histogram
}

// Past is what a job type did, for a replay.
type Past struct {
	// Periods are as [operate.History] returned them.
	Periods []operate.Period
	// At is when the rest was so, at or after the end of the periods. Zero: the rest is not known.
	At time.Time
	// Waiting is how many jobs were due and had not started, and Oldest how long the first of them had been due. More: there were others,
	// and it is not known how many.
	Waiting int
	Oldest  time.Duration
	More    bool
	// RetryWaits are the waits before the retries of a job, as in [queue_job.Type].
	RetryWaits []queue_job.Wait
	// ByGroup: groups take turns, see [queue_job.Config].FairByGroup.
	ByGroup bool
	// RatePerKey is as in [queue_job.Config].
	RatePerKey float64
}

// PastOf is a past with what a type has told of the jobs that wait.
func PastOf(t *operate.Type, periods []operate.Period) *Past {
	p := &Past{Periods: periods, RetryWaits: t.Known.RetryWaits, ByGroup: t.Known.Config.FairByGroup, RatePerKey: t.Known.Config.RatePerKey}
	if m := t.Memory; m != nil {
		p.At, p.Waiting, p.Oldest, p.More = m.AsOf, m.Due(), m.Overdue, m.More
	}
	return p
}

// WhatIf replays what a job type did under limits. When its runs fell due follows from when they started and how long they had been due by
// then, within a factor of two; those that still wait fell due evenly since the first of them did.
//
// It is a model. It starts runs in the order in which they fell due, first runs and retries by turns, and knows neither priorities, groups,
// with their MaxPerKey and RatePerKey, nor batches; handlers take what they took on average in that step, and as many of them ask for a retry as
// did; within a step, runs fall due evenly. The milliseconds that statements take are left out. [Advise] says where it is so far off that it is
// of no use.
func WhatIf(past *Past, l StartLimits) Replay { return courseOf(past).replay(l) }

// Advice is what would have been enough for 99 of 100 runs to start within a time, as the model says.
type Advice struct {
	Limits StartLimits
	Within time.Duration
	// Workers is the least number of workers that would have been enough at Limits.Rate; 0: none is. Rate is the least rate with
	// Limits.Workers; 0: none is, or there is no rate in the limits. It is rounded up to three digits.
	Workers int
	Rate    float64
	// Doubt is why the model knows neither. It is a sentence. Empty: it does.
	Doubt string
	// Step is the length of a step, within which the model takes runs to fall due evenly.
	Step time.Duration
	// ByGroup: groups take turns, and the model does not know that. Nor does it know RatePerKey.
	ByGroup    bool
	RatePerKey float64
}

// Advise says what would have been enough. It replays the past with the limits that the type had, first: if what comes out is not what
// was, the model does not know what held the type's jobs up, and there is no advice.
func Advise(past *Past, had, asked StartLimits, within time.Duration) Advice {
	a := Advice{Limits: asked, Within: within, ByGroup: past.ByGroup, RatePerKey: past.RatePerKey}
	c := courseOf(past)
	if a.Doubt = c.doubt(had); a.Doubt != "" || len(past.Periods) == 0 {
		return a
	}
	a.Step = past.Periods[0].Length
	if n, ok := least(func(n float64) bool {
		l := asked
		l.Workers = int(n)
		return c.meets(l, within)
	}, true); ok {
		a.Workers = int(n)
	}
	if asked.Rate > 0 {
		if rate, ok := least(func(rate float64) bool {
			l := asked
			l.Rate = rate
			return c.meets(l, within)
		}, false); ok {
			a.Rate = roundUp(rate)
		}
	}
	return a
}

// Text says the advice in a sentence or two.
func (a Advice) Text() string {
	text := a.text()
	if a.ByGroup && (a.Doubt != "" || a.Step != 0) {
		text += " Groups take turns (FairByGroup), and the model does not know them. It counts the starts and the waiting jobs " +
			"of all groups together. Jobs of a small group start sooner than it says, and jobs of a large group later."
	}
	if a.RatePerKey > 0 && (a.Doubt != "" || a.Step != 0) {
		text += fmt.Sprintf(" At most %v jobs of a group start in a second (RatePerKey), and the model does not know that: "+
			"no number of workers and no other rate has the jobs of a group start sooner that comes more often.", a.RatePerKey)
	}
	return text
}

func (a Advice) text() string {
	if a.Doubt != "" {
		return a.Doubt
	}
	if a.Step == 0 { // nothing ran
		return "No advice: nothing ran."
	}
	text := fmt.Sprintf("If jobs fall due evenly within each %s, 99 of 100 would have started within %s with %s",
		short(a.Step), short(a.Within), words.Count(a.Workers, "worker"))
	if a.Workers == 0 {
		text = fmt.Sprintf("At this rate, no number of workers would have had 99 of 100 start within %s", short(a.Within))
	}
	switch {
	case a.Limits.Rate == 0:
		return text + "."
	case a.Rate == 0:
		return fmt.Sprintf("%s. With %s, no rate does.", text, words.Count(a.Limits.Workers, "worker"))
	}
	return fmt.Sprintf("%s. With %s, it takes a rate of %s a second.",
		text, words.Count(a.Limits.Workers, "worker"), strconv.FormatFloat(a.Rate, 'f', -1, 64))
}

// short is a time without zeros at its end.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// roundUp rounds a rate up to three digits: less would not be enough.
func roundUp(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	text := strconv.FormatFloat(math.Ceil(rate/unit-1e-9)*unit, 'g', 3, 64)
	rounded, _ := strconv.ParseFloat(text, 64)
	return rounded
}

const (
	offMost     = 0.2 // of what was: a model that is further off gives no advice
	againMost   = 0.05
	runsLeast   = 300 // for one in a hundred to be more than chance
	stepsLeast  = 3   // with runs: the first and the last may be parts of a step
	thinnedFrom = time.Second
)

// doubt says why the model does not know what other limits would have done; empty: it does, as far as can be told.
func (c *course) doubt(had StartLimits) string {
	all := c.total()
	if all.Started() == 0 {
		return ""
	}
	busy := 0
	for i := range c.past {
		busy += int(min(1, c.past[i].Started()))
	}
	was := mean(&all.Delays)
	switch again := all.Runs[queue_job.JobStatusContinue]; {
	case all.Started() < runsLeast || busy < stepsLeast:
		return fmt.Sprintf("No advice yet: %s started, in %s of %s; it takes %d in %d.",
			words.Count(int(all.Started()), "run"), words.Count(busy, "step"), short(c.past[0].Length), runsLeast, stepsLeast)
	case c.of.At.IsZero():
		return "No advice: nobody has told yet how many jobs wait."
	case c.of.More:
		return "No advice: more jobs wait in the table than the holder has in memory, so it is not known how many."
	case was >= thinnedFrom.Seconds() && float64(again) > againMost*float64(all.Ended()):
		return fmt.Sprintf(
			"No advice: jobs were late, and %d of %d runs put their job off (continue). It is not known for how long, so neither is how many would have "+
				"come at other times.",
			again, all.Ended())
	}
	r := c.replay(had)
	says, most, mostSaid := mean(&r.Delays), all.Delays.Quantile(0.99), r.Delays.Quantile(0.99)
	const slack = 3 * time.Second // a tick or two, and a range of the histogram
	switch {
	case math.Abs(says-was) > max(1, offMost*was), mostSaid+slack > 2*(most+slack), most+slack > 2*(mostSaid+slack):
		return fmt.Sprintf(
			"No advice: with the limits as they are, the model has jobs start %s after their time on average, 99 of 100 within %s, and it was %s and %s. So "+
				"something else held them up, or not all the time: a pause, other limits, groups, or jobs that fall due in bunches.",
			words.Roughly(seconds(says)), words.Roughly(mostSaid), words.Roughly(seconds(was)), words.Roughly(most))
	case c.stoodStill(&r) != nil:
		s := c.stoodStill(&r)
		return fmt.Sprintf(
			"No advice: from %s UTC on, within %s, the model has %.0f runs start, and it was %d. So something else held them up then, as a pause does.",
			s.Begin.UTC().Format(time.DateTime), short(s.Length), s.Started, c.startedIn(s.Begin))
	case math.Abs(r.Waiting-c.waited) > max(5, offMost*c.waited, float64(all.Started())/100):
		return fmt.Sprintf("No advice: with the limits as they are, the model has %.0f jobs wait at the end, and it was about %.0f.", r.Waiting, c.waited)
	}
	return ""
}

// stoodStill returns the first step in which less than half of the runs started that should have; nil: there is none.
func (c *course) stoodStill(r *Replay) *ReplayStep {
	const few = 10 // runs
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Started >= few && float64(c.past[i].Started()) < s.Started/2 {
			return s
		}
	}
	return nil
}

func (c *course) startedIn(begin time.Time) int64 {
	i := slices.IndexFunc(c.past, func(p operate.Period) bool { return p.Begin.Equal(begin) })
	return c.past[i].Started()
}

func (c *course) total() (all operate.Period) {
	all.Runs = map[queue_job.JobStatus]int64{}
	for i := range c.past {
		p := &c.past[i]
		all.Delays.Add(&p.Delays)
		for status, n := range p.Runs {
			all.Runs[status] += n
		}
	}
	return all
}

// least finds the least number that is enough: a whole one, or one that is known within two parts of a hundred.
func least(enough func(float64) bool, whole bool) (float64, bool) {
	const fewest, most = 1.0 / 1024, 1 << 20
	below, above := 0.0, fewest
	if whole {
		above = 1
	}
	for !enough(above) {
		if below, above = above, 2*above; above > most {
			return 0, false
		}
	}
	for {
		middle := (below + above) / 2
		if whole {
			middle = math.Floor(middle)
		}
		switch {
		case middle == below || !whole && above-below <= 0.02*above:
			return above, true
		case enough(middle):
			above = middle
		default:
			below = middle
		}
	}
}

// meets reports whether 99 of 100 runs start within a time. A run that has not started at the end counts as late. The model has averages,
// and jobs come at random: if they come as fast as they may start, they wait ever longer. So it has a reserve.
func (c *course) meets(l StartLimits, within time.Duration) bool {
	if l = reserved(l, within, c.longest*cmp.Or(l.TimeFactor, 1)); l.Workers <= 0 {
		return false
	}
	r := c.sinceItsBegin().replay(l)
	started := float64(r.Delays.Count())
	return r.Delays.Quantile(0.99) <= within && r.Waiting <= (started+r.Waiting)/100
}

// sinceItsBegin is the course without the runs that were late already when it begins: limits that are enough would have let them start before.
func (c *course) sinceItsBegin() *course {
	if c.since == nil {
		since := *c
		since.due = slices.Concat(make([]float64, c.before()), c.due[c.before():])
		c.since = &since
	}
	return c.since
}

// reserved is what limits are worth to jobs that come at random and take times that vary. Of jobs that come at random to a rate, one in a
// hundred waits for longer than a time if the rate is above what comes by ln 100 / 2 in that time; a burst is as good as time. Times
// that vary make that twice as much for workers, but never more than what lets one job in a hundred wait at all: some 2.4 times the root.
func reserved(l StartLimits, within time.Duration, takes float64) StartLimits {
	const reserve = 2.303
	if l.Rate > 0 {
		l.Rate -= reserve / (within.Seconds() + float64(max(1, l.Burst)-1)/l.Rate)
		if l.Rate <= 0 {
			l.Workers = 0
			return l
		}
	}
	busy := float64(l.Workers)
	l.spare = min(2*reserve*takes/within.Seconds(), 2.4*math.Sqrt(busy))
	if busy-l.spare <= 0 {
		l.Workers = 0
	}
	return l
}

// course is when the runs of a past fell due, and how long their handlers took. Time is divided into ticks, which are shorter than
// steps, because most runs wait for less than a step.
type course struct {
	of      *Past
	past    []operate.Period
	tick    float64   // seconds
	perStep int       // ticks
	due     []float64 // runs that fell due in each tick, those before the past in the first half
	takes   []float64 // seconds that a handler takes, by step
	longest float64   // of these
	again   []float64 // parts of the runs that were followed by a retry, by step
	waits   []echo
	waited  float64 // runs that were due at the end
	since   *course // see sinceItsBegin
}

// echo is a part of the retries, and how long they wait.
type echo struct{ part, seconds float64 }

const ticksMost = 10_000 // of a past

// before is how many ticks lie before the past: as many as in it. What was due still earlier counts in the first.
func (c *course) before() int { return len(c.due) / 2 }

func courseOf(of *Past) *course {
	past := of.Periods
	c := &course{of: of, past: past}
	if len(past) == 0 {
		return c
	}
	step := past[0].Length.Seconds()
	c.perStep = max(1, min(ticksMost/len(past), int(step)))
	c.tick = step / float64(c.perStep)
	c.due, c.takes, c.again = make([]float64, 2*c.perStep*len(past)), make([]float64, len(past)), make([]float64, len(past))
	for i := range past {
		for in, runs := range past[i].Delays {
			c.fellDue(i, in, float64(runs))
		}
	}
	c.measureHandlers()
	c.measureRetries()
	c.addWaiting()
	c.takeOutRetries()
	return c
}

// addWaiting adds the runs that had not started at the end, and those that started between the end and the moment at which they were
// counted, as fast as in the last step: they fell due in the order in which they start.
func (c *course) addWaiting() {
	last := &c.past[len(c.past)-1]
	end := last.Begin.Add(last.Length)
	if c.of.At.IsZero() || c.of.Waiting == 0 {
		return
	}
	gap := max(0, c.of.At.Sub(end).Seconds())
	oldest := (gap - c.of.Oldest.Seconds()) / c.tick // in ticks, seen from the end
	all := c.total()
	before := all.Started()
	gone := float64(last.Started()) / last.Length.Seconds() * gap
	at := float64(len(c.due))
	c.spread(at-c.of.Oldest.Seconds()/c.tick, at+oldest, gone)
	c.spread(at+oldest, at+max(gap/c.tick, oldest+1), float64(c.of.Waiting))
	for _, runs := range c.due {
		c.waited += runs
	}
	c.waited = max(0, c.waited-float64(before))
}

// measureRetries finds how many of the runs of each step were followed by a retry, and after how long: of a hundred jobs that fail, as many
// fail again.
func (c *course) measureRetries() {
	all := c.total()
	usual := 0.0
	if ended := all.Ended(); ended > 0 {
		usual = float64(all.Runs[queue_job.JobStatusRetry]) / float64(ended)
	}
	for i := range c.past {
		if c.again[i] = usual; c.past[i].Ended() > 0 {
			c.again[i] = float64(c.past[i].Runs[queue_job.JobStatusRetry]) / float64(c.past[i].Ended())
		}
	}
	waits := c.of.RetryWaits
	if len(waits) == 0 {
		waits = []queue_job.Wait{{}}
	}
	part, left := 1-usual, 1.0
	for i, w := range waits {
		of := part
		if i == len(waits)-1 {
			of = left
		}
		const parts, least = 2, 0.005 // of the time between the least and the most; of the retries
		if of < least {
			break
		}
		for in := range parts {
			wait := w.Least.Seconds() + (w.Most-w.Least).Seconds()*(float64(in)+0.5)/parts
			c.waits = append(c.waits, echo{of / parts, wait})
		}
		left -= of
		part *= usual
	}
}

// takeOutRetries leaves what fell due without being a retry of a run of this past. The replay adds the retries of the runs that it starts.
func (c *course) takeOutRetries() {
	retries := make([]float64, len(c.due))
	for i := range c.past {
		each := float64(c.past[i].Started()) / float64(c.perStep)
		for t := i * c.perStep; t < (i+1)*c.perStep; t++ {
			c.echo(retries, i, c.before()+t, each, c.takes[i])
		}
	}
	short := 0.0 // of retries that seem to have fallen due before they could
	for t := c.before(); t < len(c.due); t++ {
		c.due[t] -= retries[t] + short
		short = max(0, -c.due[t])
		c.due[t] = max(0, c.due[t])
	}
}

// echo adds the retries of runs that start in a tick to the ticks in which they fall due.
func (c *course) echo(to []float64, step, tick int, runs, takes float64) {
	if runs == 0 || c.again[step] == 0 {
		return
	}
	for _, e := range c.waits {
		if at := tick + max(1, int(math.Round((takes+e.seconds)/c.tick))); at < len(to) {
			to[at] += runs * c.again[step] * e.part
		}
	}
}

// measureHandlers finds how long handlers take in each step. A run is counted in the step in which it ends. If handlers take longer than
// a step, the short runs end first when many start. So the steps nearby count, too.
func (c *course) measureHandlers() {
	durations := func(from, to int) (h operate.Histogram) {
		for i := max(0, from); i < min(to, len(c.past)); i++ {
			h.Add(&c.past[i].Durations)
		}
		return h
	}
	all := durations(0, len(c.past))
	usual := mean(&all)
	nearby := int(math.Ceil(8 * usual / c.past[0].Length.Seconds()))
	for i := range c.past {
		c.takes[i] = usual
		if near := durations(i-nearby, i+nearby+1); near.Count() > 0 {
			c.takes[i] = mean(&near)
		}
		c.longest = max(c.longest, c.takes[i])
	}
}

// fellDue notes runs that started in a step with delays of one range.
func (c *course) fellDue(step, in int, runs float64) {
	const parts = 4 // of the range
	least, most := bounds(in)
	for part := range parts {
		delay := least + (most-least)*(float64(part)+0.5)/parts
		from := float64(c.before()+step*c.perStep) - delay/c.tick
		c.spread(from, from+float64(c.perStep), runs/parts)
	}
}

// spread has runs fall due evenly between two moments, in ticks.
func (c *course) spread(from, to, runs float64) {
	if runs == 0 {
		return
	}
	each := runs / (to - from)
	if from < 0 {
		c.due[0] += each * (min(to, 0) - from)
		from = 0
	}
	for t := int(from); float64(t) < to && t < len(c.due); t++ {
		c.due[t] += each * (min(to, float64(t+1)) - max(from, float64(t)))
	}
}

// bounds are where a range of a histogram begins and ends, in seconds. The last one is taken for a moment.
func bounds(in int) (least, most float64) {
	if in > 0 {
		least = record.RangeEnd(in - 1).Seconds()
	}
	if in == len(operate.Histogram{})-1 {
		return least, least
	}
	return least, record.RangeEnd(in).Seconds()
}

// mean is the average duration, in seconds. Where in a range its durations lie follows from how many there are in its neighbours: they
// get fewer, or more, by a power of the duration.
func mean(h *operate.Histogram) float64 {
	n, sum := 0.0, 0.0
	for in, runs := range h {
		n, sum = n+float64(runs), sum+float64(runs)*averageIn(h, in)
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// averageIn is the average of the durations in a range.
func averageIn(h *operate.Histogram, in int) float64 {
	least, most := bounds(in)
	if in == 0 || most == least {
		return (least + most) / 2
	}
	power := -1.0 // as many in each part of the logarithm
	if in > 1 && in < len(h)-2 && h[in-1]+h[in+1] > 0 {
		density := func(in int) float64 { return math.Log(max(float64(h[in]), 0.01)) - float64(in)*math.Ln2 } // of the range's length
		power = min(max((density(in+1)-density(in-1))/(2*math.Ln2), -6), 6)
	}
	return least * doubled(power+2) / doubled(power+1)
}

// doubled is the integral of a power less one from 1 to 2.
func doubled(power float64) float64 {
	if math.Abs(power) < 1e-9 {
		return math.Ln2
	}
	return (math.Exp2(power) - 1) / power
}

// replay goes through the ticks. In each, as many of the runs that are due start as there are workers and tokens for.
func (c *course) replay(l StartLimits) Replay {
	r := Replay{Limits: l, Steps: make([]ReplayStep, len(c.past))}
	if len(c.past) == 0 {
		return r
	}
	p := pool{workers: max(0, float64(l.Workers)-l.spare)}
	b := bucket{rate: l.Rate, burst: float64(max(1, l.Burst))}
	b.tokens = b.burst
	first, retried := newLane(c, c.due), newLane(c, make([]float64, len(c.due)))
	factor := l.TimeFactor
	if factor == 0 {
		factor = 1
	}
	var all delays
	for i := range c.past {
		var in delays
		s := &r.Steps[i]
		s.Begin, s.Length = c.past[i].Begin, c.past[i].Length
		for t := i * c.perStep; t < (i+1)*c.perStep; t++ {
			due := c.due[c.before()+t]
			again := retried.due[c.before()+t]
			s.Due += due + again
			first.waiting += due
			retried.waiting += again
			takes := c.takes[i] * factor
			starts := min(first.waiting+retried.waiting, p.most(c.tick, takes), b.most(c.tick))
			b.take(c.tick, starts)
			s.Busy += p.start(c.tick, takes, starts) / float64(c.perStep)
			ofRetried := min(retried.waiting, max(starts/2, starts-first.waiting)) // they go by turns
			retried.start(t, ofRetried, &in)
			first.start(t, starts-ofRetried, &in)
			c.echo(retried.due, i, c.before()+t, starts, takes)
			s.Started += starts
		}
		s.Waiting, s.Delays = first.waiting+retried.waiting, in.histogram()
		r.Busy += s.Busy / float64(len(c.past))
		for i, runs := range in {
			all[i] += runs
		}
	}
	r.Delays, r.Waiting = all.histogram(), first.waiting+retried.waiting
	if r.Waiting > 0.5 {
		r.Oldest = seconds(max(first.oldest(), retried.oldest()))
	}
	return r
}

// pool is the workers.
type pool struct{ workers, busy float64 }

// most is how many runs can start in a tick if a handler takes this long. An idle worker starts a run at once, and every worker starts
// another as soon as its handler returns.
func (p *pool) most(tick, takes float64) float64 {
	if takes == 0 && p.workers > 0 {
		return math.Inf(1)
	}
	if p.workers == 0 {
		return 0
	}
	return p.workers - p.busy + p.workers*tick/takes
}

// start starts runs evenly over a tick, and returns how many workers are busy on average. The number of busy workers approaches what
// these starts keep busy, and the faster, the shorter handlers take.
func (p *pool) start(tick, takes, runs float64) (busy float64) {
	if takes == 0 || p.workers == 0 {
		p.busy = 0
		return 0
	}
	if runs >= p.most(tick, takes) {
		p.busy = p.workers
		return p.workers
	}
	kept := runs / tick * takes
	stays := math.Exp(-tick / takes)
	busy = kept + (p.busy-kept)*(1-stays)*takes/tick
	p.busy = min(p.workers, kept+(p.busy-kept)*stays)
	return min(p.workers, busy)
}

// bucket is the tokens that a rate gives.
type bucket struct{ rate, burst, tokens float64 }

func (b *bucket) most(tick float64) float64 {
	if b.rate == 0 {
		return math.Inf(1)
	}
	return b.tokens + b.rate*tick
}

func (b *bucket) take(tick, starts float64) { b.tokens = min(b.burst, b.tokens+b.rate*tick-starts) }

// lane is the runs that are due and have not started, in their order. What is left of one tick is at its head.
type lane struct {
	*course
	due     []float64
	head    int
	left    float64
	waiting float64
}

func newLane(c *course, due []float64) *lane {
	q := &lane{course: c, due: due, left: due[0]}
	for _, runs := range due[:c.before()] {
		q.waiting += runs
	}
	return q
}

// start takes runs from the head, evenly over a tick, and notes how long they have been due.
func (q *lane) start(tick int, runs float64, to *delays) {
	const none = 1e-9
	q.waiting = max(0, q.waiting-runs)
	last := q.before() + tick
	for taken := 0.0; runs-taken > none; {
		if q.left <= none {
			if q.head == last {
				return // rounded
			}
			q.head++
			q.left = q.due[q.head]
			continue
		}
		some := min(q.left, runs-taken)
		at := float64(tick) + (taken+some/2)/runs
		to.add((at-q.dueAt(q.left-some/2))*q.tick, some)
		q.left -= some
		taken += some
	}
}

// dueAt is when the run fell due behind which that many of its tick are left, in ticks.
func (q *lane) dueAt(left float64) float64 {
	return float64(q.head-q.before()) + 1 - left/q.due[q.head]
}

// oldest is for how long the first run that waits has been due at the end, in seconds.
func (q *lane) oldest() float64 {
	for q.left <= 0 && q.head < len(q.due)-1 {
		q.head++
		q.left = q.due[q.head]
	}
	if q.left <= 0 {
		return 0
	}
	return (float64(q.before()) - q.dueAt(q.left)) * q.tick
}

// delays is a histogram of parts of runs.
type delays [len(operate.Histogram{})]float64

func (d *delays) add(delay, runs float64) {
	in := 0
	for seconds(delay) >= record.RangeEnd(in) {
		in++
	}
	d[in] += runs
}

func (d *delays) histogram() (h operate.Histogram) {
	for i, runs := range d {
		h[i] = int64(math.Round(runs))
	}
	return h
}

func seconds(s float64) time.Duration { return time.Duration(max(0, s) * float64(time.Second)) }
