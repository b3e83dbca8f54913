package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
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

// Each field of a task and of a topic's configuration that takes a text has a text of its own, and so has the query of each address. They are
// looked for in all that is shown.
func TestEachFieldIsShownToThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		o := described(t, api)
		marked := map[string]string{
			"name": `"mark-name"`, "key": `"mark-key"`, "url": `"http://127.0.0.1/mark-url?a=mark-urlquery"`, "headers": `{"x":"mark-headers"}`, "body": `{"a":"mark-body"}`, "content_type": `"text/mark-contenttype"`,
			"labels": `{"a":"mark-labels"}`, "on_failure": `{"url":"http://127.0.0.1/mark-onfailure?a=mark-onfailurequery"}`, "at": `"2100-01-01T00:00:00Z"`, "method": `"PUT"`, "priority": `"high"`,
			"timeout": `"20s"`, "retry": `{"waits":["1h"]}`, "expires": `"2101-01-01T00:00:00Z"`, "on_conflict": `"keep"`,
		}
		alike := map[string]bool{"body_text": true, "body_base64": true, "delay": true, "topic": true} // as body, as at, and the path has it
		var fields []string
		for field := range o.Components.Schemas["NewTask"].(map[string]any)["properties"].(map[string]any) {
			if value, known := marked[field]; known {
				fields = append(fields, fmt.Sprintf("%q:%s", field, value))
			} else if !alike[field] {
				t.Errorf("who may see %s? it needs a value here", field)
			}
		}
		id := api.send(http.StatusCreated, "POST", "/v1/topics/shop.a/tasks", "{"+strings.Join(fields, ",")+"}").id()
		api.send(http.StatusOK, "PUT", "/v1/topics/shop.a", `{"headers":{"x":"mark-topicheaders"},"success":{"body_equals":"mark-success"}}`)
		api.send(http.StatusCreated, "PUT", "/v1/templates/shop.b*", `{"headers":{"x":"mark-templateheaders"}}`)
		api.send(http.StatusCreated, "PUT", "/v1/schedules/s", `{"cron":"@yearly","topic":"shop.a","task":{"url":"http://127.0.0.1/mark-url?a=mark-urlquery","body":"mark-schedulebody"}}`)
		api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"retry","topic":"shop.a","why":"mark-why"}`)
		fill := strings.NewReplacer("{topic}", "shop.a", "{id}", id, "{pattern}", "shop.b*")
		for scopes, want := range map[string]string{
			`"tasks:read","tasks:manage","topics:manage","tasks:add"`: "key labels name success url why",
			`"tasks:read","bodies:read"`:                              "body contenttype headers key labels name schedulebody success templateheaders topicheaders url urlquery why", // a schedule shows its whole task
		} {
			token := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":[`+scopes+`],"topics":["shop.*"]}`).json("token").(string)
			seen := map[string]bool{}
			look := func(method, path, body string) {
				answer := api.try(method, path, body, "Authorization: Bearer "+token)
				for _, mark := range regexp.MustCompile(`mark-([a-z]+)`).FindAllStringSubmatch(string(answer.text), -1) {
					seen[mark[1]] = true
				}
			}
			for route := range routesOf(api) {
				method, pattern, _ := strings.Cut(route, " ")
				path := fill.Replace(pattern)
				if strings.HasPrefix(path, "/v1/schedules") {
					path = strings.Replace(path, "{name}", "s", 1)
				}
				path = strings.Replace(path, "{name}", "mark-name", 1)
				if method == "GET" {
					look(method, path, "")
				}
			}
			if strings.Contains(scopes, "tasks:manage") { // what steers shows what it has steered
				look("POST", "/v1/operations", `{"do":"cancel","topic":"shop.a","dry_run":true}`)
				look("PATCH", "/v1/tasks/"+id, `{"priority":"urgent"}`)
				look("PUT", "/v1/topics/shop.a/tasks/mark-name", `{"url":"x"}`)
				look("POST", "/v1/topics/shop.a/pause", "{}")
				look("POST", "/v1/topics/shop.a/resume", "")
			}
			if got := strings.Join(slices.Sorted(maps.Keys(seen)), " "); got != want {
				t.Errorf("with %s, one sees %s, want %s", scopes, got, want)
			}
		}
	})
}

