package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
)

func (a *app) deployCommand() *cobra.Command {
	return noun("deploy", "Mark deploys in the console's charts", a.deployMark())
}

func (a *app) deployMark() *cobra.Command {
	return &cobra.Command{
		Use:   "mark <version>",
		Short: "Say that a version is deployed now",
		Long: `Say that a version is deployed now. The console's charts have a mark at that moment, with the version, and say which errors are new since
then; pqueue audit list has it, too. Without that, the console sees a deploy when instances come that had no lease before, and knows no
version. If instances come within a minute of the mark, that is one deploy.`,
		Example: "  pqueue deploy mark v1.4\n  pqueue deploy mark \"$GIT_COMMIT\" --as ci --why 'faster mails'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				err := a.within(cmd.Context(), func(ctx context.Context) error { return faces.MarkDeploy(ctx, db.jobs, db, args[0]) })
				if errors.Is(err, faces.ErrUnfit) {
					return &exit{exitUsage, err}
				}
				if err == nil {
					a.sayf("marked: %s is deployed", args[0])
				}
				return err
			})
		},
	}
}
