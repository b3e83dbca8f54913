package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// metas notes which metadata the handler got for which job, at each of its runs.
type metas struct {
	mu sync.Mutex
	of map[uint64][]map[string]string
}

func (m *metas) note(job *queue_job.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[uint64][]map[string]string{}
	}
	m.of[job.Id] = append(m.of[job.Id], job.Meta)
}

func traced(n int) map[string]string {
	return map[string]string{"trace": fmt.Sprint(n), "text": `Zwölf 🐘, "漢字" \ ` + "\n"}
}

// The first half of the jobs is a backlog, which comes by pages and the sweep; the tail finds the others. Each job has a retry.
func TestMetadataComesToEveryRunOfTheHandler(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, batches := range []bool{false, true} {
			const n, jobType = 400, 3
			var got metas
			jobs := open(t, d.DB)
			cfg := queue_job.Config{JobType: jobType, NeedRetry: true, MaxRetries: 1, WaitTime: time.Millisecond, LoadLimit: 50, QueueMaxSize: 100}
			handle := func(job *queue_job.Job) error {
				got.note(job)
				if job.Attempt == 1 {
					return errors.New("once more")
				}
				return nil
			}
			if batches {
				cfg.HandleBatchFunc = func(_ context.Context, some []*queue_job.Job) error {
					errs := make(queue_job.BatchErrors, len(some))
					for i, job := range some {
						errs[i] = handle(job)
					}
					return errs
				}
			} else {
				cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) error { return handle(job) }
			}
			want := map[uint64]map[string]string{}
			add := func() {
				list := make([]queue_job.AddModelJob, n/2)
				for i := range list {
					if list[i].JobType = jobType; i%3 > 0 {
						list[i].Meta = traced(len(want) + i)
					}
				}
				added, err := jobs.AddMany(t.Context(), d.DB, list)
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range added {
					want[a.Id] = list[i].Meta
				}
			}
			add()
			r := start(t, d.DB, cfg)
			add()
			await(t, func() string { return "jobs have not run twice" }, func() bool {
				return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status IN (0, 4)", jobType) == 0
			})
			stop(t, r)
			for id, meta := range want {
				if runs := got.of[id]; len(runs) != 2 || !maps.Equal(runs[0], meta) || !maps.Equal(runs[1], meta) || (runs[0] == nil) != (meta == nil) {
					t.Fatalf("job %d has %v, and the handler got %v", id, meta, runs)
				}
			}
		}
	})
}

func TestMetadataIsAddedByEveryVerbAndShown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		full := map[string]string{"k": strings.Repeat("𝔘", 1024-len(`{"k":""}`))}
		with := func(meta map[string]string) queue_job.AddOption {
			return func(j *queue_job.AddModelJob) { j.Meta = meta }
		}
		shows := func(what string, id uint64, want map[string]string) {
			t.Helper()
			info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
			if err != nil || !maps.Equal(info.Meta, want) || (info.Meta == nil) != (want == nil) {
				t.Errorf("%s: %v, %v", what, info, err)
			}
		}
		pending := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
		shows("Add", addOne(t, jobs, d.DB, with(traced(1))).Id, traced(1))
		shows("Add, full", addOne(t, jobs, d.DB, with(full)).Id, full)
		shows("Add, none", addOne(t, jobs, d.DB).Id, nil)
		id := addOne(t, jobs, d.DB, pending, with(full)).Id
		shows("AddUnique", id, full)
		addOne(t, jobs, d.DB, pending, with(traced(2)))
		shows("AddUnique, a duplicate", id, full)
		addOne(t, jobs, d.DB, pending, with(traced(2)), queue_job.ReplaceWaiting())
		shows("AddUnique, replacing", id, traced(2))
		if _, err := jobs.SetParams(t.Context(), d.DB, queue_job.ID(id), "other"); err != nil {
			t.Fatal(err)
		}
		shows("SetParams", id, traced(2))
		addOne(t, jobs, d.DB, pending, queue_job.ReplaceWaiting())
		shows("AddUnique, replacing without", id, nil)
		unique := uniqueJobs(3, queue_job.UniqueWhilePending, queue_job.ReplaceWaiting(), with(traced(3)))
		unique[1].Meta = nil
		for range 2 { // the second time, they replace each other
			added, err := jobs.AddMany(t.Context(), d.DB, unique)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range added {
				shows("AddMany", a.Id, unique[i].Meta)
			}
			unique[0].Meta, unique[1].Meta = nil, full
		}
	})
}

