package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

// completeWithin is how long somebody who presses Tab waits at most.
const completeWithin = 500 * time.Millisecond

// completed makes what the shell completes a command's first argument by: words from the database, each with a tab and what it is. If
// the database does not answer in time, there are none.
func (a *app) completed(words func(context.Context, *database) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var found []string
		a.with(ctx, func(db *database) error { found = words(ctx, db); return nil })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) typesToComplete(ctx context.Context, db *database) (words []string) {
	types, _ := a.types(ctx, db, false)
	for _, t := range types {
		words = append(words, fmt.Sprintf("%d\t%s", t.JobType, t.Name))
	}
	return words
}

func (a *app) leasesToComplete(ctx context.Context, db *database) (words []string) {
	leases, _ := readAll(ctx, a, db, (*queue_job.Jobs).Leases)
	for _, l := range leases {
		words = append(words, l.Name+"\t"+l.TypeName)
	}
	return words
}

func (a *app) instancesToComplete(ctx context.Context, db *database) (words []string) {
	instances, _ := readAll(ctx, a, db, (*queue_job.Jobs).Instances)
	for _, i := range instances {
		words = append(words, i.Id+"\t"+i.Service+" on "+i.Host)
	}
	return words
}
