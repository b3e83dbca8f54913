package console

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestThePictureOfRunsStacksFailuresBelowAndHasARoundTop(t *testing.T) {
	steps := make([]faces.Step, 3)
	steps[1].Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 700, queue_job.JobStatusRetry: 100, queue_job.JobStatusFailed: 1}
	p := runsPlot(steps, nil)
	if len(p.Shapes) != 3 || p.Shapes[0].Class != "failed" || p.Shapes[2].Name != "completed" {
		t.Fatalf("%+v", p.Shapes)
	}
	if failed := p.Shapes[0].Path; failed != "M1.1 131.0h.8v1.0h-.8z" {
		t.Errorf("one of 801 is not seen, or is too large: %q", failed)
	}
	if top := p.Ticks[len(p.Ticks)-1]; top.Text != "1k" || p.Ticks[1].Text != "500" {
		t.Errorf("%+v", p.Ticks)
	}
}

func TestThePictureOfLatencyHasALineForEachPercentileAndGapsWhereNothingRan(t *testing.T) {
	steps := make([]faces.Step, 4)
	steps[0].Delays[0], steps[1].Delays[0], steps[3].Delays[17] = 5, 5, 5
	p := latencyPlot(steps, nil)
	if len(p.Shapes) != 3 || strings.Count(p.Shapes[2].Path, "M") != 2 || strings.Count(p.Shapes[2].Path, "h1") != 3 {
		t.Errorf("%+v", p.Shapes)
	}
	last := 200
	for _, tick := range p.Ticks {
		if tick.Y >= last {
			t.Errorf("%+v", p.Ticks)
		}
		last = tick.Y
	}
	if text := p.Ticks[len(p.Ticks)-1].Text; text != "10 min" { // the delays are below 131 s
		t.Errorf("the top is %s", text)
	}
}

func TestThePicturesHaveALineForTheSpanBeforeWhichFitsIn(t *testing.T) {
	steps, earlier := make([]faces.Step, 3), make([]faces.Step, 3) // the last one has no length: it is not known
	earlier[0].Length, earlier[1].Length = time.Minute, time.Minute
	steps[1].Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 50}
	earlier[0].Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 100, queue_job.JobStatusFailed: 100}
	earlier[0].Delays[17] = 5
	runs, latency := runsPlot(steps, earlier), latencyPlot(steps, earlier)
	if last := runs.Shapes[len(runs.Shapes)-1]; last.Name != "before" || last.Path != "M0 0.0h1L1 131.0h1" {
		t.Errorf("%+v", last)
	}
	if last := latency.Shapes[len(latency.Shapes)-1]; last.Name != "before" || strings.Count(last.Path, "h1") != 1 || latency.Ticks[len(latency.Ticks)-1].Text != "10 min" {
		t.Errorf("%+v", latency)
	}
}

func TestASpanThatIsComparedStaysSoInItsAddresses(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for query, otherwise := range map[string]string{
		"last=6h":           "last=6h&compare=1",
		"last=6h&compare=1": "last=6h",
		fmt.Sprintf("from=%d&to=%d&compare=1", now.Unix()-3600, now.Unix()-1800): fmt.Sprintf("from=%d&to=%d", (now.Unix()-3600)/60*60, (now.Unix()-1800+59)/60*60),
	} {
		w, err := spanOf(httptest.NewRequest("GET", "/?"+query, nil), now)
		if err != nil || string(w.Otherwise()) != otherwise || w.Compared() == strings.Contains(otherwise, "compare") {
			t.Errorf("%s: %v, otherwise %s", query, err, w.Otherwise())
			continue
		}
		for _, c := range w.among(spans) {
			if c.compare != w.compare {
				t.Errorf("%s: a click on %s changes what is compared", query, c.Name)
			}
		}
	}
	if spans[1].compare {
		t.Error("the spans to choose from are compared from now on")
	}
}

