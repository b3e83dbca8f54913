package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) flowCommand() *cobra.Command {
	return noun("flow", "See and steer flows (Jobs.AddFlow)", a.flowList(), a.flowGet(), a.flowExplain(), a.flowCancel(), a.flowRetry())
}

func (a *app) flowList() *cobra.Command {
	var limit int
	var before uint64
	cmd := &cobra.Command{
		Use:   "list [term]...",
		Short: "List flows, the newest first",
		Long: `List flows, the newest first, with how many of their jobs have succeeded. The terms must all hold:

  state:stuck                        open or being undone, and cannot go on without somebody's help
  state:open,done,cancelled          in one of these states; there are stopping, undoing and undone, too
  kind:order                         of this kind
  key:4711                           with this key

With a key, and of open flows, it goes by an index. Otherwise it goes along the ids, and reads many rows if few of them match.`,
		Example: "  pqueue flow list state:stuck\n  pqueue flow list key:4711 -o json",
		RunE: func(cmd *cobra.Command, terms []string) error {
			filter, err := flowFilterOf(terms)
			if err != nil {
				return &exit{exitUsage, err}
			}
			filter.Before = before
			return a.with(cmd.Context(), func(db *database) error {
				n, err := list(a, a.flows(cmd.Context(), db, filter, limit), "flows", flowColumns, func(f *queue_job.FlowInfo) any { return flowJSON(f) })
				if err == nil {
					a.sayMore(n, limit)
				}
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "how many at most; 0: all")
	cmd.Flags().Uint64Var(&before, "before", 0, "only flows with smaller ids")
	return cmd
}

// flowFilterOf reads terms.
func flowFilterOf(terms []string) (f queue_job.FlowFilter, err error) {
	given := map[string]bool{}
	for _, term := range terms {
		field, value, ok := strings.Cut(term, ":")
		switch {
		case !ok || value == "":
			return f, fmt.Errorf("%q is no term: write field:value, for example state:stuck or key:4711", term)
		case given[field]:
			return f, fmt.Errorf("%s: comes twice", field)
		}
		given[field] = true
		switch field {
		case "state":
			err = faces.ChooseFlows(&f, strings.Split(value, ",")...)
		case "kind":
			f.Kind = value
		case "key":
			f.Key = value
		default:
			err = fmt.Errorf("no such field; there are state, kind and key")
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", term, err)
		}
	}
	return f, nil
}

// flows yields flows, a page at a time, and as many as the limit says; 0: all.
func (a *app) flows(ctx context.Context, db *database, filter queue_job.FlowFilter, limit int) iter.Seq2[*queue_job.FlowInfo, error] {
	const page = 100
	return func(yield func(*queue_job.FlowInfo, error) bool) {
		for left := limit; limit == 0 || left > 0; left -= page {
			if filter.Limit = page; limit > 0 {
				filter.Limit = min(page, left)
			}
			var found []queue_job.FlowInfo
			err := a.within(ctx, func(ctx context.Context) (err error) {
				found, err = db.jobs.Flows(ctx, db, filter)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range found {
				if filter.Before = found[i].Id; !yield(&found[i], nil) {
					return
				}
			}
			if len(found) < filter.Limit {
				return
			}
		}
	}
}

var flowColumns = []column[*queue_job.FlowInfo]{
	{"id", func(f *queue_job.FlowInfo) string { return strconv.FormatUint(f.Id, 10) }},
	{"kind", func(f *queue_job.FlowInfo) string { return f.Kind }},
	{"key", func(f *queue_job.FlowInfo) string { return f.Key }},
	{"state", faces.FlowWord},
	{"done", func(f *queue_job.FlowInfo) string { return strconv.Itoa(f.Done) }},
	{"jobs", func(f *queue_job.FlowInfo) string { return strconv.Itoa(f.Total) }},
	{"created", func(f *queue_job.FlowInfo) string { return clock(f.Created) }},
	{"ended", func(f *queue_job.FlowInfo) string { return clock(f.Ended) }},
}

// flow is a flow in JSON.
type flow struct {
	Id      string    `json:"id"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key,omitempty"`
	State   string    `json:"state"`
	Stuck   bool      `json:"stuck"`
	Done    int       `json:"done"`
	Total   int       `json:"total"`
	Created *string   `json:"created"`
	Ended   *string   `json:"ended"`
	Until   *string   `json:"deadline,omitempty"`
	Jobs    []flowJob `json:"jobs,omitempty"`
}

// flowJob is a job of a flow in JSON.
type flowJob struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Job      string   `json:"job,omitempty"`
	Type     int32    `json:"type,omitempty"`
	WaitsFor []string `json:"waits_for,omitempty"`
	Before   []string `json:"before,omitempty"`
	Result   string   `json:"result,omitempty"`
	Problem  string   `json:"problem,omitempty"`
}

func flowJSON(f *queue_job.FlowInfo) *flow {
	whole := &flow{Id: strconv.FormatUint(f.Id, 10), Kind: f.Kind, Key: f.Key, State: f.State.String(), Stuck: f.Stuck, Done: f.Done, Total: f.Total,
		Created: stamp(f.Created), Ended: stamp(f.Ended), Until: stamp(f.Deadline)}
	waits, all := faces.WaitsFor(f), f.All()
	for i := range all {
		j := &all[i]
		part := flowJob{Name: j.Name, State: j.State(), Type: j.JobType, WaitsFor: waits[j.Name], Before: j.Followers, Result: j.Result, Problem: j.Problem}
		if j.JobId > 0 {
			part.Job = strconv.FormatUint(j.JobId, 10)
		}
		whole.Jobs = append(whole.Jobs, part)
	}
	return whole
}

// onFlow runs an act on the flow whose id is the argument.
func (a *app) onFlow(act func(ctx context.Context, db *database, id uint64) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return exitf(exitUsage, "%q is no id of a flow", args[0])
		}
		return a.with(cmd.Context(), func(db *database) error {
			err := act(cmd.Context(), db, id)
			if errors.Is(err, queue_job.ErrNoFlow) {
				return &exit{exitNothing, err}
			}
			return err
		})
	}
}

func (a *app) flowsToComplete(ctx context.Context, db *database) (words []string) {
	found, _ := db.jobs.Flows(ctx, db, queue_job.FlowFilter{States: []queue_job.FlowState{queue_job.FlowOpen}})
	for i := range found {
		f := &found[i]
		words = append(words, fmt.Sprintf("%d\t%s %s", f.Id, strings.TrimSpace(f.Kind+" "+f.Key), faces.FlowWord(f)))
	}
	return words
}

func (a *app) flow(ctx context.Context, db *database, id uint64) (f *queue_job.FlowInfo, err error) {
	err = a.within(ctx, func(ctx context.Context) error {
		f, err = db.jobs.Flow(ctx, db, id)
		return err
	})
	return f, err
}

func (a *app) flowGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get <id>",
		Short: "Show a flow and its jobs",
		Long: `Show a flow and its jobs, each below the jobs that it waits for. The state of a job is as in pqueue job list. If there is no row: "to come",
it waits for others; "on failure", it is added if something goes wrong; "awaits signal", somebody has to send one;
"ready", it is about to be added; "refused", the database would not have it; "called off", the flow was cancelled
before; "deleted", somebody has deleted the row before the job had succeeded.`,
		Example: "  pqueue flow get 12\n  pqueue flow get 12 -o json | jq -r '.jobs[] | select(.state==\"failed\").job'",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.flowsToComplete),
		RunE: a.onFlow(func(ctx context.Context, db *database, id uint64) error {
			f, err := a.flow(ctx, db, id)
			if err != nil {
				return err
			}
			switch a.output {
			case "table":
				return showFlow(a.Out, f)
			case "json":
				return indented(a.Out, flowJSON(f))
			}
			_, err = list(a, all([]*queue_job.FlowInfo{f}), "flows", flowColumns, func(f *queue_job.FlowInfo) any { return flowJSON(f) })
			return err
		}),
	}
}

