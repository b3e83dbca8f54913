package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
)

// runLog is what a run has logged, in JSON.
type runLog struct {
	Attempt int     `json:"attempt"`
	Ended   *string `json:"ended"`
	Term    int64   `json:"term"`
	Text    string  `json:"text"`
}

func (a *app) jobLog() *cobra.Command {
	var run int
	cmd := &cobra.Command{
		Use:   "log <id>",
		Short: "Show what the runs of a job have logged",
		Long: `Show what the runs of a job have logged: the last 64 KiB of each of its last 10 runs, if its type keeps that (KeepLog of its configuration).
A run whose process died has left nothing.`,
		Example: "  pqueue job log 4711\n  pqueue job log 4711 --run 3 -o json | jq -r '.logs[].text'",
		Args:    cobra.ExactArgs(1),
		RunE: a.onJob(func(ctx context.Context, db *database, id uint64) error {
			return a.showRunLogs(ctx, db, id, run)
		}),
	}
	cmd.Flags().IntVar(&run, "run", 0, "only the run with this number; 0: all")
	return cmd
}

func (a *app) showRunLogs(ctx context.Context, db *database, id uint64, run int) error {
	var logs []queue_job.RunLog
	err := a.within(ctx, func(ctx context.Context) error {
		_, err := db.jobs.Get(ctx, db, queue_job.ID(id))
		if err == nil {
			logs, err = db.jobs.RunLogs(ctx, db, id)
		}
		return err
	})
	if err != nil {
		return err
	}
	if run > 0 {
		logs = slices.DeleteFunc(logs, func(l queue_job.RunLog) bool { return l.Attempt != run })
	}
	if a.output == "table" {
		if len(logs) == 0 {
			a.sayf("nothing is kept: the type has no KeepLog, its runs have logged nothing, or none of them has ended")
		}
		return a.showLogs(logs)
	}
	_, err = list(a, all(logs), "logs", []column[queue_job.RunLog]{
		{"attempt", func(l queue_job.RunLog) string { return strconv.Itoa(l.Attempt) }},
		{"ended", func(l queue_job.RunLog) string { return clock(l.Ended) }},
		{"text", func(l queue_job.RunLog) string { return l.Text }},
	}, func(l queue_job.RunLog) any { return runLog{l.Attempt, stamp(l.Ended), l.Term, l.Text} })
	return err
}

func (a *app) showLogs(logs []queue_job.RunLog) error {
	for n, l := range logs {
		if n > 0 {
			fmt.Fprintln(a.Out)
		}
		if _, err := fmt.Fprintf(a.Out, "run %d, ended %s:\n", l.Attempt, clock(l.Ended)); err != nil {
			return err
		}
		for line := range strings.Lines(legible(l.Text)) {
			fmt.Fprintln(a.Out, oneLine(strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}
