package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// steering is a command that changes jobs, which are given by ids or by a query.
type steering struct {
	use, short, long, example string
	verb, done                string // "cancel", "cancelled"
	forGood                   bool   // it cannot be taken back, so somebody is asked for a single job, too
	// prepare reads what the command needs beside the jobs, which are the other arguments.
	prepare func(args []string) (jobs []string, err error)
	// begin asks the database what the command needs to know of it. Nil: nothing.
	begin func(ctx context.Context, db *database) error
	// act changes jobs that are given by ids, and returns how many.
	act func(ctx context.Context, db *database, which queue_job.Selector) (int, error)
	// change is what an operation does to the jobs of a query.
	change func() operate.Change
}

// selection is how a steering command finds its jobs, and how careful it is.
type selection struct {
	limit       int
	rate        int
	dryRun, yes bool
}

const selectionHelp = `The jobs are given by their ids, or by a query.

A query's jobs are shown with --dry-run, or changed after you said yes. Without a terminal, more than one job is only changed with --yes.
They are changed in an operation, up to 500 at a time, and pqueue op list shows it. Ctrl-C stops it between two parts. If this process dies,
any program that runs jobs of this database goes on with it.`

func (a *app) steer(s steering) *cobra.Command {
	var sel selection
	cmd := &cobra.Command{
		Use: s.use, Short: s.short, Example: s.example,
		Long: strings.TrimSpace(s.short + ".\n\n" + s.long + "\n\n" + selectionHelp + "\n\n" + queryHelp),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.prepare != nil {
				if args, err = s.prepare(args); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return exitf(exitUsage, "say which jobs: by id, or by a query such as type:7 key:order-47; see %s --help", cmd.CommandPath())
			}
			ids, isList, err := idsOf(args)
			if err != nil {
				return err
			}
			if isList && cmd.Flags().Changed("rate") {
				return exitf(exitUsage, "--rate is for jobs that a query chooses; jobs that are named are changed at once")
			}
			var q *query.Query
			if !isList {
				if q, err = query.ParseArguments(args, time.Local); err == nil {
					err = endedQuery(q)
				}
				if err != nil {
					return &exit{exitUsage, err}
				}
			}
			return a.with(cmd.Context(), func(db *database) error {
				if s.begin != nil {
					if err := s.begin(cmd.Context(), db); err != nil {
						return err
					}
				}
				switch {
				case q != nil:
					return a.steerMany(cmd.Context(), db, s, q, sel)
				case sel.dryRun:
					return a.sample(cmd.Context(), db, s, ids)
				case sel.limit > 0 && len(ids) > sel.limit:
					return exitf(exitRefused, "%s are named, and --limit is %d; raise --limit, or 0 for any number", words.Count(len(ids), "job"), sel.limit)
				case s.forGood && !sel.yes:
					if err := a.confirm(fmt.Sprintf("%s %s?", s.verb, words.Count(len(ids), "job"))); err != nil {
						return err
					}
				}
				return a.change(cmd.Context(), db, s, ids)
			})
		},
	}
	cmd.Flags().IntVar(&sel.limit, "limit", 1000, "refuse to change more jobs than that, which may be up to 10000; 0: change any number")
	cmd.Flags().IntVar(&sel.rate, "rate", 0,
		"limit on how many jobs of a query are changed in a second; 0: no limit, but a pause after each part that is as long as the part took")
	cmd.Flags().BoolVar(&sel.dryRun, "dry-run", false, "change nothing: show how many jobs it would be, and ten of them")
	cmd.Flags().BoolVarP(&sel.yes, "yes", "y", false, "do not ask")
	return cmd
}