func showFlow(to io.Writer, f *queue_job.FlowInfo) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := labelled(out)
	line("flow", strconv.FormatUint(f.Id, 10))
	line("kind", f.Kind)
	line("key", f.Key)
	line("state", faces.FlowWord(f))
	line("done", fmt.Sprintf("%d of %s", f.Done, words.Count(f.Total, "job")))
	line("created", clock(f.Created))
	line("ended", clock(f.Ended))
	if !f.Deadline.IsZero() {
		line("deadline", clock(f.Deadline))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	fmt.Fprintln(out, "NAME\tSTATE\tJOB\tTYPE\tWAITS FOR\tRESULT")
	waits, all := faces.WaitsFor(f), f.All()
	for i := range all {
		j := &all[i]
		job, jobType, result := "", "", legible(j.Result)
		if j.JobId > 0 {
			job = strconv.FormatUint(j.JobId, 10)
		}
		if j.HasRow {
			jobType = strconv.Itoa(int(j.JobType))
		}
		if j.Problem != "" {
			result = j.Problem
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(j.Name), j.State(), job, jobType, oneLine(some(waits[j.Name])), oneLine(shortened(result, 48)))
	}
	return out.Flush()
}

// some are the first of some names, and how many more there are.
func some(names []string) string {
	const shown = 3
	text := strings.Join(names[:min(shown, len(names))], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (a *app) flowExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain <id>",
		Short: "Say what a flow waits for, what holds it up, and what to do about it",
		Long: `Say how a flow stands: which of its jobs it waits for, which has failed so that others are not added, and what to do about it. A flow is
stuck if no job of it waits for its turn or runs: then it cannot go on by itself. Of each reason, ten jobs are named.`,
		Example: "  pqueue flow explain 12\n  pqueue flow explain 12 -o json | jq -r .reasons[0].kind",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.flowsToComplete),
		RunE: a.onFlow(a.explainFlow),
	}
}

