package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestATrustedProxySaysWhereARequestComesFromAndNobodyElse(t *testing.T) {
	s := server{trustedProxies: []string{"10.0.0.0/8", "192.0.2.7", "fd00::/8"}, userHeader: "X-User"}
	p, err := s.proxies()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer         string
		forwardedFor []string
		users        []string
		from, user   string
	}{
		{"10.0.0.1:5000", []string{"203.0.113.9"}, []string{"ann"}, "203.0.113.9", "ann"},
		{"10.0.0.1:5000", []string{"1.2.3.4, 203.0.113.9"}, nil, "203.0.113.9", ""},
		{"10.0.0.1:5000", []string{"1.2.3.4", "203.0.113.9, 10.9.9.9"}, nil, "203.0.113.9", ""},
		{"10.0.0.1:5000", []string{"203.0.113.9, unknown"}, nil, "10.0.0.1", ""},
		{"10.0.0.1:5000", []string{"1.2.3.4, 203.0.113.9:4711"}, nil, "203.0.113.9", ""},
		{"10.0.0.1:5000", []string{"203.0.113.9:4711, 10.9.9.9:80"}, nil, "203.0.113.9", ""},
		{"10.0.0.1:5000", []string{"[2001:db8::9]:4711"}, nil, "2001:db8::9", ""},
		{"10.0.0.1:5000", []string{"[2001:db8::9]"}, nil, "2001:db8::9", ""},
		{"10.0.0.1:5000", []string{"1.2.3.4, 203.0.113.9:"}, nil, "10.0.0.1", ""},
		{"10.0.0.1:5000", nil, []string{" ann "}, "10.0.0.1", "ann"},
		{"[::ffff:192.0.2.7]:5000", []string{"2001:db8::9"}, nil, "2001:db8::9", ""},
		{"[fd00::1]:5000", []string{"::ffff:203.0.113.9"}, nil, "203.0.113.9", ""},
		{"192.0.2.8:5000", []string{"203.0.113.9"}, []string{"ann"}, "192.0.2.8", ""},
		{"10.0.0.1:5000", nil, []string{"ann", "bob"}, "10.0.0.1", ""},
		{"10.0.0.1:5000", nil, []string{"ann\x1b[31m"}, "10.0.0.1", ""},
		{"10.0.0.1:5000", nil, []string{strings.Repeat("a", 101)}, "10.0.0.1", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"], r.Header["X-User"] = c.forwardedFor, c.users
		p.believe(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			from := strings.Trim(r.RemoteAddr[:strings.LastIndex(r.RemoteAddr, ":")], "[]")
			if from != c.from || userOf(r) != c.user {
				t.Errorf("%+v: %s, user %q", c, from, userOf(r))
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestTheConsoleBelievesATrustedProxyWhoTheUserIs(t *testing.T) {
	sh, db, jobs := newTables(t)
	id, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, StartTime: 4_000_000_000})
	if err != nil {
		t.Fatal(err)
	}
	sh.want("serve --user-header X-User", exitUsage, "--trusted-proxy")
	sh.want("serve --user-header X-User --trusted-proxy 10.1.2", exitUsage, `"10.1.2" is no network`)
	sh.want("serve --user-header X-User --trusted-proxy 10.0.0.0/8 --login", exitUsage, "use one of them")
	sh.want("serve --operators ann", exitUsage, "--user-header")
	sh.want("check-config --operators ann", exitUsage, "--user-header")

	var ending sync.WaitGroup // side by side, since each takes a second
	defer ending.Wait()
	try := func(flags []string, user string, want int) {
		t.Helper()
		at, end := served(t, sh, append(flags, "--user-header", "X-User", "--operators", "ann", "--api=false", "--delivery=false")...)
		defer ending.Go(func() { end() })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%sjobs/%d/cancel", at, id), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", user)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%v: %s gets status %d, want %d", flags, user, answer.StatusCode, want)
		}
	}
	here, elsewhere := []string{"--trusted-proxy", "127.0.0.1"}, []string{"--trusted-proxy", "10.0.0.0/8"}
	try(elsewhere, "ann", http.StatusUnauthorized)
	try(here, "", http.StatusUnauthorized)
	try(here, "bob", http.StatusForbidden)
	try(append(here, "--read-only"), "ann", http.StatusForbidden)
	try(here, "ann", http.StatusOK)
	acts, err := operate.Acts(t.Context(), jobs, db, operate.ActFilter{Job: id})
	if err != nil || len(acts) != 1 || acts[0].Actor != "ann" {
		t.Errorf("%+v, %v", acts, err)
	}
}
