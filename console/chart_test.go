package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func at(minute int) time.Time {
	return time.Unix(1_700_000_040, 0).Add(time.Duration(minute) * time.Minute)
}

func TestAChartAndItsTableSayTheSame(t *testing.T) {
	periods := make([]operate.Period, 6)
	for i := range periods {
		periods[i] = operate.Period{Begin: at(i), Length: time.Minute}
	}
	periods[1].Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 1000, queue_job.JobStatusFailed: 1}
	periods[1].Delays[3], periods[1].Durations[5] = 1001, 1001
	periods[4].Runs = map[queue_job.JobStatus]int64{queue_job.JobStatusSuccess: 3}
	periods[4].Delays[20], periods[4].Durations[5] = 3, 3
	earlier := &operate.Tenure{Holder: "a"}
	c := chartOf(periods, []operate.Tenure{
		{Taken: at(2).Add(time.Second), After: earlier}, {Taken: at(-1)}, {Taken: at(6)},
	}, 4)
	if c.Steps != 6 || c.Started != 1004 || c.Ended != 1004 || c.Peak != 1001 || len(c.Outcomes) != 2 || c.Outcomes[0].Status != queue_job.JobStatusFailed || c.Outcomes[1].Runs != 1003 {
		t.Errorf("%+v", c)
	}
	if failed := c.Outcomes[0].Bars; failed != "M1.1 95.0h.8v1.0h-.8z" {
		t.Errorf("one of a thousand is not seen, or is too large: %q", failed)
	}
	if n := strings.Count(c.Outcomes[1].Bars, "M"); n != 2 || strings.Count(c.Line, "h1") != 6 {
		t.Errorf("%d bars; the line: %s", n, c.Line)
	}
	if c.Marks != "M2.5 0V1000" || len(c.Moves) != 1 {
		t.Errorf("the lease moved once: %q, %d", c.Marks, len(c.Moves))
	}
	if len(c.Rows) != 2 || c.Rows[1].Started != 1001 || c.Rows[1].Outcomes[0] != 1 || c.Rows[1].Outcomes[1] != 1000 || c.Rows[0].Started != 3 || !c.Rows[0].Begin.Equal(at(4)) {
		t.Errorf("%+v", c.Rows)
	}
	if h := c.Heat; h.Rows != 21 || len(h.Shades) != 2 || h.Shades[0].Cells != "M4.05 0h.9v6h-.9z" || h.Shades[1].Strength != shadesMax || h.Ticks[len(h.Ticks)-1].Text != "1 min" {
		t.Errorf("%+v", h)
	}
}

func TestAChartOfNothingIsEmpty(t *testing.T) {
	c := chartOf([]operate.Period{{Begin: at(0), Length: time.Minute}}, nil, 1)
	if c.Started+c.Ended+c.Peak != 0 || c.Line != "" || len(c.Outcomes) != 0 || c.Heat.Rows != heatLeast || len(c.Heat.Shades) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestACellIsStrongerTheMoreRunsItHas(t *testing.T) {
	last := 0
	for _, n := range []int64{1, 5, 20, 70, 256} {
		s := strength(n, 256)
		if s < last || s < 1 || s > shadesMax {
			t.Errorf("%d of 256: %d", n, s)
		}
		last = s
	}
	if strength(1, 1) != shadesMax || strength(1, 256) != 1 || last != shadesMax {
		t.Error("the fullest cell is the strongest")
	}
}

func TestThePictureOfLeasesHasABarForEachTenure(t *testing.T) {
	tenure := func(lease string, jobType int32, holder string, taken, ended int) operate.Tenure {
		h := operate.Tenure{Lease: lease, JobType: jobType, Holder: holder, Instance: holder, Taken: at(taken)}
		if ended >= 0 {
			h.Ended, h.How = at(ended), "asked"
		}
		return h
	}
	died := tenure("job-10", 10, "c", 20, -1)
	died.Over = true // and nobody has said yet how
	g := ganttOf([]operate.Tenure{
		tenure("job-10", 10, "a", 90, -1), tenure("job-2/10", 2, "b", 50, 60), tenure("job-2/2", 2, "a", 50, -1), tenure("job-2/2", 2, "b", -100, 50),
		died,
	}, at(0), at(100))
	var lines []string
	for _, l := range g.Lines {
		lines = append(lines, l.Lease)
	}
	if strings.Join(lines, " ") != "job-2/2 job-2/10 job-10" || g.Height() != 3*ganttRow || len(g.Holders) != 2 {
		t.Fatalf("%v, %+v", lines, g.Holders)
	}
	if first := g.Holders[0]; first.Name != "a" || first.Id != "" || g.Others != 0 {
		t.Errorf("%+v", g.Holders)
	}
	both := g.Lines[0].Bars
	if len(both) != 2 || both[0].X != 0 || both[0].Width != 500 || both[1].X != 500 || both[1].Width != 500 || both[0].Colour == both[1].Colour {
		t.Errorf("%+v", both)
	}
	if last := g.Lines[2].Bars; len(last) != 1 || last[0].X != 900 || last[0].Colour != both[1].Colour || !strings.Contains(last[0].Text, "a since") {
		t.Errorf("%+v", last)
	}
}

func TestAWindowEndsWithWhatHoldersHaveWritten(t *testing.T) {
	now := time.Date(2026, 1, 2, 11, 6, 5, 0, time.UTC)
	for i, want := range []string{"08:04 to 11:04", "05:20 to 11:20", "16:00 to 16:00"} {
		from, before := windows[i].until(now)
		if got := from.UTC().Format("15:04") + " to " + before.UTC().Format("15:04"); got != want || before.Sub(from) != windows[i].long {
			t.Errorf("the last %s at %v: %s, want %s", windows[i].Text, now, got, want)
		}
	}
}

func TestNumbersAreReadInGroupsOfThree(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTheLegendHasTheLatestInstancesAndTellsNamesakesApart(t *testing.T) {
	var tenures []operate.Tenure
	for i := range 20 {
		name := fmt.Sprintf("mail@web/%d", i/2*2)
		tenures = append(tenures, operate.Tenure{Lease: "job-7", JobType: 7, Holder: name, Instance: fmt.Sprint("id", i), Taken: at(i), Ended: at(i + 1)})
	}
	tenures = append(tenures, operate.Tenure{Lease: "job-8", JobType: 8, Holder: "sms@db/1", Instance: "other", Taken: at(50)})
	g := ganttOf(tenures, at(0), at(100))
	if len(g.Holders) != legendMost || g.Others != 21-legendMost || g.Holders[0].Name != "db/1" || g.Holders[0].Id != "" || g.Holders[1].Name != "web/18" || g.Holders[1].Id != "id19" {
		t.Errorf("%d others, %+v", g.Others, g.Holders)
	}
}
