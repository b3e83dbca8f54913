package service

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const password = "correct horse battery"

// withAnn are the users of a database, of whom there is one: ann.
func withAnn(t *testing.T, d dbtest.Database) *service.Users {
	t.Helper()
	users, err := service.OpenUsers(t.Context(), d.DB, "")
	if err == nil {
		err = users.Create(t.Context(), "ann", password, service.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return users
}

func TestAUserIsKnownToAllInstancesUntilTheirPasswordChanges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		users := withAnn(t, d)
		if err := users.Create(t.Context(), "ann", password, service.Operator); err == nil {
			t.Error("the second ann is taken")
		}
		list, err := users.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "ann" || list[0].Role != service.Reader || time.Since(list[0].Created) > time.Minute {
			t.Errorf("%+v, %v", list, err)
		}
		instance := func() string {
			server := httptest.NewServer(users.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, service.UserOf(r).Name, service.UserOf(r).Role)
			})))
			t.Cleanup(server.Close)
			return server.URL
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		at := func(base string) string {
			t.Helper()
			answer, err := client.Get(base + "/jobs")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			return answer.Request.URL.Path
		}
		one, other := instance(), instance() // cookies do not know of ports
		answer, err := client.PostForm(one+"/login", url.Values{"name": {"ann"}, "password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if a, b := at(one), at(other); a != "/jobs" || b != "/jobs" {
			t.Errorf("after a login, ann is at %s and %s", a, b)
		}
		if there, err := users.SetPassword(t.Context(), "ann", password+"!"); err != nil || !there {
			t.Error(there, err)
		}
		if third := instance(); at(third) != "/login" { // an instance that knows the session asks again within ten seconds
			t.Errorf("after a change of the password, ann is at %s", at(third))
		}
		for _, want := range []bool{true, false} {
			if there, err := users.Drop(t.Context(), "ann"); err != nil || there != want {
				t.Error(there, err)
			}
		}
		if there, err := users.SetPassword(t.Context(), "ann", password); err != nil || there {
			t.Error(there, err)
		}
	})
}

// Who guesses a password is counted by the name. A database that ignores blanks at the end would know the same user by many names.
func TestAUserHasOneNameOnly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		users := withAnn(t, d)
		server := httptest.NewServer(users.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		defer server.Close()
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for name, want := range map[string]int{"ann": http.StatusSeeOther, "ann ": http.StatusUnauthorized, "ann   ": http.StatusUnauthorized, "Ann": http.StatusUnauthorized, "änn": http.StatusUnauthorized, "ann\u00ad": http.StatusUnauthorized} {
			answer, err := client.PostForm(server.URL+"/login", url.Values{"name": {name}, "password": {password}})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != want {
				t.Errorf("%q: %d, want %d", name, answer.StatusCode, want)
			}
		}
	})
}