// A receiver that sends its callers elsewhere mostly repeats what they have asked for.
func TestARedirectShowsNoSecretOfTheTask(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/failed" {
				http.Redirect(w, r, "/moved?"+r.URL.RawQuery+"#S3CRET-fragment", http.StatusPermanentRedirect)
			}
		})
		api := start(t, d)
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/shop.a/tasks", fmt.Sprintf(
			`{"url":"%s/x?token=S3CRET-query","retry":{"max_attempts":1},"on_failure":{"url":"%[1]s/failed"}}`, to.URL)).id()
		api.awaitStatus(id, "failed")
		token := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:read"],"topics":["shop.*"]}`).json("token").(string)
		attempts := api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"/attempts", "", "Authorization: Bearer "+token)
		why := api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"/why", "", "Authorization: Bearer "+token)
		for _, shown := range []answer{attempts, why} {
			if text := string(shown.text); strings.Contains(text, hidden) || !strings.Contains(text, "/moved?token=…") {
				t.Errorf("%s", text)
			}
		}
		await(t, "the failure is told", func() bool { return len(to.all()) == 2 })
		if told := to.all()[1].body; strings.Contains(told, hidden) {
			t.Errorf("%s", told)
		}
	})
}

// A list has a most. What a caller may not see takes none of it, or a busy neighbour would hide all that is the caller's own.
func TestAListShowsACallersOwnHoweverMuchThereIsOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		const operation, schedule = `{"do":"retry","topic":%q}`, `{"cron":"@yearly","topic":%q,"task":{"url":"http://127.0.0.1/"}}`
		for _, topic := range []string{"busy", "shop"} {
			api.send(http.StatusCreated, "PUT", "/v1/topics/"+topic, "{}")
		}
		own := api.send(http.StatusAccepted, "POST", "/v1/operations", fmt.Sprintf(operation, "shop")).id()
		for range 1101 {
			api.send(http.StatusAccepted, "POST", "/v1/operations", fmt.Sprintf(operation, "busy"))
		}
		jobs, err := queue_job.Open(d.DB)
		if err != nil {
			t.Fatal(err)
		}
		others := make([]queue_job.AddModelJob, 1100)
		for n := range others {
			others[n] = queue_job.AddModelJob{JobType: 999_998, StartTime: 4_000_000_000, Key: fmt.Sprint("s", n), JobParams: queue_job.JSON(fmt.Sprintf(schedule, "busy"))}
		}
		if _, err := jobs.AddMany(t.Context(), d.DB, others); err != nil {
			t.Fatal(err)
		}
		api.send(http.StatusCreated, "PUT", "/v1/schedules/own", fmt.Sprintf(schedule, "shop"))
		token := api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:read"],"topics":["shop"]}`).json("token").(string)
		seen := &instance{t, api.base, token}
		if list := seen.send(http.StatusOK, "GET", "/v1/operations", ""); list.json("operations.0.id") != own || list.json("operations.1") != nil {
			t.Errorf("%s", list.text)
		}
		if list := seen.send(http.StatusOK, "GET", "/v1/schedules", ""); list.json("schedules.0.name") != "own" || list.json("schedules.1") != nil {
			t.Errorf("%s", list.text)
		}
		if all := api.send(http.StatusOK, "GET", "/v1/operations", "").json("operations").([]any); len(all) != 100 {
			t.Errorf("%d operations are listed, want the newest 100", len(all))
		}
		if all := api.send(http.StatusOK, "GET", "/v1/schedules", "").json("schedules").([]any); len(all) != 1000 {
			t.Errorf("%d schedules are listed, want 1000", len(all))
		}
	})
}
