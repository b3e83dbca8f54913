package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) jobCommand() *cobra.Command {
	return noun("job", "See, add and steer jobs",
		a.jobList(), a.jobGet(), a.jobWatch(), a.jobAdd(),
		a.jobCancel(), a.jobRetry(), a.jobRunNow(), a.jobReschedule(), a.jobSetPriority(), a.jobSetParams())
}

func (a *app) jobList() *cobra.Command {
	var limit int
	var oldest bool
	var before, after uint64
	cmd := &cobra.Command{
		Use:   "list [term]...",
		Short: "List jobs, the newest first",
		Long:  "List jobs, the newest first.\n\n" + queryHelp,
		Example: `  pqueue job list status:failed since:2h
  pqueue job list type:7 key:order-47 -o json
  pqueue job list status:pending due:..5m --limit 1000 -o csv`,
		RunE: func(cmd *cobra.Command, terms []string) error {
			q, err := parseQuery(terms, time.Now())
			if err != nil {
				return &exit{exitUsage, err}
			}
			db, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := q.resolve(cmd.Context(), a, db); err != nil {
				return err
			}
			f := q.filter
			f.Limit, f.NewestFirst, f.Before, f.After = limit, !oldest, before, after
			f.OmitLongParams = a.output == "table" || a.output == "id"
			n, err := list(a, db.jobs.All(cmd.Context(), db, f), "jobs", jobColumns(a.output), func(j queue_job.JobInfo) any { return jobJSON(&j) })
			if err == nil && n == limit && a.output == "table" {
				a.sayf("there may be more: --limit says how many, --before (or --after, with --oldest) where to go on")
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "how many at most; 0: all")
	cmd.Flags().BoolVar(&oldest, "oldest", false, "the oldest first")
	cmd.Flags().Uint64Var(&before, "before", 0, "only jobs with smaller ids")
	cmd.Flags().Uint64Var(&after, "after", 0, "only jobs with larger ids")
	return cmd
}

// jobColumns are the columns of a list of jobs. A table has room for the start of the parameters only.
func jobColumns(output string) []column[queue_job.JobInfo] {
	width := 48
	if output != "table" {
		width = 1 << 30
	}
	return []column[queue_job.JobInfo]{
		{"id", func(j queue_job.JobInfo) string { return strconv.FormatUint(j.Id, 10) }},
		{"type", func(j queue_job.JobInfo) string { return typeText(j.JobType, j.TypeName) }},
		{"status", func(j queue_job.JobInfo) string { return stateOf(&j) }},
		{"due", func(j queue_job.JobInfo) string { return clock(j.Due) }},
		{"updated", func(j queue_job.JobInfo) string { return clock(j.Updated) }},
		{"attempts", func(j queue_job.JobInfo) string { return strconv.Itoa(j.Attempts) }},
		{"key", func(j queue_job.JobInfo) string { return j.Key }},
		{"params", func(j queue_job.JobInfo) string {
			if j.LongParams && j.JobParams == "" {
				return "(more than 4096 characters)"
			}
			return shortened(j.JobParams, width)
		}},
	}
}

func typeText(number int32, name string) string {
	if name == "" {
		return strconv.Itoa(int(number))
	}
	return fmt.Sprintf("%d %s", number, name)
}

// stateOf says in a word what a job does.
func stateOf(j *queue_job.JobInfo) string {
	if j.InFlight && j.Pending() {
		return "in flight"
	}
	return j.Status.String()
}

// job is a job in JSON. Ids are texts: JavaScript knows whole numbers up to 2^53 only.
type job struct {
	Id         string            `json:"id"`
	Type       int32             `json:"type"`
	TypeName   string            `json:"type_name,omitempty"`
	Status     string            `json:"status"`
	InFlight   bool              `json:"in_flight"`
	Params     string            `json:"params"`
	Created    *string           `json:"created"`
	Due        *string           `json:"due"`
	Updated    *string           `json:"updated"`
	Attempts   int               `json:"attempts"`
	Retries    int               `json:"retries"`
	Lost       int               `json:"lost"`
	Deferred   int               `json:"deferred"`
	Key        string            `json:"key,omitempty"`
	Unique     bool              `json:"unique,omitempty"`
	Group      string            `json:"group,omitempty"`
	Priority   string            `json:"priority"`
	MaxRetries *int              `json:"max_retries,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	Progress   string            `json:"progress,omitempty"`
	Result     string            `json:"result,omitempty"`
	Runs       []run             `json:"unsuccessful_runs,omitempty"`
}

// run is a run that did not succeed, in JSON.
type run struct {
	Attempt  int     `json:"attempt"`
	Outcome  string  `json:"outcome"`
	Error    string  `json:"error"`
	Started  *string `json:"started"`
	Finished *string `json:"finished"`
	Instance string  `json:"instance"`
	Term     int64   `json:"term"`
}

func jobJSON(j *queue_job.JobInfo) *job {
	return &job{
		Id: strconv.FormatUint(j.Id, 10), Type: j.JobType, TypeName: j.TypeName, Status: j.Status.String(), InFlight: j.InFlight && j.Pending(),
		Params: j.JobParams, Created: stamp(j.Created), Due: stamp(j.Due), Updated: stamp(j.Updated),
		Attempts: j.Attempts, Retries: j.Retries, Lost: j.Lost, Deferred: j.Deferred,
		Key: j.Key, Unique: j.Unique, Group: j.Group, Priority: j.Priority.String(), MaxRetries: j.MaxRetries,
		Meta: j.Meta, Progress: j.Progress, Result: j.Result,
	}
}

func (a *app) jobGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get <id>",
		Short:   "Show a job, and its runs that did not succeed",
		Example: "  pqueue job get 4711\n  pqueue job get 4711 -o json | jq -r .params",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idOf(args[0])
			if err != nil {
				return err
			}
			db, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			info, runs, err := a.get(cmd.Context(), db, id)
			if err != nil {
				return err
			}
			switch a.output {
			case "table":
				return showJob(a.Out, info, runs)
			case "json", "jsonl":
				whole := jobJSON(info)
				for _, r := range runs {
					whole.Runs = append(whole.Runs, run{r.Attempt, r.Outcome, r.Error, stamp(r.Started), stamp(r.Finished), r.Instance, r.Term})
				}
				if a.output == "jsonl" {
					return encoder(a.Out).Encode(whole)
				}
				return indented(a.Out, whole)
			}
			_, err = list(a, all([]queue_job.JobInfo{*info}), "jobs", jobColumns(a.output), nil)
			return err
		},
	}
}

func (a *app) get(ctx context.Context, db *database, id uint64) (info *queue_job.JobInfo, runs []queue_job.Attempt, err error) {
	err = a.within(ctx, func(ctx context.Context) error {
		if info, err = db.jobs.Get(ctx, db, queue_job.ID(id)); err == nil {
			runs, err = db.jobs.Attempts(ctx, db, id)
		}
		return err
	})
	return info, runs, err
}

// idOf reads the id of a job.
func idOf(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, exitf(exitUsage, "%q is no id of a job", text)
	}
	return id, nil
}

func showJob(to io.Writer, j *queue_job.JobInfo, runs []queue_job.Attempt) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, oneLine(text))
		}
	}
	line("job", strconv.FormatUint(j.Id, 10))
	line("type", typeText(j.JobType, j.TypeName))
	line("status", stateOf(j))
	line("due", clock(j.Due))
	line("created", clock(j.Created))
	line("updated", clock(j.Updated))
	line("attempts", attemptsText(j))
	if j.MaxRetries != nil {
		line("retries at most", strings.Replace(strconv.Itoa(*j.MaxRetries), "-1", "no limit", 1))
	}
	if j.Priority != queue_job.PriorityNormal {
		line("priority", j.Priority.String())
	}
	if line("key", j.Key); j.Unique {
		line("", "no other job of the type has this key while it counts")
	}
	if j.Group != j.Key {
		line("group", j.Group)
	}
	for _, key := range slices.Sorted(maps.Keys(j.Meta)) {
		line("meta "+key, j.Meta[key])
	}
	line("progress", j.Progress)
	line("result", j.Result)
	line("params", j.JobParams)
	if err := out.Flush(); err != nil || len(runs) == 0 {
		return err
	}
	fmt.Fprintln(to, "\nruns that did not succeed:")
	fmt.Fprintln(out, "RUN\tENDED\tTOOK\tOUTCOME\tINSTANCE\tERROR")
	for _, r := range runs {
		took := ""
		if !r.Started.IsZero() {
			took = r.Finished.Sub(r.Started).Round(time.Millisecond).String()
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Attempt, clock(r.Finished), took, r.Outcome, oneLine(r.Instance), oneLine(r.Error))
	}
	return out.Flush()
}

// attemptsText says how often a job was started, and what became of that.
func attemptsText(j *queue_job.JobInfo) string {
	text := strconv.Itoa(j.Attempts)
	for _, part := range []struct {
		n    int
		what string
	}{{j.Retries, "retried"}, {j.Deferred, "deferred"}, {j.Lost, "lost with their process"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// watchEvery is how often a watched job is read.
const watchEvery = 500 * time.Millisecond

func (a *app) jobWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch <id>",
		Short: "Show what a job does, until it is done",
		Long: `Show what a job does, until it is done: a line for each change that is seen, twice a second. It exits with 0 if the job succeeds, and with 4
if it fails or is cancelled.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idOf(args[0])
			if err != nil {
				return err
			}
			db, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			return a.watch(cmd.Context(), db, id)
		},
	}
}

