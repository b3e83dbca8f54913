package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
)

func (a *app) jobErrors() *cobra.Command {
	var runs int
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Group the last errors by job type and text",
		Long: `Group the last errors by job type and text. The error with the most runs comes first, and errors that differ only in numbers count as
one. If the log has fewer runs than --runs allows, the command reads all of them. Else it shows what those who run the jobs have counted in the last
hour.`,
		Example: "  pqueue job errors\n  pqueue job errors --runs 10000 -o json | jq '.errors[] | select(.failed > 0)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 {
				return exitf(exitUsage, "--runs %d: say how many runs the log may have, 1 or more", runs)
			}
			return a.with(cmd.Context(), func(db *database) error { return a.errors(cmd.Context(), db, runs) })
		},
	}
	cmd.Flags().IntVar(&runs, "runs", 500, "how many runs the log may have if all are to be looked at")
	return cmd
}

func (a *app) errors(ctx context.Context, db *database, runs int) error {
	var e *faces.Errors
	err := a.within(ctx, func(ctx context.Context) (err error) {
		e, err = faces.LatestErrors(ctx, db.jobs, db, runs)
		return err
	})
	if err != nil {
		return err
	}
	if _, err = list(a, all(e.Groups), "errors", []column[faces.ErrorGroup]{
		{"job", func(g faces.ErrorGroup) string { return strconv.FormatUint(g.Job, 10) }},
		{"type", func(g faces.ErrorGroup) string { return typeText(g.JobType, g.TypeName) }},
		{"runs", func(g faces.ErrorGroup) string { return strconv.Itoa(g.Runs) }},
		{"jobs", func(g faces.ErrorGroup) string { return numberText(g.Jobs) }},
		{"failed", func(g faces.ErrorGroup) string { return strconv.Itoa(g.Failed) }},
		{"last", func(g faces.ErrorGroup) string { return clock(g.Last) }},
		{"error", func(g faces.ErrorGroup) string { return g.Text }},
	}, errorJSON); err != nil {
		return err
	}
	if !e.All {
		a.sayf(
			"these are the runs that did not succeed since %s, as those who run the jobs have counted them; with a higher --runs, the log is looked through",
			clock(e.Since))
	}
	return nil
}

// numberText is a number, or nothing if it is not known.
func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func errorJSON(g faces.ErrorGroup) any {
	o := map[string]any{"type": g.JobType, "type_name": g.TypeName, "error": g.Text, "runs": g.Runs, "failed": g.Failed,
		"first": stamp(g.First), "last": stamp(g.Last), "job": strconv.FormatUint(g.Job, 10)}
	if g.Jobs > 0 {
		o["jobs"] = g.Jobs
	}
	return o
}
