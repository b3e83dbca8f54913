package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// What a plugin of Nagios exits with, and what it says then.
const (
	fine = iota
	warning
	critical
	unknown
)

var nagiosWords = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// finding is a finding as a line shows it.
type finding struct {
	level int
	text  string
}

// findingsOf are the findings that somebody should act on. What is so on purpose is none.
func findingsOf(h *operate.Health) (list []finding) {
	for _, f := range h.Findings {
		if f.Severity == operate.Note {
			continue
		}
		line := finding{map[operate.Severity]int{operate.Warning: warning, operate.Critical: critical}[f.Severity], f.Text + " " + f.Remedy}
		if f.JobType != nil {
			line.text = "type " + typeText(*f.JobType, f.Name) + ": " + line.text
		}
		switch f.Kind {
		case "paused":
			line.text += fmt.Sprintf(" (pqueue type resume %d)", *f.JobType)
		case "late":
			line.text += fmt.Sprintf(" (pqueue job list type:%d status:pending due:..%v --oldest)", *f.JobType, h.After)
		}
		list = append(list, line)
	}
	return list
}

// listFindings writes the findings that somebody should act on for programs.
func (a *app) listFindings(h *operate.Health) error {
	found := slices.DeleteFunc(slices.Clone(h.Findings), func(f operate.Finding) bool { return f.Severity == operate.Note })
	n, err := list(a, all(found), "findings", []column[operate.Finding]{
		{"kind", func(f operate.Finding) string { return f.Kind }},
		{"severity", func(f operate.Finding) string { return f.Severity.String() }},
		{"type", func(f operate.Finding) string {
			if f.JobType == nil {
				return ""
			}
			return typeText(*f.JobType, f.Name)
		}},
		{"text", func(f operate.Finding) string { return f.Text }},
		{"remedy", func(f operate.Finding) string { return f.Remedy }},
	}, func(f operate.Finding) any {
		return map[string]any{"kind": f.Kind, "severity": f.Severity.String(), "type": f.JobType, "name": f.Name, "text": f.Text, "remedy": f.Remedy}
	})
	if err == nil && n > 0 {
		err = &exit{exitError, nil}
	}
	return err
}

func (a *app) checkCommand() *cobra.Command {
	var nagios bool
	var late time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether jobs run as they should",
		Long: `Say whether jobs run as they should: the database answers, its tables are up to date, instances are there, no job is late, no type has been
paused for more than an hour without an end, or has late jobs behind its pause. It also finds an instance that holds
a type and has been silent for minutes, one that others have buried since they did not hear of it, one that is about to stop and has no
successor, a type whose runs all fail, a schedule (pqueue schedule) whose jobs nobody adds or runs, or whose last job has failed, and who keeps
the database from cleaning up: a transaction or a replication slot that nobody ends. Of late
jobs, it counts some thousands at most. What its user may not see of other sessions, it leaves out; the console says which right is missing.

It exits with 0 if all is well, and with 1 if not. With --nagios, it writes and exits as Nagios expects of a plugin: 0 OK, 1 WARNING,
2 CRITICAL, 3 UNKNOWN.`,
		Example: "  pqueue check\n  pqueue check --nagios --late 5m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nagios && a.output != "table" {
				return exitf(exitUsage, "--nagios has a form of its own; leave --output out")
			}
			h, err := a.health(cmd.Context(), late)
			if nagios {
				return a.nagios(h, err)
			}
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.listFindings(h)
			}
			list := findingsOf(h)
			for _, f := range list {
				fmt.Fprintf(a.Out, "%-8s  %s\n", nagiosWords[f.level], f.text)
			}
			if len(list) > 0 {
				return &exit{exitError, nil}
			}
			fmt.Fprintf(a.Out, "OK        %s, %s, no job is more than %v late\n",
				words.Count(len(h.Types), "type"), words.Count(len(h.Instances), "instance"), late)
			return nil
		},
	}
	cmd.Flags().BoolVar(&nagios, "nagios", false, "be a plugin of Nagios")
	cmd.Flags().DurationVar(&late, "late", time.Minute, "how long after its time a job that does not run is late")
	return cmd
}

func (a *app) health(ctx context.Context, late time.Duration) (h *operate.Health, err error) {
	err = a.with(ctx, func(db *database) error {
		if err := a.within(ctx, func(ctx context.Context) error { return schema.Check(ctx, db.DB, a.schemaOptions()...) }); err != nil {
			return err
		}
		return a.within(ctx, func(ctx context.Context) (err error) {
			h, err = operate.Check(ctx, db.jobs, db, late)
			return err
		})
	})
	return h, err
}

// nagios writes what a plugin of Nagios writes: a line with the worst, what follows the bar is for graphs, then the rest.
func (a *app) nagios(h *operate.Health, err error) error {
	var list []finding
	var outdated *schema.OutdatedError
	var said *exit
	switch {
	case err == nil:
		list = findingsOf(h)
	case errors.As(err, &outdated), errors.Is(err, queue_job.ErrNoTables):
		list = []finding{{critical, "the tables are missing or not up to date: pqueue schema check"}}
	case errors.As(err, &said) && said.code == exitUnreachable:
		list = []finding{{critical, err.Error()}}
	default:
		list = []finding{{unknown, err.Error()}}
	}
	if h == nil {
		h = &operate.Health{}
	}
	worst := finding{fine, "all jobs run as they should"}
	if len(list) > 0 {
		worst = list[0]
	}
	fmt.Fprintf(a.Out, "PQUEUE %v - %s | types=%d instances=%d findings=%d\n",
		nagiosWords[worst.level], strings.ReplaceAll(oneLine(worst.text), "|", "/"), len(h.Types), len(h.Instances), len(list))
	for _, f := range list[min(1, len(list)):] {
		fmt.Fprintf(a.Out, "%s: %s\n", nagiosWords[f.level], oneLine(f.text))
	}
	if worst.level == fine {
		return nil
	}
	return &exit{worst.level, nil}
}
