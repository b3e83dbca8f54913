package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestRequestsAreAnswered(t *testing.T) {
	tr := newTrial(t)
	runner, err := newRunner(tr.DB, []queue_job.Config{tr.mailConfig()})
	must(t, err)
	server := httptest.NewServer(tr.routes(runner))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/orders", `{"customer":7,"cents":4200}`, http.StatusCreated, `{"id":1,"customer":7,"cents":4200,"state":"unpaid"}`},
		{"POST", "/orders", `{"customer":7}`, http.StatusBadRequest, "bad request: customer and cents must be above 0"},
		{"POST", "/orders/1/refund", "", http.StatusConflict, "order 1 is unpaid: its state does not allow that"},
		{"POST", "/orders/1/pay", "", http.StatusOK, `{"id":1,"customer":7,"cents":4200,"state":"paid"}`},
		{"POST", "/orders/1/refund", "", http.StatusAccepted, `{"id":1,"customer":7,"cents":4200,"state":"refunding"}`},
		{"GET", "/orders/1", "", http.StatusOK, `{"id":1,"customer":7,"cents":4200,"state":"refunding"}`},
		{"GET", "/orders/2", "", http.StatusNotFound, "no such order"},
		{"POST", "/orders/two/pay", "", http.StatusBadRequest, `bad request: strconv.ParseInt: parsing "two": invalid syntax`},
		{"GET", "/healthz", "", http.StatusServiceUnavailable, "not ready yet"}, // the Runner was not started
	} {
		request, err := http.NewRequest(c.method, server.URL+c.path, strings.NewReader(c.body))
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		said, err := io.ReadAll(response.Body)
		must(t, err)
		response.Body.Close()
		if got := strings.TrimSpace(string(said)); response.StatusCode != c.code || got != c.says {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, response.StatusCode, got, c.code, c.says)
		}
	}
}
