package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) opCommand() *cobra.Command {
	return noun("op", "See, stop and resume operations on many jobs", a.opList(), a.opGet(),
		a.opSwitch("stop", "Stop an operation", "It ends between two parts. What it has changed stays so.",
			func(ctx context.Context, db *database, id uint64) (string, error) {
				changed, err := operate.Stop(ctx, db.jobs, db, id)
				return either(changed, "operation %d is stopped", "operation %d was not open"), err
			}),
		a.opSwitch("resume", "Let a stopped operation go on where it was",
			"Any program that runs jobs of this database goes on with it within seconds; pqueue op run does so at once.",
			func(ctx context.Context, db *database, id uint64) (string, error) {
				changed, err := operate.Resume(ctx, db.jobs, db, id)
				return either(changed, "operation %d goes on", "operation %d was not stopped"), err
			}),
		a.opRun())
}

func (a *app) opList() *cobra.Command {
	var limit int
	var before uint64
	cmd := &cobra.Command{
		Use: "list", Short: "List operations, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return exitf(exitUsage, "--limit %d: say how many to show, 1 or more", limit)
			}
			return a.with(cmd.Context(), func(db *database) error {
				var ops []operate.Operation
				err := a.within(cmd.Context(), func(ctx context.Context) (err error) {
					ops, err = operate.Operations(ctx, db.jobs, db, before, limit)
					return err
				})
				if err == nil {
					_, err = list(a, all(ops), "operations", operationColumns, operationJSON)
				}
				if err == nil {
					a.sayMore(len(ops), limit)
				}
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "how many at most")
	cmd.Flags().Uint64Var(&before, "before", 0, "only operations with smaller ids")
	return cmd
}

var operationColumns = []column[operate.Operation]{
	{"id", func(o operate.Operation) string { return strconv.FormatUint(o.Id, 10) }},
	{"begun", func(o operate.Operation) string { return clock(o.Begun) }},
	{"state", func(o operate.Operation) string { return o.State }},
	{"verb", func(o operate.Operation) string { return string(o.Change.Verb) }},
	{"jobs", func(o operate.Operation) string { return filterText(&o.Change.Filter) }},
	{"changed", func(o operate.Operation) string { return strconv.Itoa(o.Changed) }},
	{"skipped", func(o operate.Operation) string { return strconv.Itoa(o.Skipped) }},
	{"looked", func(o operate.Operation) string { return lookedText(&o) }},
	{"actor", func(o operate.Operation) string { return o.Actor }},
	{"why", func(o operate.Operation) string { return o.Why }},
}

// lookedText says how much of the ids an operation has looked at.
func lookedText(o *operate.Operation) string {
	if o.Last == 0 {
		return "100%"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(o.Reached)/float64(o.Last))
}

// filterText writes a filter as a query.
func filterText(f *queue_job.Filter) string {
	var terms []string
	if len(f.JobTypes) > 0 {
		terms = append(terms, "type:"+strings.Trim(strings.ReplaceAll(fmt.Sprint(f.JobTypes), " ", ","), "[]"))
	}
	if len(f.Statuses) > 0 {
		var names []string
		for _, s := range f.Statuses {
			names = append(names, s.String())
		}
		switch {
		case slices.Equal(f.Statuses, queue_job.PendingStatuses()):
			names = []string{"pending"}
		case slices.Equal(f.Statuses, queue_job.FinalStatuses()):
			names = []string{"final"}
		}
		terms = append(terms, "status:"+strings.Join(names, ","))
	}
	if f.Key != "" {
		terms = append(terms, "key:"+f.Key)
	}
	for _, r := range []struct {
		name     string
		from, to time.Time
	}{{"created", f.CreatedFrom, f.CreatedTo}, {"updated", f.UpdatedFrom, f.UpdatedTo}, {"due", f.DueFrom, f.DueTo}} {
		if !r.from.IsZero() || !r.to.IsZero() {
			terms = append(terms, fmt.Sprintf("%s:%s..%s", r.name, queryTime(r.from), queryTime(r.to)))
		}
	}
	return strings.Join(terms, " ")
}

func queryTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05")
}

func operationJSON(o operate.Operation) any {
	j := map[string]any{
		"id": strconv.FormatUint(o.Id, 10), "begun": stamp(o.Begun),
		"actor": o.Actor, "why": o.Why, "state": o.State, "verb": string(o.Change.Verb), "query": filterText(&o.Change.Filter),
		"reached": strconv.FormatUint(o.Reached, 10), "last": strconv.FormatUint(o.Last, 10),
		"changed": o.Changed, "skipped": o.Skipped, "worker": o.Worker, "touched": stamp(o.Touched),
	}
	if o.Change.PerSecond > 0 {
		j["per_second"] = o.Change.PerSecond
	}
	return j
}

