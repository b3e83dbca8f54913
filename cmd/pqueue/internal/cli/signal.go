package cli

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) jobSignal() *cobra.Command {
	return &cobra.Command{
		Use:   "signal <id> <name> [value]",
		Short: "Send a signal to a job that waits for one, or will",
		Long: `Send a signal to a job that waits for one, or will: an approval, for example. The value is JSON, null if it is left out; "-" reads it from
standard input. A job that waits for the signal goes on within a second; one that does not wait yet finds it when it gets so far. The first signal
of a name counts. If the job does not take it, the command says why and exits with 3, so it may be sent again at any time. pqueue job get shows which
signal a job waits for. A job whose parameters are encrypted is refused: pqueue has no keys.`,
		Example: "  pqueue job signal 4711 approval '{\"by\": \"ann\", \"yes\": true}'\n  pqueue job signal 4711 paid",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idOf(args[0])
			if err != nil {
				return err
			}
			text := "null"
			if len(args) == 3 {
				if text, err = a.params(args[2]); err != nil {
					return err
				}
			}
			if !json.Valid([]byte(text)) {
				return exitf(exitUsage, `the value is no JSON: a text needs its quotes, as in '"yes"'`)
			}
			return a.with(cmd.Context(), func(db *database) error { return a.signal(cmd.Context(), db, id, args[1], text) })
		},
	}
}

func (a *app) signal(ctx context.Context, db *database, id uint64, name, text string) error {
	job, _, err := a.get(ctx, db, id)
	if err != nil {
		return err
	}
	if stored, encoded := queue_job.EncodingOf(job.JobParams); encoded {
		return exitf(exitRefused, "the parameters of job %d are stored %v, so its signals have to be, too: send it from a program of yours", id, stored)
	}
	err = a.within(ctx, func(ctx context.Context) error {
		return db.jobs.Signal(ctx, db, queue_job.ID(id), name, queue_job.JSON(text))
	})
	switch {
	case err == nil:
		a.sayf("job %d has the signal %q", id, name)
		return nil
	case errors.Is(err, queue_job.ErrEnded):
		return a.whyNot(ctx, db, "signal", id)
	case errors.Is(err, queue_job.ErrSignalled), errors.Is(err, queue_job.ErrSignalLate):
		return exitf(exitNothing, "%v", err)
	}
	return err
}
