package cli

import (
	"context"
	"encoding/json"
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
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) jobCommand() *cobra.Command {
	return noun("job", "See, add and steer jobs",
		a.jobList(), a.jobGet(), a.jobExplain(), a.jobErrors(), a.jobLog(), a.jobWatch(), a.jobAdd(),
		a.jobCancel(), a.jobRetry(), a.jobRunNow(), a.jobReschedule(), a.jobSetPriority(), a.jobSetParams(), a.jobSignal(), a.jobDelete())
}

func (a *app) jobList() *cobra.Command {
	var limit int
	var oldest bool
	var before, after uint64
	cmd := &cobra.Command{
		Use:   "list [term]...",
		Short: "List jobs, the newest first",
		Long: `List jobs, the newest first. With a key, it reads the rows of the key. Otherwise it goes along the ids, and reads many rows if few of
them match.

` + queryHelp + "\n\n" + query.ListHelp + `

No index leads to an error, to parameters, to a number of runs or to a tag, nor, on PostgreSQL, to how a key begins. There it goes along the ids from
the newest job down, and says every two seconds how far it has looked. Parameters of more than 4096 characters are not looked at.`,
		Example: `  pqueue job list status:failed since:2h
  pqueue job list order-47
  pqueue job list queue:partner error:"connection refused" attempts:\>3
  pqueue job list type:7 key:order-47 -o json
  pqueue job list status:pending due:..5m --limit 1000 -o csv`,
		RunE: func(cmd *cobra.Command, terms []string) error {
			q, err := query.ParseArguments(terms, time.Local)
			if err == nil && q.OnlyLists() != "" && oldest {
				err = fmt.Errorf("--oldest: %s is looked for from the newest job down", q.OnlyLists())
			}
			if err != nil {
				return &exit{exitUsage, err}
			}
			f := &q.Filter
			f.Limit, f.NewestFirst, f.Before, f.After = limit, !oldest, before, after
			f.OmitLongParams = a.output == "table" || a.output == "id"
			return a.with(cmd.Context(), func(db *database) error { return a.list(cmd.Context(), db, q) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "how many at most; 0: all")
	cmd.Flags().BoolVar(&oldest, "oldest", false, "the oldest first")
	cmd.Flags().Uint64Var(&before, "before", 0, "only jobs with smaller ids")
	cmd.Flags().Uint64Var(&after, "after", 0, "only jobs with larger ids")
	return cmd
}

func (a *app) list(ctx context.Context, db *database, q *query.Query) error {
	if err := a.resolve(ctx, db, q); err != nil {
		return err
	}
	limit, found := q.Filter.Limit, db.jobs.All(ctx, db, q.Filter)
	if q.OnlyLists() != "" {
		found = a.search(ctx, db, q)
	}
	n, err := list(a, found, "jobs", jobColumns(a.output), func(j queue_job.JobInfo) any { return jobJSON(&j) })
	if err == nil && n > 0 && n == limit && a.output == "table" {
		a.sayf("there may be more: --limit says how many, --before (or --after, with --oldest) where to go on")
	}
	return err
}

// onJob runs an act on the job whose id is the argument.
func (a *app) onJob(act func(ctx context.Context, db *database, id uint64) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := idOf(args[0])
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), func(db *database) error { return act(cmd.Context(), db, id) })
	}
}

// jobColumns are the columns of a list of jobs. A table has room for the start of the parameters only.
func jobColumns(output string) []column[queue_job.JobInfo] {
	width := 48
	if output != "table" {
		width = 1 << 30
	}
	columns := []column[queue_job.JobInfo]{
		{"id", func(j queue_job.JobInfo) string { return strconv.FormatUint(j.Id, 10) }},
		{"type", func(j queue_job.JobInfo) string { return typeText(j.JobType, j.TypeName) }},
		{"state", func(j queue_job.JobInfo) string { return j.State() }},
		{"due", func(j queue_job.JobInfo) string { return clock(j.Due) }},
		{"updated", func(j queue_job.JobInfo) string { return clock(j.Updated) }},
		{"attempts", func(j queue_job.JobInfo) string { return strconv.Itoa(j.Attempts) }},
		{"key", func(j queue_job.JobInfo) string { return j.Key }},
		{"params", func(j queue_job.JobInfo) string {
			if j.LongParams && j.JobParams == "" {
				return "(more than 4096 characters)"
			}
			if output == "table" {
				return shortened(legible(j.JobParams), width)
			}
			return j.JobParams
		}},
	}
	if output == "csv" { // who reads it by place or by name goes on reading status
		state := columns[2]
		columns[2] = column[queue_job.JobInfo]{"status", func(j queue_job.JobInfo) string { return stateOf(&j) }}
		columns = append(columns, state)
	}
	return columns
}

// legible is a value as people read it: of an encoded one, they read how it is stored. JSON and CSV have it as it is, so that a program that has
// the key can decode it.
func legible(text string) string {
	if stored, encoded := queue_job.EncodingOf(text); encoded {
		return stored.String()
	}
	return text
}

func typeText(number int32, name string) string {
	if name == "" {
		return strconv.Itoa(int(number))
	}
	return fmt.Sprintf("%d %s", number, name)
}

// stateOf is the status of a job as CSV has it; State says more.
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
	State      string            `json:"state"`
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
	Expires    *string           `json:"expires,omitempty"`
	Tags       []string          `json:"tags,omitempty"`
	Flow       string            `json:"flow,omitempty"`
	Progress   string            `json:"progress,omitempty"`
	Result     string            `json:"result,omitempty"`
	Runs       []run             `json:"unsuccessful_runs,omitempty"`
	Steps      []step            `json:"steps,omitempty"`
}

