package metrics_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var update = flag.Bool("update", false, "write the table of docs/operate/metrics.md anew")

// described is a metric as it describes itself.
type described struct{ name, help, labels string }

func (d described) kind() string {
	switch {
	case strings.HasSuffix(d.name, "_total"):
		return "counter"
	case d.name == "persistent_queue_start_delay_seconds", d.name == "persistent_queue_run_duration_seconds":
		return "histogram"
	default:
		return "gauge"
	}
}

func describe(t *testing.T) (all []described) {
	t.Helper()
	to := make(chan *prometheus.Desc, 100)
	metrics.New().Describe(to)
	metrics.NewFlows(nil, nil).Describe(to)
	close(to)
	form := regexp.MustCompile(`^Desc\{fqName: "(.*)", help: "(.*)", unit: ".*", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	for desc := range to {
		parts := form.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("a metric describes itself in another form: %v", desc)
		}
		all = append(all, described{parts[1], parts[2], parts[3]})
	}
	return all
}

func TestTheDocumentListsTheMetricsThatThereAre(t *testing.T) {
	const file, head = "../docs/operate/metrics.md", "| metric | kind | labels | |\n|---|---|---|---|\n"
	table := head
	for _, d := range describe(t) {
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", d.name, d.kind(), strings.ReplaceAll(d.labels, ",", ", "), d.help)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), head)
	_, after, _ := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatalf("%s has no table of metrics", file)
	}
	want := before + table + "\n" + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s has another table; run: go -C metrics test -update", file)
	}
}

func TestAlertsAndDashboardAskForMetricsThatThereAre(t *testing.T) {
	labels := map[string][]string{}
	for _, d := range describe(t) {
		labels[d.name] = strings.Split(d.labels, ",")
		if d.kind() == "histogram" {
			labels[d.name+"_bucket"] = append(strings.Split(d.labels, ","), "le")
		}
	}
	asked := regexp.MustCompile(`(persistent_queue_[a-z_]+)(?:\{([a-z_]+)=)?`)
	for file, least := range map[string]int{"alerts.yml": 8, "dashboard.json": 10} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		found := asked.FindAllStringSubmatch(string(text), -1)
		if len(found) < least {
			t.Errorf("%s asks for %d metrics only", file, len(found))
		}
		for _, f := range found {
			if has, ok := labels[f[1]]; !ok || f[2] != "" && !slices.Contains(has, f[2]) {
				t.Errorf("%s asks for %s, which is not there", file, f[0])
			}
		}
	}
}

func TestTheAlertsFireAfterTheirFaultsAndNotWhenAllIsWell(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("left out: there is no promtool here; Debian has it in the package prometheus")
	}
	if said, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "alerts_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestEachAlertHasItsFaultAndItsRowInTheDocuments(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	operations, faults := read("../docs/operate/operations.md"), read("alerts_test.yml")
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read("alerts.yml"), -1)
	if len(alerts) < 8 {
		t.Fatal(alerts)
	}
	for _, alert := range alerts {
		if !strings.Contains(operations, "\n| "+alert[1]+" | ") {
			t.Errorf("docs/operate/operations.md does not say what to do after %s", alert[1])
		}
		if !strings.Contains(faults, `alertname="`+alert[1]+`"`) {
			t.Errorf("alerts_test.yml has no fault after which %s fires", alert[1])
		}
	}
}

// runner returns a Runner that is never started, so it needs no database, and what its observer is told by.
func runner(t *testing.T, m *metrics.Metrics) *persistent_queue.Runner {
	t.Helper()
	r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "mail", JobType: 7, Db: &sql.DB{},
		HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}}, nil, m.Option())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPrometheusTakesThem(t *testing.T) {
	m := metrics.New()
	runner(t, m)
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := testutil.CollectAndCompare(m, strings.NewReader(`
# HELP persistent_queue_healthy 1 if all Runners of this process can run their jobs (Runner.Health is nil), else 0. A process without a Runner does not tell it.
# TYPE persistent_queue_healthy gauge
persistent_queue_healthy 0
`)); err != nil {
		t.Error("a Runner that does not run: ", err)
	}
}

// The alert that nobody runs jobs goes by whether anybody tells that it is healthy. A process that only takes tasks in runs none.
func TestAProcessThatRunsNothingIsNotHealthy(t *testing.T) {
	if n := testutil.CollectAndCount(metrics.New(), "persistent_queue_healthy"); n != 0 {
		t.Errorf("it tells %d series", n)
	}
}

// A type that is dormant takes its series with it, so that ten thousand topics that ran once do not stay for ever; one that comes and goes keeps
// its counts.
func TestTheSeriesOfATypeThatIsGoneGo(t *testing.T) {
	m, now := metrics.New(), time.Now()
	tell := m.Observer()
	ran := func(jobType int32) {
		job := &queue_job.Job{Id: 1, JobType: jobType, TypeName: "mail"}
		tell.Started(t.Context(), job, time.Millisecond)
		tell.Finished(t.Context(), job, queue_job.Finished{Status: queue_job.JobStatusRetry, Err: errReceiver})
	}
	ran(7)
	ran(8)
	ran(9)
	counted := func() int {
		return testutil.CollectAndCount(m, "persistent_queue_runs_total", "persistent_queue_run_duration_seconds", "persistent_queue_start_delay_seconds")
	}
	m.Scraped(now, 7, 8, 9)
	m.Scraped(now.Add(time.Minute), 7, 8)
	m.Scraped(now.Add(time.Minute+metrics.ForgetAfter-time.Second), 7, 9)
	m.Scraped(now.Add(time.Minute+metrics.ForgetAfter), 7, 9) // 8 is gone for a moment, and 9 has come back
	if n := counted(); n != 9 {
		t.Errorf("%d series, want those of three types", n)
	}
	m.Scraped(now.Add(time.Minute+2*metrics.ForgetAfter), 7)
	if n := counted(); n != 6 {
		t.Errorf("%d series, want those of two types", n)
	}
	ran(8)
	m.Scraped(now.Add(time.Hour), 7, 8)
	if n := counted(); n != 6 {
		t.Errorf("%d series, want those of 7 and 8", n)
	}
}

var errReceiver = errors.New("the receiver is down")

func TestRunsAreCountedByWhatBecameOfThem(t *testing.T) {
	m := metrics.New()
	tell := m.Observer()
	job := &queue_job.Job{Id: 1, JobType: 7, TypeName: "mail", Tables: "tenant1."}
	for _, f := range []queue_job.Finished{
		{Status: queue_job.JobStatusSuccess, Took: 20 * time.Millisecond},
		{Status: queue_job.JobStatusSuccess, Took: 30 * time.Millisecond},
		{Status: queue_job.JobStatusRetry, Err: errReceiver},
		{Status: queue_job.JobStatusFailed, Err: errReceiver},
		{Status: queue_job.JobStatusCancelled, Dropped: true},
	} {
		tell.Started(t.Context(), job, 3*time.Millisecond)
		tell.Finished(t.Context(), job, f)
	}
	if err := testutil.CollectAndCompare(m, strings.NewReader(`
# HELP persistent_queue_runs_total Finished runs, by outcome: success, failed, cancelled, retry (after an error) or continue (as the handler asked). If the outcome is dropped, nothing was written: the job was cancelled during the run, or another process has it.
# TYPE persistent_queue_runs_total counter
persistent_queue_runs_total{job_type="7",outcome="dropped",tables="tenant1.",type_name="mail"} 1
persistent_queue_runs_total{job_type="7",outcome="failed",tables="tenant1.",type_name="mail"} 1
persistent_queue_runs_total{job_type="7",outcome="retry",tables="tenant1.",type_name="mail"} 1
persistent_queue_runs_total{job_type="7",outcome="success",tables="tenant1.",type_name="mail"} 2
`), "persistent_queue_runs_total"); err != nil {
		t.Error(err)
	}
	families := gathered(t, m)
	for name, want := range map[string]string{"persistent_queue_start_delay_seconds": "5 times 0.015", "persistent_queue_run_duration_seconds": "5 times 0.050"} {
		if families[name] != want {
			t.Errorf("%s: %q, want %q", name, families[name], want)
		}
	}
}

// gathered are the histograms of one type, with their number and sum.
func gathered(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, family := range families {
		if h := family.GetMetric()[0].GetHistogram(); h != nil {
			sums[family.GetName()] = fmt.Sprintf("%d times %.3f", h.GetSampleCount(), h.GetSampleSum())
		}
	}
	return sums
}
