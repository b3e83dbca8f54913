package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) typeCommand() *cobra.Command {
	return noun("type", "See, pause and divide job types", a.typeList(), a.typeGet(),
		a.typeSwitch("pause", "Stop a job type on all instances", "From within a second on, no job of the type starts. Jobs that run go on to their end. It lasts until pqueue type resume.",
			func(ctx context.Context, db *database, jobType int32) (string, error) {
				changed, err := db.jobs.Pause(ctx, db, jobType)
				return either(changed, "type %d is paused", "type %d was paused already"), err
			}),
		a.typeSwitch("resume", "Let a paused job type go on", "Its jobs start again within a second.",
			func(ctx context.Context, db *database, jobType int32) (string, error) {
				changed, err := db.jobs.Resume(ctx, db, jobType)
				return either(changed, "type %d goes on", "type %d was not paused"), err
			}),
		a.typeShards())
}

func either(which bool, yes, no string) string {
	if which {
		return yes
	}
	return no
}

// jobType is what the tables of types and of leases say about a job type.
type jobType struct {
	number       int32
	name         string
	paused       time.Time
	told         queue_job.Type // its settings
	shards, held int
	running      int // handlers, also where earlier holders let them end
	holders      []string
	memory       memory

	// The rest is known if the jobs were counted.
	counted, unrun bool
	waiting, done  int64
}

// memory is what the holders of a type have told of their memory, of all shards together.
type memory struct {
	since                    time.Time // when the first of them told it; zero: none has
	waiting, parked, workers int
	more                     bool // in the table
	overdue                  time.Duration
}

func (m *memory) add(l *queue_job.Line) {
	if m.since.IsZero() || l.Told.Before(m.since) {
		m.since = l.Told
	}
	m.waiting += l.Waiting + l.Marked
	m.parked += l.Parked
	m.workers += l.Workers
	m.more = m.more || l.More
	m.overdue = max(m.overdue, l.Overdue)
}

// text says how many jobs wait in memory; with a plus, the table has more that are due.
func (m *memory) text() string {
	switch {
	case m.since.IsZero():
		return ""
	case m.more:
		return strconv.Itoa(m.waiting) + "+"
	}
	return strconv.Itoa(m.waiting)
}

func (m *memory) overdueText() string {
	if m.overdue < time.Second {
		return ""
	}
	return m.overdue.Round(time.Second).String()
}

// look is what the tables of leases, types and lines say.
type look struct {
	leases []queue_job.Lease
	known  []queue_job.Type
	lines  []queue_job.Line
	counts []queue_job.TypeCounts // nil: they were not asked for
}

// types puts it together, in the order of the types.
func (seen *look) types() (types []*jobType) {
	byNumber := map[int32]*jobType{}
	of := func(number int32, name string) *jobType {
		t := byNumber[number]
		if t == nil {
			t = &jobType{number: number}
			byNumber[number] = t
			types = append(types, t)
		}
		t.name = cmp.Or(t.name, name)
		return t
	}
	for _, l := range seen.leases {
		t := of(l.JobType, l.TypeName)
		t.shards++
		t.running += l.Running
		for _, r := range l.Remains {
			t.running += r.Running
		}
		if l.Holder == "" {
			continue
		}
		t.held++
		if !slices.Contains(t.holders, l.Holder) {
			t.holders = append(t.holders, l.Holder)
		}
	}
	for _, k := range seen.known {
		t := of(k.JobType, k.Name)
		t.paused, t.told = k.Paused, k
	}
	for i := range seen.lines {
		if l := &seen.lines[i]; l.Instance != "" {
			of(l.JobType, "").memory.add(l)
		}
	}
	for _, c := range seen.counts {
		t := of(c.JobType, c.TypeName)
		t.counted, t.unrun = true, c.Unrun
		for status, n := range c.ByStatus {
			if status.Pending() {
				t.waiting += n
			} else {
				t.done += n
			}
		}
	}
	slices.SortFunc(types, func(a, b *jobType) int { return cmp.Compare(a.number, b.number) })
	return types
}

