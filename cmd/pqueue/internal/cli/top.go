package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) topCommand() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show instances and job types, live",
		Long: `Show instances and job types, how many handlers run and how many due jobs wait in memory, until Ctrl-C. It reads the leases and what their
holders tell, never the jobs. So what runs is as old as the last renewal of a lease, a third of LockSecond at most, and what waits is ten
seconds old, or a minute if nothing changes. If the output is no terminal, it shows them once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return exitf(exitUsage, "--every %v: it is 100ms or more", every)
			}
			return a.with(cmd.Context(), func(db *database) error { return a.top(cmd.Context(), db, every) })
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often it looks")
	return cmd
}

// What a terminal does when it reads these: the cursor goes to the upper left, and what is behind it goes away.
const (
	home     = "\x1b[H"
	clearEnd = "\x1b[J"
)

func (a *app) top(ctx context.Context, db *database, every time.Duration) error {
	if !isTerminal(a.Out) {
		picture, err := a.picture(ctx, db)
		if err == nil {
			_, err = a.Out.Write(picture)
		}
		return err
	}
	fmt.Fprint(a.Out, home+clearEnd)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		picture, err := a.picture(ctx, db)
		if ctx.Err() != nil {
			return nil // Ctrl-C is the way out
		}
		if err != nil {
			picture = fmt.Appendf(nil, "%s  %s\n", clock(time.Now()), oneLine(err.Error()))
		}
		// Each line is cleared to its end, so nothing flickers.
		fmt.Fprintf(a.Out, "%s%s%s", home, bytes.ReplaceAll(picture, []byte("\n"), []byte("\x1b[K\n")), clearEnd)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// picture is what top shows at a moment.
func (a *app) picture(ctx context.Context, db *database) ([]byte, error) {
	var fleet *queue_job.Fleet
	err := a.within(ctx, func(ctx context.Context) (err error) {
		fleet, err = db.jobs.Fleet(ctx, db)
		return err
	})
	if err != nil {
		return nil, err
	}
	types, running := countedTypes(operate.HealthOf(fleet, nil).Types, nil), 0
	for _, i := range fleet.Instances {
		running += i.Running
	}
	var out bytes.Buffer
	drawn := &app{Streams: Streams{Out: &out}, output: "table"}
	fmt.Fprintf(&out, "%s  %s, %s, %s running\n\n", clock(fleet.Now),
		words.Count(len(fleet.Instances), "instance"), words.Count(len(types), "type"), words.Count(running, "handler"))
	if _, err := list(drawn, all(fleet.Instances), "instances", instanceColumns(fleet.Now), nil); err != nil {
		return nil, err
	}
	fmt.Fprintln(&out)
	_, err = list(drawn, all(types), "types", typeColumns(false), nil)
	return out.Bytes(), err
}
