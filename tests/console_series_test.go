package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// series is what data/series answers.
type series struct {
	From, Step int64
	T, Started []int64
	Runs       map[string][]int64
	Deferred   []int64
	Waiting    []int64
	Busy       []int64
	Lag        []int64               `json:"lag_ms"`
	Latency    map[string][]*float64 `json:"queue_latency_ms"`
	Errors     []struct {
		ID, Text string
		Queue    int32
		Runs     []int64
	}
	Deploys []struct {
		At      int64
		Hosts   []string
		Version string
	}
	Before *struct {
		T    []int64
		Runs []*int64
		P99  []*float64 `json:"queue_latency_ms"`
	}
}

// remember writes what two types ran in the last hours, an error, and who had a lease.
func remember(t *testing.T, d dbtest.Database, now time.Time) {
	t.Helper()
	st, err := record.Open(t.Context(), d.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	var stats []record.Stat
	for _, jobType := range []int32{7, 8} {
		for minute := range 180 {
			begin := now.Add(-time.Duration(minute)*time.Minute).Unix() / 60 * 60
			runs := int64(minute%7) + int64(jobType)
			state := record.StatState{Runs: map[string]int64{"success": runs, "failed": 1}, Delay: []int64{runs, 0, 0, 1}, Took: []int64{0, 0, runs + 1},
				Deferred: []int64{1}, Level: record.Level{Waiting: int64(minute), Overdue: 1000, Busy: 2}}
			state.Errors = store.Errors{Errors: []store.ErrorStat{{Text: fmt.Sprintf("no route to %d", minute), Runs: 1, Failed: 1, First: begin * 1000, Last: begin*1000 + 5, Job: 1}}}
			stats = append(stats, record.Stat{JobType: jobType, Begin: begin, Lease: fmt.Sprintf("job-%d", jobType), Term: 3, Seconds: 60, StatState: state})
		}
	}
	if err := st.WriteStats(t.Context(), stats); err != nil {
		t.Fatal(err)
	}
	tenures := []record.Tenure{
		{Lease: "job-7", Term: 1, Owner: "shop@old/1#aaaaaaaaaaaa.1", Taken: now.Add(-5 * time.Hour).UnixMilli(), Ended: now.Add(-20 * time.Minute).UnixMilli(), How: record.Released},
		{Lease: "job-7", Term: 3, Owner: "shop@new/2#bbbbbbbbbbbb.1", Taken: now.Add(-20 * time.Minute).UnixMilli()},
	}
	if err := st.WriteTenures(t.Context(), tenures); err != nil {
		t.Fatal(err)
	}
	for _, jobType := range []int32{7, 8} {
		if _, err := open(t, d.DB).Pause(queue_job.WithActor(t.Context(), "mary", "the bank"), d.DB, jobType); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheDataOfAChartSayWhatTheHistorySays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		_, now, err := faces.Newest(t.Context(), jobs, d.DB)
		if err != nil {
			t.Fatal(err)
		}
		remember(t, d, now)
		b := browse(t, console.Handler(jobs))
		for _, span := range []string{"last=15m", "last=1h", "last=6h", "last=24h", "last=90d", fmt.Sprintf("from=%d&to=%d", now.Add(-90*time.Minute).Unix(), now.Add(-30*time.Minute).Unix())} {
			for _, queues := range []string{"", "&queues=7"} {
				var got series
				if err := json.Unmarshal([]byte(b.get("/data/series?"+span+queues, http.StatusOK)), &got); err != nil || len(got.T) == 0 || len(got.T) > 360 || len(got.Errors) == 0 {
					t.Fatalf("%s: %v, %+v", span, err, got)
				}
				types := []int32{7, 8}
				if queues != "" {
					types = types[:1]
				}
				before := time.Unix(got.From+int64(len(got.T))*got.Step, 0)
				sum := make([]operate.Period, len(got.T))
				for _, jobType := range types {
					periods, err := operate.History(t.Context(), jobs, d.DB, jobType, time.Unix(got.From, 0), before, time.Duration(got.Step)*time.Second)
					if err != nil || len(periods) != len(sum) {
						t.Fatalf("%s: %d steps, want %d; %v", span, len(periods), len(sum), err)
					}
					for i := range periods {
						sum[i].Begin = periods[i].Begin
						sum[i].Delays.Add(&periods[i].Delays)
						if sum[i].Runs == nil {
							sum[i].Runs = map[queue_job.JobStatus]int64{}
						}
						for status, n := range periods[i].Runs {
							sum[i].Runs[status] += n
						}
					}
				}
				var failed int64
				for i := range sum {
					p := &sum[i]
					p99 := got.Latency["p99"][i]
					same := p99 == nil && p.Started() == 0 || p99 != nil && *p99 == float64(p.Delays.Quantile(0.99).Microseconds())/1000
					if got.T[i] != p.Begin.Unix() || got.Started[i] != p.Started() || got.Runs["completed"][i] != p.Runs[queue_job.JobStatusSuccess] || got.Runs["failed"][i] != p.Runs[queue_job.JobStatusFailed] || !same {
						t.Fatalf("%s%s, step %d: %d started, %d completed, %d failed; the history has %+v", span, queues, i, got.Started[i], got.Runs["completed"][i], got.Runs["failed"][i], p)
					}
					failed += got.Runs["failed"][i]
				}
				var told int64
				for _, e := range got.Errors {
					for _, n := range e.Runs {
						told += n
					}
				}
				if len(got.Errors) != len(types) || told != failed || slices.Max(got.Waiting) == 0 || slices.Max(got.Lag) != 1000 || slices.Max(got.Busy) != int64(2*len(types)) {
					t.Errorf("%s: %d of %d runs failed with one of %d errors; %v, %v, %v", span, told, failed, len(got.Errors), slices.Max(got.Waiting), slices.Max(got.Lag), slices.Max(got.Busy))
				}
			}
		}
		var hour series
		if err := json.Unmarshal([]byte(b.get("/data/series?last=1h", http.StatusOK)), &hour); err != nil || len(hour.Deploys) != 1 || !slices.Equal(hour.Deploys[0].Hosts, []string{"new/2"}) || hour.Deploys[0].At != now.Add(-20*time.Minute).Unix() {
			t.Errorf("an instance came twenty minutes ago: %+v, %v", hour.Deploys, err)
		}
		var compared, earlier series
		until := hour.From + int64(len(hour.T))*hour.Step
		query := fmt.Sprintf("/data/series?from=%d&to=%d", hour.From, until)
		errCompared := json.Unmarshal([]byte(b.get(query+"&compare=1", http.StatusOK)), &compared)
		errEarlier := json.Unmarshal([]byte(b.get(fmt.Sprintf("/data/series?from=%d&to=%d", 2*hour.From-until, hour.From), http.StatusOK)), &earlier)
		if err := errors.Join(errCompared, errEarlier); err != nil || hour.Before != nil || compared.Before == nil || !slices.Equal(compared.Before.T, earlier.T) {
			t.Fatalf("%v, compared with %+v, want %+v", err, compared.Before, earlier)
		}
		for i, was := range compared.Before.Runs {
			ended := earlier.Runs["completed"][i] + earlier.Runs["failed"][i]
			if p99 := compared.Before.P99[i]; *was != ended || ended == 0 || *p99 != *earlier.Latency["p99"][i] || !slices.Equal(compared.Started, hour.Started) {
				t.Fatalf("step %d of the hour before: %d runs, p99 %v; that hour says %d", i, *was, *p99, ended)
			}
		}
		if page := b.get("/?compare=1", http.StatusOK); strings.Count(page, `<path class="before"`) != 2 || !strings.Contains(page, `href="?last=6h&amp;compare=1"`) {
			t.Errorf("the overview does not show the hour before:\n%s", page)
		}
		for _, bad := range []string{"last=1y", "from=1", "from=a&to=b", "from=100&to=50", "from=0&to=9999999999", "queues=x", "queues=7,"} {
			b.get("/data/series?"+bad, http.StatusBadRequest)
		}
		if page := b.get("/", http.StatusOK); !strings.Contains(page, "no route to") || !strings.Contains(page, "the bank") || !strings.Contains(page, "1 instance: new/2") || !strings.Contains(page, "<line x1=") || !regexp.MustCompile(`href="./errors/[0-9a-f]{16}\?last=1h"`).MatchString(page) {
			t.Errorf("the overview lacks an error, an act or a deploy:\n%s", page)
		}
	})
}

