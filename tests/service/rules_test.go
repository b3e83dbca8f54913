package service

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATopicSaysWhatAnswersMean(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/busy":
				fmt.Fprintf(w, `{"code": %d}`, 3-n) // the third call succeeds
			case "/gone":
				w.WriteHeader(http.StatusNotFound)
			}
		})
		api := start(t, d)
		const config = `{"success":{"json":{"code":0}},"permanent_statuses":"404","headers":{"x-tenant":"7","x-from":"topic"},"retry":{"waits":["1s","1s"]}}`
		if topic := api.send(http.StatusCreated, "PUT", "/v1/topics/orders", config); topic.json("config.success.json.code") != 0.0 {
			t.Errorf("%s", topic.text)
		}
		add := func(path string) string {
			return api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":%q,"headers":{"x-from":"task"}}`, to.URL+path)).id()
		}
		if succeeded := api.awaitStatus(add("/busy"), "succeeded"); succeeded.json("attempts") != 3.0 {
			t.Errorf("%s", succeeded.text)
		}
		if failed := api.awaitStatus(add("/gone"), "failed"); failed.json("attempts") != 1.0 {
			t.Errorf("%s", failed.text)
		}
		for _, call := range to.all() {
			if call.header.Get("X-Tenant") != "7" || call.header.Get("X-From") != "task" {
				t.Errorf("%v", call.header)
			}
		}
	})
}

func TestATopicWithoutASecondAttemptIsServed(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		api := start(t, d)
		api.send(http.StatusCreated, "PUT", "/v1/topics/once", `{"retry":{"max_attempts":1}}`)
		once := api.send(http.StatusCreated, "POST", "/v1/topics/once/tasks", fmt.Sprintf(`{"url":%q}`, to.URL)).id()
		twice := api.send(http.StatusCreated, "POST", "/v1/topics/once/tasks", fmt.Sprintf(`{"url":%q,"retry":{"waits":["1s"]}}`, to.URL)).id()
		for id, attempts := range map[string]float64{once: 1, twice: 2} {
			if failed := api.awaitStatus(id, "failed"); failed.json("attempts") != attempts || failed.json("max_attempts") != attempts {
				t.Errorf("%s", failed.text)
			}
		}
		if n := len(to.all()); n != 3 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestEachFailureIsToldOnceAndOnlyIfItIsFinal(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/broken" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		api := start(t, d)
		task := fmt.Sprintf(`{"name":"order-4711","url":"%[1]s/broken","labels":{"team":"shop"},"retry":{"waits":["1s"]},"on_failure":{"url":"%[1]s/failed"}}`, to.URL)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", task).id()
		well := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":"%[1]s/well","on_failure":{"url":"%[1]s/failed"}}`, to.URL)).id()
		api.awaitStatus(id, "failed")
		api.awaitStatus(well, "succeeded")
		await(t, "the failure is told", func() bool { return len(to.all()) >= 4 })
		told := map[string]int{}
		for _, c := range to.all() {
			told[c.path]++
			if want := `{"id":"` + id + `","topic":"orders","name":"order-4711","status":"failed","error":"status: the receiver answered 500","attempts":2,"labels":{"team":"shop"}}`; c.path == "/failed" && c.body != want {
				t.Errorf("%s, want %s", c.body, want)
			}
		}
		if told["/failed"] != 1 || told["/broken"] != 2 || told["/well"] != 1 {
			t.Errorf("%v", told)
		}
		api.send(http.StatusOK, "POST", "/v1/tasks/"+id+"/retry", "")
		await(t, "the second failure is told", func() bool {
			return slices.ContainsFunc(to.all(), func(c called) bool { return c.path == "/failed" && strings.Contains(c.body, `"attempts":4`) })
		})
		bad := api.send(http.StatusUnprocessableEntity, "POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","on_failure":{"url":"http://10.1.2.3/"}}`)
		if bad.json("errors.0.pointer") != "/on_failure/url" {
			t.Errorf("%s", bad.text)
		}
	})
}

func TestLabelsHaveFourKibibytesAllTogether(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		task := func(n int) string {
			return fmt.Sprintf(`{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z","labels":{"a":%q,"b":%q}}`, strings.Repeat("<", n), strings.Repeat("x", 2000))
		}
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", task(2094))
		refused := api.send(http.StatusUnprocessableEntity, "POST", "/v1/topics/orders/tasks", task(2095))
		if refused.json("errors.0.pointer") != "/labels" {
			t.Errorf("%s", refused.text)
		}
	})
}

func TestANewTopicIsConfiguredByTheLongestPatternThatFits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one, other := start(t, d), start(t, d)
		one.send(http.StatusCreated, "POST", "/v1/topics/customer.1/tasks", later)
		one.send(http.StatusCreated, "PUT", "/v1/templates/*", `{"rate":1}`)
		one.send(http.StatusCreated, "PUT", "/v1/templates/customer.*", `{"rate":2}`)
		one.send(http.StatusOK, "PUT", "/v1/templates/customer.*", `{"rate":3,"headers":{"x-from":"pqueue"}}`)
		await(t, "the other instance knows of it", func() bool {
			return other.send(http.StatusOK, "GET", "/v1/templates", "").json("templates.0.config.rate") == 3.0
		})
		other.send(http.StatusCreated, "POST", "/v1/topics/customer.2/tasks", later)
		one.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later)
		await(t, "all topics are known", func() bool {
			return len(one.send(http.StatusOK, "GET", "/v1/topics", "").json("topics").([]any)) == 3
		})
		for topic, rate := range map[string]any{"customer.1": nil, "customer.2": 3.0, "orders": 1.0} {
			if got := one.send(http.StatusOK, "GET", "/v1/topics/"+topic, "").json("config.rate"); got != rate {
				t.Errorf("%s has the rate %v, want %v", topic, got, rate)
			}
		}
		one.send(http.StatusUnprocessableEntity, "PUT", "/v1/templates/customer", `{}`)
		one.send(http.StatusUnprocessableEntity, "PUT", "/v1/templates/[a]*", `{}`)
	})
}
