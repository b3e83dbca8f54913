package cli

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) typeWhatIf() *cobra.Command {
	var last, within string
	var workers, burst int
	var rate, timeFactor float64
	cmd := &cobra.Command{
		Use:   "what-if <type>",
		Short: "Say when a job type's jobs would have started with other limits",
		Long: `Say when a job type's jobs would have started with other limits: a model replays the last hours. Compare its second line, with the limits as
they are, with the first, which says what happened: so far the model is off. The third line has the limits that the flags change. Then it
says what would have been enough for 99 of 100 jobs to start within a time.

It reads what type history shows, and not the jobs. The model starts jobs in the order in which they fall due and knows neither priorities
nor groups, with their MaxPerKey and RatePerKey. When they fell due is known within a factor of two of how late they were. Jobs that
still wait are not known.`,
		Example: "  pqueue type what-if 7 --workers 40\n  pqueue type what-if billing --rate 25 --last 7d --within 1m",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			span, _, err := historySpan(last, "")
			if err != nil {
				return err
			}
			soon, err := words.ParseSpan(within)
			given := cmd.Flags().Changed
			switch {
			case err != nil || soon <= 0:
				return exitf(exitUsage, "--within %s: say how soon jobs are to start, as in 10s or 5m", within)
			case workers < 0 || burst < 0 || rate < 0 || given("time-factor") && timeFactor <= 0:
				return exitf(exitUsage, "limits must not be negative, and --time-factor must be above 0")
			}
			change := func(known *queue_job.Type, l faces.StartLimits) faces.StartLimits {
				if given("workers") {
					l.Workers = workers
				}
				if given("rate") {
					l.Rate, l.Burst = rate, faces.BurstAt(known, rate)
				}
				if given("burst") {
					l.Burst = burst
				}
				if given("time-factor") {
					l.TimeFactor = timeFactor
				}
				return l
			}
			return a.with(cmd.Context(), func(db *database) error { return a.whatIf(cmd.Context(), db, args[0], change, span, soon) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&workers, "workers", 0, "how many handlers may run at a time on all instances (default: as it is)")
	flags.Float64Var(&rate, "rate", 0, "how many jobs may start in a second; 0: any number (default: as it is)")
	flags.IntVar(&burst, "burst", 0, "how many may start at once after a rest (default: as it is)")
	flags.Float64Var(&timeFactor, "time-factor", 1, "how many times as long handlers take")
	flags.StringVar(&last, "last", "24h", "how long ago the replay begins, as in 90m or 7d")
	flags.StringVar(&within, "within", "10s", "how soon 99 of 100 jobs are to start")
	return cmd
}

// replayStep is how long the steps of a replay are. Of more than two days ago, whole hours are known only.
func replayStep(span time.Duration) time.Duration {
	if span > 2*day {
		return time.Hour
	}
	return max(time.Minute, min(roundStep(span/12), 10*time.Minute))
}

// replayed is a line of the answer.
type replayed struct {
	what    string
	limits  faces.StartLimits
	delays  operate.Histogram
	waiting float64
	busy    float64
	real    bool // it is what happened
	more    bool // wait
	untold  bool // nobody has told what waits
}

func (a *app) whatIf(
	ctx context.Context, db *database, name string, change func(*queue_job.Type, faces.StartLimits) faces.StartLimits, span, within time.Duration,
) error {
	known, now, err := a.knownType(ctx, db, name)
	if err != nil {
		return err
	}
	var periods []operate.Period
	err = a.within(ctx, func(ctx context.Context) (err error) {
		step := replayStep(span)
		before := now.Truncate(step)
		periods, err = operate.History(ctx, db.jobs, db, known.JobType, before.Add(-span), before, step)
		return err
	})
	if err != nil {
		return err
	}
	past, limits := faces.PastOf(known, periods), faces.LimitsOf(&known.Known)
	was := replayed{what: "as it was", limits: limits, real: true, waiting: float64(past.Waiting), more: past.More, untold: past.At.IsZero()}
	for i := range periods {
		was.delays.Add(&periods[i].Delays)
	}
	lines := []replayed{was, replay("model, as it is", past, limits)}
	asked := change(&known.Known, limits)
	if asked != limits {
		lines = append(lines, replay("model, changed", past, asked))
	}
	if _, err = list(a, all(lines), "replays", replayColumns(), replayJSON); err != nil {
		return err
	}
	if was.delays.Count() == 0 {
		a.sayf("no job of the type started in this time")
		return nil
	}
	a.sayf("%s", faces.Advise(past, limits, asked, within).Text())
	return nil
}

// knownType is a job type that an instance has told how it runs, and when that was looked up, by the database's clock.
func (a *app) knownType(ctx context.Context, db *database, name string) (t *operate.Type, now time.Time, err error) {
	number, err := a.typeOf(ctx, db, name)
	if err != nil {
		return nil, now, err
	}
	var fleet *queue_job.Fleet
	err = a.within(ctx, func(ctx context.Context) (err error) {
		fleet, err = db.jobs.Fleet(ctx, db)
		return err
	})
	if err != nil {
		return nil, now, err
	}
	types := operate.HealthOf(fleet, nil).Types
	i := slices.IndexFunc(types, func(t *operate.Type) bool { return t.JobType == number && !t.Known.Told.IsZero() })
	if i < 0 {
		return nil, now, exitf(exitNothing, "no instance has told how it runs job type %d", number)
	}
	return types[i], fleet.Now, nil
}

func replay(what string, past *faces.Past, l faces.StartLimits) replayed {
	r := faces.WhatIf(past, l)
	return replayed{what: what, limits: l, delays: r.Delays, waiting: r.Waiting, busy: r.Busy}
}

func replayColumns() []column[replayed] {
	ofModel := func(show func(replayed) string) func(replayed) string {
		return func(r replayed) string {
			if r.real {
				return ""
			}
			return show(r)
		}
	}
	delays := func(r *replayed) *operate.Histogram { return &r.delays }
	return []column[replayed]{
		{"what", func(r replayed) string { return r.what }},
		{"workers", func(r replayed) string { return strconv.Itoa(r.limits.Workers) }},
		{"rate", func(r replayed) string {
			if r.limits.Rate == 0 {
				return "any"
			}
			return strconv.FormatFloat(r.limits.Rate, 'g', -1, 64) + "/s"
		}},
		{"started", func(r replayed) string { return strconv.FormatInt(r.delays.Count(), 10) }},
		quantileColumn("delay p50", delays, 0.5), quantileColumn("delay p99", delays, 0.99),
		{"waiting at the end", func(r replayed) string {
			switch n := strconv.FormatFloat(math.Round(r.waiting), 'f', 0, 64); {
			case r.untold:
				return ""
			case r.more:
				return n + "+"
			default:
				return n
			}
		}},
		{"busy workers", ofModel(func(r replayed) string { return strconv.FormatFloat(r.busy, 'f', 1, 64) })},
	}
}

func replayJSON(r replayed) any {
	j := map[string]any{
		"what": r.what, "workers": r.limits.Workers, "rate_per_second": r.limits.Rate, "burst": r.limits.Burst,
		"started": r.delays.Count(), "start_delay_seconds": quantilesJSON(&r.delays),
	}
	if !r.untold {
		j["waiting_at_end"] = math.Round(r.waiting)
	}
	if !r.real {
		j["busy_workers"] = r.busy
	}
	return j
}
