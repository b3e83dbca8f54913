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

// ofTopics is a batch with a task for each of n topics.
func ofTopics(prefix string, n int) string {
	var tasks []string
	for k := range n {
		tasks = append(tasks, fmt.Sprintf(`{"topic":"%s%d","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`, prefix, k))
	}
	return `{"tasks":[` + strings.Join(tasks, ",") + `]}`
}

// They take a transaction for each batch, and no work for each topic that grows with the number of topics.
func TestTenThousandNewTopicsComeInWithinSeconds(t *testing.T) {
	topics := 10_000
	if testing.Short() {
		topics = 2500
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.Topics = topics })
		began := time.Now()
		for n := range 4 {
			batch := ofTopics(fmt.Sprintf("shop.%d-", n), topics/4)
			if n%2 == 1 {
				batch = strings.ReplaceAll(batch, `"url"`, `"name":"order-4711","url"`)
			}
			api.send(http.StatusOK, "POST", "/v1/batch", batch)
		}
		took := time.Since(began)
		t.Logf("%v", took.Round(10*time.Millisecond))
		if took > time.Minute*time.Duration(topics)/10_000 { // a sixth of that where nothing else runs
			t.Errorf("they took %v", took)
		}
		full := api.send(http.StatusConflict, "POST", "/v1/topics/one-more/tasks", later)
		if full.json("code") != "topic-limit" {
			t.Errorf("%s", full.text)
		}
	})
}

// How long a batch takes depends on the machine. What it asks of the database does not: some statements for each hundred topics.
func TestABatchCostsNoStatementForEachOfItsTopics(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		d, way := counted(t, d)
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		named := strings.ReplaceAll(ofTopics("shop.named-", 1000), `"url"`, `"name":"order-4711","url"`)
		for _, c := range []struct{ what, batch string }{
			{"new topics", ofTopics("shop.", 1000)}, {"known topics", ofTopics("shop.", 1000)}, {"new topics, tasks with names", named}, {"known topics, names that are there", named},
			{"known topics, names that are replaced", strings.ReplaceAll(named, `"name"`, `"on_conflict":"replace","name"`)},
		} {
			way.count()
			api.send(http.StatusOK, "POST", "/v1/batch", c.batch)
			if calls := way.count(); calls > 100 {
				t.Errorf("%s: %d calls for 1,000 topics", c.what, calls)
			} else {
				t.Logf("%s: %d calls", c.what, calls)
			}
		}
	})
}

func TestABatchMakesAllOfItsTopicsOrNone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery, c.Topics = true, 5 })
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("a", 3))
		refused := api.send(http.StatusConflict, "POST", "/v1/batch", ofTopics("b", 3))
		if refused.json("code") != "topic-limit" || len(api.send(http.StatusOK, "GET", "/v1/topics", "").json("topics").([]any)) != 3 {
			t.Errorf("%s", refused.text)
		}
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("a", 4)) // three of which are there
		s := api.stream()
		for n, want := range []string{"", "topic-limit", ""} {
			s.send(fmt.Sprintf(`{"topic":"%s","url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`+"\n", []string{"c", "d", "a0"}[n]))
			if a := s.answer(); a.Problem.Code != want {
				t.Errorf("%d: %+v", n, a)
			}
		}
	})
}

