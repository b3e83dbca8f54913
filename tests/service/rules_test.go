package service

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATopicSaysWhatAnswersMean(t *testing.T) {
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