// idsOf reads a list of ids; isList is false if the first argument is a term of a query.
func idsOf(args []string) (ids []uint64, isList bool, err error) {
	if strings.Contains(args[0], ":") {
		return nil, false, nil
	}
	for _, arg := range args {
		id, err := idOf(arg)
		if err != nil {
			return nil, true, err
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), true, nil
}

// steerMany changes the jobs of a query.
func (a *app) steerMany(ctx context.Context, db *database, s steering, q *query.Query, sel selection) error {
	if err := a.resolve(ctx, db, q); err != nil {
		return err
	}
	change := s.change()
	change.Filter, change.PerSecond = q.Filter, sel.rate
	preview, err := operate.PreviewOf(ctx, db.jobs, db, change)
	if err != nil {
		return err
	}
	number := numberOf(preview)
	switch {
	case preview.Jobs == 0:
		return exitf(exitNothing, "no job matches")
	case sel.dryRun:
		return a.samples(s.verb, preview)
	case sel.limit > 0 && (preview.Jobs > sel.limit || preview.More):
		return exitf(exitRefused, "%s match, and --limit is %d; narrow the query, or raise --limit", number, sel.limit)
	}
	if (preview.Jobs > 1 || s.forGood) && !sel.yes {
		if err := a.confirm(fmt.Sprintf("%s %s?", s.verb, number)); err != nil {
			return err
		}
	}
	var id uint64
	err = a.within(ctx, func(ctx context.Context) error {
		id, err = operate.Begin(ctx, db.jobs, db, change)
		return err
	})
	if err != nil {
		return err
	}
	return a.carryOut(ctx, db, id, s.done)
}

func (a *app) sample(ctx context.Context, db *database, s steering, ids []uint64) error {
	var shown []queue_job.JobInfo
	for _, id := range ids[:min(10, len(ids))] {
		info, _, err := a.get(ctx, db, id)
		if err != nil && !errors.Is(err, queue_job.ErrNoJob) {
			return err
		}
		if err == nil {
			shown = append(shown, *info)
		}
	}
	return a.samples(s.verb, &operate.Preview{Jobs: len(ids), Sample: shown})
}

// samples says what a verb would change.
func (a *app) samples(verb string, p *operate.Preview) error {
	if p.Jobs == 0 {
		return exitf(exitNothing, "no job matches")
	}
	a.sayf("would %s %s; the first:", verb, numberOf(p))
	_, err := list(a, all(p.Sample), "jobs", jobColumns(a.output), func(j queue_job.JobInfo) any { return jobJSON(&j) })
	return err
}

func numberOf(p *operate.Preview) string {
	if p.More {
		return "more than " + words.Count(p.Jobs, "job")
	}
	return words.Count(p.Jobs, "job")
}

// confirm asks somebody at the terminal.
func (a *app) confirm(question string) error {
	if !isTerminal(a.In) {
		return exitf(exitRefused, "%s Nobody can be asked here: look with --dry-run, then pass --yes", question)
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return exitf(exitRefused, "nothing was changed")
	}
	return nil
}

// chunk is how many jobs are changed in a statement.
const chunk = 500

func (a *app) change(ctx context.Context, db *database, s steering, ids []uint64) error {
	changed, seen := 0, 0
	var refused []error
	for part := range slices.Chunk(ids, chunk) {
		if ctx.Err() != nil {
			a.sayf("interrupted: %s %d of %s", s.done, changed, words.Count(len(ids), "job"))
			return ctx.Err()
		}
		err := a.within(ctx, func(ctx context.Context) error {
			n, err := s.act(ctx, db, queue_job.ID(part...))
			changed += n
			return err
		})
		if errors.Is(err, queue_job.ErrInFlight) || errors.Is(err, queue_job.ErrNewest) {
			refused = append(refused, err)
		} else if err != nil {
			a.sayf("%s %d of %s, then:", s.done, changed, words.Count(len(ids), "job"))
			return err
		}
		if seen += len(part); len(ids) > chunk {
			a.sayf("%d of %d …", seen, len(ids))
		}
	}
	if changed == len(ids) {
		a.sayf("%s %s", s.done, words.Count(changed, "job"))
		return nil
	}
	if len(ids) == 1 && len(refused) > 0 {
		return refused[0]
	}
	if len(ids) == 1 {
		return a.whyNot(ctx, db, s.verb, ids[0])
	}
	code := exitPartly
	if changed == 0 {
		code = exitNothing
	}
	a.sayf("%s %d of %s; the others are in a state in which that does nothing, or are gone", s.done, changed, words.Count(len(ids), "job"))
	for _, err := range refused {
		a.sayf("%v", err)
	}
	return &exit{code, nil}
}

// whyNot says of the one job that was asked for why it is as it was.
func (a *app) whyNot(ctx context.Context, db *database, verb string, id uint64) error {
	info, _, err := a.get(ctx, db, id)
	if err != nil {
		return err
	}
	return exitf(exitNothing, "job %d is %s since %s: nothing to %s", id, stateOf(info), clock(info.Updated), verb)
}

func (a *app) jobCancel() *cobra.Command {
	return a.steer(steering{
		use: "cancel <id>... | <term>...", short: "Take back jobs that are not done",
		long: `The handler of a job that runs is told: its context ends within a second. A query without status: is for the jobs that are not done.`,
		example: `  pqueue job cancel 4711
  pqueue job cancel type:7 key:order-47
  pqueue job cancel type:7 created:2026-11-24.. --dry-run`,
		verb: "cancel", done: "cancelled",
		change: func() operate.Change { return operate.Change{Verb: operate.Cancel} },
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return db.jobs.Cancel(ctx, db, which)
		},
	})
}

