package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/create-info/persistent-queue/queue_job"
)

// screen shows how far the jobs are: as a bar on a terminal, else as a line every second. What is written to it, the
// library's log, comes out above the bar.
type screen struct {
	out   io.Writer
	began time.Time

	mu       sync.Mutex
	lastLine time.Time
	bar      progress.Writer // nil: lines
	jobs     *progress.Tracker
	drawing  sync.WaitGroup
}

func openScreen(out io.Writer, where string, orders []order) *screen {
	s := &screen{out: out, began: time.Now()}
	fmt.Fprintf(out, "%d customers pay; each payment adds a job. Database: %s.\n", len(orders), where)
	fmt.Fprint(out, "Lines that begin with a level are the library's log: some jobs fail here, as they should.\n\n")
	if !isTerminal(out) {
		return s
	}
	s.bar = progress.NewWriter()
	s.bar.SetOutputWriter(out)
	s.bar.SetAutoStop(true)
	s.bar.SetUpdateFrequency(lookEvery)
	s.bar.SetTrackerPosition(progress.PositionRight)
	s.bar.SetStyle(progress.StyleBlocks)
	s.bar.Style().Options.ErrorString = "not all done"
	s.bar.Style().Options.TimeInProgressPrecision = 100 * time.Millisecond
	s.jobs = &progress.Tracker{Message: "jobs", AutoStopDisabled: true}
	for _, o := range orders {
		if !o.RolledBack {
			s.jobs.Total++
		}
	}
	s.bar.AppendTracker(s.jobs)
	s.drawing.Go(s.bar.Render)
	return s
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// show shows where the jobs are now.
func (s *screen) show(ends []end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := count(ends, end.final)
	states := fmt.Sprintf("%d succeeded, %d failed, %d running, %d waiting",
		count(ends, end.succeeded), done-count(ends, end.succeeded), count(ends, end.running), count(ends, end.waiting))
	if s.bar != nil {
		s.jobs.SetValue(int64(done))
		s.bar.SetPinnedMessages(states)
		return
	}
	const lineEvery = time.Second
	if now := time.Now(); now.Sub(s.lastLine) >= lineEvery {
		s.lastLine = now
		fmt.Fprintf(s.out, "%4.1fs  %s\n", now.Sub(s.began).Seconds(), states)
	}
}

// log is what the library says beside the progress: what went wrong, without the time.
func (s *screen) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Write writes a line of the log.
func (s *screen) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Log(strings.TrimSuffix(string(line), "\n"))
		return len(line), nil
	}
	return s.out.Write(line)
}

// close draws the bar a last time. It is safe twice.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == nil {
		return
	}
	if s.jobs.Value() < s.jobs.Total {
		s.jobs.MarkAsErrored()
	} else {
		s.jobs.MarkAsDone()
	}
	s.drawing.Wait()
	s.bar = nil
}

// report prints what became of every job. Its error names the jobs that are not where they should be.
func report(out io.Writer, ends []end) error {
	jobs := table.NewWriter()
	jobs.SetOutputMirror(out)
	jobs.SetStyle(table.StyleLight)
	jobs.Style().Format.Header = text.FormatDefault
	jobs.AppendHeader(table.Row{"Order", "Its notification", "Status", "Runs", "Retries", "Wait", "Run time", ""})
	right := func(columns ...int) (configs []table.ColumnConfig) {
		for _, column := range columns {
			configs = append(configs, table.ColumnConfig{Number: column, Align: text.AlignRight})
		}
		return configs
	}
	jobs.SetColumnConfigs(right(1, 4, 5, 6, 7))
	var wrong []string
	for _, e := range ends {
		verdict := "ok"
		if complaint := e.complaint(); complaint != "" {
			verdict = "WRONG"
			wrong = append(wrong, fmt.Sprintf("order %d (%s): %s", e.Number, e.Story, complaint))
		}
		if e.Jobs == 0 {
			jobs.AppendRow(table.Row{e.Number, e.Story, "no job", "", "", "", "", verdict})
			continue
		}
		jobs.AppendRow(table.Row{e.Number, e.Story, e.Status, e.Attempts, e.Retries, e.wait(), milliseconds(e.RunMS), verdict})
	}
	fmt.Fprintln(out)
	jobs.Render()
	fmt.Fprintln(out, "Wait: from the payment, or from when the job fell due, to its first start. Run time: all runs together.")
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d orders are not where they should be:\n  %s", len(wrong), len(ends), strings.Join(wrong, "\n  "))
	}
	fmt.Fprintf(out, "All %d jobs are where they should be.\n", count(ends, end.final))
	return nil
}

// complaint says what is wrong with where an order's job has come to; nothing, if it is as the order wants it.
func (e end) complaint() string {
	switch {
	case e.Want.Runs == 0 && e.Jobs > 0:
		return fmt.Sprintf("has a job, status %v, and should have none", e.Status)
	case e.Want.Runs == 0:
		return ""
	case e.Jobs != 1:
		return fmt.Sprintf("has %d jobs, wanted 1", e.Jobs)
	case e.Status != e.Want.Status:
		return fmt.Sprintf("status %v, wanted %v", e.Status, e.Want.Status)
	case e.Attempts != e.Want.Runs:
		return fmt.Sprintf("ran %d times by the table, wanted %d", e.Attempts, e.Want.Runs)
	case e.Runs != e.Want.Runs || e.Ended != e.Want.Runs:
		return fmt.Sprintf("handler was called %d times and came to its end %d times, wanted %d", e.Runs, e.Ended, e.Want.Runs)
	case e.FirstStart < e.Due:
		return fmt.Sprintf("started %v early", milliseconds(e.Due-e.FirstStart))
	case milliseconds(e.LastStart-e.FirstStart) < time.Duration(e.Runs-1)*retryWait:
		return fmt.Sprintf("%d retries took only %v, each was to wait %v", e.Runs-1, milliseconds(e.LastStart-e.FirstStart), retryWait)
	}
	return ""
}

// wait is how long the job waited, from when it could start to when it did.
func (e end) wait() string {
	if e.FirstStart == 0 {
		return "not started"
	}
	return milliseconds(e.FirstStart - max(e.Due, e.Paid)).String()
}

func (e end) succeeded() bool { return e.Jobs > 0 && e.Status == queue_job.JobStatusSuccess }

func (e end) final() bool {
	ends := []queue_job.JobStatus{queue_job.JobStatusSuccess, queue_job.JobStatusFailed, queue_job.JobStatusCancelled}
	return e.Jobs > 0 && slices.Contains(ends, e.Status)
}

func (e end) pending() bool { return e.Jobs > 0 && !e.final() }
func (e end) running() bool { return e.pending() && e.Runs > e.Ended }
func (e end) waiting() bool { return e.pending() && !e.running() }

func count(ends []end, is func(end) bool) (n int) {
	for _, e := range ends {
		if is(e) {
			n++
		}
	}
	return n
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