// step is a step of a handler that is done, or a sleep, in JSON.
type step struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value,omitempty"`
	Until   *string         `json:"until,omitempty"`
	Ended   *string         `json:"ended"`
	Attempt int             `json:"attempt"`
	Signal  bool            `json:"signal,omitempty"`
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
	flow := ""
	if j.FlowId > 0 {
		flow = strconv.FormatUint(j.FlowId, 10)
	}
	return &job{
		Id: strconv.FormatUint(j.Id, 10), Type: j.JobType, TypeName: j.TypeName,
		State: j.State(), Status: j.Status.String(), InFlight: j.InFlight && j.Pending(),
		Params: j.JobParams, Created: stamp(j.Created), Due: stamp(j.Due), Updated: stamp(j.Updated),
		Attempts: j.Attempts, Retries: j.Retries, Lost: j.Lost, Deferred: j.Deferred,
		Key: j.Key, Unique: j.Unique, Group: j.Group, Priority: j.Priority.String(), MaxRetries: j.MaxRetries,
		Meta: j.Meta, Expires: stamp(j.Expires), Tags: j.Tags, Flow: flow, Progress: j.Progress, Result: j.Result,
	}
}

func (a *app) jobGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get <id>",
		Short:   "Show a job, and its runs that did not succeed",
		Example: "  pqueue job get 4711\n  pqueue job get 4711 -o json | jq -r .params",
		Args:    cobra.ExactArgs(1),
		RunE:    a.onJob(a.show),
	}
}

// show writes a job as --output says.
func (a *app) show(ctx context.Context, db *database, id uint64) error {
	info, runs, err := a.get(ctx, db, id)
	if err != nil {
		return err
	}
	var steps []queue_job.StepInfo
	err = a.within(ctx, func(ctx context.Context) (err error) {
		steps, err = db.jobs.Steps(ctx, db, id)
		return err
	})
	if err != nil {
		return err
	}
	whole := jobJSON(info)
	for _, r := range runs {
		whole.Runs = append(whole.Runs, run{r.Attempt, r.Outcome, r.Error, stamp(r.Started), stamp(r.Finished), r.Instance, r.Term})
	}
	for _, s := range steps {
		done := step{Name: s.Name, Value: s.Value, Ended: stamp(s.Ended), Attempt: s.Attempt, Signal: s.Signal}
		if !s.Until.IsZero() {
			done.Until = stamp(s.Until)
		}
		whole.Steps = append(whole.Steps, done)
	}
	switch a.output {
	case "table":
		if err := showJob(a.Out, info, runs); err != nil || len(steps) == 0 {
			return err
		}
		return showSteps(a.Out, steps)
	case "json":
		return indented(a.Out, whole)
	}
	_, err = list(a, all([]queue_job.JobInfo{*info}), "jobs", jobColumns(a.output), func(queue_job.JobInfo) any { return whole })
	return err
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
	line := labelled(out)
	line("job", strconv.FormatUint(j.Id, 10))
	line("type", typeText(j.JobType, j.TypeName))
	line("state", j.State())
	line("due", clock(j.Due))
	if !j.Expires.IsZero() {
		line("expires", expiresText(j))
	}
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
	if len(j.Tags) > 0 {
		line("tags", strings.Join(j.Tags, ", "))
	}
	if j.FlowId > 0 {
		line("flow", strconv.FormatUint(j.FlowId, 10))
	}
	for _, key := range slices.Sorted(maps.Keys(j.Meta)) {
		line("meta "+key, j.Meta[key])
	}
	line("progress", legible(j.Progress))
	line("result", legible(j.Result))
	line("params", legible(j.JobParams))
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

// expiresText says when a job expires, and of one whose end has come and that waits, what becomes of it.
func expiresText(j *queue_job.JobInfo) string {
	if j.Pending() && !j.InFlight && !j.AsOf.IsZero() && !j.Expires.After(j.AsOf) {
		return clock(j.Expires) + ": has expired, and is cancelled when its turn comes"
	}
	return clock(j.Expires)
}

func showSteps(to io.Writer, steps []queue_job.StepInfo) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(to, "\nsteps and signals:")
	fmt.Fprintln(out, "STEP\tRUN\tENDED\tVALUE")
	for _, s := range steps {
		value := legible(string(s.Value))
		switch {
		case s.Signal && s.Ended.IsZero():
			value = "waits for this signal until " + clock(s.Until)
		case s.Signal && s.Value == nil:
			value = "has not come until " + clock(s.Until)
		case s.Signal:
		case !s.Until.IsZero():
			value = "sleeps until " + clock(s.Until)
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", oneLine(s.Name), s.Attempt, clock(s.Ended), oneLine(value))
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
		RunE: a.onJob(a.watch),
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
		state := info.State()
		if info.Pending() && !info.InFlight {
			state += ", due " + clock(info.Due)
		}
		state += ", started " + words.Count(info.Attempts, "time")
		if info.Progress != "" {
			state += ": " + oneLine(legible(info.Progress))
		}
		if state != last {
			now, err := a.now(ctx, db)
			if err != nil { // what was seen is said all the same: it may be the end
				now = time.Now()
			}
			fmt.Fprintf(a.Out, "%s  %s\n", clock(now), state)
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