func (a *app) jobRetry() *cobra.Command {
	return a.steer(steering{
		use: "retry <id>... | <term>...", short: "Run failed and cancelled jobs again",
		long:    `They run at once, with all their retries. A query without status: is for failed jobs; name status:failed,cancelled for both.`,
		example: "  pqueue job retry 4711\n  pqueue job retry type:7 since:2h --yes",
		verb:    "retry", done: "retried",
		change: func() operate.Change { return operate.Change{Verb: operate.Retry} },
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return a.retried(db.jobs.Retry(ctx, db, which))
		},
	})
}

// retried says which jobs do not run again, and returns how many do.
func (a *app) retried(r queue_job.Retried, err error) (int, error) {
	if len(r.Taken) > 0 {
		a.sayf("not run again, because another job has their unique key by now: %v", r.Taken)
	}
	if len(r.Undone) > 0 {
		a.sayf("not run again, because their flow is being undone, or was: %v", r.Undone)
	}
	return r.Jobs, err
}

func (a *app) jobRunNow() *cobra.Command {
	return a.steer(steering{
		use: "run-now <id>... | <term>...", short: "Make waiting jobs due at once",
		long: `A query without status: is for the jobs that are not done.`, example: "  pqueue job run-now 4711",
		verb: "run now", done: "made due",
		change: func() operate.Change { return operate.Change{Verb: operate.Reschedule, Due: time.Unix(0, 0)} },
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return db.jobs.Reschedule(ctx, db, which, time.Unix(0, 0))
		},
	})
}

func (a *app) jobReschedule() *cobra.Command {
	var due moment
	var at time.Time
	return a.steer(steering{
		use: "reschedule <time> <id>... | <term>...", short: "Make waiting jobs due at another time",
		long: `The time is +10m, +2h or +7d from now by the database's clock, or a time such as 2026-11-24T10:30. A query without status: is for the
jobs that are not done.`,
		example: "  pqueue job reschedule +2h 4711\n  pqueue job reschedule 2026-11-25T06:00 type:7 key:order-47",
		verb:    "reschedule", done: "rescheduled",
		change: func() operate.Change { return operate.Change{Verb: operate.Reschedule, Due: at} },
		prepare: func(args []string) (jobs []string, err error) {
			if len(args) == 0 {
				return nil, exitf(exitUsage, "say when, and which jobs: pqueue job reschedule +2h 4711")
			}
			due, err = futureOf(args[0])
			return args[1:], err
		},
		begin: func(ctx context.Context, db *database) (err error) {
			at, err = a.momentNow(ctx, db, due)
			return err
		},
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return db.jobs.Reschedule(ctx, db, which, at)
		},
	})
}

