package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) typeCommand() *cobra.Command {
	return noun("type", "See, pause, limit and divide job types", a.typeList(), a.typeGet(), a.typeHistory(), a.typeWhatIf(),
		a.typePause(), a.typeResume(), a.typeSet(), a.typeUnset(), a.typeShards(), a.typeRename())
}

func either(which bool, yes, no string) string {
	if which {
		return yes
	}
	return no
}

// jobType is a job type, with its jobs if they were counted.
type jobType struct {
	*operate.Type
	counted, unrun bool
	waiting, done  int64
}

// countedTypes puts types and counts together, in the order of the types.
func countedTypes(known []*operate.Type, counts []queue_job.TypeCounts) []*jobType {
	types := make([]*jobType, len(known))
	for i, t := range known {
		types[i] = &jobType{Type: t}
	}
	for _, c := range counts {
		i, found := slices.BinarySearchFunc(types, c.JobType, func(t *jobType, number int32) int { return cmp.Compare(t.JobType, number) })
		if !found {
			types = slices.Insert(types, i, &jobType{Type: &operate.Type{JobType: c.JobType, Name: c.TypeName}})
		}
		t := types[i]
		t.counted, t.unrun = true, c.Unrun
		for status, n := range c.ByStatus {
			if status.Pending() {
				t.waiting += n
			} else {
				t.done += n
			}
		}
	}
	return types
}

// waitingText says how many jobs wait in memory; with a plus, the table has more that are due.
func (t *jobType) waitingText() string {
	switch m := t.Memory; {
	case m == nil:
		return ""
	case m.More:
		return strconv.Itoa(m.Waiting) + "+"
	default:
		return strconv.Itoa(m.Waiting)
	}
}

func (t *jobType) overdueText() string {
	if t.Memory == nil || t.Memory.Overdue < time.Second {
		return ""
	}
	return t.Memory.Overdue.Round(time.Second).String()
}

