package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) jobAdd() *cobra.Command {
	var j queue_job.AddModelJob
	var at, key, group, priority, unique string
	var after time.Duration
	var maxRetries int
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
			if j.Unique, err = uniquenessOf(unique); err != nil {
				return err
			}
			start, err := startOf(at, after)
			if err != nil {
				return err
			}
			j.Delay, j.Key, j.Group = after, key, group
			if cmd.Flags().Changed("max-retries") {
				j.MaxRetries = &maxRetries
			}
			return a.with(cmd.Context(), func(db *database) error {
				if j.JobType, err = a.typeOf(cmd.Context(), db, args[0]); err != nil {
					return err
				}
				if j.StartTime, err = a.secondOf(cmd.Context(), db, start); err != nil {
					return err
				}
				return a.add(cmd.Context(), db, j)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&at, "at", "", "when it falls due: a time (2026-11-24T10:30), or a time from now (+2h), by the database's clock")
	flags.DurationVar(&after, "after", 0, "how long after now it falls due, by the database's clock")
	flags.DurationVar(&j.ExpiresAfter, "expires-after", 0, "how long after now it is cancelled if it has not started (default: never)")
	flags.StringVar(&key, "key", "", "its business key")
	flags.StringVar(&group, "group", "", "what order and limits go by (default: the key)")
	flags.StringVar(&unique, "unique", "", "waiting, pending or forever: how long no other job may have its key")
	flags.BoolVar(&j.ReplaceWaiting, "replace", false, "if a job with its unique key waits, that job becomes this one")
	flags.StringVar(&priority, "priority", "normal", "low, normal, high or urgent")
	flags.IntVar(&maxRetries, "max-retries", 0, "how often it is retried; -1: without limit (default: as its type says)")
	flags.StringToStringVar(&j.Meta, "meta", nil, "metadata, as name=text")
	return cmd
}

func uniquenessOf(text string) (queue_job.Uniqueness, error) {
	switch text {
	case "":
		return queue_job.NotUnique, nil
	case "waiting":
		return queue_job.UniqueWhileWaiting, nil
	case "pending":
		return queue_job.UniqueWhilePending, nil
	case "forever":
		return queue_job.UniqueForever, nil
	}
	return 0, exitf(exitUsage, "--unique %s: it is waiting, pending or forever", text)
}

// startOf reads when a job falls due. None is given: it says so itself, or it does at once.
func startOf(at string, after time.Duration) (m moment, err error) {
	switch {
	case at == "":
		return m, nil
	case after != 0:
		return m, exitf(exitUsage, "--at and --after both say when it falls due; use one of them")
	}
	return futureOf(at)
}

// secondOf is the second in which a moment lies, as a row has it. 0: none is given.
func (a *app) secondOf(ctx context.Context, db *database, m moment) (uint32, error) {
	at, err := a.momentNow(ctx, db, m)
	if err != nil || !m.Given() {
		return 0, err
	}
	if at.Unix() <= 0 || at.Unix() > math.MaxUint32 {
		return 0, exitf(exitUsage, "--at lies in the year %d; write a time between 1970 and 2106", at.Year())
	}
	return uint32(at.Unix()), nil
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