func (a *app) jobSetPriority() *cobra.Command {
	var priority queue_job.Priority
	return a.steer(steering{
		use: "set-priority <priority> <id>... | <term>...", short: "Give jobs that are not done another priority",
		long:    `It is low, normal, high or urgent. A query without status: is for the jobs that are not done.`,
		example: "  pqueue job set-priority urgent 4711",
		verb:    "change", done: "changed",
		change: func() operate.Change { return operate.Change{Verb: operate.SetPriority, Priority: priority} },
		prepare: func(args []string) (jobs []string, err error) {
			if len(args) == 0 {
				return nil, exitf(exitUsage, "say which priority, and which jobs: pqueue job set-priority urgent 4711")
			}
			if priority, err = priorityOf(args[0]); err != nil {
				return nil, &exit{exitUsage, err}
			}
			return args[1:], nil
		},
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return db.jobs.SetPriority(ctx, db, which, priority)
		},
	})
}

func (a *app) jobDelete() *cobra.Command {
	return a.steer(steering{
		use: "delete <id>... | <term>...", short: "Delete jobs that are done, failed or cancelled, with what the log has of their runs",
		long: `Jobs that wait or run stay: cancel them first. The job with the largest id of all stays, too, since some databases would give its id to
another job. Without a terminal, it needs --yes for a single job, too. A query without status: is for all jobs that do not run any more.
pqueue keep run deletes by age, and can archive.`,
		example: "  pqueue job delete 4711\n  pqueue job delete type:7 key:order-47 --dry-run",
		verb:    "delete", done: "deleted", forGood: true,
		change: func() operate.Change { return operate.Change{Verb: operate.Delete} },
		act: func(ctx context.Context, db *database, which queue_job.Selector) (int, error) {
			return db.jobs.DeleteJobs(ctx, db, which)
		},
	})
}

func (a *app) jobSetParams() *cobra.Command {
	retry := false
	cmd := &cobra.Command{
		Use:   "set-params <id> <params>",
		Short: "Give a waiting job other parameters",
		Long: `Give a waiting job other parameters, as JSON; "-" reads them from standard input. The old ones are printed. A job that is in flight is
refused: its handler has the old parameters, and a retry would have others. With --retry, a failed or cancelled job runs again with these.
A job whose parameters are encrypted is refused: pqueue has no keys.`,
		Example: "  pqueue job set-params 4711 '{\"order\": 48}'\n  pqueue job set-params 4711 --retry '{\"order\": 48}'",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idOf(args[0])
			if err != nil {
				return err
			}
			text, err := a.params(args[1])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(db *database) error { return a.setParams(cmd.Context(), db, id, text, retry) })
		},
	}
	cmd.Flags().BoolVar(&retry, "retry", false, "have a failed or cancelled job run again")
	return cmd
}

func (a *app) setParams(ctx context.Context, db *database, id uint64, text string, retry bool) error {
	old, _, err := a.get(ctx, db, id)
	if err != nil {
		return err
	}
	if stored, encoded := queue_job.EncodingOf(old.JobParams); encoded {
		return exitf(exitRefused, "the parameters of job %d are stored %v; they can only be changed where they can be decoded: by a program of yours",
			id, stored)
	}
	changed := 0
	err = a.within(ctx, func(ctx context.Context) error {
		if retry {
			changed, err = a.retried(db.jobs.RetryWith(ctx, db, queue_job.ID(id), queue_job.JSON(text), queue_job.KeepSteps))
		} else {
			changed, err = db.jobs.SetParams(ctx, db, queue_job.ID(id), queue_job.JSON(text))
		}
		return err
	})
	if err != nil {
		return err
	}
	if changed == 0 {
		return a.whyNot(ctx, db, "change", id)
	}
	a.sayf("job %d had:", id)
	fmt.Fprintln(a.Out, old.JobParams)
	return nil
}
