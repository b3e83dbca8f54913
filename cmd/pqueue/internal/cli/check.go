package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// severity is how bad a finding is, in the words and numbers that Nagios gave it.
type severity int

const (
	fine severity = iota
	warning
	critical
	unknown
)

func (s severity) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// finding is something that somebody should know, with what to do.
type finding struct {
	severity severity
	text     string
}

// health is what a check looks at.
type health struct {
	types     []*jobType
	instances []queue_job.Instance
	late      []queue_job.TypeCounts // jobs that should have run some time ago
	after     time.Duration          // how long ago
	now       time.Time
}

// pausedLong is how long a type may be paused before somebody may have forgotten it.
const pausedLong = time.Hour

// findings judges. A paused type's jobs are not late: somebody wants them to wait.
func (h *health) findings() (list []finding) {
	byNumber := map[int32]*jobType{}
	for _, t := range h.types {
		byNumber[t.JobType] = t
		if since := h.now.Sub(t.Paused); !t.Paused.IsZero() && since > pausedLong {
			list = append(list, finding{warning, fmt.Sprintf("type %s has been paused for %s; pqueue type resume %d lets it go on", typeText(t.JobType, t.Name), span(since), t.JobType)})
		}
	}
	for _, c := range h.late {
		n := int64(0)
		for _, of := range c.ByStatus {
			n += of
		}
		if n == 0 || !c.Paused.IsZero() {
			continue
		}
		name := typeText(c.JobType, c.TypeName)
		if t := byNumber[c.JobType]; t == nil || t.Held == 0 {
			list = append(list, finding{critical, fmt.Sprintf("type %s: nobody runs it, and %s fell due more than %v ago; start an instance that has the type", name, plural(int(n), "job"), h.after)})
			continue
		}
		list = append(list, finding{warning, fmt.Sprintf("type %s: %s fell due more than %v ago; pqueue job list type:%d status:pending due:..%[3]v --oldest", name, plural(int(n), "job"), h.after, c.JobType)})
	}
	if len(h.instances) == 0 && len(h.types) > 0 {
		list = append(list, finding{warning, "no instance is there"})
	}
	return list
}

func (a *app) checkCommand() *cobra.Command {
	var nagios bool
	var late time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether jobs run as they should",
		Long: `Say whether jobs run as they should: the database answers, its tables are up to date, instances are there, no job is late, no type has been
paused for more than an hour. It counts the jobs that are not done, so it takes longer the more of them there are.

It exits with 0 if all is well, and with 1 if not. With --nagios, it writes and exits as Nagios expects of a plugin: 0 OK, 1 WARNING,
2 CRITICAL, 3 UNKNOWN.`,
		Example: "  pqueue check\n  pqueue check --nagios --late 5m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := &health{after: late}
			list, err := a.look(cmd.Context(), h)
			if nagios {
				return a.nagios(h, list, err)
			}
			if err != nil {
				return err
			}
			for _, f := range list {
				fmt.Fprintf(a.Out, "%-8v  %s\n", f.severity, f.text)
			}
			if len(list) > 0 {
				return &exit{exitError, nil}
			}
			fmt.Fprintf(a.Out, "OK        %s, %s, no job is more than %v late\n", plural(len(h.types), "type"), plural(len(h.instances), "instance"), late)
			return nil
		},
	}
	cmd.Flags().BoolVar(&nagios, "nagios", false, "be a plugin of Nagios")
	cmd.Flags().DurationVar(&late, "late", time.Minute, "how long after its time a job that does not run is late")
	return cmd
}

// look fills in what the check needs, and judges it.
func (a *app) look(ctx context.Context, h *health) ([]finding, error) {
	db, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := a.within(ctx, func(ctx context.Context) error { return schema.Check(ctx, db.DB, a.schemaOptions()...) }); err != nil {
		return nil, err
	}
	if h.types, err = a.types(ctx, db, false); err != nil {
		return nil, err
	}
	h.now = time.Now()
	err = a.within(ctx, func(ctx context.Context) (err error) {
		if h.instances, err = db.jobs.Instances(ctx, db); err != nil {
			return err
		}
		h.late, err = db.jobs.Counts(ctx, db, queue_job.CountFilter{Statuses: queue_job.PendingStatuses(), DueBefore: h.now.Add(-h.after)})
		return err
	})
	return h.findings(), err
}

// nagios writes what a plugin of Nagios writes: a line with the worst, what follows the bar is for graphs, then the rest.
func (a *app) nagios(h *health, list []finding, err error) error {
	var outdated *schema.OutdatedError
	var said *exit
	switch {
	case err == nil:
	case errors.As(err, &outdated), errors.Is(err, queue_job.ErrNoTables):
		list = []finding{{critical, "the tables are missing or not up to date: pqueue schema check"}}
	case errors.As(err, &said) && said.code == exitUnreachable:
		list = []finding{{critical, err.Error()}}
	default:
		list = []finding{{unknown, err.Error()}}
	}
	slices.SortStableFunc(list, func(a, b finding) int { return cmp.Compare(b.severity, a.severity) })
	worst := finding{fine, "all jobs run as they should"}
	if len(list) > 0 {
		worst = list[0]
	}
	fmt.Fprintf(a.Out, "PQUEUE %v - %s | types=%d instances=%d findings=%d\n", worst.severity, strings.ReplaceAll(oneLine(worst.text), "|", "/"), len(h.types), len(h.instances), len(list))
	for _, f := range list[min(1, len(list)):] {
		fmt.Fprintf(a.Out, "%v: %s\n", f.severity, oneLine(f.text))
	}
	if worst.severity == fine {
		return nil
	}
	return &exit{int(worst.severity), nil}
}
