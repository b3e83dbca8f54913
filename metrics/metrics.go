package metrics

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "persistent_queue_"

var ofType = []string{"job_type", "type_name", "tables"}

// Metrics is a [prometheus.Collector] of what Runners do.
type Metrics struct {
	delay, took *prometheus.HistogramVec
	runs        *prometheus.CounterVec
	gauges      gauges[*prometheus.GaugeVec]

	mu      sync.Mutex
	runners []*persistent_queue.Runner
	ofTypes map[namedType]*gauges[prometheus.Gauge]
	gone    map[namedType]time.Time // since when a type of ofTypes is no longer there
}

// forgetAfter is how long the series of a type that is dormant, or was taken away, stay: so long that what it counted last was read.
const forgetAfter = 5 * time.Minute

// gauges are what is read of a type when it is asked for. They stay: to make them anew with their labels would be a quarter of what
// a scrape costs.
type gauges[Gauge any] struct {
	shards, leasesHeld, busy                        Gauge
	paused, limit, waiting, parked, marked, overdue Gauge // only where a lease of the type is held
	putOff, putOffFor                               Gauge // likewise
}

type namedType struct {
	jobType      int32
	name, tables string
}

// New returns metrics without a Runner: [Metrics.Option] gives them to it.
func New() *Metrics {
	return &Metrics{
		gauges: newGauges(), ofTypes: map[namedType]*gauges[prometheus.Gauge]{}, gone: map[namedType]time.Time{},
		delay: prometheus.NewHistogramVec(histogram("start_delay_seconds",
			"The time from when a job fell due until its handler was called. If the job was due when it was added, the table knows only the second, so up "+
				"to a second may be missing.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400), ofType),
		took: prometheus.NewHistogramVec(histogram("run_duration_seconds", "How long handlers ran.",
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600), ofType),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "runs_total",
			Help: "Finished runs, by outcome: success, failed, cancelled, retry (after an error) or continue (as the handler asked). If the outcome is " +
				"dropped, nothing was written: the job was cancelled during the run, or another process has it."},
			append(slices.Clone(ofType), "outcome")),
	}
}

