package operate

import (
	"math"
	"time"

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
	Delays queue_job.Histogram
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
	Delays       queue_job.Histogram
}

// WhatIf replays what a job type did, as [History] returned it, under limits. When its runs fell due follows from when they started and
// how long they had been due by then, within a factor of two. Runs that were due in that time, but have not started, are not known.
//
// It is a model. It starts runs in the order in which they fell due and knows neither priorities nor groups; handlers take what they
// took on average in that step; within a step, runs fall due evenly. Retries fall due when they did. The milliseconds that statements
// take are left out.
func WhatIf(past []Period, l StartLimits) Replay { return courseOf(past).replay(l) }

// LeastWorkers returns the least number of workers with which 99 of 100 runs start within a time after they fall due. The other limits
// stay as they are. False: with these, no number of workers does it.
func LeastWorkers(past []Period, l StartLimits, within time.Duration) (int, bool) {
	c := courseOf(past)
	n, ok := least(func(n float64) bool {
		l.Workers = int(n)
		return c.meets(l, within)
	}, true)
	return int(n), ok
}

// LeastRate is [LeastWorkers] for the rate. It is known within two parts of a hundred.
func LeastRate(past []Period, l StartLimits, within time.Duration) (float64, bool) {
	c := courseOf(past)
	return least(func(rate float64) bool {
		l.Rate = rate
		return c.meets(l, within)
	}, false)
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

// meets reports whether 99 of 100 runs start within a time. A run that has not started at the end counts as late.
func (c *course) meets(l StartLimits, within time.Duration) bool {
	r := c.replay(l)
	started := float64(r.Delays.Count())
	return r.Delays.Quantile(0.99) <= within && r.Waiting <= (started+r.Waiting)/100
}

// course is when the runs of a past fell due, and how long their handlers took. Time is divided into ticks, which are shorter than
// steps, because most runs wait for less than a step.
type course struct {
	past    []Period
	tick    float64   // seconds
	perStep int       // ticks
	due     []float64 // runs that fell due in each tick, those before the past in the first half
	takes   []float64 // seconds that a handler takes, by step
}

const ticksMost = 10_000 // of a past

// before is how many ticks lie before the past: as many as in it. What was due still earlier counts in the first.
func (c *course) before() int { return len(c.due) / 2 }

func courseOf(past []Period) *course {
	c := &course{past: past}
	if len(past) == 0 {
		return c
	}
	step := past[0].Length.Seconds()
	c.perStep = max(1, min(ticksMost/len(past), int(step)))
	c.tick = step / float64(c.perStep)
	c.due, c.takes = make([]float64, 2*c.perStep*len(past)), make([]float64, len(past))
	for i := range past {
		for in, runs := range past[i].Delays {
			c.fellDue(i, in, float64(runs))
		}
	}
	c.measureHandlers()
	return c
}

// measureHandlers finds how long handlers take in each step. A run is counted in the step in which it ends. If handlers take longer than
// a step, the short runs end first when many start. So the steps nearby count, too.
func (c *course) measureHandlers() {
	durations := func(from, to int) (h queue_job.Histogram) {
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
		least = queue_job.RangeEnd(in - 1).Seconds()
	}
	if in == len(queue_job.Histogram{})-1 {
		return least, least
	}
	return least, queue_job.RangeEnd(in).Seconds()
}

// mean is the average duration, in seconds. Where in a range its durations lie follows from how many there are in its neighbours: they
// get fewer, or more, by a power of the duration.
func mean(h *queue_job.Histogram) float64 {
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
func averageIn(h *queue_job.Histogram, in int) float64 {
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
	p := pool{workers: float64(max(0, l.Workers))}
	b := bucket{rate: l.Rate, burst: float64(max(1, l.Burst))}
	b.tokens = b.burst
	q := line{course: c, left: c.due[0]}
	for _, runs := range c.due[:c.before()] {
		q.waiting += runs
	}
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
			s.Due += due
			q.waiting += due
			takes := c.takes[i] * factor
			starts := min(q.waiting, p.most(c.tick, takes), b.most(c.tick))
			b.take(c.tick, starts)
			s.Busy += p.start(c.tick, takes, starts) / float64(c.perStep)
			q.start(t, starts, &in)
			s.Started += starts
		}
		s.Waiting, s.Delays = q.waiting, in.histogram()
		r.Busy += s.Busy / float64(len(c.past))
		for i, runs := range in {
			all[i] += runs
		}
	}
	r.Delays, r.Waiting = all.histogram(), q.waiting
	if q.waiting > 0.5 {
		r.Oldest = seconds(q.oldest())
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

// line is the runs that are due and have not started, in their order. What is left of one tick is at its head.
type line struct {
	*course
	head    int
	left    float64
	waiting float64
}

// start takes runs from the head, evenly over a tick, and notes how long they have been due.
func (q *line) start(tick int, runs float64, to *delays) {
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
func (q *line) dueAt(left float64) float64 {
	return float64(q.head-q.before()) + 1 - left/q.due[q.head]
}

// oldest is for how long the first run that waits has been due at the end, in seconds.
func (q *line) oldest() float64 {
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
type delays [len(queue_job.Histogram{})]float64

func (d *delays) add(delay, runs float64) {
	in := 0
	for seconds(delay) >= queue_job.RangeEnd(in) {
		in++
	}
	d[in] += runs
}

func (d *delays) histogram() (h queue_job.Histogram) {
	for i, runs := range d {
		h[i] = int64(math.Round(runs))
	}
	return h
}

func seconds(s float64) time.Duration { return time.Duration(max(0, s) * float64(time.Second)) }
