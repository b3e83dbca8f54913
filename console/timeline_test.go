package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// explained is a job that was added at noon, as it is some seconds later.
func explained(now int, job queue_job.JobInfo, runs ...queue_job.Attempt) *operate.Explanation {
	job.Id, job.Created = 4711, noon
	if job.Due.IsZero() {
		job.Due = noon
	}
	e := &operate.Explanation{Id: job.Id, Job: &job, Runs: runs, At: second(now), Steps: []queue_job.StepInfo{}, Holder: "shop@web-1/7"}
	kind := operate.Final
	switch {
	case job.InFlight:
		kind = operate.InFlight
	case job.Pending() && job.Due.After(e.At):
		kind = operate.NotDue
	case job.Pending():
		kind = operate.InLine
	}
	e.Reasons = []operate.Reason{{Kind: kind}}
	return e
}

func failedRun(attempt, from, to int, outcome, text string) queue_job.Attempt {
	return queue_job.Attempt{Attempt: attempt, Outcome: outcome, Error: text, Started: second(from), Finished: second(to), Instance: "shop@web-1/7"}
}

// inWords is a timeline as somebody reads it who sees no picture.
func inWords(t *timeline) string {
	var text strings.Builder
	for _, m := range t.Moments {
		fmt.Fprintf(&text, "%s %s", m.Clock, m.What)
		if m.State != "" {
			text.WriteString(" [" + m.State + "]")
		}
		fmt.Fprintf(&text, ": %s", m.Words)
		if m.Quote != "" {
			fmt.Fprintf(&text, " %q", m.Quote)
		}
		text.WriteString("\n")
	}
	return text.String() + strings.Join(t.Notes, "\n")
}

func TestATimelineTellsAJobInTheOrderOfTime(t *testing.T) {
	retries := operate.Explanation{Type: queue_job.Type{Told: noon, Config: queue_job.Config{NeedRetry: true, MaxRetries: 4},
		RetryWaits: []queue_job.Wait{{Least: 10 * time.Second, Most: 10 * time.Second}, {Least: 20 * time.Second, Most: 40 * time.Second}, {Least: time.Minute, Most: time.Minute}, {Least: time.Minute, Most: time.Minute}}}}
	retrying := explained(20, queue_job.JobInfo{Status: queue_job.JobStatusRetry, Due: second(25), Updated: second(15), Attempts: 1, Retries: 1},
		failedRun(1, 5, 15, "retry", "no route to host"))
	retrying.Type = retries.Type
	retrying.Acts = []operate.Act{{At: second(18), Verb: "set priority", Actor: "anna", Why: "a customer waits"}}
	flow := explained(90, queue_job.JobInfo{Status: queue_job.JobStatusSuccess, Due: second(60), Updated: second(63), Attempts: 1, FlowId: 12})
	ofSchedule := explained(5, queue_job.JobInfo{Status: queue_job.JobStatusInit, Key: "cron-nightly@1", InFlight: true, Updated: second(2), Attempts: 1})
	quiet := explained(500, queue_job.JobInfo{Status: queue_job.JobStatusFailed, Due: second(100), Updated: second(460), Attempts: 9},
		failedRun(4, 10, 11, "retry", "order 4 is gone"), failedRun(5, 20, 21, "retry", "order 5 is gone"), failedRun(6, 30, 31, "retry", "order 6 is gone"),
		failedRun(9, 450, 460, "failed", "given up"))
	for name, is := range map[string]struct {
		e    *operate.Explanation
		want string
	}{
		"a job that is retried": {retrying, `2026-03-04 12:00:00 Added: by whom is not kept
12:00:05 Run 1 [retry]: took 10s on shop@web-1/7, 5s after it was added "no route to host"
12:00:18 set priority: by anna "a customer waits"
12:00:25 Next run: in 5s
12:00:55 Retries: to be expected at about 12:00:55, 12:01:55, 12:02:55, if each run fails at once; it fails for good after retry 4, at about 12:02:55
`},
		"a job that has succeeded": {flow, `2026-03-04 12:00:00 Added: by flow 12
12:01:00 Due: 1m 0s after it was added
12:01:03 Run 1 [completed]: ended on shop@web-1/7, 3s after it was due; when it began is not kept of a run that succeeds
`},
		"a job that runs": {ofSchedule, `2026-03-04 12:00:00 Added: by a schedule, as its key says
12:00:02 Run 1 [running]: its handler runs, or is about to, on shop@web-1/7
`},
		"a job that waits": {explained(30, queue_job.JobInfo{Status: queue_job.JobStatusInit}), `2026-03-04 12:00:00 Added: by whom is not kept; due at once, and waits for 30s: in line
`},
		"a job of many runs": {quiet, `2026-03-04 12:00:00 Added: by whom is not kept
12:00:10 Runs 4 to 6 [retry]: 3 runs in 21s, the last one on shop@web-1/7 "order 6 is gone"
12:07:30 Run 9 [failed]: took 10s on shop@web-1/7, 6m 59s after run 6 had ended "given up"
Of 5 other runs, no time is kept: the log has runs that did not succeed.`},
	} {
		if got := inWords(timelineOf(is.e, true)); got != is.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, is.want)
		}
	}
	if got := inWords(timelineOf(retrying, false)); strings.Contains(got, "anna") {
		t.Errorf("who may not see what people did sees it:\n%s", got)
	}
}

