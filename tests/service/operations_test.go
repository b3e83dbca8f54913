package service

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestManyTasksAreRetriedCancelledAndDeletedAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var up atomic.Bool
		to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if !up.Load() {
				w.Header().Set("Pq-Retry", "no") // so the breaker stays closed
				w.WriteHeader(http.StatusNotFound)
			}
		})
		api := start(t, d)
		const tasks = 30
		api.add(tasks, fmt.Sprintf(`{"topic":"orders","url":%q}`, to.URL))
		api.add(1, fmt.Sprintf(`{"topic":"others","url":%q}`, to.URL))
		api.awaitCount("/v1/tasks?status=failed", tasks+1)

		failed := `"topic":"orders","status":["failed"],"created_from":1000000000`
		would := api.send(http.StatusOK, "POST", "/v1/operations", `{"do":"retry","dry_run":true,`+failed+`}`)
		if would.json("tasks") != float64(tasks) || would.json("more") != false || would.json("sample.0.status") != "failed" {
			t.Errorf("a dry run says %s", would.text)
		}
		api.awaitCount("/v1/operations", 0)

		up.Store(true)
		began := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"retry","why":"it was down",`+failed+`}`)
		if began.Header.Get("Location") != "/v1/operations/"+began.id() || began.json("why") != "it was down" || began.json("actor") != "API, local" {
			t.Errorf("%s, %s", began.Header, began.text)
		}
		done := api.awaitOperation(began.id(), "done")
		if done.json("changed") != float64(tasks) || done.json("skipped") != 0.0 || done.json("percent") != 100.0 {
			t.Errorf("%s", done.text)
		}
		api.awaitCount("/v1/tasks?topic=orders&status=succeeded", tasks)
		if n := len(to.all()); n != 2*tasks+1 {
			t.Errorf("%d calls, want %d", n, 2*tasks+1)
		}
		api.awaitCount("/v1/tasks?topic=others&status=failed", 1)

		api.add(5, `{"topic":"orders","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		cancelled := api.awaitOperation(api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"cancel","topic":"orders"}`).id(), "done")
		if cancelled.json("changed") != 5.0 {
			t.Errorf("%s", cancelled.text)
		}
		api.awaitOperation(api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"delete","topic":"orders","status":["succeeded"]}`).id(), "done")
		api.awaitCount("/v1/tasks?topic=orders&status=succeeded", 0)
		api.awaitCount("/v1/operations", 3)
	})
}

func TestAnOperationTakesTheWordsForStates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		api.send(http.StatusCreated, "PUT", "/v1/topics/orders", "{}")
		api.send(http.StatusOK, "POST", "/v1/topics/orders/pause", "")
		api.add(2, `{"topic":"orders","url":"http://127.0.0.1/"}`)
		api.add(3, `{"topic":"orders","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`) // the newest task is not deleted
		const of = `{"do":"cancel","topic":"orders","dry_run":true,"status":[%s]}`
		for words, want := range map[string]float64{`"waiting"`: 5, `"scheduled"`: 3, `"queued"`: 2, `"retrying","deferred"`: 0} {
			if would := api.send(http.StatusOK, "POST", "/v1/operations", fmt.Sprintf(of, words)); would.json("tasks") != want {
				t.Errorf("%s: %s, want %v", words, would.text, want)
			}
		}
		for words, pointer := range map[string]string{`"running"`: "/status/0", `"retrying","queued"`: "/status/1", `"completed"`: "/status/0"} {
			if refused := api.send(http.StatusUnprocessableEntity, "POST", "/v1/operations", fmt.Sprintf(of, words)); refused.json("errors.0.pointer") != pointer {
				t.Errorf("%s: %s", words, refused.text)
			}
		}
		queued := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"cancel","topic":"orders","status":["queued"]}`)
		if done := api.awaitOperation(queued.id(), "done"); done.json("changed") != 2.0 {
			t.Errorf("%s", done.text)
		}
		api.awaitCount("/v1/tasks?status=scheduled", 3)
		api.awaitCount("/v1/tasks?status=cancelled", 2)
		api.awaitOperation(api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"delete","topic":"orders","status":["completed","cancelled"]}`).id(), "done")
		api.awaitCount("/v1/tasks?status=cancelled,completed", 0)
	})
}

func TestAnOperationIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		const tasks = 20 // ten seconds' worth, so the stop comes before the end
		api.add(tasks, `{"topic":"orders","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		id := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"cancel","topic":"orders","rate":2}`).id()
		stopped := api.send(http.StatusOK, "POST", "/v1/operations/"+id+"/stop", "")
		if stopped.json("state") != "stopped" {
			t.Errorf("%s", stopped.text)
		}
		resumed := api.send(http.StatusOK, "POST", "/v1/operations/"+id+"/resume", "")
		if resumed.json("state") != "open" || resumed.json("rate") != 2.0 {
			t.Errorf("%s", resumed.text)
		}
		if done := api.awaitOperation(id, "done"); done.json("changed") != float64(tasks) {
			t.Errorf("%s", done.text)
		}
	})
}

