package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// scopes are those that a token may have beside admin.
var scopes = []string{"tasks:add", "tasks:read", "bodies:read", "tasks:manage", "topics:manage"}

// alsoNeeds are the routes that need a second scope.
var alsoNeeds = map[string]string{"PUT /v1/schedules/{name}": "tasks:add"}

const (
	hidden = "S3CRET" // what only those may see who may read bodies
	loaded = `"url":"http://127.0.0.1/x?token=S3CRET-query","at":"2100-01-01T00:00:00Z","headers":{"authorization":"S3CRET-header"},"body":{"a":"S3CRET-body"},"on_failure":{"url":"http://127.0.0.1/y?token=S3CRET-failure"}`
)

// secretsOf fills a service with what has secrets everywhere, and returns how the path of a route is filled in, and its body.
func secretsOf(api *instance, n int) (path func(string) string, body map[string]string) {
	topic, task, schedule := fmt.Sprintf("shop.%d", n), fmt.Sprintf("task-%d", n), fmt.Sprintf("schedule-%d", n)
	const config = `{"rate":5,"headers":{"authorization":"S3CRET-topic"}}`
	api.send(http.StatusCreated, "PUT", "/v1/topics/"+topic, config)
	api.send(http.StatusCreated, "PUT", fmt.Sprintf("/v1/templates/shop.%d-*", n), config)
	id := api.send(http.StatusCreated, "PUT", "/v1/topics/"+topic+"/tasks/"+task, "{"+loaded+"}").id()
	own := strings.Replace(loaded, `"at":"2100-01-01T00:00:00Z",`, "", 1)
	api.send(http.StatusCreated, "PUT", "/v1/schedules/"+schedule, `{"cron":"@yearly","topic":"`+topic+`","task":{`+own+`}}`)
	operation := api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"retry","topic":"`+topic+`"}`).id()
	token := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add"],"topics":["x"]}`).id()
	path = func(route string) string {
		switch {
		case strings.HasPrefix(route, "/v1/schedules"):
			route = strings.Replace(route, "{name}", schedule, 1)
		case strings.HasPrefix(route, "/v1/operations"):
			route = strings.Replace(route, "{id}", operation, 1)
		case strings.HasPrefix(route, "/v1/tokens"):
			route = strings.Replace(route, "{id}", token, 1)
		}
		return strings.NewReplacer("{topic}", topic, "{name}", task, "{id}", id, "{pattern}", fmt.Sprintf("shop.%d-*", n)).Replace(route)
	}
	body = map[string]string{
		"POST /v1/topics/{topic}/tasks": "{" + own + "}", "PUT /v1/topics/{topic}/tasks/{name}": "{" + loaded + "}", "POST /v1/batch": `{"tasks":[{"topic":"` + topic + `",` + loaded + `}]}`,
		"PATCH /v1/tasks/{id}": `{"priority":"high"}`, "PATCH /v1/topics/{topic}/tasks/{name}": `{"priority":"high"}`, "PUT /v1/topics/{topic}": `{"rate":6}`, "POST /v1/topics/{topic}/pause": `{}`, "PUT /v1/templates/{pattern}": `{"rate":6}`,
		"PUT /v1/schedules/{name}": `{"cron":"@daily","topic":"` + topic + `","task":{` + own + `}}`, "POST /v1/operations": `{"do":"cancel","topic":"` + topic + `"}`,
		"POST /v1/tokens": `{"scopes":["tasks:add"],"topics":["x"]}`,
	}
	return path, body
}

// routesOf are the routes of the description, each with the scope that it names.
func routesOf(api *instance) map[string]string {
	api.t.Helper()
	var described struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(api.send(http.StatusOK, "GET", "/openapi.json", "").text, &described); err != nil {
		api.t.Fatal(err)
	}
	routes := map[string]string{}
	for path, methods := range described.Paths {
		for method, what := range methods {
			var operation struct {
				Scope string `json:"x-scope"`
			}
			if json.Unmarshal(what, &operation) == nil && operation.Scope != "" {
				routes[strings.ToUpper(method)+" "+path] = operation.Scope
			}
		}
	}
	return routes
}

// Each route is walked with each set of scopes that lacks one: it is refused if the one is its own, and shows no secret without bodies:read.
func TestEachRouteNeedsItsScopeAndShowsNoMoreThanItSays(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		with := func(scopes []string) string {
			text, err := json.Marshal(scopes)
			if err != nil {
				t.Fatal(err)
			}
			return api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":`+string(text)+`,"topics":["shop.*"]}`).json("token").(string)
		}
		without := map[string]string{}
		for _, lacking := range scopes {
			without[lacking] = with(slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == lacking }))
		}
		routes := routesOf(api)
		if len(routes) < 30 {
			t.Fatalf("the description has %d routes with a scope", len(routes))
		}
		n := 0
		for route, scope := range routes {
			method, pattern, _ := strings.Cut(route, " ")
			for lacking, token := range without {
				n++
				path, body := secretsOf(api, n)
				at := path(pattern)
				answer := api.try(method, at, body[route], "Authorization: Bearer "+token)
				refused := scope == "admin" || scope == lacking || alsoNeeds[route] == lacking
				if got := answer.StatusCode == http.StatusForbidden; got != refused {
					t.Errorf("%s (%s) without %s: %d: %s", route, scope, lacking, answer.StatusCode, answer.text)
				}
				if lacking == "bodies:read" && strings.Contains(string(answer.text), hidden) {
					t.Errorf("%s shows a secret without %s: %s", route, lacking, answer.text)
				}
			}
		}
	})
}

func TestAMaskedHeaderIsNotStoredForTheValue(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		api.send(http.StatusCreated, "PUT", "/v1/topics/orders", `{"headers":{"authorization":"S3CRET"}}`)
		token := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:read","topics:manage"],"topics":["*"]}`).json("token").(string)
		shown := api.send(http.StatusOK, "GET", "/v1/topics/orders", "", "Authorization: Bearer "+token)
		config, err := json.Marshal(shown.json("config"))
		if err != nil || strings.Contains(string(config), "S3CRET") || !strings.Contains(string(config), "authorization") {
			t.Fatalf("%s, %v", config, err)
		}
		if refused := api.send(http.StatusUnprocessableEntity, "PUT", "/v1/topics/orders", string(config), "Authorization: Bearer "+token); !strings.Contains(string(refused.text), "bodies:read") {
			t.Errorf("%s", refused.text)
		}
		if kept := api.send(http.StatusOK, "GET", "/v1/topics/orders", ""); !strings.Contains(string(kept.text), "S3CRET") {
			t.Errorf("%s", kept.text)
		}
	})
}