// places are the shapes of a moment: where they begin and end, in percent.
func places(t *testing.T, tl *timeline, what string) (list [][2]float64, classes []string) {
	t.Helper()
	i := slices.IndexFunc(tl.Moments, func(m moment) bool { return m.What == what })
	if i < 0 {
		t.Fatalf("%q is not in\n%s", what, inWords(tl))
	}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, s := range tl.Moments[i].Shapes {
		x := number(s.X)
		wide := 0.0
		if s.Width != "" {
			wide = number(s.Width)
		}
		list, classes = append(list, [2]float64{x, x + wide}), append(classes, s.Class)
	}
	return list, classes
}

func TestATimelineIsToScale(t *testing.T) {
	e := explained(80, queue_job.JobInfo{Status: queue_job.JobStatusRetry, Due: second(100), Updated: second(40), Attempts: 2, Retries: 2},
		failedRun(1, 10, 20, "retry", "a"), failedRun(2, 30, 40, "retry", "b"))
	tl := timelineOf(e, true)
	for what, want := range map[string][][2]float64{
		"Added":    {{0, 0}},
		"Run 1":    {{0, 10}, {10, 20}},
		"Run 2":    {{20, 30}, {30, 40}},
		"Next run": {{40, 80}, {80, 100}, {100, 100}},
	} {
		if got, _ := places(t, tl, what); !slices.Equal(got, want) {
			t.Errorf("%s is at %v, want %v", what, got, want)
		}
	}
	if tl.Now != "80.00%" || tl.TwoScales {
		t.Errorf("now is at %s, two scales: %v", tl.Now, tl.TwoScales)
	}
	e.Job.Due = second(80 + 24*3600) // what has been would be squeezed to nothing
	if tl = timelineOf(e, true); tl.Now != "60.00%" || !tl.TwoScales {
		t.Errorf("now is at %s, two scales: %v", tl.Now, tl.TwoScales)
	}
	if got, _ := places(t, tl, "Run 2"); !slices.Equal(got, [][2]float64{{15, 22.5}, {22.5, 30}}) {
		t.Errorf("what has been is not to its own scale: %v", got)
	}
}

// Of a run that succeeds, the end is kept and nothing else. So there is no bar whose length somebody could read.
func TestATimelineDrawsNoRunWhoseBeginningIsNotKept(t *testing.T) {
	tl := timelineOf(explained(90, queue_job.JobInfo{Status: queue_job.JobStatusSuccess, Updated: second(60), Attempts: 3}, failedRun(1, 10, 20, "retry", "a")), true)
	if got, classes := places(t, tl, "Run 3"); !slices.Equal(classes, []string{"open", "point completed"}) || got[1] != [2]float64{100, 100} {
		t.Errorf("%v %v", got, classes)
	}
	lost := failedRun(1, 0, 20, "lost", "")
	lost.Started = time.Time{}
	tl = timelineOf(explained(30, queue_job.JobInfo{Status: queue_job.JobStatusInit, Attempts: 1, Due: noon, Updated: second(20)}, lost), true)
	if got, classes := places(t, tl, "Run 1"); len(got) != 2 || got[1][1]-got[1][0] > 1 || classes[0] != "wait" {
		t.Errorf("a run whose beginning is not known has a length: %v %v\n%s", got, classes, inWords(tl))
	}
	partial := explained(30, queue_job.JobInfo{Status: queue_job.JobStatusInit})
	if partial.Steps = nil; !timelineOf(partial, true).Partial {
		t.Error("what was not read is not said to be missing")
	}
}

// A job may be retried for months. Its page has an end all the same.
func TestATimelineHasAnEndHoweverManyRunsThereWere(t *testing.T) {
	var runs []queue_job.Attempt
	for n := range 5000 {
		runs = append(runs, failedRun(n+1, 10*n, 10*n+1, "retry", "no route to host"))
	}
	for n := range 500 {
		runs = append(runs, failedRun(5001+n, 60_000+10*n, 60_000+10*n+1, "retry", []string{"tea", "coffee"}[n%2]))
	}
	e := explained(70_000, queue_job.JobInfo{Status: queue_job.JobStatusRetry, Due: second(70_100), Attempts: len(runs), Retries: len(runs)}, runs...)
	for n := range 300 {
		e.Steps = append(e.Steps, queue_job.StepInfo{Name: fmt.Sprint(n), Ended: second(n), Attempt: 1})
	}
	tl := timelineOf(e, true)
	shapes := 0
	for _, m := range tl.Moments {
		shapes += len(m.Shapes)
	}
	if len(tl.Moments) > momentsMost+4 || shapes > 500 || tl.Left != 5500-momentsMost {
		t.Errorf("%d lines with %d shapes, and %d runs are left out", len(tl.Moments), shapes, tl.Left)
	}
}