func (a *app) typeList() *cobra.Command {
	var count bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the job types: who runs them, and how many handlers run",
		Long: `List the job types: who runs them, how many handlers run, and how many due jobs wait in the memory of those who run them (with a plus, if
the table has more) and for how long. That reads the leases and what their holders have told within the last minute, which are few rows.
With --count, the jobs are counted too, which reads the index of all jobs: some seconds for millions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				types, err := a.types(cmd.Context(), db, count)
				if err == nil {
					_, err = list(a, all(types), "types", typeColumns(count), typeJSON)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&count, "count", false, "count the jobs, too")
	return cmd
}

func (a *app) typeGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get <type>",
		Short: "Show a job type, and the settings that it is run with",
		Long: `Show a job type: who runs it, and the settings of the instance that started last. Settings that are zero are left out.
docs/operate/configuration.md says what each means.`,
		Example: "  pqueue type get 7\n  pqueue type get billing -o json | jq .settings",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error { return a.showType(cmd.Context(), db, args[0]) })
		},
	}
}

func (a *app) showType(ctx context.Context, db *database, name string) error {
	number, err := a.typeOf(ctx, db, name)
	if err != nil {
		return err
	}
	types, err := a.types(ctx, db, false)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(types, func(t *jobType) bool { return t.JobType == number })
	if i < 0 {
		return exitf(exitNothing,
			"type %d is not known here: no instance has run it, and nobody has paused or divided it; pqueue type list shows the types that are known", number)
	}
	t := types[i]
	switch a.output {
	case "table":
		return t.show(a.Out)
	case "json":
		return indented(a.Out, typeJSON(t))
	}
	_, err = list(a, all([]*jobType{t}), "types", typeColumns(false), typeJSON)
	return err
}

func (t *jobType) show(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := labelled(out)
	line("type", typeText(t.JobType, t.Name))
	line("state", t.State())
	line("paused since", clock(t.Paused))
	line("paused until", clock(t.Known.PausedUntil))
	line("paused by", t.Known.PausedBy)
	line("because", t.Known.PausedWhy)
	line("held by", strings.Join(t.Holders, ", "))
	line("handlers that run", strconv.Itoa(t.Running))
	if m := t.Memory; m != nil {
		line("workers", strconv.Itoa(m.Workers))
		line("waiting in memory", t.waitingText())
		if m.Parked > 0 {
			line("of these, for their group", strconv.Itoa(m.Parked))
		}
		line("overdue", t.overdueText())
		for _, f := range m.Failing {
			line("statements fail", fmt.Sprintf("of %s, since %s: %s", f.Holder, clock(f.Since), f.Latest))
		}
		line("memory as of", clock(m.AsOf))
	}
	if len(t.Leases) > 1 {
		line("shards", strconv.Itoa(len(t.Leases)))
	}
	line("limits set", t.Known.Limits.String())
	line("schedule", t.Known.Schedule)
	if t.Known.Batch {
		line("handler", "of batches")
	}
	for name, value := range t.Known.Settings() {
		line(name, value)
	}
	line("retries wait", waitsText(t.Known.RetryWaits))
	if r := t.Known.Retention; r != (queue_job.Retention{}) {
		line("kept", fmt.Sprintf("success %s, cancelled %s, failed %s", keptFor(r.Done), keptFor(r.Cancelled), keptFor(r.Failed)))
	}
	line("settings since", clock(t.Known.Told))
	return out.Flush()
}

// waitsText lists the waits before retries. From where on all are alike, it says so.
func waitsText(waits []queue_job.Wait) string {
	var texts []string
	for i, w := range waits {
		text := w.Least.Round(time.Second / 10).String()
		if w.Most > w.Least {
			text += " to " + w.Most.Round(time.Second/10).String()
		}
		if texts = append(texts, text); i < len(waits)-1 && !slices.ContainsFunc(waits[i:], func(later queue_job.Wait) bool { return later != w }) {
			return strings.Join(texts, ", ") + ", and so on"
		}
	}
	return strings.Join(texts, ", ")
}

func (a *app) types(ctx context.Context, db *database, count bool) (types []*jobType, err error) {
	err = a.within(ctx, func(ctx context.Context) error {
		fleet, err := db.jobs.Fleet(ctx, db)
		if err != nil {
			return err
		}
		var counts []queue_job.TypeCounts
		if count {
			counts, err = db.jobs.Counts(ctx, db, queue_job.CountFilter{})
		}
		types = countedTypes(operate.HealthOf(fleet, nil).Types, counts)
		return err
	})
	return types, err
}

func typeColumns(count bool) []column[*jobType] {
	columns := []column[*jobType]{
		{"type", func(t *jobType) string { return strconv.Itoa(int(t.JobType)) }},
		{"name", func(t *jobType) string { return t.Name }},
		{"state", func(t *jobType) string { return t.State() }},
		{"shards", func(t *jobType) string { return strconv.Itoa(len(t.Leases)) }},
		{"running", func(t *jobType) string { return strconv.Itoa(t.Running) }},
		{"waiting", func(t *jobType) string { return t.waitingText() }},
		{"overdue", func(t *jobType) string { return t.overdueText() }},
		{"paused", func(t *jobType) string { return clock(t.Paused) }},
		{"paused until", func(t *jobType) string { return clock(t.Known.PausedUntil) }},
		{"holders", func(t *jobType) string { return strings.Join(t.Holders, ", ") }},
	}
	if count {
		columns = slices.Insert(columns, 7,
			column[*jobType]{"not done", func(t *jobType) string { return strconv.FormatInt(t.waiting, 10) }},
			column[*jobType]{"done", func(t *jobType) string { return strconv.FormatInt(t.done, 10) }})
	}
	return columns
}

func typeJSON(t *jobType) any {
	j := map[string]any{
		"type": t.JobType, "name": t.Name, "state": t.State(),
		"paused": stamp(t.Paused), "paused_until": stamp(t.Known.PausedUntil), "shards": len(t.Leases), "shards_held": t.Held,
		"running": t.Running, "holders": append([]string{}, t.Holders...),
	}
	if !t.Known.Told.IsZero() {
		j["settings"], j["settings_since"] = maps.Collect(t.Known.Settings()), stamp(t.Known.Told)
		j["schedule"], j["batch"] = t.Known.Schedule, t.Known.Batch
		j["retention_seconds"] = retentionJSON(&t.Known)
	}
	if m := t.Memory; m != nil {
		failing := []any{}
		for _, f := range m.Failing {
			failing = append(failing, map[string]any{"holder": f.Holder, "since": stamp(f.Since), "latest": f.Latest})
		}
		j["memory"] = map[string]any{"waiting": m.Waiting, "parked": m.Parked,
			"more_in_table": m.More, "overdue_seconds": m.Overdue.Seconds(), "workers": m.Workers, "as_of": stamp(m.AsOf), "failing": failing}
	}
	if by := t.Known.PausedBy; by != "" {
		j["paused_by"], j["paused_why"] = by, t.Known.PausedWhy
	}
	if t.Known.Limits != (queue_job.Limits{}) {
		j["limits"] = t.Known.Limits
	}
	if t.counted {
		j["not_done"], j["done"], j["nobody_runs_it"] = t.waiting, t.done, t.unrun
	}
	return j
}

// typeSwitch is a command that does one thing to a job type. What act says has room for the type's number.
func (a *app) typePause() *cobra.Command {
	var lasts, end string
	cmd := &cobra.Command{
		Use:   "pause <type>",
		Short: "Stop a job type on all instances",
		Long: `Stop a job type on all instances. From within a second on, no job of the type starts. Jobs that run go on to their end. It lasts until
pqueue type resume or, with --for or --until, until that time: then its jobs start again within two seconds. A type that is paused
already gets this end, or none.`,
		Example: "  pqueue type pause 7\n  pqueue type pause billing --for 2h --why 'the bank is closed'\n" +
			"  pqueue type pause 7 --until 2026-12-01T08:00:00Z",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			ends, err := pauseEnd(lasts, end)
			if err != nil {
				return err
			}
			return a.onType(cmd.Context(), args[0], func(ctx context.Context, db *database, jobType int32) (string, error) {
				if !ends.Given() {
					changed, err := db.jobs.Pause(ctx, db, jobType)
					return either(changed, "type %d is paused", "type %d was paused already"), err
				}
				now, err := a.now(ctx, db)
				until := ends.By(now).Add(time.Second - 1).Truncate(time.Second) // a whole second, so what it shows is what is written
				if err == nil && !until.After(now) {
					err = hasPassed(end)
				}
				if err != nil {
					return "", err
				}
				changed, err := db.jobs.PauseUntil(ctx, db, jobType, until)
				return either(changed, "type %d is paused until "+clock(until), "type %d was paused until then already"), err
			})
		},
	}
	cmd.Flags().StringVar(&lasts, "for", "", "how long: 30m, 2h or 7d")
	cmd.Flags().StringVar(&end, "until", "", "until when: a local time such as 2026-11-24T10:30, or 2026-12-01T08:00:00Z")
	return cmd
}

// pauseEnd reads when a pause ends. None is given: it lasts. What has passed since yesterday by this machine's clock, only the database's clock
// can say; what has passed for longer is refused before anything is asked.
func pauseEnd(lasts, end string) (m moment, err error) {
	switch {
	case lasts != "" && end != "":
		return m, exitf(exitUsage, "use --for or --until, not both")
	case lasts != "":
		d, err := words.ParseSpan(lasts)
		if err != nil || d <= 0 {
			return m, exitf(exitUsage, "--for %q is no time; write 30m, 2h or 7d", lasts)
		}
		return query.FromNow(d), nil
	case end != "":
		if m, err = futureOf(end); err == nil && !m.Counted() && time.Since(m.By(time.Time{})) > day {
			err = hasPassed(end)
		}
	}
	return m, err
}

func hasPassed(end string) error {
	return exitf(exitUsage, "--until %s has passed; write a time to come, or pqueue type resume", end)
}

func (a *app) typeResume() *cobra.Command {
	return &cobra.Command{
		Use:     "resume <type>",
		Short:   "Let a paused job type go on",
		Long:    "Let a paused job type go on. Its jobs start again within a second.",
		Example: "  pqueue type resume 7\n  pqueue type resume billing",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onType(cmd.Context(), args[0], func(ctx context.Context, db *database, jobType int32) (string, error) {
				changed, err := db.jobs.Resume(ctx, db, jobType)
				return either(changed, "type %d goes on", "type %d was not paused"), err
			})
		},
	}
}

func (a *app) onType(ctx context.Context, name string, act func(context.Context, *database, int32) (string, error)) error {
	return a.with(ctx, func(db *database) error {
		number, err := a.typeOf(ctx, db, name)
		if err != nil {
			return err
		}
		return a.doAndSay(ctx, number, func(ctx context.Context) (string, error) { return act(ctx, db, number) })
	})
}

// doAndSay does something to a thing that has a number. What act says has room for the number.
func (a *app) doAndSay(ctx context.Context, number any, act func(context.Context) (string, error)) error {
	return a.within(ctx, func(ctx context.Context) error {
		text, err := act(ctx)
		if err == nil {
			a.sayf(text, number)
		}
		return err
	})
}

func (a *app) typeShards() *cobra.Command {
	return &cobra.Command{
		Use:   "set-shards <type> <n>",
		Short: "Divide a job type into shards, so that several instances work on it",
		Long: `Divide a job type into shards, 1 to 64, so that up to that many instances work on it at a time. Its jobs go on meanwhile. The number is kept
in the database, and from then on the programs' Config.Shards has no effect.`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return exitf(exitUsage, "%q is no number of shards", args[1])
			}
			return a.onType(cmd.Context(), args[0], func(ctx context.Context, db *database, number int32) (string, error) {
				return fmt.Sprintf("type %%d has %s from now on", words.Count(n, "shard")), db.jobs.SetShards(ctx, db, number, n)
			})
		},
	}
}

func (a *app) typeRename() *cobra.Command {
	return &cobra.Command{
		Use:   "rename <type> <name>",
		Short: "Give a job type another name",
		Long: `Give a job type another name. Programs that have another name for the type than the one in the tables do not run it, since they may be of
another service. So first deploy the programs with the new name and Config.RenamedFrom; when none with the old name is left, rename
the type, and take RenamedFrom out again.`,
		Example: "  pqueue type rename 7 send-invoice\n  pqueue type rename billing invoices",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onType(cmd.Context(), args[0], func(ctx context.Context, db *database, number int32) (string, error) {
				types, err := db.jobs.Types(ctx, db)
				if err != nil {
					return "", err
				}
				var from string
				for _, t := range types {
					if t.JobType == number {
						from = t.Name
					}
				}
				text := strings.ReplaceAll(fmt.Sprintf("was %q, and is now %q", from, args[1]), "%", "%%")
				return "type %d " + text, db.jobs.RenameType(ctx, db, number, from, args[1])
			})
		},
	}
}