func TestAnOperationIsForThoseWhoMayDoItToOneTask(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		api.add(1, `{"topic":"orders","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		id := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"run","topic":"orders"}`).id()
		admin := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		tokenOf := func(scope, topic string) string {
			api.token = admin
			return api.send(http.StatusCreated, "POST", "/v1/tokens", fmt.Sprintf(`{"scopes":[%q,"tasks:read"],"topics":[%q]}`, scope, topic)).json("token").(string)
		}
		const cancel = `{"do":"cancel","topic":"orders"}`
		for _, c := range []struct {
			scope, topic          string
			begin, show, stop, of int
		}{
			{"tasks:manage", "orders", http.StatusAccepted, http.StatusOK, http.StatusOK, 1},
			{"tasks:manage", "shop.*", http.StatusForbidden, http.StatusNotFound, http.StatusNotFound, 0},
			{"tasks:add", "orders", http.StatusForbidden, http.StatusOK, http.StatusForbidden, 1},
		} {
			api.token = tokenOf(c.scope, c.topic)
			api.send(c.begin, "POST", "/v1/operations", cancel)
			api.send(c.show, "GET", "/v1/operations/"+id, "")
			api.send(c.stop, "POST", "/v1/operations/"+id+"/stop", "")
			if seen := strings.Count(string(api.send(http.StatusOK, "GET", "/v1/operations", "").text), `"id":"`+id+`"`); seen != c.of {
				t.Errorf("with %s for %s, %d operations are seen", c.scope, c.topic, seen)
			}
		}
		api.token = admin
		for text, pointer := range map[string]string{
			`{"do":"erase","topic":"orders"}`:                                  "/do",
			`{"do":"cancel","topic":"orders","status":["in_flight"]}`:          "/status/0",
			`{"do":"delete","topic":"orders","status":["waiting"]}`:            "/status/0",
			`{"do":"cancel","topic":"orders","rate":-1}`:                       "/rate",
			`{"do":"cancel","topic":"orders","due_from":"next tuesday"}`:       "/due_from",
			`{"do":"delete","topic":"orders","updated_to":0}`:                  "/updated_to",
			`{"do":"delete","topic":"orders","due_to":"1970-01-01T00:00:00Z"}`: "/due_to",
			`{"do":"cancel","topic":"nowhere"}`:                                "/topic",
			`{"do":"cancel"}`:                                                  "/topic",
		} {
			if bad := api.send(http.StatusUnprocessableEntity, "POST", "/v1/operations", text); bad.json("errors.0.pointer") != pointer {
				t.Errorf("%s: %s", text, bad.text)
			}
		}
		for _, missing := range []string{"0", "x", "4711"} {
			api.send(http.StatusNotFound, "GET", "/v1/operations/"+missing, "")
		}
	})
}

// The description of the API says that tasks:manage is enough for these, and for a schedule tasks:add beside it.
func TestATokenThatMayOnlyManageHearsWhatItHasDone(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		api.add(1, `{"topic":"orders","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		admin := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		token := func(scopes string) string {
			return api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":[`+scopes+`],"topics":["orders"]}`, "Authorization: Bearer "+admin).json("token").(string)
		}
		manages, adds := token(`"tasks:manage"`), token(`"tasks:manage","tasks:add"`)
		api.token = manages
		began := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"run","topic":"orders","rate":1}`)
		if began.json("topic") != "orders" {
			t.Errorf("%s", began.text)
		}
		api.send(http.StatusOK, "POST", "/v1/operations/"+began.id()+"/stop", "")
		api.send(http.StatusOK, "POST", "/v1/operations/"+began.id()+"/resume", "")
		api.send(http.StatusForbidden, "GET", "/v1/operations/"+began.id(), "")
		const schedule = `{"cron":"@yearly","topic":"orders","task":{"url":"http://127.0.0.1/"}}`
		api.send(http.StatusForbidden, "PUT", "/v1/schedules/nightly", schedule)
		api.token = adds
		if made := api.send(http.StatusCreated, "PUT", "/v1/schedules/nightly", schedule); made.json("name") != "nightly" || made.json("task") != nil {
			t.Errorf("%s", made.text)
		}
		api.send(http.StatusOK, "PUT", "/v1/schedules/nightly", schedule)
		api.send(http.StatusForbidden, "GET", "/v1/schedules/nightly", "")
		api.send(http.StatusNoContent, "DELETE", "/v1/schedules/nightly", "")
	})
}

// add adds a task, as JSON, so many times.
func (i *instance) add(n int, task string) {
	i.t.Helper()
	i.send(http.StatusOK, "POST", "/v1/batch", `{"tasks":[`+task+strings.Repeat(","+task, n-1)+`]}`)
}

// awaitCount waits until a list is so long.
func (i *instance) awaitCount(path string, want int) {
	i.t.Helper()
	await(i.t, fmt.Sprintf("%s has %d", path, want), func() bool {
		return strings.Count(string(i.send(http.StatusOK, "GET", path, "").text), `{"id":`) == want
	})
}

func (i *instance) awaitOperation(id, want string) answer {
	i.t.Helper()
	var last answer
	await(i.t, "operation "+id+" is "+want, func() bool {
		last = i.send(http.StatusOK, "GET", "/v1/operations/"+id, "")
		return last.json("state") == want
	})
	return last
}