func TestOneTokenDoesNotTakeAllTopics(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery, c.Topics = true, 12 }) // six for a token
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		of := func(topics string) *instance {
			text := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add","topics:manage","tasks:manage"],"topics":["`+topics+`"]}`).json("token").(string)
			return &instance{t, api.base, text}
		}
		shop, another := of("shop_*"), of("shop_*")
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop.", 3)) // to LIKE, _ is any character
		if refused := shop.send(http.StatusConflict, "POST", "/v1/batch", ofTopics("shop_", 7)); refused.json("code") != "topic-limit" {
			t.Errorf("%s", refused.text)
		}
		shop.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop_", 6))
		another.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop_", 6)) // they are there
		for _, c := range [][3]string{
			{"POST", "/v1/topics/shop_more/tasks", later}, {"POST", "/v1/batch", ofTopics("shop_", 7)}, {"PUT", "/v1/topics/shop_more", "{}"}, {"PUT", "/v1/templates/shop_more*", "{}"},
			{"PUT", "/v1/schedules/s", `{"cron":"@yearly","topic":"shop_more","task":{"url":"http://127.0.0.1/"}}`},
		} {
			for _, one := range []*instance{shop, another} {
				if refused := one.try(c[0], c[1], c[2]); refused.StatusCode != http.StatusConflict || !strings.Contains(string(refused.text), "--topics-per-token") {
					t.Errorf("%v: %d %s", c, refused.StatusCode, refused.text)
				}
			}
		}
		of("bill.*").send(http.StatusOK, "POST", "/v1/batch", ofTopics("bill.", 2))
		of("*").send(http.StatusConflict, "POST", "/v1/batch", ofTopics("more.", 1)) // eleven fit its pattern
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("more.", 1))
		if refused := api.send(http.StatusConflict, "POST", "/v1/batch", ofTopics("last.", 1)); !strings.Contains(string(refused.text), "raise --topics") {
			t.Errorf("%s", refused.text)
		}
	})
}

func TestAnOperatorDeletesTheTopicsThatBeginAlike(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const many = 1200
		api := start(t, d)
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		text := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["topics:manage","tasks:read"],"topics":["shop.*"]}`).json("token").(string)
		shop := &instance{t, api.base, text}
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop.old-", many))
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop.new-", 2))
		api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("sh", 2))
		busy := api.send(http.StatusOK, "GET", "/v1/topics/shop.old-7", "").json("job_type")
		if _, err := d.DB.Exec(fmt.Sprintf("UPDATE async_job_tab SET job_status = 5 WHERE job_type <> %.0f", busy)); err != nil { // cancelled
			t.Fatal(err)
		}
		if missing := shop.send(http.StatusUnprocessableEntity, "DELETE", "/v1/topics", ""); missing.json("errors.0.pointer") != "?prefix" {
			t.Errorf("%s", missing.text)
		}
		began := time.Now()
		done := shop.send(http.StatusOK, "DELETE", "/v1/topics?prefix=sh", "")
		t.Logf("%d topics are deleted within %v", many, time.Since(began).Round(time.Millisecond))
		if done.json("deleted") != float64(many+1) || done.json("kept") != 1.0 || done.json("kept_names.0") != "shop.old-7" {
			t.Errorf("%s", done.text)
		}
		var names []string
		for _, topic := range api.send(http.StatusOK, "GET", "/v1/topics?prefix=sh", "").json("topics").([]any) {
			names = append(names, topic.(map[string]any)["name"].(string))
		}
		if got := strings.Join(names, " "); got != "sh0 sh1 shop.old-7" { // the token may not touch the first two
			t.Errorf("%s", got)
		}
		again := api.send(http.StatusOK, "POST", "/v1/batch", ofTopics("shop.old-", 1))
		if api.send(http.StatusOK, "GET", "/v1/tasks/"+fmt.Sprint(again.json("tasks.0.id")), "").json("topic") != "shop.old-0" {
			t.Errorf("%s", again.text)
		}
	})
}

// Who sends the tasks of a topic tells how late they are. If nobody does, they are late all the same.
func TestTasksThatNobodySendsAreOverdue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		overdue := func() float64 {
			return api.send(http.StatusOK, "GET", "/v1/topics/orders/stats", "").json("overdue_seconds").(float64)
		}
		add := func(task string) {
			api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":%q,%s}`, to.URL, task))
		}
		add(`"at":"2100-01-01T00:00:00Z"`)
		if got := overdue(); got != 0 {
			t.Errorf("nothing is due, and a task has been for %v s", got)
		}
		add(`"priority":"low"`)
		await(t, "a task is overdue that is due at once", func() bool { return overdue() > 0 })
		add(fmt.Sprintf(`"at":%d,"priority":"high"`, time.Now().Add(-time.Hour).Unix()))
		add(fmt.Sprintf(`"at":%d`, time.Now().Add(-2*time.Hour).Unix()))
		if got := overdue(); got < 7199 || got > 7500 {
			t.Errorf("the first task has been due for two hours, and it says %v s", got)
		}
		start(t, d)
		await(t, "they are sent", func() bool { return len(to.all()) == 3 })
		await(t, "nothing is overdue", func() bool { return overdue() == 0 })
	})
}
