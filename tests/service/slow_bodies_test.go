package service

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Whatever is asked for, by whomever, with or without a body: a body that does not come has its connection no longer than docs/service/service.md says.
// So has one that is refused before anybody reads it.
func TestNoRouteWaitsForABodyThatDoesNotCome(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it takes long; make test-all runs it")
	}
	t.Parallel()
	const within, patience = 30 * time.Second, 50 * time.Second // 10 s for the body, 5 s for the rest of one that is refused; and the machine may be busy
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		users, err := service.OpenUsers(t.Context(), d.DB, "")
		if err == nil {
			err = users.Create(t.Context(), "ann", "correct horse battery", service.Reader)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := run(t, d, "--console", "--login", "--metrics-listen", "127.0.0.1:0", "--delay-queue", "forms", "--delay-service", "shop=http://127.0.0.1")
		token := fmt.Sprint(p.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token"))
		api, measured := strings.TrimPrefix(p.base, "http://"), p.metrics
		at, err := url.Parse(measured)
		if err != nil {
			t.Fatal(err)
		}
		requests := map[string]string{"GET /metrics": at.Host}
		for _, route := range slices.Concat(slices.Collect(maps.Keys(routesOf(p.instance))), []string{"GET /docs", "GET /openapi.json", "POST /docs", "GET /livez", "POST /readyz", "POST /v1/nothing", "POST /nothing",
			"GET /login", "POST /login", "POST /logout", "GET /static/console.css", "PUT /static/x", "GET /", "POST /", "POST /jobs/1/retry", "POST /api/task/save", "POST /delay/task/add"}) {
			requests[route] = api
		}
		var open sync.WaitGroup
		for route, host := range requests {
			for _, length := range []string{"Content-Length: 200000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n10\r\n"} {
				for _, caller := range []string{"", "Authorization: Bearer " + token + "\r\n"} {
					for _, kind := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
						open.Go(func() {
							c, err := net.Dial("tcp", host)
							if err != nil {
								t.Error(err)
								return
							}
							defer c.Close()
							began := time.Now()
							_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%s%s", strings.NewReplacer("{", "", "}", "").Replace(route), host, kind, caller, length)
							open.Go(func() {
								for ; err == nil; time.Sleep(time.Second) {
									_, err = io.WriteString(c, " ")
								}
							})
							_ = c.SetReadDeadline(began.Add(patience))
							if said, _ := io.ReadAll(c); time.Since(began) > within {
								t.Errorf("%s, %s, %q, with a token: %v: it was open for %v, and said %.60q", route, kind, length[:7], caller != "", time.Since(began).Round(time.Second), said)
							}
						})
					}
				}
			}
		}
		open.Wait()
	})
}
