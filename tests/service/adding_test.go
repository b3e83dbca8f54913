package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATaskIsCalledBackByteByByte(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		body := `{"order": 4711,  "price": 1.50, "name": "Zoë 🙂 <b>"}`
		added := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`/cancel?a=1&b=2","body":`+body+`,"headers":{"x-tenant":"7"}}`)
		if at := added.Header.Get("Location"); at != "/v1/tasks/"+added.id() {
			t.Errorf("it is at %q", at)
		}
		api.awaitStatus(added.id(), "succeeded")
		calls := to.all()
		if len(calls) != 1 || calls[0].body != body || calls[0].path != "/cancel" || calls[0].header.Get("X-Tenant") != "7" || calls[0].header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v", calls)
		}
	})
}

func TestATaskIsNotCalledBackBeforeItsTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		at := time.Now().Add(3 * time.Second).Truncate(time.Second)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":%q,"at":%d}`, to.URL, at.Unix())).id()
		api.awaitStatus(id, "succeeded")
		if calls := to.all(); len(calls) != 1 || calls[0].at.Before(at) {
			t.Errorf("due at %v: %+v", at, calls)
		}
	})
}

func TestANameIsOneTask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		const path = "/v1/topics/orders/tasks/order-4711"
		task := func(url, at string) string { return fmt.Sprintf(`{"url":"http://127.0.0.1/%s","at":%q}`, url, at) }
		first := api.send(http.StatusCreated, "PUT", path, task("a", "2100-01-01T00:00:00Z"))
		again := api.send(http.StatusOK, "PUT", path, task("b", "2100-02-01T00:00:00Z"))
		if first.id() != again.id() || again.json("replaced") != true {
			t.Errorf("%s, then %s", first.text, again.text)
		}
		shown := api.send(http.StatusOK, "GET", path, "")
		if shown.json("url") != "http://127.0.0.1/b" || shown.json("due") != "2100-02-01T00:00:00Z" || shown.json("status") != "waiting" {
			t.Errorf("%s", shown.text)
		}
		kept := api.send(http.StatusOK, "POST", "/v1/topics/orders/tasks", `{"name":"order-4711","url":"http://127.0.0.1/c"}`)
		if kept.id() != first.id() || kept.json("existed") != true || kept.json("replaced") != nil {
			t.Errorf("%s", kept.text)
		}
		refused := api.send(http.StatusConflict, "POST", "/v1/topics/orders/tasks", `{"name":"order-4711","url":"http://127.0.0.1/c","on_conflict":"error"}`)
		if refused.json("code") != "exists" {
			t.Errorf("%s", refused.text)
		}
		api.send(http.StatusOK, "DELETE", path, "")
		if ended := api.send(http.StatusConflict, "PUT", path, task("d", "2100-01-01T00:00:00Z")); ended.json("code") != "ended" {
			t.Errorf("%s", ended.text)
		}
		if other := api.send(http.StatusCreated, "PUT", "/v1/topics/bills/tasks/order-4711", task("d", "2100-01-01T00:00:00Z")); other.id() == first.id() {
			t.Error("another topic has the same task")
		}
	})
}

func TestWhatCouldNotBeReplacedIsSaidHoweverItCame(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		hold := make(chan struct{})
		to := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		})
		defer close(hold)
		api := start(t, d)
		const ended, waiting = "/v1/topics/orders/tasks/ended", "/v1/topics/orders/tasks/waiting"
		api.send(http.StatusCreated, "PUT", ended, later)
		api.send(http.StatusCreated, "PUT", waiting, later)
		api.send(http.StatusOK, "DELETE", ended, "")
		sent := api.send(http.StatusCreated, "PUT", "/v1/topics/orders/tasks/sent", `{"url":"`+to.URL+`"}`).id()
		await(t, "one is being sent", func() bool { return len(to.all()) == 1 })
		api.awaitStatus(sent, "in_flight")
		task := func(name string) string {
			return fmt.Sprintf(`{"topic":"orders","name":%q,"url":"http://127.0.0.1/new","at":"2100-01-01T00:00:00Z","on_conflict":"replace"}`, name)
		}
		for name, code := range map[string]string{"ended": "ended", "sent": "in-flight"} {
			for n, headers := range [][]string{nil, {"Idempotency-Key: " + name}} {
				one := api.send(http.StatusConflict, "POST", "/v1/topics/orders/tasks", task(name), headers...)
				batch := api.send(http.StatusConflict, "POST", "/v1/batch", `{"tasks":[`+task("waiting")+`,`+task(name)+`,`+task("another")+`]}`, headers...)
				if one.json("code") != code || batch.json("code") != code || batch.json("errors.0.pointer") != "/tasks/1/name" {
					t.Errorf("%s, %d: %s, then %s", name, n, one.text, batch.text)
				}
			}
			s := api.stream()
			go func() {
				s.send(task("waiting") + "\n" + task(name) + "\n")
				s.to.Close()
			}()
			if replaced, refused := s.answer(), s.answer(); replaced.ID == "" || refused.Problem.Code != code || refused.ID != "" {
				t.Errorf("%s: %+v, %+v", name, replaced, refused)
			}
		}
		api.send(http.StatusNotFound, "GET", "/v1/topics/orders/tasks/another", "")
	})
}

