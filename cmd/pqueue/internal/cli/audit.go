package cli

import (
	"context"
	"iter"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
)

func (a *app) auditCommand() *cobra.Command {
	return noun("audit", "See who steered what, and why", a.auditList())
}

func (a *app) auditList() *cobra.Command {
	var f operate.ActFilter
	var types []string
	cmd := &cobra.Command{
		Use: "list", Short: "List who steered what, and why, the latest first",
		Long: `List who steered what, and why, the latest first: changes that were made with pqueue, in the console, and by programs that say who
acts (queue_job.WithActor). A part of an operation names its jobs.`,
		Example: "  pqueue audit list\n  pqueue audit list --job 4711\n  pqueue audit list --type billing\n" +
			"  pqueue audit list --operation 12 -o json | jq -r '.acts[].jobs[]'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return exitf(exitUsage, "--limit %d: say how many to show, 1 or more", f.Limit)
			}
			return a.with(cmd.Context(), func(db *database) (err error) {
				if f.JobTypes, err = a.typesOf(cmd.Context(), db, types); err != nil {
					return err
				}
				n, err := list(a, a.acts(cmd.Context(), db, f), "acts", actColumns, actJSON)
				if err == nil {
					a.sayMore(n, f.Limit)
				}
				return err
			})
		},
	}
	cmd.Flags().Uint64Var(&f.Job, "job", 0, "only what changed the job with this id")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only acts about these types, such as pauses, limits and hand-overs")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only what this actor did")
	cmd.Flags().Uint64Var(&f.Operation, "operation", 0, "only the parts of the operation with this id")
	cmd.Flags().Uint64Var(&f.Before, "before", 0, "only acts with smaller ids")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 100, "how many at most")
	return cmd
}

// acts yields as many acts as the filter's limit says, a page at a time.
func (a *app) acts(ctx context.Context, db *database, f operate.ActFilter) iter.Seq2[operate.Act, error] {
	const together = 1000
	return func(yield func(operate.Act, error) bool) {
		for left := f.Limit; left > 0; left -= together {
			f.Limit = min(left, together)
			var page []operate.Act
			err := a.within(ctx, func(ctx context.Context) (err error) {
				page, err = operate.Acts(ctx, db.jobs, db, f)
				return err
			})
			if err != nil {
				yield(operate.Act{}, err)
				return
			}
			for _, act := range page {
				if f.Before = act.Id; !yield(act, nil) {
					return
				}
			}
			if len(page) < f.Limit {
				return
			}
		}
	}
}

var actColumns = []column[operate.Act]{
	{"id", func(a operate.Act) string { return strconv.FormatUint(a.Id, 10) }},
	{"at", func(a operate.Act) string { return clock(a.At) }},
	{"actor", func(a operate.Act) string { return a.Actor }},
	{"verb", func(a operate.Act) string { return a.Verb }},
	{"of", actAbout},
	{"detail", func(a operate.Act) string { return shortened(a.Detail, 60) }},
	{"why", func(a operate.Act) string { return a.Why }},
}

// actAbout says what an act is about.
func actAbout(act operate.Act) string {
	switch {
	case act.JobType != nil:
		return "type " + strconv.Itoa(int(*act.JobType))
	case len(act.Jobs) == 1:
		return "job " + strconv.FormatUint(act.Jobs[0], 10)
	case act.Changed > 0:
		return words.Count(act.Changed, "job")
	case act.Operation > 0:
		return "operation " + strconv.FormatUint(act.Operation, 10)
	}
	return ""
}

func actJSON(act operate.Act) any {
	ids := make([]string, len(act.Jobs))
	for i, id := range act.Jobs {
		ids[i] = strconv.FormatUint(id, 10)
	}
	j := map[string]any{"id": strconv.FormatUint(act.Id, 10),
		"at": stamp(act.At), "actor": act.Actor, "why": act.Why, "verb": act.Verb, "jobs": ids, "changed": act.Changed, "detail": act.Detail}
	if act.JobType != nil {
		j["type"] = *act.JobType
	}
	if act.Operation > 0 {
		j["operation"] = strconv.FormatUint(act.Operation, 10)
	}
	return j
}

// whoami is who sits at this machine, as the audit shows it.
func whoami() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.TrimSpace(name)
}
