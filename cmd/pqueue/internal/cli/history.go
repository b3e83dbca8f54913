package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) typeHistory() *cobra.Command {
	var last, step string
	cmd := &cobra.Command{
		Use:   "history <type>",
		Short: "Show what ran of a job type, and how long its jobs had been due",
		Long: `Show what ran of a job type in the last hours, the latest step at the end: how many runs started and how they ended, how long after their
time they started, and how long their handlers took: the half, and what one of a hundred exceeds. These durations are known within a factor
of two. Those who run the type write this when a minute is over, so a process that dies takes its last minute with it. It is kept for 90
days; of more than two days ago, whole hours are known only. It is read from a small table, and not from the jobs.`,
		Example: "  pqueue type history 7\n  pqueue type history billing --last 7d --step 1d -o csv",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			span, each, err := historySpan(last, step)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(db *database) error { return a.history(cmd.Context(), db, args[0], span, each) })
		},
	}
	cmd.Flags().StringVar(&last, "last", "3h", "how long ago it begins, as in 90m or 7d")
	cmd.Flags().StringVar(&step, "step", "", "how long a step is, in whole minutes (default: a twelfth of --last, or so)")
	return cmd
}

// historySpan reads the flags of a history. Without a step, there are about twelve.
func historySpan(last, step string) (span, each time.Duration, err error) {
	if span, err = words.ParseSpan(last); err != nil || span < time.Minute {
		return 0, 0, exitf(exitUsage, "--last %s: say how long ago the history is to begin, as in 90m or 7d", last)
	}
	if step == "" {
		return span, roundStep(span / 12), nil
	}
	if each, err = words.ParseSpan(step); err != nil || each < time.Minute || each%time.Minute != 0 {
		return 0, 0, exitf(exitUsage, "--step %s: use whole minutes, as in 5m or 1d", step)
	}
	return span, each, nil
}

// roundStep is the shortest step that people read well and that is not shorter than another.
func roundStep(least time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		if step >= least {
			return step
		}
	}
	return (least + day - 1) / day * day
}

func (a *app) history(ctx context.Context, db *database, name string, span, step time.Duration) error {
	number, err := a.typeOf(ctx, db, name)
	if err != nil {
		return err
	}
	now, err := a.now(ctx, db)
	if err != nil {
		return err
	}
	var periods []operate.Period
	err = a.within(ctx, func(ctx context.Context) (err error) {
		periods, err = operate.History(ctx, db.jobs, db, number, now.Add(-span), now, step)
		return err
	})
	if err == nil {
		_, err = list(a, all(periods), "history", periodColumns(), periodJSON)
	}
	return err
}

func periodColumns() []column[operate.Period] {
	columns := []column[operate.Period]{
		{"from", func(p operate.Period) string { return clock(p.Begin) }},
		{"started", func(p operate.Period) string { return strconv.FormatInt(p.Started(), 10) }},
	}
	for _, status := range []queue_job.JobStatus{queue_job.JobStatusSuccess,
		queue_job.JobStatusFailed, queue_job.JobStatusRetry, queue_job.JobStatusContinue, queue_job.JobStatusCancelled} {
		columns = append(columns, column[operate.Period]{status.String(), func(p operate.Period) string { return strconv.FormatInt(p.Runs[status], 10) }})
	}
	for _, c := range []struct {
		name string
		of   func(*operate.Period) *operate.Histogram
	}{{"delay", func(p *operate.Period) *operate.Histogram { return &p.Delays }},
		{"took", func(p *operate.Period) *operate.Histogram { return &p.Durations }}} {
		columns = append(columns, quantileColumn(c.name+" p50", c.of, 0.5), quantileColumn(c.name+" p99", c.of, 0.99))
	}
	return columns
}

func quantileColumn[T any](name string, of func(*T) *operate.Histogram, part float64) column[T] {
	return column[T]{name, func(item T) string {
		if of(&item).Count() == 0 {
			return ""
		}
		return shortSpan(of(&item).Quantile(part))
	}}
}

