package service

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// later is a task that does not run in a test.
const later = `{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`

func TestATaskThatWaitsIsMovedHurriedAndCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","at":"2100-01-01T00:00:00Z"}`).id()
		moved := api.send(http.StatusOK, "PATCH", "/v1/tasks/"+id, `{"at":"2100-02-01T00:00:00Z","priority":"urgent"}`)
		if moved.json("due") != "2100-02-01T00:00:00Z" || moved.json("priority") != "urgent" {
			t.Errorf("%s", moved.text)
		}
		for _, wrong := range []string{`{}`, `{"url":"http://127.0.0.1/"}`, `{"at":1,"delay":"1s"}`, `{"priority":"top"}`, `{"delay":"-1s"}`} {
			api.send(http.StatusUnprocessableEntity, "PATCH", "/v1/tasks/"+id, wrong)
		}
		api.send(http.StatusOK, "DELETE", "/v1/tasks/"+id, "")
		for _, verb := range []string{"DELETE /v1/tasks/" + id, "POST /v1/tasks/" + id + "/run"} {
			method, path, _ := strings.Cut(verb, " ")
			if late := api.send(http.StatusConflict, method, path, ""); late.json("code") != "ended" {
				t.Errorf("%s: %s", verb, late.text)
			}
		}
		api.send(http.StatusOK, "POST", "/v1/tasks/"+id+"/retry", "")
		api.awaitStatus(id, "succeeded")
		if n := len(to.all()); n != 1 {
			t.Errorf("%d calls", n)
		}
		other := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","at":"2100-01-01T00:00:00Z"}`).id()
		api.send(http.StatusOK, "POST", "/v1/tasks/"+other+"/run", "")
		api.awaitStatus(other, "succeeded")
		jobs, err := queue_job.Open(d.DB)
		if err != nil {
			t.Fatal(err)
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Actor: "API, local"})
		var verbs []string
		for _, act := range acts {
			verbs = append(verbs, act.Verb)
		}
		if want := []string{"reschedule", "retry", "cancel", "set priority", "reschedule"}; err != nil || !slices.Equal(verbs, want) {
			t.Errorf("it was noted that the API did %q, %v; want %q", verbs, err, want)
		}
	})
}

func TestATaskIsSentAgainAsItAsksAndThenHasFailed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","retry":{"waits":["1s"],"max_attempts":3}}`).id()
		failed := api.awaitStatus(id, "failed")
		if failed.json("attempts") != 3.0 || failed.json("max_attempts") != 3.0 {
			t.Errorf("%s", failed.text)
		}
		calls := to.all()
		if len(calls) != 3 {
			t.Fatalf("%d calls", len(calls))
		}
		for n, c := range calls {
			if c.header.Get("Webhook-Id") != calls[0].header.Get("Webhook-Id") || c.header.Get("Pq-Attempt") != fmt.Sprint(n+1) {
				t.Errorf("call %d: %v", n, c.header)
			}
			if n > 0 && c.at.Sub(calls[n-1].at) < 900*time.Millisecond {
				t.Errorf("call %d came %v after the one before", n, c.at.Sub(calls[n-1].at))
			}
		}
		attempts := api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"/attempts", "")
		if text := fmt.Sprint(attempts.json("attempts.2.error")); attempts.json("attempts.2.outcome") != "failed" || !strings.Contains(text, "418") {
			t.Errorf("%s", attempts.text)
		}
	})
}

func TestAReceiverThatAsksForAPauseCostsNoAttempt(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","retry":{"max_attempts":1}}`).id()
		if done := api.awaitStatus(id, "succeeded"); done.json("attempts") != 1.0 || done.json("deferrals") != 1.0 {
			t.Errorf("%s", done.text)
		}
	})
}

func TestATaskEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks",
			fmt.Sprintf(`{"url":%q,"expires":%d,"retry":{"waits":["1h"],"max_attempts":100}}`, to.URL, time.Now().Unix()+2)).id()
		api.awaitStatus(id, "expired")
	})
}

func TestACallThatIsCancelledIsCutOff(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		cut, came := make(chan time.Time, 1), make(chan bool, 1)
		to := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			came <- true
			<-r.Context().Done()
			cut <- time.Now()
		})
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`"}`).id()
		<-came
		if shown := api.send(http.StatusOK, "GET", "/v1/tasks/"+id, ""); shown.json("status") != "in_flight" {
			t.Errorf("%s", shown.text)
		}
		if refused := api.send(http.StatusConflict, "PATCH", "/v1/tasks/"+id, `{"delay":"1h"}`); refused.json("code") != "in-flight" {
			t.Errorf("%s", refused.text)
		}
		began := time.Now()
		api.send(http.StatusOK, "DELETE", "/v1/tasks/"+id, "")
		select {
		case at := <-cut:
			t.Logf("after %v", at.Sub(began))
		case <-time.After(patience):
			t.Error("it goes on")
		}
		api.awaitStatus(id, "cancelled")
	})
}

func TestATopicIsPausedConfiguredAndCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		made := api.send(http.StatusCreated, "PUT", "/v1/topics/orders", `{"rate":1000,"concurrency":3,"ordered":true,"timeout":"20s","retry":{"waits":["1s"]}}`)
		if made.json("config.concurrency") != 3.0 || made.json("job_type").(float64) < 1_000_000 {
			t.Errorf("%s", made.text)
		}
		dbtest.BestOfThree(t, func() (late error) {
			called := len(to.all())
			paused := api.send(http.StatusOK, "POST", "/v1/topics/orders/pause", "")
			if paused.json("paused_since") == nil {
				t.Errorf("%s", paused.text)
			}
			time.Sleep(1100 * time.Millisecond) // a pause takes effect within a second
			id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`"}`).id()
			if s := api.send(http.StatusOK, "GET", "/v1/topics/orders/stats", ""); s.json("waiting") != 1.0 {
				late = fmt.Errorf("%s", s.text)
			}
			changed := api.send(http.StatusOK, "PUT", "/v1/topics/orders", `{"concurrency":5}`)
			if changed.json("job_type") != made.json("job_type") || changed.json("config.rate") != nil || changed.json("paused_since") == nil {
				t.Errorf("%s", changed.text)
			}
			if n := len(to.all()) - called; n != 0 {
				late = fmt.Errorf("%d calls while it is paused", n)
			}
			api.send(http.StatusOK, "POST", "/v1/topics/orders/resume", "")
			api.awaitStatus(id, "succeeded")
			return late
		})
		for _, wrong := range []string{`{"rate":-1}`, `{"rates":1}`, `{"burst":1}`, `{"concurrency":100000}`, `{"ordered":true,"per_key":2}`, `{"timeout":"1h"}`, `{"retry":{"waits":["x"]}}`, `[]`} {
			api.send(http.StatusUnprocessableEntity, "PUT", "/v1/topics/orders", wrong)
		}
		api.send(http.StatusUnprocessableEntity, "PUT", "/v1/topics/Orders", `{}`)
		api.send(http.StatusNotFound, "GET", "/v1/topics/bills", "")
		if all := api.send(http.StatusOK, "GET", "/v1/topics", ""); len(all.json("topics").([]any)) != 1 {
			t.Errorf("%s", all.text)
		}
	})
}

func TestAPauseOfATopicMayHaveAnEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		api.send(http.StatusCreated, "PUT", "/v1/topics/orders", `{}`)
		pause := func(want int, body string) answer {
			t.Helper()
			return api.send(want, "POST", "/v1/topics/orders/pause", body)
		}
		if p := pause(http.StatusOK, `{"until":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`); p.json("paused_until") == nil {
			t.Errorf("%s", p.text)
		}
		if p := pause(http.StatusOK, ""); p.json("paused_since") == nil || p.json("paused_until") != nil { // which takes the end back
			t.Errorf("%s", p.text)
		}
		for wrong, at := range map[string]string{
			`{"until":"2001-01-01T00:00:00Z"}`: "/until", `{"until":"2100-01-01T00:00:00Z"}`: "/until", `{"until":"soon"}`: "/until",
			`{"for":"0s"}`: "/for", `{"for":"9000h"}`: "/for", `{"for":"1h","until":"2090-01-01T00:00:00Z"}`: "/for", `{"lasts":"1h"}`: "", `[]`: "",
		} {
			p := pause(http.StatusUnprocessableEntity, wrong)
			if list, _ := p.json("errors").([]any); at != "" && (len(list) != 1 || list[0].(map[string]any)["pointer"] != at) {
				t.Errorf("%s: %s, want a complaint about %s", wrong, p.text, at)
			}
		}
		if p := pause(http.StatusOK, `{"for":"2s"}`); p.json("paused_until") == nil {
			t.Errorf("%s", p.text)
		}
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`"}`).id()
		api.awaitStatus(id, "succeeded")
		if topic := api.send(http.StatusOK, "GET", "/v1/topics/orders", ""); topic.json("paused_since") != nil || topic.json("paused_until") != nil {
			t.Errorf("%s", topic.text)
		}
	})
}

func TestTheLimitsOfOneTopicKeepNoOtherFromBeingServed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.send(http.StatusCreated, "PUT", "/v1/topics/paired", `{}`)
		if _, err := d.DB.ExecContext(t.Context(), `UPDATE pqueue_topic_tab SET config = '{"ordered":true,"per_key":2}'`); err != nil { // an earlier version took that
			t.Fatal(err)
		}
		api = start(t, d)
		for _, topic := range []string{"other", "paired"} {
			api.awaitStatus(api.send(http.StatusCreated, "POST", "/v1/topics/"+topic+"/tasks", `{"url":"`+to.URL+`"}`).id(), "succeeded")
		}
	})
}