// histogram is one with classic buckets, and with native ones for a Prometheus that asks for these.
func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: prefix + name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Option lets a Runner tell its metrics: pass it to [persistent_queue.New] or [persistent_queue.Init]. The label tables has
// [persistent_queue.TypeState.Tables]. Several Runners may have the same Metrics. What they say of a job type of the same number, name and
// tables is added up, even if the databases differ: give each a Metrics of its own, with a label of its own
// (prometheus.WrapRegistererWith), if it has to be told apart.
func (m *Metrics) Option() persistent_queue.Option {
	return func(r *persistent_queue.Runner) {
		persistent_queue.WithObserver(m.observer())(r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.runners = append(m.runners, r)
	}
}

func (m *Metrics) observer() queue_job.Observer {
	return queue_job.Observer{Started: m.started, Finished: m.finished}
}

func (m *Metrics) started(_ context.Context, job *queue_job.Job, waited time.Duration) {
	m.delay.WithLabelValues(number(job.JobType), job.TypeName, job.Tables).Observe(waited.Seconds())
}

func (m *Metrics) finished(_ context.Context, job *queue_job.Job, f queue_job.Finished) {
	outcome := f.Status.String()
	if f.Dropped {
		outcome = "dropped"
	}
	jobType := number(job.JobType)
	m.took.WithLabelValues(jobType, job.TypeName, job.Tables).Observe(f.Took.Seconds())
	m.runs.WithLabelValues(jobType, job.TypeName, job.Tables, outcome).Inc()
}

func number(jobType int32) string { return strconv.Itoa(int(jobType)) }

var (
	healthy = prometheus.NewDesc(prefix+"healthy",
		"1 if all Runners of this process can run their jobs (Runner.Health is nil), else 0. A process without a Runner does not tell it.", nil, nil)
	leaseChanges = prometheus.NewDesc(prefix+"lease_changes_total",
		"How many leases of the type this process has taken (how: taken) and no longer has (how: ended).", append(slices.Clone(ofType), "how"), nil)
)

var (
	instances = prometheus.NewDesc(prefix+"instances",
		"Instances on the database that say each second that they are alive, as this process has seen them last, by state: heard in time; silent, so "+
			"others are about to bury them; buried, as long as their leases last. Each process tells the same: take max, not sum.",
		[]string{"tables", "state"}, nil)
	burials = prometheus.NewDesc(prefix+"burials_total",
		"How many instances this process has buried: it had not heard of them, and their leases went to others. Sum it over all processes.",
		[]string{"tables"}, nil)
	buriedAlive = prometheus.NewDesc(prefix+"buried_alive_total",
		"How often others have buried this process, which was alive: it was frozen, or could not write to shedlock_tab each second.",
		[]string{"tables"}, nil)
	beatAge = prometheus.NewDesc(prefix+"beat_age_seconds",
		"How long ago the database confirmed last that this process is alive. Only while it has to say so. While it is more than 2.25, or "+
			"longer if answers take long, no jobs start.",
		[]string{"tables"}, nil)
)

// collectLives tells what Runners know of the instances. Runners on the same tables are told together, see [Metrics.Option].
func collectLives(to chan<- prometheus.Metric, runners []*persistent_queue.Runner) {
	all := map[string]persistent_queue.LifeState{}
	for _, r := range runners {
		for _, s := range r.Lives() {
			sum := all[s.Tables]
			sum.Heard, sum.Silent, sum.Buried = sum.Heard+s.Heard, sum.Silent+s.Silent, sum.Buried+s.Buried
			sum.Burials, sum.Died = sum.Burials+s.Burials, sum.Died+s.Died
			sum.Lives, sum.SinceBeat = sum.Lives || s.Lives, max(sum.SinceBeat, s.SinceBeat)
			all[s.Tables] = sum
		}
	}
	for tables, s := range all {
		tell := func(of *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(of, kind, value, append([]string{tables}, labels...)...)
		}
		tell(instances, prometheus.GaugeValue, float64(s.Heard), "heard")
		tell(instances, prometheus.GaugeValue, float64(s.Silent), "silent")
		tell(instances, prometheus.GaugeValue, float64(s.Buried), "buried")
		tell(burials, prometheus.CounterValue, float64(s.Burials))
		tell(buriedAlive, prometheus.CounterValue, float64(s.Died))
		if s.Lives {
			tell(beatAge, prometheus.GaugeValue, s.SinceBeat.Seconds())
		}
	}
}

func newGauges() (g gauges[*prometheus.GaugeVec]) {
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, slices.Concat(ofType, more))
	}
	g.shards = gauge("shards", "Into how many shards the type is divided, as far as this process knows.")
	g.leasesHeld = gauge("leases_held", "How many leases of the type this process holds: of its shards, or of the type as a whole.")
	g.paused = gauge("paused", "1 if the type is paused, else 0. Only where a lease of the type is held.")
	g.busy = gauge("workers_busy", "Workers that run a handler.")
	g.limit = gauge("workers_limit", "Workers that there may be for what this process holds.")
	memory := gauge("memory_jobs",
		"Jobs in memory that have not started, by state: waiting for a worker or for their time; parked until another job of their key has ended; "+
			"marked, about to start.",
		"state")
	g.waiting, g.parked, g.marked = memory, memory, memory
	g.overdue = gauge("overdue_seconds", "How long the longest-waiting job in memory has been due; 0 if none is due.")
	g.putOff = gauge("put_off_jobs", "Jobs whose last run ended with Defer: their handler has put them off before it had begun.")
	g.putOffFor = gauge("put_off_seconds",
		"How long the longest-waiting of these jobs has been due of which the handler says what it waits for, such as a destination that is broken; 0 if "+
			"there is none. Each time it is put off, overdue_seconds counts anew.")
	return g
}

// gaugesOf returns the gauges of a type.
func (m *Metrics) gaugesOf(t namedType) *gauges[prometheus.Gauge] {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.ofTypes[t]
	if g == nil {
		with := func(v *prometheus.GaugeVec, more ...string) prometheus.Gauge {
			return v.WithLabelValues(append([]string{number(t.jobType), t.name, t.tables}, more...)...)
		}
		all := &m.gauges
		g = &gauges[prometheus.Gauge]{
			shards: with(all.shards), leasesHeld: with(all.leasesHeld), busy: with(all.busy), paused: with(all.paused), limit: with(all.limit),
			waiting: with(all.waiting, "waiting"), parked: with(all.parked, "parked"),
			marked: with(all.marked, "marked"), overdue: with(all.overdue), putOff: with(all.putOff), putOffFor: with(all.putOffFor),
		}
		m.ofTypes[t] = g
	}
	return g
}

// Describe is part of [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.delay, m.took, m.runs} {
		c.Describe(to)
	}
	to <- healthy
	m.gauges.shards.Describe(to)
	m.gauges.leasesHeld.Describe(to)
	to <- leaseChanges
	for _, of := range []*prometheus.Desc{instances, burials, buriedAlive, beatAge} {
		to <- of
	}
	for _, g := range []*prometheus.GaugeVec{m.gauges.paused,
		m.gauges.busy, m.gauges.limit, m.gauges.waiting, m.gauges.overdue, m.gauges.putOff, m.gauges.putOffFor} {
		g.Describe(to)
	}
}

