package service

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestWhatNoDatabaseTakesIsWrongAndNotAMatterOfTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later).id()
		long := strings.Repeat("x", 70_000)
		for _, c := range []struct{ method, path, body, pointer string }{
			{"POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","delay":"90000h"}`, "/delay"},
			{"POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","at":"2106-02-07T06:28:15.5Z"}`, "/at"},
			{"POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","name":"a\u0000"}`, "/name"},
			{"PUT", "/v1/topics/orders/tasks/%FF", later, "/name"},
			{"PUT", "/v1/topics/orders/tasks/a%00", later, "/name"},
			{"POST", "/v1/batch", `{"tasks":[{"topic":"orders","url":"http://127.0.0.1/"},{"topic":"orders","url":"http://127.0.0.1/","delay":"90000h"}]}`, "/tasks/1/delay"},
			{"PATCH", "/v1/tasks/" + id, `{"delay":"2000000h"}`, "/delay"},
			{"GET", "/v1/tasks?topic=orders&name=%00", "", "?name"},
			{"GET", "/v1/tasks?topic=orders&name=%FF", "", "?name"},
			{"POST", "/v1/operations", `{"do":"cancel","topic":"orders","why":"a\u0000"}`, "/why"},
			{"POST", "/v1/operations", `{"do":"cancel","topic":"orders","why":"` + long + `"}`, "/why"},
			{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"],"note":"a\u0000"}`, "/note"},
			{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"],"note":"` + long + `"}`, "/note"},
			{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["` + long + `"]}`, ""},
			{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["a\u0000"]}`, ""},
			{"PUT", "/v1/topics/orders", `{"success":{"json":{"a":"` + long + `"}}}`, "/success"},
			{"PUT", "/v1/topics/orders", `{"headers":{"a":"` + strings.Repeat("<", 15_000) + `"}}`, ""},
		} {
			refused := api.send(http.StatusUnprocessableEntity, c.method, c.path, c.body)
			if refused.json("errors.0.pointer") != c.pointer {
				t.Errorf("%s %s: %s, want %s", c.method, c.path, refused.text, c.pointer)
			}
		}
		api.send(http.StatusCreated, "PUT", "/v1/schedules/nightly", `{"cron":"@yearly","topic":"orders","task":{"url":"http://127.0.0.1/","body_text":"`+strings.Repeat("<", 200_000)+`"}}`)
		for _, path := range []string{"GET /v1/topics/orders/tasks/%FF", "DELETE /v1/topics/orders/tasks/%00", "GET /v1/schedules/%00", "DELETE /v1/schedules/%FF", "DELETE /v1/tokens/%00", "DELETE /v1/tokens/%FF"} {
			method, at, _ := strings.Cut(path, " ")
			api.send(http.StatusNotFound, method, at, "")
		}
		api.send(http.StatusOK, "PATCH", "/v1/tasks/"+id, `{"delay":"87600h"}`)
	})
}

func TestATimeAfterTheColumnsEndIsWrongForOldClientsToo(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) {
			c.WithoutDelivery, c.Aliases.DelayQueue, c.Aliases.DelayService = true, "orders", map[string]string{"shop": "http://127.0.0.1"}
		})
		const end = 1 << 32
		form := url.Values{"notify_url": {"http://127.0.0.1/"}, "plan_time": {fmt.Sprint(end)}}.Encode()
		if got := api.ask(http.StatusUnprocessableEntity, "/api/task/save", "application/x-www-form-urlencoded", form, ""); !strings.Contains(got, "/plan_time: ") {
			t.Error(got)
		}
		body := fmt.Sprintf(`{"topic":"orders","timing_moment":%d,"content":{"sn":"shop","url":"/"}}`, end)
		if got := api.ask(http.StatusUnprocessableEntity, "/delay/task/add", "application/json", body, ""); !strings.Contains(got, "/timing_moment: ") {
			t.Error(got)
		}
	})
}
