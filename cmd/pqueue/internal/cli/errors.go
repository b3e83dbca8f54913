package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/operate"
)

func (a *app) jobErrors() *cobra.Command {
	var runs int
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Group the last errors by job type and text",
		Long: `Group the last errors by job type and text. The latest error comes first, and errors that differ only in numbers count as one. The
command looks at runs that did not succeed. It begins with the newest job, and stops after as many runs as --runs allows.`,
		Example: "  pqueue job errors\n  pqueue job errors --runs 10000 -o json | jq '.errors[] | select(.failed > 0)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 {
				return exitf(exitUsage, "--runs %d: say how many runs to look at, 1 or more", runs)
			}
			return a.with(cmd.Context(), func(db *database) error { return a.errors(cmd.Context(), db, runs) })
		},
	}
	cmd.Flags().IntVar(&runs, "runs", 500, "how many runs to look at")
	return cmd
}

func (a *app) errors(ctx context.Context, db *database, runs int) error {
	var e *operate.Errors
	err := a.within(ctx, func(ctx context.Context) (err error) {
		e, err = operate.LatestErrors(ctx, db.jobs, db, runs)
		return err
	})
	if err != nil {
		return err
	}
	if _, err = list(a, all(e.Groups), "errors", []column[operate.ErrorGroup]{
		{"job", func(g operate.ErrorGroup) string { return strconv.FormatUint(g.Job, 10) }},
		{"type", func(g operate.ErrorGroup) string { return typeText(g.JobType, g.TypeName) }},
		{"runs", func(g operate.ErrorGroup) string { return strconv.Itoa(g.Runs) }},
		{"jobs", func(g operate.ErrorGroup) string { return strconv.Itoa(g.Jobs) }},
		{"failed", func(g operate.ErrorGroup) string { return strconv.Itoa(g.Failed) }},
		{"last", func(g operate.ErrorGroup) string { return clock(g.Last) }},
		{"error", func(g operate.ErrorGroup) string { return g.Text }},
	}, errorJSON); err != nil {
		return err
	}
	if !e.All {
		a.sayf("these are the last %d runs that did not succeed, of the jobs from %d on; --runs looks at more", e.Runs, e.SinceJob)
	}
	return nil
}

func errorJSON(g operate.ErrorGroup) any {
	return map[string]any{"type": g.JobType, "type_name": g.TypeName, "error": g.Text, "runs": g.Runs, "jobs": g.Jobs, "failed": g.Failed,
		"first": stamp(g.First), "last": stamp(g.Last), "job": strconv.FormatUint(g.Job, 10)}
}