func (a *app) explainFlow(ctx context.Context, db *database, id uint64) error {
	var e *operate.FlowExplanation
	err := a.within(ctx, func(ctx context.Context) (err error) {
		e, err = operate.ExplainFlow(ctx, db.jobs, db, id)
		return err
	})
	if err != nil {
		return err
	}
	switch a.output {
	case "table":
		if fmt.Fprintf(a.Out, "flow %d", id); e.Flow != nil {
			fmt.Fprintf(a.Out, " (%s): %s", oneLine(strings.TrimSpace(e.Flow.Kind+" "+e.Flow.Key)), faces.FlowWord(e.Flow))
		}
		fmt.Fprintln(a.Out)
		for _, r := range e.Reasons {
			showReason(a.Out, e.At, r, commandForFlow(e, r))
		}
	case "json":
		err = indented(a.Out, map[string]any{"schema": 1, "id": strconv.FormatUint(id, 10), "at": stamp(e.At), "reasons": reasonsJSON(e.Reasons)})
	default:
		err = a.listReasons(e.Reasons)
	}
	if err == nil && e.Flow == nil {
		return &exit{exitNothing, nil}
	}
	return err
}

// commandForFlow is the command that does what a reason's remedy says, or shows more of it.
func commandForFlow(e *operate.FlowExplanation, r operate.Reason) string {
	switch {
	case r.Kind == operate.FlowStuck, r.Kind == operate.FlowEnded && r.Remedy != "":
		return fmt.Sprintf("pqueue flow retry %d", e.Id)
	case r.Kind == operate.FlowWaits && r.Job > 0:
		return fmt.Sprintf("pqueue job explain %d", r.Job)
	case r.Kind == operate.FlowHeldUp && e.Jobs[r.Job] != nil:
		return fmt.Sprintf("pqueue job get %d", r.Job)
	case r.Kind == operate.FlowToCount:
		return "pqueue host list"
	}
	return ""
}

