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
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		began := time.Now()
		for n := range 4 {
			batch := ofTopics(fmt.Sprintf("shop.%d-", n), 2500)
			if n%2 == 1 {
				batch = strings.ReplaceAll(batch, `"url"`, `"name":"order-4711","url"`)
			}
			api.send(http.StatusOK, "POST", "/v1/batch", batch)
		}
		took := time.Since(began)
		t.Logf("%v", took.Round(10*time.Millisecond))
		if took > time.Minute { // ten seconds where nothing else runs
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