// onOperation runs an act on the operation whose id is the argument.
func (a *app) onOperation(act func(ctx context.Context, db *database, id uint64) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return exitf(exitUsage, "%q is no id of an operation", args[0])
		}
		return a.with(cmd.Context(), func(db *database) error { return act(cmd.Context(), db, id) })
	}
}

func (a *app) operation(ctx context.Context, db *database, id uint64) (o *operate.Operation, err error) {
	err = a.within(ctx, func(ctx context.Context) error {
		o, err = operate.OperationOf(ctx, db.jobs, db, id)
		return err
	})
	if errors.Is(err, operate.ErrNoOperation) {
		err = exitf(exitNothing, "there is no operation %d; pqueue op list shows them", id)
	}
	return o, err
}

func (a *app) opGet() *cobra.Command {
	return &cobra.Command{
		Use: "get <id>", Short: "Show an operation", Args: cobra.ExactArgs(1),
		RunE: a.onOperation(func(ctx context.Context, db *database, id uint64) error {
			o, err := a.operation(ctx, db, id)
			if err != nil {
				return err
			}
			switch a.output {
			case "json":
				return indented(a.Out, operationJSON(*o))
			case "table":
			default:
				_, err = list(a, all([]operate.Operation{*o}), "operations", operationColumns, operationJSON)
				return err
			}
			out := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
			line := labelled(out)
			for _, c := range operationColumns {
				line(c.name, c.show(*o))
			}
			line("worker", o.Worker)
			line("heard of", clock(o.Touched))
			return out.Flush()
		}),
	}
}

// opSwitch is a command that does one thing to an operation. What act says has room for the operation's id.
func (a *app) opSwitch(verb, short, long string, act func(context.Context, *database, uint64) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <id>", Short: short, Long: short + ". " + long, Args: cobra.ExactArgs(1),
		RunE: a.onOperation(func(ctx context.Context, db *database, id uint64) error {
			if _, err := a.operation(ctx, db, id); err != nil {
				return err
			}
			return a.doAndSay(ctx, id, func(ctx context.Context) (string, error) { return act(ctx, db, id) })
		}),
	}
}

func (a *app) opRun() *cobra.Command {
	return &cobra.Command{
		Use: "run <id>", Short: "Carry out an open operation in this process",
		Long: `Carry out an open operation in this process, for example because no program runs jobs of this database. Ctrl-C stops it between two parts.`,
		Args: cobra.ExactArgs(1),
		RunE: a.onOperation(func(ctx context.Context, db *database, id uint64) error {
			if _, err := a.operation(ctx, db, id); err != nil {
				return err
			}
			return a.carryOut(ctx, db, id, "changed")
		}),
	}
}

// tellEvery is how often somebody who waits hears how far an operation is.
const tellEvery = time.Second

// carryOut carries out an operation. If the process is interrupted, it stops the operation.
func (a *app) carryOut(ctx context.Context, db *database, id uint64, done string) error {
	var last operate.Operation
	told := time.Now()
	err := operate.CarryOut(ctx, db.jobs, db, id, func(o operate.Operation) {
		if last = o; time.Since(told) >= tellEvery {
			told = time.Now()
			a.sayf("%s %s, looked at %s …", done, words.Count(o.Changed, "job"), lookedText(&o))
		}
	})
	switch {
	case ctx.Err() != nil:
		stopped := a.within(context.WithoutCancel(ctx), func(ctx context.Context) error {
			_, err := operate.Stop(ctx, db.jobs, db, id)
			return err
		})
		if stopped != nil {
			return fmt.Errorf("interrupted, and operation %d could not be stopped, so others go on with it: %w", id, stopped)
		}
		a.sayf("interrupted: %s %s; pqueue op resume %d goes on", done, words.Count(last.Changed, "job"), id)
		return ctx.Err()
	case errors.Is(err, operate.ErrNotOurs):
		o, err := a.operation(ctx, db, id)
		if err != nil {
			return err
		}
		if o.State == "open" {
			return exitf(exitPartly, "operation %d is carried out by %s; pqueue op get %d shows how far it is", id, o.Worker, id)
		}
		last = *o
	case err != nil:
		a.sayf("%s %s, then:", done, words.Count(last.Changed, "job"))
		return fmt.Errorf("%w; pqueue op run %d goes on", err, id)
	}
	a.sayf("%s %s", done, words.Count(last.Changed, "job"))
	if last.State == "stopped" {
		return exitf(exitPartly, "operation %d was stopped; pqueue op resume %d goes on", id, id)
	}
	if last.Skipped > 0 {
		a.sayf("%s had to stay as %s: in flight, in another state by then, or its unique key belongs to another job",
			words.Count(last.Skipped, "job"), either(last.Skipped == 1, "it was", "they were"))
		return &exit{exitPartly, nil}
	}
	return nil
}