// Collect is part of [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.delay, m.took, m.runs} {
		c.Collect(to)
	}
	m.mu.Lock()
	runners := slices.Clone(m.runners)
	m.mu.Unlock()
	well, running, there := true, len(runners) > 0, map[namedType]bool{}
	var all []persistent_queue.TypeState
	for _, r := range runners {
		well = well && r.Health() == nil
		states := r.Types()
		running = running && states != nil
		all = append(all, states...)
	}
	for of, state := range added(all) {
		there[of] = true
		collectType(to, m.gaugesOf(of), state)
		for how, n := range map[string]uint64{"taken": state.LeasesTaken, "ended": state.LeasesEnded} {
			to <- prometheus.MustNewConstMetric(leaseChanges, prometheus.CounterValue, float64(n), number(of.jobType), of.name, of.tables, how)
		}
	}
	collectLives(to, runners)
	if len(runners) > 0 { // who runs nothing is not well either: without the series, an alert hears that nobody runs jobs
		to <- prometheus.MustNewConstMetric(healthy, prometheus.GaugeValue, one(well))
	}
	if running {
		m.forget(there, time.Now())
	}
}

// forget removes the series of types that have not been there for a while. Without that, an application with thousands of types that are
// dormant most of the time would have the series of each that ever ran. A type that comes back counts from zero.
func (m *Metrics) forget(there map[namedType]bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.ofTypes {
		since, gone := m.gone[t]
		switch {
		case there[t]:
			delete(m.gone, t)
			continue
		case !gone:
			m.gone[t] = now
			continue
		case now.Sub(since) < forgetAfter:
			continue
		}
		delete(m.gone, t)
		delete(m.ofTypes, t)
		labels := []string{number(t.jobType), t.name, t.tables}
		m.delay.DeleteLabelValues(labels...)
		m.took.DeleteLabelValues(labels...)
		for _, outcome := range outcomes {
			m.runs.DeleteLabelValues(append(labels, outcome)...)
		}
		all := &m.gauges
		for _, v := range []*prometheus.GaugeVec{all.shards, all.leasesHeld, all.busy, all.paused, all.limit, all.overdue, all.putOff, all.putOffFor} {
			v.DeleteLabelValues(labels...)
		}
		for _, state := range []string{"waiting", "parked", "marked"} {
			all.waiting.DeleteLabelValues(append(labels, state)...)
		}
	}
}

// outcomes are what runs may end with.
var outcomes = []string{"success", "failed", "cancelled", "retry", "continue", "dropped"}

// added adds up what has the same labels, of several Runners: a registry refuses them twice, and then a page is an error as a whole.
func added(states []persistent_queue.TypeState) map[namedType]*persistent_queue.TypeState {
	sums := make(map[namedType]*persistent_queue.TypeState, len(states))
	for i := range states {
		state := &states[i]
		of := namedType{state.JobType, state.TypeName, state.Tables}
		sum := sums[of]
		if sum == nil {
			sums[of] = state
			continue
		}
		sum.Shards, sum.Held, sum.Paused = max(sum.Shards, state.Shards), sum.Held+state.Held, sum.Paused || state.Paused
		sum.Running, sum.Capacity, sum.Marked = sum.Running+state.Running, sum.Capacity+state.Capacity, sum.Marked+state.Marked
		sum.Waiting, sum.Parked, sum.Overdue = sum.Waiting+state.Waiting, sum.Parked+state.Parked, max(sum.Overdue, state.Overdue)
		sum.PutOff, sum.PutOffFor = sum.PutOff+state.PutOff, max(sum.PutOffFor, state.PutOffFor)
		sum.LeasesTaken, sum.LeasesEnded = sum.LeasesTaken+state.LeasesTaken, sum.LeasesEnded+state.LeasesEnded
	}
	return sums
}

// collectType sets the gauges of a type, and hands them over.
func collectType(to chan<- prometheus.Metric, of *gauges[prometheus.Gauge], t *persistent_queue.TypeState) {
	tell := func(g prometheus.Gauge, value float64) {
		g.Set(value)
		to <- g
	}
	tell(of.shards, float64(t.Shards))
	tell(of.leasesHeld, float64(t.Held))
	tell(of.busy, float64(t.Running)) // even without a lease: what runs, runs on
	if t.Held == 0 {
		return
	}
	tell(of.paused, one(t.Paused))
	tell(of.limit, float64(t.Capacity))
	tell(of.waiting, float64(t.Waiting-t.Parked))
	tell(of.parked, float64(t.Parked))
	tell(of.marked, float64(t.Marked))
	tell(of.overdue, t.Overdue.Seconds())
	tell(of.putOff, float64(t.PutOff))
	tell(of.putOffFor, t.PutOffFor.Seconds())
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