// flowChange is a command that changes a flow and jobs of it.
type flowChange struct {
	verb, short, long string
	// concerns reports whether a job of the flow is changed.
	concerns func(*queue_job.FlowJobInfo) bool
	do       func(*queue_job.Jobs, context.Context, queue_job.Executor, uint64) (int, error)
	done     string // format: the id of the flow, and of how many jobs
}

func (a *app) flowCancel() *cobra.Command {
	return a.changeFlow(flowChange{
		verb: "cancel", short: "Take back a flow that is open: its jobs that are not done are cancelled, and no more are added",
		long:     "Handlers that run are told: their contexts end within a second. What has succeeded stays so. pqueue flow retry takes it back.",
		concerns: func(j *queue_job.FlowJobInfo) bool { return j.JobId > 0 && !j.Gone && j.Status.Pending() },
		do:       (*queue_job.Jobs).CancelFlow, done: "flow %d is cancelled, and %s of it",
	})
}

func (a *app) flowRetry() *cobra.Command {
	return a.changeFlow(flowChange{
		verb: "retry", short: "Let a flow go on that is stuck, or was cancelled",
		long: "Its jobs that have failed or were cancelled run again, with all their retries. Those whose rows were deleted, or that could not be\n" +
			"added, are added anew. What has succeeded stays so.",
		concerns: (*queue_job.FlowJobInfo).HoldsUp,
		do:       (*queue_job.Jobs).RetryFlow, done: "flow %d goes on with %s of it",
	})
}

func (a *app) changeFlow(c flowChange) *cobra.Command {
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use: c.verb + " <id>", Short: c.short,
		Long: c.short + ".\n" + c.long +
			"\n\nIf it concerns more than one job, you are asked. Without a terminal, it then needs --yes. If there is nothing to do, it exits with 3.",
		Example: fmt.Sprintf("  pqueue flow %[1]s 12 --dry-run\n  pqueue flow %[1]s 12 --yes", c.verb),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.flowsToComplete),
		RunE: a.onFlow(func(ctx context.Context, db *database, id uint64) error {
			f, err := a.flow(ctx, db, id)
			if err != nil {
				return err
			}
			which := *f
			which.Jobs = slices.DeleteFunc(slices.Clone(faces.FlowChanged(f, c.verb == "retry")),
				func(j queue_job.FlowJobInfo) bool { return !c.concerns(&j) })
			switch n := words.Count(len(which.Jobs), "job"); {
			case dryRun && a.output == "table":
				a.sayf("would %s %s of flow %d", c.verb, n, id)
				return showFlow(a.Out, &which)
			case dryRun:
				return indented(a.Out, flowJSON(&which))
			case len(which.Jobs) > 1 && !yes:
				if err := a.confirm(fmt.Sprintf("%s %s of flow %d?", c.verb, n, id)); err != nil {
					return err
				}
			}
			return a.doToFlow(ctx, db, c, f)
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing: show the flow, and which of its jobs would be changed")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) doToFlow(ctx context.Context, db *database, c flowChange, was *queue_job.FlowInfo) error {
	n := 0
	err := a.within(ctx, func(ctx context.Context) (err error) {
		n, err = c.do(db.jobs, ctx, db, was.Id)
		return err
	})
	var is *queue_job.FlowInfo
	if err == nil {
		is, err = a.flow(ctx, db, was.Id)
	}
	if err != nil {
		return err
	}
	if n == 0 && is.State == was.State {
		return exitf(exitNothing, "flow %d is %s: nothing to %s", was.Id, faces.FlowWord(is), c.verb)
	}
	a.sayf(c.done, was.Id, words.Count(n, "job"))
	return nil
}
