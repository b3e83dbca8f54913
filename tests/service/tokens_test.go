package service

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestATokenIsTakenByAllInstancesUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		one := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		two := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		admin := one.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"],"note":"ops"}`)
		one.send(http.StatusUnauthorized, "GET", "/v1/topics", "") // this machine needs one, too, from now on
		one.token = admin.json("token").(string)
		shop := one.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add","tasks:read"],"topics":["shop.*"],"expires":"2100-01-01T00:00:00Z"}`)
		two.token = shop.json("token").(string)
		answers := func(status int) func() bool {
			return func() bool {
				r, err := http.NewRequest("GET", two.base+"/v1/topics", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+two.token)
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				return answer.StatusCode == status
			}
		}
		await(t, "the other instance knows the token", answers(http.StatusOK))
		id := two.send(http.StatusCreated, "POST", "/v1/topics/shop.orders/tasks", later).id()
		other := one.send(http.StatusCreated, "POST", "/v1/topics/bank/tasks", later).id()
		two.send(http.StatusOK, "GET", "/v1/tasks/"+id, "")
		two.send(http.StatusNotFound, "GET", "/v1/tasks/"+other, "")
		for _, c := range [][3]string{
			{"POST", "/v1/topics/bank/tasks", later}, {"PUT", "/v1/topics/bank/tasks/x", later}, {"DELETE", "/v1/tasks/" + id}, {"POST", "/v1/tasks/" + id + "/run"},
			{"GET", "/v1/tasks/" + id + "/body"}, {"PUT", "/v1/topics/shop.orders", "{}"}, {"POST", "/v1/topics/shop.orders/pause"}, {"GET", "/v1/tokens"},
			{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`}, {"GET", "/v1/tasks?topic=bank"}, {"GET", "/v1/topics/bank"},
			{"POST", "/v1/batch", `{"tasks":[{"topic":"bank","url":"http://127.0.0.1/"}]}`},
		} {
			if refused := two.send(http.StatusForbidden, c[0], c[1], c[2]); refused.json("code") != "forbidden" {
				t.Errorf("%v: %s", c, refused.text)
			}
		}
		if list := two.send(http.StatusOK, "GET", "/v1/tasks", ""); len(list.json("tasks").([]any)) != 1 {
			t.Errorf("%s", list.text)
		}
		one.send(http.StatusNoContent, "DELETE", "/v1/tokens/"+shop.id(), "")
		one.send(http.StatusNotFound, "DELETE", "/v1/tokens/"+shop.id(), "")
		await(t, "the other instance knows that the token is revoked", answers(http.StatusUnauthorized))
	})
}

func TestATokenThatWasToExpireIn1970IsRefusedAndDoesNotLiveForEver(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		for _, old := range []string{`0`, `"1970-01-01T00:00:00Z"`} {
			refused := api.send(http.StatusUnprocessableEntity, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"],"expires":`+old+`}`)
			if refused.json("errors.0.pointer") != "/expires" {
				t.Errorf("%s: %s", old, refused.text)
			}
		}
	})
}

// A stream asks again, so that what a token began ends with the token, whether lines come or not.
func TestAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		admin := fmt.Sprint(api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token"))
		for name, c := range map[string]struct {
			expires bool
			another string
		}{
			"revoked, and lines come":       {another: taskLine("2")},
			"revoked, and no line comes":    {},
			"expires, and no line comes":    {expires: true},
			"expires, and a line has begun": {expires: true, another: "{"},
		} {
			t.Run(name, func(t *testing.T) {
				expires := ""
				if c.expires {
					expires = `,"expires":"` + time.Now().Add(4*time.Second).UTC().Format(time.RFC3339) + `"`
				}
				made := (&instance{t, api.base, admin}).send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add"],"topics":["*"]`+expires+`}`)
				s := (&instance{t, api.base, fmt.Sprint(made.json("token"))}).stream()
				s.send(taskLine("1"))
				if a := s.answer(); a.ID == "" {
					t.Fatalf("%+v", a)
				}
				if !c.expires {
					(&instance{t, api.base, admin}).send(http.StatusNoContent, "DELETE", "/v1/tokens/"+made.id(), "")
				}
				began := time.Now()
				go func() { _, _ = io.WriteString(s.to, c.another) }()
				for {
					a := s.answer()
					if a.ID != "" {
						t.Fatalf("a line is taken: %+v", a)
					}
					if a.Problem.Code != "unauthorized" {
						t.Fatalf("%+v", a)
					}
					if a.Line == 0 {
						break
					}
				}
				if s.answers.Scan() {
					t.Errorf("it goes on: %s", s.answers.Bytes())
				}
				refused := &instance{t, api.base, fmt.Sprint(made.json("token"))}
				from, to := io.Pipe() // who sends only when it is answered is answered, too
				defer to.Close()
				r, _ := http.NewRequest("POST", refused.base+"/v1/batch", from)
				r.Header.Set("Content-Type", "application/x-ndjson")
				r.Header.Set("Authorization", "Bearer "+refused.token)
				if answer, err := http.DefaultClient.Do(r); err != nil || answer.StatusCode != http.StatusUnauthorized {
					t.Errorf("a new stream: %v, %v", answer, err)
				} else {
					answer.Body.Close()
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it ends after %v", took)
				}
			})
		}
	})
}