func TestABatchIsAddedAsAWhole(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		tasks := func(from, to int, more string) string {
			var list []string
			for n := from; n < to; n++ {
				list = append(list, fmt.Sprintf(`{"topic":"batch-%d","name":"n-%d","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"%s}`, n%3, n, more))
			}
			return `{"tasks":[` + strings.Join(list, ",") + `]}`
		}
		first := api.send(http.StatusOK, "POST", "/v1/batch", tasks(0, 1000, ""))
		again := api.send(http.StatusOK, "POST", "/v1/batch", tasks(0, 1000, ""))
		for n := range 1000 {
			at := fmt.Sprintf("tasks.%d.", n)
			if name := first.json(at + "name"); name != fmt.Sprintf("n-%d", n) || first.json(at+"id") != again.json(at+"id") || again.json(at+"existed") != true {
				t.Fatalf("task %d: %v %v, then %v", n, name, first.json(at+"id"), again.json(at+"id"))
			}
		}
		refused := api.send(http.StatusConflict, "POST", "/v1/batch", tasks(999, 1100, `,"on_conflict":"error"`))
		if refused.json("code") != "exists" || refused.json("errors.0.pointer") != "/tasks/0/name" {
			t.Errorf("%s", refused.text)
		}
		api.send(http.StatusNotFound, "GET", "/v1/topics/batch-1/tasks/n-1000", "")
		wrong := api.send(http.StatusUnprocessableEntity, "POST", "/v1/batch", `{"tasks":[{"topic":"a","url":"http://127.0.0.1/"},{"topic":"A","url":"x","dealy":"1s"}]}`)
		for n, pointer := range []string{"/tasks/1/dealy", "/tasks/1/topic", "/tasks/1/url"} {
			if wrong.json(fmt.Sprintf("errors.%d.pointer", n)) != pointer {
				t.Errorf("%s, want %s", wrong.text, pointer)
			}
		}
	})
}

func TestARequestThatIsSentAgainIsAnsweredAsBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		const body, key = `{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`, "Idempotency-Key: 7d0f"
		first := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body, key)
		again := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body, key)
		for _, a := range []answer{first, again} {
			if at := a.Header.Get("Location"); at != "/v1/tasks/"+first.id() {
				t.Errorf("it is at %q", at)
			}
		}
		if string(first.text) != string(again.text) || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s, then %s", first.text, again.text)
		}
		if other := api.send(http.StatusUnprocessableEntity, "POST", "/v1/topics/bills/tasks", body, key); other.json("code") != "key-reused" {
			t.Errorf("%s", other.text)
		}
		ids := make(chan string)
		for range 8 { // at the same time
			go func() {
				ids <- api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body, "Idempotency-Key: at-once").id()
			}()
		}
		seen := map[string]bool{}
		for range 8 {
			seen[<-ids] = true
		}
		if len(seen) != 1 {
			t.Errorf("eight requests with one key made %d tasks", len(seen))
		}
		list := api.send(http.StatusOK, "GET", "/v1/tasks?topic=orders", "")
		if n := len(list.json("tasks").([]any)); n != 2 {
			t.Errorf("there are %d tasks", n)
		}
	})
}

func TestATopicThatAnotherInstanceMadeIsServedWithinASecondOrTwo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		start(t, d)
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		id := api.send(http.StatusCreated, "POST", "/v1/topics/new/tasks", `{"url":"`+to.URL+`"}`).id()
		began := time.Now()
		api.awaitStatus(id, "succeeded")
		t.Logf("after %v", time.Since(began))
	})
}