func TestASmallPictureIsAsHighAsItsNumbers(t *testing.T) {
	if a := areaOf([]float64{0, 2, 2, 3000, 0}); a.Path != "M0 28V28.0h1V27.0h1h1V1.0h1V28.0h1V28z" {
		t.Error(a.Path)
	}
	if a := areaOf([]float64{0, 0}); a.Path != "" {
		t.Error(a.Path)
	}
	if a := areaTo(10, []float64{5}); a.Path != "M0 28V14.5h1V28z" {
		t.Error(a.Path)
	}
}

func TestNumbersAreShortAndTopsAreRound(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.44: "0.4", 7: "7", 9.96: "10", 791.2: "791", 999.6: "1k", 1217: "1.2k", 12_400: "12k", 2_500_000: "2.5M"} {
		if got := short(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]int64{0: 1, 1: 1, 2: 2, 7: 8, 11: 15, 791: 800, 801: 1000, 1001: 1500} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}

func TestASpanThatSomebodyHasChosenHasFewColumnsAndKnowsHoursOnlyOfWhatIsOld(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for query, want := range map[string]time.Duration{
		"": time.Minute, "last=24h": 20 * time.Minute,
		"from=1699996400&to=1700000000": time.Minute, "from=1699978400&to=1700000000": 5 * time.Minute, "from=1699000000&to=1699003600": time.Hour,
		"from=1697000000&to=1700000000": 8 * time.Hour,
	} {
		w, err := spanOf(httptest.NewRequest("GET", "/?"+query, nil), now)
		if err != nil {
			t.Fatal(query, err)
		}
		from, before := w.until(now)
		if w.step != want || before.Sub(from)/w.step > columnsMost || from.Unix()%int64(w.step.Seconds()) != 0 {
			t.Errorf("%s: steps of %v from %v to %v, want %v", query, w.step, from, before, want)
		}
	}
}

func TestAnErrorIsNewOnlyIfItsTimeBeforeTheDeployIsKnown(t *testing.T) {
	s := &faces.Series{Begin: at(0), Step: time.Minute, All: make([]faces.Step, 60), Errors: []faces.ErrorTrend{
		{ID: "old", First: at(3)}, {ID: "new", First: at(31)},
	}}
	name := func(int32) string { return "mail" }
	for deploy, want := range map[int]bool{30: true, 5: false, 40: false} { // at 5, little is known of before; at 40, it had come
		for _, row := range errorRows(s, &faces.Happened{Deploys: []faces.Deploy{{At: at(deploy)}}}, name) {
			if row.New != (want && row.ID == "new") {
				t.Errorf("deployed at %d: %s is new: %v", deploy, row.ID, row.New)
			}
		}
	}
}

func TestTilesCompareTheLastFiveMinutesWithTheRestOfTheSpan(t *testing.T) {
	o := &overview{Health: &operate.Health{At: at(15), Types: []*operate.Type{{Running: 3, Memory: &operate.Memory{Workers: 10, Waiting: 1200, Overdue: time.Minute, More: true}}}},
		series: &faces.Series{Begin: at(0), Step: time.Minute, All: make([]faces.Step, 16)}}
	for i := range 15 { // the last one is not over
		step := &o.series.All[i]
		step.Begin, step.Waiting = at(i), 600
		step.Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 100}
		step.Delays[3] = 100
		if i >= 10 {
			step.Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 40, queue_job.JobStatusRetry: 10}
			step.Delays[3], step.Delays[12] = 0, 50
		}
	}
	o.series.All[15].Begin = at(15)
	want := map[string]string{"Throughput": "50 /min ▼ 50 %", "Error rate": "20 % ▲ 20", "Running": "3 of 10 ", "Queued": "1,200+  ▲ 100 %", "Lag": "1m 0s  ", "Latency p99": "4s  ▲ from 8ms"}
	for _, tile := range o.Tiles() {
		if got := tile.Value + " " + tile.Of + " " + tile.Trend; got != want[tile.Name] {
			t.Errorf("%s: %q, want %q", tile.Name, got, want[tile.Name])
		}
	}
}