func TestARowWhoseMetadataIsNullOrNoJSONRunsWithout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		now := time.Now().Unix()
		for _, meta := range []any{nil, "", "x", `{"a":1}`, "[1,2]", `{"a":"b"}`} {
			execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, create_time, update_time, meta) VALUES ('{}', 1, ?, ?, ?)", now, now, meta)
		}
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler, Schedule: daily{}})
		awaitRuns(t, &ran, 6)
		for _, run := range ran.all() {
			if want := run.id == 6; (run.job.Meta != nil) != want || want && run.job.Meta["a"] != "b" {
				t.Errorf("job %d: %v", run.id, run.job.Meta)
			}
		}
	})
}

func TestOnAddIsCalledForEachJobThatIsAddedAndMayChangeIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		type tenant struct{}
		jobs, err := queue_job.Open(d.DB,
			queue_job.OnAdd(func(ctx context.Context, job *queue_job.AddModelJob) error {
				job.Meta["tenant"], _ = ctx.Value(tenant{}).(string)
				return nil
			}),
			queue_job.OnAdd(func(_ context.Context, job *queue_job.AddModelJob) error {
				job.Meta["path"] += "second after " + job.Meta["tenant"]
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), tenant{}, "7")
		want := map[string]string{"tenant": "7", "path": "own, second after 7"}
		job := theJob.With(queue_job.WithMeta("path", "own, "))
		list := []queue_job.AddModelJob{job, job}
		unique := job.With(queue_job.UniqueKey("k", queue_job.UniqueWhilePending), queue_job.ReplaceWaiting())
		var ids []uint64
		for range 2 { // the second time, the unique ones are replaced
			one, errOne := jobs.Add(ctx, d.DB, job)
			typed, errTyped := queue_job.Define[string](1, "test").Add(ctx, jobs, d.DB, "x", queue_job.WithMeta("path", "own, "))
			many, errMany := jobs.AddMany(ctx, d.DB, append(list, unique))
			keyed, errKeyed := jobs.AddUnique(ctx, d.DB, unique)
			if err := errors.Join(errOne, errTyped, errMany, errKeyed); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, one, typed, many[0].Id, many[1].Id, many[2].Id, keyed.Id)
		}
		for i, id := range ids {
			if info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id)); err != nil || !maps.Equal(info.Meta, want) {
				t.Errorf("job %d: %v, %v", i, info, err)
			}
		}
		if len(job.Meta) != 1 || len(list[0].Meta) != 1 {
			t.Errorf("the caller's own jobs have become %v and %v", job.Meta, list[0].Meta)
		}
	})
}

func TestTagsGoWithTheJobBesideItsMetadata(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		migrate(t, d)
		tags := []string{"vip", "Größe \"M\""}
		want := func(info *queue_job.JobInfo, meta map[string]string, end time.Time) {
			t.Helper()
			if !slices.Equal(info.Tags, tags) || !maps.Equal(info.Meta, meta) || !info.Expires.Equal(end) {
				t.Errorf("it has %q, %v and the end %v", info.Tags, info.Meta, info.Expires)
			}
		}
		get := func(id uint64) *queue_job.JobInfo {
			t.Helper()
			info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		alone := addOne(t, jobs, d.DB, queue_job.Tags(tags...))
		all := addOne(t, jobs, d.DB, queue_job.Tags(tags...), queue_job.Expires(end), queue_job.WithMeta("k", "v"))
		want(get(alone.Id), nil, time.Time{})
		if page := browse(t, console.Handler(jobs)).get(fmt.Sprint("/jobs/", alone.Id), http.StatusOK); !strings.Contains(page, "<dt>Tags</dt><dd>vip, Gr") {
			t.Errorf("the console does not show them: %s", page)
		}
		want(get(all.Id), map[string]string{"k": "v"}, end)
		start(t, d.DB, queue_job.Config{JobType: get(all.Id).JobType, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if !slices.Equal(job.Tags(), tags) {
				t.Errorf("its handler got %q", job.Tags())
			}
			return queue_job.Fail(errors.New("no luck"))
		}})
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", all.Id))
		restored := queue_job.Archived{JobInfo: *get(alone.Id)}
		restored.Id, restored.Expires, restored.Meta = all.Id, end, map[string]string{"k": "v"}
		if n, err := jobs.Restore(t.Context(), d.DB, []queue_job.Archived{restored}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		want(get(all.Id), map[string]string{"k": "v"}, end)
		for _, bad := range []string{"", " a", "a,b", "\xff"} {
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}.With(queue_job.Tags("fine", bad))); err == nil {
				t.Errorf("%q was added", bad)
			}
		}
	})
}