// state says in a word whether the type's jobs run.
func (t *jobType) state() string {
	switch {
	case !t.paused.IsZero():
		return "paused"
	case t.held == 0:
		return "nobody runs it"
	case t.held < t.shards:
		return fmt.Sprintf("%d of %d shards run", t.held, t.shards)
	}
	return "runs"
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
docs/configuration.md says what each means.`,
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
	i := slices.IndexFunc(types, func(t *jobType) bool { return t.number == number })
	if i < 0 {
		return exitf(exitNothing, "type %d is not known here: no instance has run it, and nobody has paused or divided it; pqueue type list shows the types that are known", number)
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
	line("type", typeText(t.number, t.name))
	line("state", t.state())
	line("paused since", clock(t.paused))
	line("held by", strings.Join(t.holders, ", "))
	line("handlers that run", strconv.Itoa(t.running))
	if m := &t.memory; !m.since.IsZero() {
		line("workers", strconv.Itoa(m.workers))
		line("waiting in memory", m.text())
		if m.parked > 0 {
			line("of these, for their group", strconv.Itoa(m.parked))
		}
		line("overdue", m.overdueText())
		line("memory as of", clock(m.since))
	}
	if t.shards > 1 {
		line("shards", strconv.Itoa(t.shards))
	}
	line("schedule", t.told.Schedule)
	if t.told.Batch {
		line("handler", "of batches")
	}
	for _, s := range t.told.Settings() {
		line(s.Name, s.Value)
	}
	line("retries wait", waitsText(t.told.RetryWaits))
	line("settings since", clock(t.told.Told))
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
		var seen look
		if seen.leases, err = db.jobs.Leases(ctx, db); err != nil {
			return err
		}
		if seen.known, err = db.jobs.Types(ctx, db); err != nil {
			return err
		}
		if seen.lines, err = db.jobs.Lines(ctx, db); err == nil && count {
			seen.counts, err = db.jobs.Counts(ctx, db, queue_job.CountFilter{})
		}
		types = seen.types()
		return err
	})
	return types, err
}

func typeColumns(count bool) []column[*jobType] {
	columns := []column[*jobType]{
		{"type", func(t *jobType) string { return strconv.Itoa(int(t.number)) }},
		{"name", func(t *jobType) string { return t.name }},
		{"state", func(t *jobType) string { return t.state() }},
		{"shards", func(t *jobType) string { return strconv.Itoa(t.shards) }},
		{"running", func(t *jobType) string { return strconv.Itoa(t.running) }},
		{"waiting", func(t *jobType) string { return t.memory.text() }},
		{"overdue", func(t *jobType) string { return t.memory.overdueText() }},
		{"paused", func(t *jobType) string { return clock(t.paused) }},
		{"holders", func(t *jobType) string { return strings.Join(t.holders, ", ") }},
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
		"type": t.number, "name": t.name, "state": t.state(), "paused": stamp(t.paused), "shards": t.shards, "shards_held": t.held,
		"running": t.running, "holders": append([]string{}, t.holders...),
	}
	if !t.told.Told.IsZero() {
		settings := map[string]string{}
		for _, s := range t.told.Settings() {
			settings[s.Name] = s.Value
		}
		j["settings"], j["settings_since"], j["schedule"], j["batch"] = settings, stamp(t.told.Told), t.told.Schedule, t.told.Batch
	}
	if m := &t.memory; !m.since.IsZero() {
		j["memory"] = map[string]any{"waiting": m.waiting, "parked": m.parked, "more_in_table": m.more, "overdue_seconds": m.overdue.Seconds(), "workers": m.workers, "as_of": stamp(m.since)}
	}
	if t.counted {
		j["not_done"], j["done"], j["nobody_runs_it"] = t.waiting, t.done, t.unrun
	}
	return j
}

// typeSwitch is a command that does one thing to a job type. What act says has room for the type's number.
func (a *app) typeSwitch(verb, short, long string, act func(context.Context, *database, int32) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <type>", Short: short, Long: short + ". " + long, Example: fmt.Sprintf("  pqueue type %s 7\n  pqueue type %[1]s billing", verb),
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error { return a.onType(cmd.Context(), args[0], act) },
	}
}

func (a *app) onType(ctx context.Context, name string, act func(context.Context, *database, int32) (string, error)) error {
	return a.with(ctx, func(db *database) error {
		number, err := a.typeOf(ctx, db, name)
		if err != nil {
			return err
		}
		return a.within(ctx, func(ctx context.Context) error {
			text, err := act(ctx, db, number)
			if err == nil {
				a.sayf(text, number)
			}
			return err
		})
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
				return fmt.Sprintf("type %%d has %s from now on", plural(n, "shard")), db.jobs.SetShards(ctx, db, number, n)
			})
		},
	}
}
