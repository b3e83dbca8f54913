package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAScheduleHasOneTaskForEachOfItsTimesHoweverManyInstancesRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		start(t, d)
		put := fmt.Sprintf(`{"cron":"@every 2s","topic":"reports","task":{"url":%q,"body":{"of":"yesterday"}}}`, to.URL)
		made := api.send(http.StatusCreated, "PUT", "/v1/schedules/nightly", put)
		if next, err := time.Parse(time.RFC3339, fmt.Sprint(made.json("next"))); err != nil || time.Until(next) > 3*time.Second || made.json("task.body.of") != "yesterday" {
			t.Errorf("%s", made.text)
		}
		await(t, "three tasks have come", func() bool { return len(to.all()) >= 3 })
		api.send(http.StatusNoContent, "DELETE", "/v1/schedules/nightly", "")
		api.send(http.StatusNotFound, "GET", "/v1/schedules/nightly", "")
		api.send(http.StatusNotFound, "DELETE", "/v1/schedules/nightly", "")
		came := len(to.all())
		names := map[string]bool{}
		listed := api.send(http.StatusOK, "GET", "/v1/tasks?topic=reports", "").json("tasks").([]any)
		for _, one := range listed {
			task := one.(map[string]any)
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(task["name"].(string), "nightly@"))
			if err != nil || at.Unix()%2 != 0 || names[task["name"].(string)] {
				t.Errorf("%v, %v", task, err)
			}
			names[task["name"].(string)] = true
		}
		await(t, "each has come", func() bool { return len(to.all()) == len(names) })
		ids := map[string]bool{}
		for _, c := range to.all() {
			if ids[c.header.Get("Webhook-Id")] || c.body != `{"of":"yesterday"}` {
				t.Errorf("%+v", c)
			}
			ids[c.header.Get("Webhook-Id")] = true
		}
		if n := len(names); n < came || n > came+1 {
			t.Errorf("%d tasks, and %d had come when the schedule ended", n, came)
		}
	})
}

func TestAScheduleIsChangedByASecondPut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		put := func(want int, cron string) answer {
			t.Helper()
			return api.send(want, "PUT", "/v1/schedules/nightly", fmt.Sprintf(`{"cron":%q,"topic":"reports","task":{"url":"http://127.0.0.1/?token=s3cret"}}`, cron))
		}
		put(http.StatusCreated, "@yearly")
		changed := put(http.StatusOK, "CRON_TZ=Asia/Shanghai 0 9 * * *")
		if next, err := time.Parse(time.RFC3339, fmt.Sprint(changed.json("next"))); err != nil || next.UTC().Hour() != 1 || time.Until(next) > 25*time.Hour {
			t.Errorf("%s", changed.text)
		}
		if list := api.send(http.StatusOK, "GET", "/v1/schedules", ""); len(list.json("schedules").([]any)) != 1 {
			t.Errorf("%s", list.text)
		}
		// Whoever may not read the topic sees nothing, and cannot take the name.
		admin := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		token := func(scopes, topics string) string {
			api.token = admin
			return api.send(http.StatusCreated, "POST", "/v1/tokens", fmt.Sprintf(`{"scopes":[%s],"topics":[%q]}`, scopes, topics)).json("token").(string)
		}
		api.token = token(`"tasks:add","tasks:read","tasks:manage"`, "shop.*")
		put(http.StatusForbidden, "@daily")
		api.send(http.StatusConflict, "PUT", "/v1/schedules/nightly", `{"cron":"@daily","topic":"shop.a","task":{"url":"http://127.0.0.1/"}}`)
		api.send(http.StatusNotFound, "DELETE", "/v1/schedules/nightly", "")
		api.token = token(`"tasks:read"`, "*")
		seen := api.send(http.StatusOK, "GET", "/v1/schedules/nightly", "")
		if strings.Contains(string(seen.text), "s3cret") {
			t.Errorf("the token may not read bodies: %s", seen.text)
		}
		api.send(http.StatusForbidden, "DELETE", "/v1/schedules/nightly", "")
	})
}

// An instance that was away for many times makes up for them by one task, and goes on with the next time.
func TestTimesThatWereMissedAreMadeUpForOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		missed := time.Now().Add(-30*time.Hour - 30*time.Minute).Truncate(time.Minute) // so the next time is half an hour away
		api.send(http.StatusCreated, "PUT", "/v1/schedules/nightly", fmt.Sprintf(`{"cron":"%d * * * *","topic":"reports","task":{"url":%q}}`, missed.UTC().Minute(), to.URL))
		if _, err := d.DB.Exec(fmt.Sprintf("UPDATE async_job_tab SET start_time = %d WHERE job_key = 'nightly'", missed.Unix())); err != nil {
			t.Fatal(err)
		}
		await(t, "a task has come", func() bool { return len(to.all()) > 0 })
		await(t, "the next time is to come", func() bool {
			next, err := time.Parse(time.RFC3339, fmt.Sprint(api.send(http.StatusOK, "GET", "/v1/schedules/nightly", "").json("next")))
			return err == nil && next.After(time.Now())
		})
		name := "/v1/topics/reports/tasks/nightly@" + missed.UTC().Format(time.RFC3339)
		api.send(http.StatusOK, "GET", name, "")
		if n := len(to.all()); n != 1 {
			t.Errorf("%d tasks have come", n)
		}
	})
}
