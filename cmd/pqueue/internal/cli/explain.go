package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/operate"
)

func (a *app) jobExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain <id>",
		Short: "Say why a job has not started, and what to do about it",
		Long: `Say why a job has not started: since when, until when, and what to do about it. If there are several reasons, each must end before the
job can start. Only the holder of the job's type knows whether all workers are busy or the rate is used up, so such reasons come last,
as possible ones.`,
		Example: "  pqueue job explain 4711\n  pqueue job explain 4711 -o json | jq -r .reasons[0].kind",
		Args:    cobra.ExactArgs(1),
		RunE:    a.onJob(a.explain),
	}
}

func (a *app) explain(ctx context.Context, db *database, id uint64) error {
	var e *operate.Explanation
	err := a.within(ctx, func(ctx context.Context) (err error) {
		e, err = operate.Explain(ctx, db.jobs, db, id)
		return err
	})
	if err != nil {
		return err
	}
	switch a.output {
	case "table":
		showExplanation(a.Out, e)
	case "json":
		err = indented(a.Out,
			map[string]any{"schema": 1, "id": strconv.FormatUint(id, 10),
				"at": stamp(e.At), "reasons": reasonsJSON(e.Reasons), "perhaps": reasonsJSON(e.Perhaps)})
	default:
		err = a.listReasons(append(e.Reasons, e.Perhaps...))
	}
	if err == nil && e.Job == nil {
		return &exit{exitNothing, nil}
	}
	return err
}

func (a *app) listReasons(reasons []operate.Reason) error {
	_, err := list(a, all(reasons), "reasons", []column[operate.Reason]{
		{"kind", func(r operate.Reason) string { return r.Kind }},
		{"text", func(r operate.Reason) string { return r.Text }},
		{"since", func(r operate.Reason) string { return clock(r.Since) }},
		{"until", func(r operate.Reason) string { return clock(r.Until) }},
		{"remedy", func(r operate.Reason) string { return r.Remedy }},
	}, func(r operate.Reason) any { return reasonJSON(r) })
	return err
}

func reasonsJSON(reasons []operate.Reason) []any {
	list := []any{}
	for _, r := range reasons {
		list = append(list, reasonJSON(r))
	}
	return list
}

func reasonJSON(r operate.Reason) any {
	fields := map[string]any{"kind": r.Kind, "text": r.Text, "since": stamp(r.Since), "until": stamp(r.Until), "remedy": r.Remedy}
	if r.Job != 0 {
		fields["job"] = strconv.FormatUint(r.Job, 10)
	}
	return fields
}

func showExplanation(to io.Writer, e *operate.Explanation) {
	if e.Job == nil {
		fmt.Fprintf(to, "job %d\n", e.Id)
	} else {
		fmt.Fprintf(to, "job %d of type %s: %s\n", e.Id, typeText(e.Job.JobType, e.Job.TypeName), e.Job.State())
	}
	for _, r := range e.Reasons {
		showReason(to, e.At, r, commandFor(e, r))
	}
	if len(e.Perhaps) > 0 {
		fmt.Fprintln(to, "\nWhat it may wait for:")
	}
	for _, r := range e.Perhaps {
		showReason(to, e.At, r, commandFor(e, r))
	}
}

func showReason(to io.Writer, at time.Time, r operate.Reason, command string) {
	fmt.Fprintf(to, "\n  %s\n", oneLine(r.Text))
	var more []string
	if !r.Since.IsZero() {
		more = append(more, fmt.Sprintf("since %s (%s)", clock(r.Since), span(at.Sub(r.Since))))
	}
	if !r.Until.IsZero() {
		more = append(more, fmt.Sprintf("until %s (in %s)", clock(r.Until), span(r.Until.Sub(at).Round(time.Second))))
	}
	if len(more) > 0 {
		fmt.Fprintf(to, "      %s\n", strings.Join(more, ", "))
	}
	if r.Remedy != "" {
		fmt.Fprintf(to, "      %s\n", r.Remedy)
	}
	if command != "" {
		fmt.Fprintf(to, "      %s\n", command)
	}
}

// commandFor is the command that does what a reason's remedy says, or shows more of it.
func commandFor(e *operate.Explanation, r operate.Reason) string {
	switch r.Kind {
	case operate.Final:
		if r.Remedy != "" {
			return fmt.Sprintf("pqueue job retry %d", e.Id)
		}
	case operate.InFlight:
		return fmt.Sprintf("pqueue job cancel %d", e.Id)
	case operate.NotDue, operate.LeftAlone:
		return fmt.Sprintf("pqueue job run-now %d", e.Id)
	case operate.NoInstance:
		return "pqueue host list"
	case operate.Divided:
		return "pqueue lease list"
	case operate.Paused:
		return fmt.Sprintf("pqueue type resume %d", e.Job.JobType)
	case operate.EarlierJob:
		return fmt.Sprintf("pqueue job explain %d", r.Job)
	}
	return ""
}
