package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

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
nor groups. When they fell due is known within a factor of two of how late they were. Jobs that still wait are not known.`,
		Example: "  pqueue type what-if 7 --workers 40\n  pqueue type what-if billing --rate 25 --last 7d --within 1m",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			span, _, err := historySpan(last, "")
			if err != nil {
				return err
			}
			soon, err := durationOf(within)
			given := cmd.Flags().Changed
			switch {
			case err != nil || soon <= 0:
				return exitf(exitUsage, "--within %s: say how soon jobs are to start, as in 10s or 5m", within)
			case workers < 0 || burst < 0 || rate < 0 || given("time-factor") && timeFactor <= 0:
				return exitf(exitUsage, "limits must not be negative, and --time-factor must be above 0")
			}
			change := func(known *queue_job.Type, l operate.StartLimits) operate.StartLimits {
				if given("workers") {
					l.Workers = workers
				}
				if given("rate") {
					l.Rate, l.Burst = rate, operate.BurstAt(known, rate)
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
	limits  operate.StartLimits
	delays  queue_job.Histogram
	model   bool
	waiting float64
	busy    float64
}

func (a *app) whatIf(ctx context.Context, db *database, name string, change func(*queue_job.Type, operate.StartLimits) operate.StartLimits, span, within time.Duration) error {
	known, err := a.knownType(ctx, db, name)
	if err != nil {
		return err
	}
	var past []operate.Period
	err = a.within(ctx, func(ctx context.Context) (err error) {
		now := time.Now()
		past, err = operate.History(ctx, db.jobs, db, known.JobType, now.Add(-span), now, replayStep(span))
		return err
	})
	if err != nil {
		return err
	}
	limits := operate.LimitsOf(&known)
	was := replayed{what: "as it was", limits: limits}
	for i := range past {
		was.delays.Add(&past[i].Delays)
	}
	lines := []replayed{was, replay("model, as it is", past, limits)}
	if changed := change(&known, limits); changed != limits {
		lines = append(lines, replay("model, changed", past, changed))
		limits = changed
	}
	if _, err = list(a, all(lines), "replays", replayColumns(), replayJSON); err != nil {
		return err
	}
	if was.delays.Count() == 0 {
		a.sayf("no job of the type started in this time")
		return nil
	}
	a.sayf("%s", enoughText(past, limits, within))
	return nil
}

// knownType is a job type that an instance has told how it runs.
func (a *app) knownType(ctx context.Context, db *database, name string) (queue_job.Type, error) {
	number, err := a.typeOf(ctx, db, name)
	if err != nil {
		return queue_job.Type{}, err
	}
	var types []queue_job.Type
	err = a.within(ctx, func(ctx context.Context) (err error) {
		types, err = db.jobs.Types(ctx, db)
		return err
	})
	if err != nil {
		return queue_job.Type{}, err
	}
	i := slices.IndexFunc(types, func(t queue_job.Type) bool { return t.JobType == number && !t.Told.IsZero() })
	if i < 0 {
		return queue_job.Type{}, exitf(exitNothing, "no instance has told how it runs job type %d", number)
	}
	return types[i], nil
}

func replay(what string, past []operate.Period, l operate.StartLimits) replayed {
	r := operate.WhatIf(past, l)
	return replayed{what, l, r.Delays, true, r.Waiting, r.Busy}
}

// enoughText says what is the least that has 99 of 100 jobs start within a time.
func enoughText(past []operate.Period, l operate.StartLimits, within time.Duration) string {
	var text string
	if workers, ok := operate.LeastWorkers(past, l, within); ok {
		text = fmt.Sprintf("for 99 of 100 to start within %v, the model wants %s", within, plural(workers, "worker"))
	} else {
		text = fmt.Sprintf("at this rate, no number of workers has 99 of 100 start within %v", within)
	}
	if l.Rate == 0 {
		return text
	}
	if rate, ok := operate.LeastRate(past, l, within); ok {
		return fmt.Sprintf("%s, or a rate of %s with %s", text, rateText(rate), plural(l.Workers, "worker"))
	}
	return fmt.Sprintf("%s; with %s, no rate does", text, plural(l.Workers, "worker"))
}

// rateText writes a rate as exactly as it is known, rounded up.
func rateText(rate float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	return strconv.FormatFloat(math.Ceil(rate/unit)*unit, 'g', 3, 64) + "/s"
}

func replayColumns() []column[replayed] {
	ofModel := func(show func(replayed) string) func(replayed) string {
		return func(r replayed) string {
			if !r.model {
				return ""
			}
			return show(r)
		}
	}
	delays := func(r *replayed) *queue_job.Histogram { return &r.delays }
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
		{"waiting at the end", ofModel(func(r replayed) string { return strconv.FormatFloat(math.Round(r.waiting), 'f', 0, 64) })},
		{"busy workers", ofModel(func(r replayed) string { return strconv.FormatFloat(r.busy, 'f', 1, 64) })},
	}
}

func replayJSON(r replayed) any {
	j := map[string]any{
		"what": r.what, "workers": r.limits.Workers, "rate_per_second": r.limits.Rate, "burst": r.limits.Burst,
		"started": r.delays.Count(), "start_delay_seconds": quantilesJSON(&r.delays),
	}
	if r.model {
		j["waiting_at_end"], j["busy_workers"] = math.Round(r.waiting), r.busy
	}
	return j
}
