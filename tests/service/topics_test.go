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
			api.send(http.StatusOK, "POST", "/v1/batch", ofTopics(fmt.Sprintf("shop.%d-", n), 2500))
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
