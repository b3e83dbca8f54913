package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheProgramDoesWhatItsReadmeSays(t *testing.T) {
	t.Setenv("DSN", "")
	t.Setenv("BANK_URL", "")
	listener, err := net.Listen("tcp", "localhost:0")
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, filepath.Join(t.TempDir(), "shop.db")) }()

	url := "http://" + listener.Addr().String()
	for _, request := range []struct{ path, body string }{
		{"/orders", `{"customer":7,"cents":4200}`}, {"/orders/1/pay", ""}, {"/orders/1/refund", ""},
	} {
		response, err := http.Post(url+request.path, "", strings.NewReader(request.body))
		must(t, err)
		response.Body.Close()
		if response.StatusCode >= 300 {
			t.Errorf("%s: %s", request.path, response.Status)
		}
	}
	await(t, "readiness", func() bool {
		response, err := http.Get(url + "/healthz")
		must(t, err)
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	end()
	must(t, <-ended)
}