// shortSpan says a duration as exactly as it is known.
func shortSpan(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func periodJSON(p operate.Period) any {
	runs := map[string]int64{}
	for status, n := range p.Runs {
		runs[status.String()] = n
	}
	return map[string]any{
		"from": stamp(p.Begin), "seconds": p.Length.Seconds(), "started": p.Started(), "ended": p.Ended(), "runs": runs,
		"start_delay_seconds": quantilesJSON(&p.Delays), "run_seconds": quantilesJSON(&p.Durations),
	}
}

func quantilesJSON(h *operate.Histogram) map[string]float64 {
	return map[string]float64{"p50": h.Quantile(0.5).Seconds(), "p95": h.Quantile(0.95).Seconds(), "p99": h.Quantile(0.99).Seconds()}
}

func (a *app) leaseHistory() *cobra.Command {
	var last string
	var most int
	cmd := &cobra.Command{
		Use:   "history [type]",
		Short: "Show who had the leases, how that ended, and for how long nobody had them",
		Long: `Show who had the leases of all job types, or of one, the latest first: how each holding ended, and for how long nobody had the lease before.
It was released if no other instance asked for it, asked if it was handed to an instance that asked, lost if its holder could not renew it in
time and lived to say so, buried if another instance had not heard of the holder for some seconds, and expired if the holder has said nothing
and nobody has buried it. In the last two cases, its process died or hangs, or it is cut off. Instances write this within seconds after a lease
has changed hands, and it is kept for 90 days.`,
		Example: "  pqueue lease history\n  pqueue lease history billing --last 7d -o json | jq '.tenures[] | select(.how == \"expired\")'",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			span, err := words.ParseSpan(last)
			switch {
			case err != nil || span <= 0:
				return exitf(exitUsage, "--last %s: say how long ago the history is to begin, as in 90m or 7d", last)
			case most < 1:
				return exitf(exitUsage, "--limit %d: say how many to show, 1 or more", most)
			}
			return a.with(cmd.Context(), func(db *database) error { return a.tenures(cmd.Context(), db, args, span, most) })
		},
	}
	cmd.Flags().StringVar(&last, "last", "24h", "how long ago it begins, as in 90m or 7d")
	cmd.Flags().IntVarP(&most, "limit", "n", 100, "how many to show at most, of the latest")
	return cmd
}

func (a *app) tenures(ctx context.Context, db *database, types []string, span time.Duration, most int) error {
	now, err := a.now(ctx, db)
	if err != nil {
		return err
	}
	f := operate.TenureFilter{From: now.Add(-span), Most: most + 1}
	if len(types) > 0 {
		number, err := a.typeOf(ctx, db, types[0])
		if err != nil {
			return err
		}
		f.JobTypes = []int32{number}
	}
	var tenures []operate.Tenure
	err = a.within(ctx, func(ctx context.Context) (err error) {
		tenures, err = operate.LeaseHistory(ctx, db.jobs, db, f)
		return err
	})
	if err != nil {
		return err
	}
	if _, err = list(a, all(tenures[:min(most, len(tenures))]), "tenures", tenureColumns(now), tenureJSON); err == nil && len(tenures) > most {
		a.sayf("these are the latest %d; --limit shows more", most)
	}
	return err
}

func tenureColumns(now time.Time) []column[operate.Tenure] {
	return []column[operate.Tenure]{
		{"lease", func(t operate.Tenure) string { return t.Lease }},
		{"holder", func(t operate.Tenure) string { return t.Holder }},
		{"taken", func(t operate.Tenure) string { return clock(t.Taken) }},
		{"held for", func(t operate.Tenure) string { return heldFor(t, now) }},
		{"ended", endedText},
		{"nobody before for", gapText},
		{"term", func(t operate.Tenure) string { return strconv.FormatInt(t.Term, 10) }},
	}
}

func heldFor(t operate.Tenure, now time.Time) string {
	switch {
	case !t.Ended.IsZero():
		return shortSpan(t.Ended.Sub(t.Taken))
	case t.Over:
		return ""
	}
	return shortSpan(max(0, now.Sub(t.Taken)))
}

func endedText(t operate.Tenure) string {
	switch {
	case t.BuriedBy != "":
		return faces.BuriedText(&t)
	case t.How != "":
		return t.How
	case t.Over:
		return "not known yet"
	}
	return ""
}

// gapText is empty if the earlier holder, or when its holding ended, is not known.
func gapText(t operate.Tenure) string {
	if t.After == nil || t.After.Ended.IsZero() {
		return ""
	}
	return shortSpan(t.Gap)
}

func tenureJSON(t operate.Tenure) any {
	j := map[string]any{
		"lease": t.Lease, "type": t.JobType, "shard": t.Shard, "instance": t.Instance, "holder": t.Holder, "term": strconv.FormatInt(t.Term, 10),
		"taken": stamp(t.Taken), "ended": stamp(t.Ended), "how": string(t.How), "over": t.Over,
	}
	if t.BuriedBy != "" {
		j["buried_by"], j["heard_of"] = t.BuriedBy, stamp(t.HeardOf)
	}
	if t.After != nil && !t.After.Ended.IsZero() {
		j["gap_seconds"] = t.Gap.Seconds()
	}
	return j
}