func TestThereAreNoMoreTopicsThanAllowed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.Topics, c.WithoutDelivery = 2, true })
		for _, topic := range []string{"a", "b", "a"} {
			api.send(http.StatusCreated, "POST", "/v1/topics/"+topic+"/tasks", later)
		}
		if refused := api.send(http.StatusConflict, "POST", "/v1/topics/c/tasks", later); refused.json("code") != "topic-limit" {
			t.Errorf("%s", refused.text)
		}
	})
}

func TestADeletedTopicFreesItsNameAndLosesNoTask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d, func(c *service.Config) { c.Topics = 2 })
		other := start(t, d)
		made := api.send(http.StatusCreated, "PUT", "/v1/topics/orders", `{"concurrency":3}`)
		awaitTopics := func(at *instance, n int) {
			t.Helper()
			await(t, "what there is of topics is known", func() bool {
				return len(at.send(http.StatusOK, "GET", "/v1/topics", "").json("topics").([]any)) == n
			})
		}
		awaitTopics(other, 1)
		task := `{"url":"` + to.URL + `"}`
		api.awaitStatus(api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", task).id(), "succeeded")
		waits := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later).id()
		if refused := api.send(http.StatusConflict, "DELETE", "/v1/topics/orders", ""); refused.json("code") != "topic-in-use" {
			t.Errorf("%s", refused.text)
		}
		api.send(http.StatusOK, "DELETE", "/v1/tasks/"+waits, "")
		api.send(http.StatusNoContent, "DELETE", "/v1/topics/orders", "")
		for _, at := range []*instance{api, other} {
			awaitTopics(at, 0)
			at.send(http.StatusNotFound, "GET", "/v1/topics/orders", "")
			at.send(http.StatusNotFound, "DELETE", "/v1/topics/orders", "")
			if cancelled := at.send(http.StatusOK, "GET", "/v1/tasks/"+waits, ""); cancelled.json("topic") != "orders" {
				t.Errorf("%s", cancelled.text)
			}
		}
		jobs, err := queue_job.Open(d.DB)
		if err != nil {
			t.Fatal(err)
		}
		late, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: int32(made.json("job_type").(float64)), JobParams: queue_job.JSON(task)})
		if err != nil {
			t.Fatal(err)
		}
		api.awaitStatus(fmt.Sprint(late), "succeeded")

		// The limit of two counts neither the deleted topic nor a deleted template.
		api.send(http.StatusCreated, "PUT", "/v1/templates/bills.*", `{"concurrency":5}`)
		api.send(http.StatusNoContent, "DELETE", "/v1/templates/bills.*", "")
		api.send(http.StatusNotFound, "DELETE", "/v1/templates/bills.*", "")
		api.send(http.StatusNotFound, "DELETE", "/v1/templates/bills", "")
		again := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", task).id()
		api.awaitStatus(again, "succeeded")
		api.awaitStatus(api.send(http.StatusCreated, "POST", "/v1/topics/bills.mary/tasks", task).id(), "succeeded")
		awaitTopics(other, 2)
		anew := other.send(http.StatusOK, "GET", "/v1/topics/orders", "")
		if anew.json("job_type") == made.json("job_type") || anew.json("config.concurrency") != nil {
			t.Errorf("%s", anew.text)
		}
		if bills := other.send(http.StatusOK, "GET", "/v1/topics/bills.mary", ""); bills.json("config.concurrency") != nil {
			t.Errorf("%s", bills.text)
		}

		// A month later, the rows of deleted topics are removed that have no task left.
		left := func() (deleted, all int) {
			t.Helper()
			if err := d.DB.QueryRow("SELECT COUNT(CASE WHEN name LIKE '%~%' THEN 1 END), COUNT(*) FROM pqueue_topic_tab").Scan(&deleted, &all); err != nil {
				t.Fatal(err)
			}
			return deleted, all
		}
		keepHouse := func() {
			t.Helper()
			const housekeeping = 999_999
			id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: housekeeping})
			if err != nil {
				t.Fatal(err)
			}
			await(t, "housekeeping is done", func() bool {
				job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
				return err == nil && job.Status == queue_job.JobStatusSuccess
			})
		}
		keepHouse()
		if deleted, all := left(); deleted != 2 || all != 4 {
			t.Errorf("%d of %d topics and templates are deleted ones, want 2 of 4", deleted, all)
		}
		if _, err := d.DB.Exec("UPDATE pqueue_topic_tab SET create_time = create_time - 31*86400"); err != nil {
			t.Fatal(err)
		}
		// As long as a task of it waits, an instance that is started then has to know the topic.
		late, err = jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: int32(made.json("job_type").(float64)), JobParams: queue_job.JSON(task), StartTime: 4_000_000_000})
		if err != nil {
			t.Fatal(err)
		}
		keepHouse()
		if deleted, all := left(); deleted != 1 || all != 3 {
			t.Errorf("%d of %d topics and templates are deleted ones, want 1 of 3: one has a task", deleted, all)
		}
		api.send(http.StatusOK, "DELETE", fmt.Sprint("/v1/tasks/", late), "")
		keepHouse()
		if deleted, all := left(); deleted != 0 || all != 2 {
			t.Errorf("%d of %d topics and templates are deleted ones, want 0 of 2", deleted, all)
		}
	})
}

func TestAListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		var want []string
		for n := range 7 {
			want = append(want, api.send(http.StatusCreated, "POST", fmt.Sprintf("/v1/topics/t-%d/tasks", n%2), later).id())
		}
		api.send(http.StatusOK, "DELETE", "/v1/tasks/"+want[3], "")
		jobs, err := queue_job.Open(d.DB)
		if err != nil {
			t.Fatal(err)
		}
		own, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 7}) // an application's, and not the service's
		if err != nil {
			t.Fatal(err)
		}
		api.send(http.StatusNotFound, "GET", fmt.Sprintf("/v1/tasks/%d", own), "")
		api.send(http.StatusNotFound, "DELETE", fmt.Sprintf("/v1/tasks/%d", own), "")
		read := func(query string) (ids []string) {
			for query != "" {
				page := api.send(http.StatusOK, "GET", "/v1/tasks?"+query, "")
				for _, task := range page.json("tasks").([]any) {
					ids = append(ids, task.(map[string]any)["id"].(string))
				}
				query = ""
				if cursor := page.json("cursor"); cursor != nil {
					query = "cursor=" + cursor.(string)
				}
			}
			return ids
		}
		for query, picked := range map[string][]int{
			"order=asc&limit=2": {0, 1, 2, 3, 4, 5, 6}, "limit=3": {6, 5, 4, 3, 2, 1, 0}, "topic=t-1&limit=1": {5, 3, 1}, "status=waiting&order=asc": {0, 1, 2, 4, 5, 6},
			"status=cancelled,failed": {3}, "due_from=2100-01-02T00:00:00Z": {}, "created_from=2001-01-01T00:00:00Z&limit=1000&order=asc": {0, 1, 2, 3, 4, 5, 6},
			"status=in_flight,expired": {}, "status=running,completed": {}, "status=queued": {}, "status=queued,cancelled": {3}, "status=scheduled&limit=2": {6, 5, 4, 2, 1, 0},
			"status=scheduled,expired&order=asc": {0, 1, 2, 4, 5, 6}, "status=scheduled&state=queued": {}, "status=scheduled&state=scheduled,cancelled&order=asc": {0, 1, 2, 4, 5, 6},
		} {
			var ids []string
			for _, n := range picked {
				ids = append(ids, want[n])
			}
			if got := read(query); strings.Join(got, " ") != strings.Join(ids, " ") {
				t.Errorf("%s: %v, want %v", query, got, ids)
			}
		}
		old := base64.RawURLEncoding.EncodeToString([]byte(`{"Limit":3,"Last":5,"UpdatedTo":"1970-01-01T00:00:00Z"}`))
		for _, wrong := range []string{"status=x", "limit=0", "limit=x", "order=up", "due_from=x", "updated_to=0", "page=2", "cursor=x", "cursor=e30", "cursor=" + old, "name=x"} {
			if refused := api.send(http.StatusUnprocessableEntity, "GET", "/v1/tasks?"+wrong, ""); refused.json("errors.0.pointer") != "?"+wrong[:strings.Index(wrong, "=")] {
				t.Errorf("%s: %s", wrong, refused.text)
			}
		}
	})
}

func TestTheAPISaysWhyATaskIsNotSent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later).id()
		api.send(http.StatusOK, "POST", "/v1/topics/orders/pause", "")
		var why answer
		await(t, "an instance has the new topic", func() bool {
			why = api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"/why", "")
			kind := why.json("reasons.1.kind")
			return kind != "no instance" && kind != "dormant"
		})
		if why.json("reasons.0.kind") != "not due" || why.json("reasons.0.until") != "2100-01-01T00:00:00Z" || why.json("reasons.1.kind") != "paused" {
			t.Errorf("%s", why.text)
		}
		api.send(http.StatusOK, "DELETE", "/v1/tasks/"+id, "")
		if why := api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"/why", ""); why.json("reasons.0.kind") != "final" {
			t.Errorf("%s", why.text)
		}
		api.send(http.StatusNotFound, "GET", "/v1/tasks/4711/why", "")
	})
}
