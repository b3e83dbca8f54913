package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

const limitsHelp = `The limits stand in the database, hold on all instances within a second, and never allow more than the programs'
configuration. Jobs that run go on to their end, and count. Of a type with a handler of batches, workers are calls. Each shard keeps one
worker. Up to a tenth of the rate may start at once, or a batch, for each shard.`

func (a *app) typeSet() *cobra.Command {
	var limits queue_job.Limits
	cmd := &cobra.Command{
		Use:   "set <type>",
		Short: "Lower how many jobs of a type run at a time, or start in a second",
		Long: `Lower how many jobs of a type run at a time, or start in a second, until pqueue type unset: to spare a receiver that has trouble, for
example. What you leave out stays as it is.

` + limitsHelp,
		Example: "  pqueue type set 7 --workers 10\n  pqueue type set billing --rate 2.5 --why 'the bank is slow'",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			workers, rate := cmd.Flags().Changed("workers"), cmd.Flags().Changed("rate")
			switch err := limits.Validate(); {
			case !workers && !rate:
				return exitf(exitUsage, "say what to set: --workers, --rate or both")
			case err != nil:
				return &exit{exitUsage, err}
			case workers && limits.Workers == 0 || rate && limits.RatePerSecond == 0:
				return exitf(exitUsage, "0 is no limit: use pqueue type pause, if no job is to start, or type unset")
			}
			return a.changeLimits(cmd.Context(), args[0], func(set *queue_job.Limits) {
				if workers {
					set.Workers = limits.Workers
				}
				if rate {
					set.RatePerSecond = limits.RatePerSecond
				}
			})
		},
	}
	cmd.Flags().IntVar(&limits.Workers, "workers", 0, "how many jobs of the type may run at a time, on all instances together")
	cmd.Flags().Float64Var(&limits.RatePerSecond, "rate", 0, "how many jobs of the type may start in a second")
	return cmd
}

func (a *app) typeUnset() *cobra.Command {
	var workers, rate bool
	cmd := &cobra.Command{
		Use:   "unset <type>",
		Short: "Take back what pqueue type set has set",
		Long: `Take back what pqueue type set has set: the programs' configuration counts again. Without a flag, all of it.

` + limitsHelp,
		Example: "  pqueue type unset 7\n  pqueue type unset billing --rate",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.typesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeLimits(cmd.Context(), args[0], func(set *queue_job.Limits) {
				if workers || !rate {
					set.Workers = 0
				}
				if rate || !workers {
					set.RatePerSecond = 0
				}
			})
		},
	}
	cmd.Flags().BoolVar(&workers, "workers", false, "how many may run at a time")
	cmd.Flags().BoolVar(&rate, "rate", false, "how many may start in a second")
	return cmd
}

// changeLimits changes the limits of a type from what they are.
func (a *app) changeLimits(ctx context.Context, name string, change func(*queue_job.Limits)) error {
	return a.onType(ctx, name, func(ctx context.Context, db *database, number int32) (string, error) {
		types, err := db.jobs.Types(ctx, db)
		if err != nil {
			return "", err
		}
		var known queue_job.Type
		for _, t := range types {
			if t.JobType == number {
				known = t
			}
		}
		limits := known.Limits
		change(&limits)
		changed, err := db.jobs.SetLimits(ctx, db, number, limits)
		if err != nil {
			return "", err
		}
		text := "type %d has the limits of its configuration"
		if limits != (queue_job.Limits{}) {
			text = "type %d has these limits: " + limits.String()
		}
		if !changed {
			return text + " already", nil
		}
		text += " from now on"
		known.Limits = limits
		if known.Lowered() != limits {
			text += fmt.Sprintf("; its configuration allows %v anyway",
				queue_job.Limits{Workers: known.Config.WorkerPoolCapacity, RatePerSecond: known.Config.RatePerSecond})
		}
		return text, nil
	})
}