func TestTheDataOfAChartComeOnceAndOnlyToThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		remember(t, d, time.Now())
		h := console.Handler(jobs, console.WithPermit(func(r *http.Request, do console.Verb, jobType int32) bool {
			return do == console.See && (jobType == 7 || r.Header.Get("X-User") == "mary")
		}))
		ask := func(who, query, tag string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/data/series?"+query, nil)
			r.Header.Set("X-User", who)
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		whole := ask("mary", "last=24h", "")
		if tag := whole.Header().Get("ETag"); tag == "" || ask("mary", "last=24h", tag).Code != http.StatusNotModified || ask("john", "last=24h", tag).Code != http.StatusOK {
			t.Errorf("the tag %q is not heeded, or is the same for what is not the same", tag)
		}
		var mine, all series
		for who, to := range map[string]*series{"john": &mine, "mary": &all} {
			if err := json.Unmarshal(ask(who, "last=24h", "").Body.Bytes(), to); err != nil {
				t.Fatal(err)
			}
		}
		if len(all.Errors) != 2 || len(mine.Errors) != 1 || mine.Errors[0].Queue != 7 || len(mine.Deploys) != 0 || slices.Max(mine.Started) >= slices.Max(all.Started) {
			t.Errorf("john, who may see type 7 alone, gets %+v", mine)
		}
		if w := ask("john", "queues=7,8", ""); w.Code != http.StatusForbidden {
			t.Errorf("john gets type 8: %d", w.Code)
		}
	})
}

