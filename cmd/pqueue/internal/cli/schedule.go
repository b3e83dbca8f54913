package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) scheduleCommand() *cobra.Command {
	return noun("schedule", "See and steer the schedules that are rows (Jobs.PutSchedule)", a.scheduleList(), a.scheduleNext(), a.schedulePut(),
		a.scheduleSwitch("pause", "Stop a schedule for a while",
			"Its times get no jobs until it is resumed. pqueue schedule backfill adds the jobs that were left out.",
			(*queue_job.Jobs).PauseSchedule, "schedule %s is paused", "schedule %s was paused already, or there is none"),
		a.scheduleSwitch("resume", "Let a paused schedule go on", "It goes on with the times from now on, within a second.",
			(*queue_job.Jobs).ResumeSchedule, "schedule %s goes on", "schedule %s was not paused, or there is none"),
		a.scheduleRun(), a.scheduleBackfill(),
		a.scheduleSwitch("delete", "Delete a schedule", "The jobs that it has added stay.",
			(*queue_job.Jobs).DeleteSchedule, "schedule %s is deleted", "there is no schedule %s"))
}

func (a *app) scheduleList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [prefix]",
		Short: "List the schedules that are rows: their times, and what became of the last job",
		Long: `List the schedules that are rows, or those whose names begin with a prefix. The last column is the state of the job of the last time, as
long as that job is in the table. A next time is missing while nobody has reckoned it: for a second, or because no instance runs with the
option WithCron. The schedules that stand in the programs (Config.Schedule) are in pqueue type get.`,
		Example: "  pqueue schedule list\n  pqueue schedule list tenant-7/ -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				pages := func(yield func(*queue_job.ScheduleInfo, error) bool) {
					a.schedules(cmd.Context(), db, strings.Join(args, ""), yield)
				}
				_, err := list(a, pages, "schedules", scheduleColumns, scheduleJSON)
				return err
			})
		},
	}
}

// schedules yields the schedules of a prefix, a page at a time.
func (a *app) schedules(ctx context.Context, db *database, prefix string, yield func(*queue_job.ScheduleInfo, error) bool) {
	for after := ""; ; {
		var found []queue_job.ScheduleInfo
		err := a.within(ctx, func(ctx context.Context) (err error) {
			found, err = db.jobs.Schedules(ctx, db, queue_job.ScheduleFilter{Prefix: prefix, After: after, Limit: 1000})
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range found {
			if !yield(&found[i], nil) {
				return
			}
			after = found[i].Name
		}
		if len(found) == 0 {
			return
		}
	}
}

var scheduleColumns = []column[*queue_job.ScheduleInfo]{
	{"name", func(s *queue_job.ScheduleInfo) string { return s.Name }},
	{"cron", func(s *queue_job.ScheduleInfo) string { return s.Cron }},
	{"type", func(s *queue_job.ScheduleInfo) string { return strconv.Itoa(int(s.Job.JobType)) }},
	{"state", func(s *queue_job.ScheduleInfo) string { return either(s.Paused.IsZero(), "runs", "paused") }},
	{"next", func(s *queue_job.ScheduleInfo) string { return clock(s.Next) }},
	{"last", func(s *queue_job.ScheduleInfo) string { return clock(s.Last) }},
	{"last job", func(s *queue_job.ScheduleInfo) string {
		if s.LastJob == nil {
			return ""
		}
		return fmt.Sprintf("%d %s", s.LastJob.Id, s.LastJob.State())
	}},
}

func scheduleJSON(s *queue_job.ScheduleInfo) any {
	j := map[string]any{
		"name": s.Name, "cron": s.Cron, "type": s.Job.JobType, "params": fmt.Sprint(s.Job.JobParams), "catch_up": s.CatchUp, "no_overlap": s.NoOverlap,
		"put": stamp(s.Put), "paused": stamp(s.Paused), "next": stamp(s.Next), "last": stamp(s.Last), "last_job": nil,
	}
	if s.LastJob != nil {
		j["last_job"] = map[string]any{"id": s.LastJob.Id, "state": s.LastJob.State()}
	}
	return j
}

func (a *app) scheduleNext() *cobra.Command {
	var times int
	cmd := &cobra.Command{
		Use:     "next <name>",
		Short:   "Show the next times of a schedule",
		Long:    "Show the next times of a schedule, by the database's clock and in this machine's zone.",
		Example: "  pqueue schedule next nightly --times 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				found, err := db.jobs.Schedules(cmd.Context(), db, queue_job.ScheduleFilter{Name: args[0]})
				if err != nil {
					return err
				}
				if len(found) == 0 {
					return exitf(exitNothing, "there is no schedule %s", args[0])
				}
				now, err := a.now(cmd.Context(), db)
				if err != nil {
					return err
				}
				next, err := db.jobs.NextTimes(found[0].Cron, now, times)
				if err == nil {
					_, err = list(a, all(next), "times", []column[time.Time]{{"time", clock}}, func(t time.Time) any { return stamp(t) })
				}
				return err
			})
		},
	}
	cmd.Flags().IntVar(&times, "times", 5, "how many")
	return cmd
}