func (a *app) watch(ctx context.Context, db *database, id uint64) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := ""; ; {
		info, _, err := a.get(ctx, db, id)
		if err != nil {
			return err
		}
		state := stateOf(info)
		if info.Pending() && !info.InFlight {
			state += ", due " + clock(info.Due)
		}
		state += ", started " + plural(info.Attempts, "time")
		if info.Progress != "" {
			state += ": " + oneLine(info.Progress)
		}
		if state != last {
			fmt.Fprintf(a.Out, "%s  %s\n", clock(time.Now()), state)
			last = state
		}
		if !info.Pending() {
			if info.Status != queue_job.JobStatusSuccess {
				return &exit{exitPartly, nil}
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) jobAdd() *cobra.Command {
	var j queue_job.AddModelJob
	var at, key, group, priority, unique string
	var after time.Duration
	var maxRetries int
	var meta map[string]string
	cmd := &cobra.Command{
		Use:   "add <type> [params]",
		Short: "Add a job, and print its id",
		Long: `Add a job, and print its id. The parameters are JSON, as the type's handler wants them; "-" reads them from standard input. If
they are left out, they are null.`,
		Example: `  pqueue job add 7 '{"order": 47}' --key order-47 --after 10m
  pqueue job add billing - < order.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				text, err := a.params(args[1])
				if err != nil {
					return err
				}
				j.JobParams = queue_job.JSON(text)
			}
			var err error
			if j.Priority, err = priorityOf(priority); err != nil {
				return &exit{exitUsage, err}
			}
			switch unique {
			case "":
			case "pending":
				j.Unique = queue_job.UniqueWhilePending
			case "forever":
				j.Unique = queue_job.UniqueForever
			default:
				return exitf(exitUsage, "--unique %s: it is pending or forever", unique)
			}
			if at != "" {
				if after != 0 {
					return exitf(exitUsage, "--at and --after both say when it falls due; use one of them")
				}
				moment, err := futureOf(at, time.Now())
				if err != nil {
					return err
				}
				j.StartTime = uint32(moment.Unix())
			}
			j.Delay, j.Key, j.Group, j.Meta = after, key, group, meta
			if cmd.Flags().Changed("max-retries") {
				j.MaxRetries = &maxRetries
			}
			db, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if j.JobType, err = a.typeOf(cmd.Context(), db, args[0]); err != nil {
				return err
			}
			return a.add(cmd.Context(), db, j)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&at, "at", "", "when it falls due: a time (2026-11-24T10:30), or a time from now (+2h)")
	flags.DurationVar(&after, "after", 0, "how long after now it falls due, by the database's clock")
	flags.StringVar(&key, "key", "", "its business key")
	flags.StringVar(&group, "group", "", "what order and limits go by (default: the key)")
	flags.StringVar(&unique, "unique", "", "pending or forever: how long no other job may have its key")
	flags.BoolVar(&j.ReplaceWaiting, "replace", false, "if a job with its unique key waits, that job becomes this one")
	flags.StringVar(&priority, "priority", "normal", "low, normal, high or urgent")
	flags.IntVar(&maxRetries, "max-retries", 0, "how often it is retried; -1: without limit (default: as its type says)")
	flags.StringToStringVar(&meta, "meta", nil, "metadata, as name=text")
	return cmd
}

func (a *app) add(ctx context.Context, db *database, j queue_job.AddModelJob) error {
	var added queue_job.Added
	err := a.within(ctx, func(ctx context.Context) (err error) {
		if j.Unique == queue_job.NotUnique {
			added.Id, err = db.jobs.Add(ctx, db, j)
		} else {
			added, err = db.jobs.AddUnique(ctx, db, j)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case added.Replaced:
		a.sayf("job %d waited with this key, and has become this one", added.Id)
	case added.Existed:
		a.sayf("job %d has this key; none was added", added.Id)
	}
	fmt.Fprintln(a.Out, added.Id)
	return nil
}

// params reads parameters from an argument or, if it is "-", from standard input.
func (a *app) params(text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	read, err := io.ReadAll(io.LimitReader(a.In, queue_job.ParamsMax+1))
	return strings.TrimSpace(string(read)), err
}

func priorityOf(name string) (queue_job.Priority, error) {
	for p := queue_job.PriorityLow; p <= queue_job.PriorityUrgent; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("no priority %q; there are low, normal, high and urgent", name)
}

// futureOf reads a time that is to come: a time from now with a plus, or a time of day.
func futureOf(text string, now time.Time) (time.Time, error) {
	if from, ok := strings.CutPrefix(text, "+"); ok {
		d, err := durationOf(from)
		if err != nil {
			return now, exitf(exitUsage, "%q is no time from now; write +10m, +2h or +7d", text)
		}
		return now.Add(d), nil
	}
	if _, err := durationOf(text); err == nil {
		return now, exitf(exitUsage, "%q: write +%[1]s for that time from now", text)
	}
	at, err := momentOf(text, now)
	if err == nil && at.IsZero() {
		err = errors.New("no time is given")
	}
	if err != nil {
		return now, &exit{exitUsage, err}
	}
	return at, nil
}
