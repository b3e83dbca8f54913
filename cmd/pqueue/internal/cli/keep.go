package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) keepCommand() *cobra.Command {
	return noun("keep", "Delete the rows of jobs that are done, archive and restore them", a.keepStatus(), a.keepRun(), a.keepRestore())
}

func (a *app) keepStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show for how long jobs are kept, and whether somebody deletes them",
		Long: `Show for how long the jobs of each type are kept when they have ended, as the instance that started last deletes them, and what should have
been deleted among the first 500 rows of the table. The number of rows is what the ids allow, at most: to count them would take long.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(db *database) error { return a.showKept(cmd.Context(), db) })
		},
	}
}

func (a *app) showKept(ctx context.Context, db *database) error {
	var kept *faces.Kept
	err := a.within(ctx, func(ctx context.Context) error {
		fleet, err := db.jobs.Fleet(ctx, db)
		if err == nil {
			kept, err = faces.KeptOf(ctx, db.jobs, db, operate.HealthOf(fleet, nil).Types)
		}
		return err
	})
	if err != nil {
		return err
	}
	verdict, remedy := kept.Verdict()
	switch a.output {
	case "json":
		types := []any{}
		for _, t := range kept.Types {
			types = append(types, keptJSON(t))
		}
		return indented(a.Out,
			map[string]any{"schema": 1, "rows_at_most": kept.Rows, "oldest": stamp(kept.Oldest), "verdict": verdict, "remedy": remedy, "types": types})
	case "table":
		out := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
		line := labelled(out)
		line("rows", fmt.Sprintf("%d at most", kept.Rows))
		line("oldest", clock(kept.Oldest))
		if err := out.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s\n\n", strings.TrimSpace(verdict+" "+remedy)) // an error comes again, from the list
	}
	_, err = list(a, all(kept.Types), "types", keptColumns, keptJSON)
	return err
}

var keptColumns = []column[*faces.KeptType]{
	{"type", func(t *faces.KeptType) string { return strconv.Itoa(int(t.JobType)) }},
	{"name", func(t *faces.KeptType) string { return t.Name }},
	{"success", func(t *faces.KeptType) string { return keptFor(t.Known.Retention.Done) }},
	{"cancelled", func(t *faces.KeptType) string { return keptFor(t.Known.Retention.Cancelled) }},
	{"failed", func(t *faces.KeptType) string { return keptFor(t.Known.Retention.Failed) }},
	{"overdue", func(t *faces.KeptType) string {
		if t.Overdue == 0 {
			return ""
		}
		return span(t.Overdue)
	}},
}

func keptFor(d time.Duration) string {
	if d == 0 {
		return "no limit"
	}
	return span(d)
}

func keptJSON(t *faces.KeptType) any {
	return map[string]any{"type": t.JobType, "name": t.Name, "retention_seconds": retentionJSON(&t.Known), "overdue_seconds": int64(t.Overdue.Seconds())}
}

// retentionJSON says, in seconds, how long the jobs of each status are kept. 0 means no limit.
func retentionJSON(t *queue_job.Type) map[string]int64 {
	seconds := map[string]int64{}
	for _, status := range queue_job.FinalStatuses() {
		seconds[status.String()] = int64(t.Retention.Of(status).Seconds())
	}
	return seconds
}

func (a *app) keepRun() *cobra.Command {
	var types, statuses []string
	var file string
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:   "run <time>",
		Short: "Delete the jobs that ended before a time, with what the log has of their runs",
		Long: `Delete the jobs that ended before a time, with what the log has of their runs: 30d is thirty days ago, 2026-11-01 a day. It deletes
1,000 at a time, each time in a transaction of its own, and then rests nine times as long. Ctrl-C ends it between two. Runners delete such
jobs by themselves, if they have WithRetention: in smaller steps, which slow others less. Now is by the database's clock.

With --archive, it writes each job to a file before it deletes it: 100 jobs at a time, and only when the disk has them are they deleted.
The file has a job in each line, as JSON with its parameters and its unsuccessful runs; if it exists, the jobs are added to it. A
new file may be read by its owner only, since parameters may be confidential.`,
		Example: "  pqueue keep run 30d\n  pqueue keep run 7d --status success --type 7\n  pqueue keep run 30d --archive jobs-2026-11.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := momentOf(args[0])
			if err != nil {
				return &exit{exitUsage, err}
			}
			var which queue_job.DeleteRange
			for _, status := range statuses {
				list, err := query.ParseStatuses(status)
				if err != nil {
					return &exit{exitUsage, err}
				}
				which.Statuses = append(which.Statuses, list...)
			}
			return a.with(cmd.Context(), func(db *database) error {
				if which.JobTypes, err = a.typesOf(cmd.Context(), db, types); err != nil {
					return err
				}
				if which.Before, err = a.momentNow(cmd.Context(), db, before); err != nil {
					return err
				}
				if dryRun {
					return a.sampleOld(cmd.Context(), db, which)
				}
				if !yes {
					if err := a.confirm("delete the jobs that ended before " + clock(which.Before) + "?"); err != nil {
						return err
					}
				}
				return a.archive(cmd.Context(), db, which, file)
			})
		},
	}
	cmd.Flags().StringSliceVar(&types, "type", nil, "only jobs of these types")
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only jobs with these statuses: success, failed, cancelled")
	cmd.Flags().StringVar(&file, "archive", "", "the `file` to which each job is written before it is deleted")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "delete nothing: show how many jobs it would be, and ten of them")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// sampleOld shows what would be deleted.
func (a *app) sampleOld(ctx context.Context, db *database, which queue_job.DeleteRange) error {
	ended := which.Statuses
	if len(ended) == 0 {
		ended = queue_job.FinalStatuses()
	}
	preview, err := operate.PreviewOf(ctx, db.jobs, db, operate.Change{
		Verb: operate.Delete, Filter: queue_job.Filter{JobTypes: which.JobTypes, Statuses: ended, UpdatedTo: which.Before},
	})
	if err != nil {
		return err
	}
	return a.samples("delete", preview)
}

// archive writes jobs to a file, if one is named, and deletes them.
func (a *app) archive(ctx context.Context, db *database, which queue_job.DeleteRange, file string) error {
	if file == "" {
		return a.delete(ctx, db, which)
	}
	to, err := openArchive(file)
	if err != nil {
		return err
	}
	which.Archive = to.add
	return errors.Join(a.delete(ctx, db, which), to.Close())
}

// restPerWork is how many times as long as a chunk took the next one is waited for.
const restPerWork = 9

func (a *app) delete(ctx context.Context, db *database, which queue_job.DeleteRange) error {
	deleted, shown := 0, time.Now()
	for {
		began := time.Now()
		n := 0
		err := a.within(ctx, func(ctx context.Context) (err error) {
			n, err = db.jobs.Delete(ctx, db, which)
			return err
		})
		deleted += n
		if err != nil {
			a.sayf("deleted %s, then:", words.Count(deleted, "job"))
			return err
		}
		if n == 0 {
			a.sayf("deleted %s", words.Count(deleted, "job"))
			return nil
		}
		if time.Since(shown) > 5*time.Second {
			a.sayf("%d …", deleted)
			shown = time.Now()
		}
		select {
		case <-ctx.Done():
			a.sayf("interrupted: deleted %s", words.Count(deleted, "job"))
			return ctx.Err()
		case <-time.After(restPerWork * time.Since(began)):
		}
	}
}