func (a *app) schedulePut() *cobra.Command {
	var catchUp int
	var noOverlap bool
	cmd := &cobra.Command{
		Use:   "put <name> <cron> <type> [params]",
		Short: "Write a schedule, new or in place of the one with its name",
		Long: `Write a schedule, new or in place of the one with its name: at each of its times, an instance whose Runner has the option WithCron adds a job
of the type. <cron> has five fields, in UTC or in the zone of a leading CRON_TZ=, or is @hourly or @every with a duration. The parameters are
JSON; "-" reads them from standard input, and if they are left out, they are null. pqueue serve adds no jobs of these
schedules: it has its own, over HTTP.`,
		Example: `  pqueue schedule put nightly 'CRON_TZ=Europe/Berlin 30 4 * * *' billing '{"report": "daily"}'`,
		Args:    cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			var job queue_job.AddModelJob
			if len(args) > 3 {
				text, err := a.params(args[3])
				if err != nil {
					return err
				}
				job.JobParams = queue_job.JSON(text)
			}
			options := []queue_job.ScheduleOption{queue_job.CatchUp(catchUp)}
			if noOverlap {
				options = append(options, queue_job.NoOverlap())
			}
			return a.with(cmd.Context(), func(db *database) (err error) {
				if job.JobType, err = a.typeOf(cmd.Context(), db, args[2]); err != nil {
					return err
				}
				return a.doAndSay(cmd.Context(), args[0], func(ctx context.Context) (string, error) {
					return "schedule %s is written", db.jobs.PutSchedule(ctx, db, args[0], args[1], job, options...)
				})
			})
		},
	}
	cmd.Flags().IntVar(&catchUp, "catch-up", 1, "how many of the times that have passed get a job all the same, if no instance ran")
	cmd.Flags().BoolVar(&noOverlap, "no-overlap", false, "a time passes without a job while the job of the time before has not ended")
	return cmd
}

// scheduleSwitch is a command that does one thing to a schedule. What it says has room for the name.
func (a *app) scheduleSwitch(
	verb, short, long string, do func(*queue_job.Jobs, context.Context, queue_job.Executor, string) (bool, error), changed, not string,
) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <name>", Short: short, Long: short + ". " + long, Example: "  pqueue schedule " + verb + " nightly", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				did := false
				err := a.within(cmd.Context(), func(ctx context.Context) (err error) {
					did, err = do(db.jobs, ctx, db, args[0])
					return err
				})
				if err != nil {
					return err
				}
				if !did {
					return exitf(exitNothing, not, args[0])
				}
				a.sayf(changed, args[0])
				return nil
			})
		},
	}
}

func (a *app) scheduleRun() *cobra.Command {
	return &cobra.Command{
		Use:     "run <name>",
		Short:   "Add a job of a schedule that is due at once, and print its id",
		Long:    "Add a job of a schedule that is due at once, whether the schedule is paused or not, and print its id. It is for no time of the schedule.",
		Example: "  pqueue schedule run nightly",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				return a.within(cmd.Context(), func(ctx context.Context) error {
					id, err := db.jobs.RunSchedule(ctx, db, args[0])
					if err == nil {
						_, err = fmt.Fprintln(a.Out, id)
					}
					return noSchedule(err)
				})
			})
		},
	}
}

// noSchedule is the error of a verb, with what the process exits with if there is no such schedule.
func noSchedule(err error) error {
	if errors.Is(err, queue_job.ErrNoSchedule) {
		return &exit{exitNothing, err}
	}
	return err
}

func (a *app) scheduleBackfill() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "backfill <name> <from>..<to>",
		Short: "Add the jobs of times of a schedule that have passed without one",
		Long: `Add the jobs of times of a schedule that have passed and have no job in the table: the schedule was paused, no instance ran, or it is new.
The first job is due at once, and the others one after the other, so far apart as --every says. A job that was deleted since, as old jobs are,
is added again. If the end is left out, it is now.`,
		Example: "  pqueue schedule backfill nightly 7d.. --every 5m\n  pqueue schedule backfill hourly 2026-11-24T10:00..2026-11-25T06:00",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			span, err := query.ParseRange(args[1], time.Local)
			if err == nil && !span.From.Given() {
				err = exitf(exitUsage, "%s: say from when on, as in 7d..", args[1])
			}
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(db *database) error {
				now, err := a.now(cmd.Context(), db)
				if err != nil {
					return err
				}
				to := now
				if span.To.Given() {
					to = span.To.By(now)
				}
				return noSchedule(a.doAndSay(cmd.Context(), args[0], func(ctx context.Context) (string, error) {
					n, err := db.jobs.BackfillSchedule(ctx, db, args[0], span.From.By(now), to, every)
					return "added " + words.Count(n, "job") + " of schedule %s", err
				}))
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "how far apart the jobs are due")
	return cmd
}