func TestTheJobsThatFailedWithAnErrorAreRetriedAndNoOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		_, now, err := faces.Newest(t.Context(), jobs, d.DB)
		if err != nil {
			t.Fatal(err)
		}
		remember(t, d, now)
		addType(t, d.DB, 7, 6, 0)
		ids := idsWhere(t, d, "job_type = 7")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, attempts = 1")
		for i, id := range ids {
			text := fmt.Sprintf("no route to %d", id)
			if i >= 4 {
				text = "no disk"
			}
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) VALUES (%d, 1, 1, 'failed', '%s', 1, 2, 'a')", id, text))
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 5 WHERE id = %d", ids[0])) // somebody has retried and cancelled it since
		b := browse(t, console.Handler(jobs))
		at := "/errors/" + faces.ErrorID(7, "no route to 5")
		page := b.get(at, http.StatusOK)
		for _, says := range []string{"no route to", "Retry these 4 jobs", fmt.Sprintf("jobs/%d\"", ids[1]), "<line x1="} {
			if !strings.Contains(page, says) {
				t.Errorf("there is no %q in\n%s", says, page)
			}
		}
		if page := b.send(at+"/retry", url.Values{"type": {"7"}, "why": {"the route is back"}}, http.StatusOK); !strings.Contains(page, "These jobs run again") {
			t.Error(page)
		}
		if waits := idsWhere(t, d, "job_status = 0"); !slices.Equal(waits, ids[1:4]) {
			t.Errorf("the jobs %v run again, of %v", waits, ids)
		}
		if page := b.send(at+"/retry", url.Values{"type": {"7"}}, http.StatusOK); !strings.Contains(page, "Nothing was changed") {
			t.Error(page)
		}
		b.send(at+"/retry", url.Values{"type": {"x"}}, http.StatusBadRequest)
		if page := b.get("/errors/0123456789abcdef", http.StatusOK); !strings.Contains(page, "No run ended with it") {
			t.Error(page)
		}
		looks := browse(t, console.Handler(jobs, console.WithPermit(func(_ *http.Request, do console.Verb, _ int32) bool { return do == console.See })))
		looks.send(at+"/retry", url.Values{"type": {"7"}}, http.StatusForbidden)
		if page := looks.get(at, http.StatusOK); strings.Contains(contentOf(page), `method="post"`) {
			t.Errorf("who may only look may retry:\n%s", page)
		}
	})
}

func TestTheOlderAddressesLeadToThoseOfToday(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		if _, err := jobs.Pause(t.Context(), d.DB, 7); err != nil {
			t.Fatal(err)
		}
		h := http.StripPrefix("/a/b", console.Handler(jobs, console.WithPermit(func(*http.Request, console.Verb, int32) bool { return true })))
		for old, today := range map[string]string{
			"GET /types/7": "../queues/7", "GET /types/7?last=30h": "../queues/7?last=30h", "GET /types/7/what-if?rate=2": "../../queues/7/simulate?rate=2",
			"GET /instances": "./workers", "GET /acts?job=7": "./audit?job=7", "POST /types/7/pause": "../../queues/7/pause", "POST /instances/a%2Fb/drain": "../../workers/a%2Fb/drain",
		} {
			method, path, _ := strings.Cut(old, " ")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/a/b"+path, nil))
			if to := w.Header().Get("Location"); w.Code != http.StatusPermanentRedirect || to != today {
				t.Errorf("%s: %d, to %q, want %q", old, w.Code, to, today)
			}
		}
		b := browse(t, h)
		if page := b.send("/a/b/types/7/resume", url.Values{"why": {"it is mended"}}, http.StatusOK); !strings.Contains(page, "The type goes on") {
			t.Errorf("a form of an older page changes nothing:\n%s", page)
		}
		if page := b.get("/a/b/acts", http.StatusOK); !strings.Contains(page, "it is mended") {
			t.Error(page)
		}
	})
}
