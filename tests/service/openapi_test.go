package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// openAPI is openapi.json, as far as it is tried here.
type openAPI struct {
	Paths      map[string]map[string]operation
	Webhooks   map[string]map[string]operation
	Components struct {
		Schemas   map[string]any
		Responses map[string]response
	}
}

type operation struct {
	Scope       string `json:"x-scope"`
	Parameters  []struct{ Name, In, Example string }
	RequestBody struct {
		Content map[string]struct {
			Schema   any
			Examples map[string]struct {
				Status int `json:"x-status"`
				Value  json.RawMessage
			}
		}
	}
	ID        string `json:"operationId"`
	Tags      []string
	Responses map[string]response
	Try       *struct {
		Status int
		Before []string
	} `json:"x-try"`
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema any }
}

// answer is what an operation says of a status.
func (o *openAPI) answer(op *operation, status int) (r response, announced bool) {
	r, announced = op.Responses[fmt.Sprint(status)]
	if r.Ref != "" {
		r, announced = o.Components.Responses[r.Ref[strings.LastIndexByte(r.Ref, '/')+1:]]
	}
	return r, announced
}

// announced says of an answer how it differs from the description of the API, which is read once.
var announced = sync.OnceValue(func() func(method, path string, status int) string {
	var o openAPI
	text, err := os.ReadFile("../../service/internal/api/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	for path, methods := range o.Paths {
		for method := range methods {
			mux.Handle(strings.ToUpper(method)+" "+path, http.NotFoundHandler())
		}
	}
	return func(method, path string, status int) string {
		_, pattern := mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: path}})
		method, at, found := strings.Cut(pattern, " ")
		if !found { // it is none of the API's, or is not described
			return ""
		}
		op := o.Paths[at][strings.ToLower(method)]
		if _, there := o.answer(&op, status); !there {
			return fmt.Sprintf("the status %d is not announced for %s", status, pattern)
		}
		return ""
	}
})

func TestEachOperationHasAnIDAndATagOfItsOwn(t *testing.T) {
	t.Parallel()
	var o openAPI
	var tags struct {
		Tags    []struct{ Name string }
		Servers []struct{ URL string }
	}
	text, err := os.ReadFile("../../service/internal/api/openapi.json")
	if err != nil || json.Unmarshal(text, &o) != nil || json.Unmarshal(text, &tags) != nil || len(tags.Servers) == 0 {
		t.Fatal(err)
	}
	seen, known := map[string]string{}, map[string]bool{}
	for _, tag := range tags.Tags {
		known[tag.Name] = true
	}
	for path, methods := range o.Paths {
		for method, op := range methods {
			at := method + " " + path
			if !regexp.MustCompile(`^[a-z][A-Za-z]+$`).MatchString(op.ID) || seen[op.ID] != "" {
				t.Errorf("%s has the id %q, and so has %q", at, op.ID, seen[op.ID])
			}
			seen[op.ID] = at
			if len(op.Tags) != 1 || !known[op.Tags[0]] {
				t.Errorf("%s has the tags %q", at, op.Tags)
			}
			for _, always := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusServiceUnavailable} {
				if _, there := o.answer(&op, always); !there {
					t.Errorf("%s does not announce %d", at, always)
				}
			}
		}
	}
}

// fits reports how a value differs from a schema.
func (o *openAPI) fits(schema any, value any, at string) (wrong []string) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return o.fits(o.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]], value, at)
	}
	say := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	if want := s["type"]; want != nil {
		is := map[bool]string{true: "null"}[value == nil]
		switch v := value.(type) {
		case string:
			is = "string"
		case bool:
			is = "boolean"
		case float64:
			if is = "number"; v == float64(int64(v)) && want != "number" {
				is = "integer"
			}
		case []any:
			is = "array"
		case map[string]any:
			is = "object"
		}
		if list, several := want.([]any); several && !slices.Contains(list, any(is)) || !several && want != is {
			say("it is a %s, want %v", is, want)
		}
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		say("%v is none of %v", value, enum)
	}
	if list, ok := value.([]any); ok {
		for n, item := range list {
			wrong = append(wrong, o.fits(s["items"], item, fmt.Sprint(at, "/", n))...)
		}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return wrong
	}
	properties, _ := s["properties"].(map[string]any)
	for name, member := range object {
		switch more, isSchema := s["additionalProperties"].(map[string]any); {
		case properties[name] != nil:
			wrong = append(wrong, o.fits(properties[name], member, at+"/"+name)...)
		case isSchema:
			wrong = append(wrong, o.fits(more, member, at+"/"+name)...)
		case s["additionalProperties"] == false:
			say("it has %s, which nobody has announced", name)
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := object[name.(string)]; !there {
			say("it lacks %s", name)
		}
	}
	return wrong
}

// checked sends a request and holds the answer against what the operation says of its status.
func (o *openAPI) checked(t *testing.T, api *instance, op *operation, want int, method, path, body string) {
	t.Helper()
	var got answer
	await(t, "the task of an earlier request is being sent", func() bool { // the answer says when to try again
		got = api.try(method, path, body)
		return want == http.StatusConflict || got.StatusCode != http.StatusConflict || got.json("code") != "in-flight"
	})
	if got.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got.StatusCode, want, got.text)
	}
	response, _ := o.answer(op, want) // instance.try has seen to it that it is announced
	if len(response.Content) == 0 {
		if len(got.text) > 0 {
			t.Errorf("%s %s: %s, want no body", method, path, got.text)
		}
		return
	}
	content, known := response.Content[got.Header.Get("Content-Type")]
	if !known {
		t.Errorf("%s %s: the answer is %s, which is not announced", method, path, got.Header.Get("Content-Type"))
	}
	if wrong := o.fits(content.Schema, got.value, ""); len(wrong) > 0 {
		t.Errorf("%s %s: %s\n%q", method, path, got.text, wrong)
	}
}

func TestTheDescriptionOfTheAPIIsTrue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.Deliver.Guard = &service.Guard{} })
		var o openAPI
		described := api.send(http.StatusOK, "GET", "/openapi.json", "")
		if err := json.Unmarshal(described.text, &o); err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
			if path == "/v1/tokens" { // from the first token on, one is needed
				defer o.tokens(t, api)
				continue
			}
			for _, method := range []string{"put", "post", "patch", "get", "delete"} { // what was cancelled cannot be replaced
				op, there := o.Paths[path][method]
				if !there {
					continue
				}
				examples := op.RequestBody.Content["application/json"].Examples
				for _, e := range examples {
					if fits := len(o.fits(op.RequestBody.Content["application/json"].Schema, valueOf(t, e.Value), "")) == 0; !fits && e.Status < 300 {
						t.Errorf("%s %s: an example does not fit its schema: %s", method, path, e.Value)
					}
					o.checked(t, api, &op, e.Status, strings.ToUpper(method), o.prepared(t, api, path, &op), string(e.Value))
					tried++
				}
				if op.Try != nil {
					at := o.prepared(t, api, path, &op)
					o.checked(t, api, &op, op.Try.Status, strings.ToUpper(method), at, "")
					tried++
				}
				if op.Try == nil && len(examples) == 0 {
					t.Errorf("%s %s has no example", method, path)
				}
			}
		}
		t.Logf("%d requests", tried)
		if page := api.send(http.StatusOK, "GET", "/docs", ""); !strings.Contains(string(page.text), "/v1/tasks/{id}/attempts") {
			t.Errorf("%.300s", page.text)
		}
	})
}

func (o *openAPI) tokens(t *testing.T, api *instance) {
	get, post := o.Paths["/v1/tokens"]["get"], o.Paths["/v1/tokens"]["post"]
	o.checked(t, api, &get, http.StatusOK, "GET", "/v1/tokens", "")
	api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
	for _, e := range post.RequestBody.Content["application/json"].Examples {
		o.checked(t, api, &post, e.Status, "POST", "/v1/tokens", string(e.Value))
	}
	o.checked(t, api, &get, http.StatusOK, "GET", "/v1/tokens", "")
	api.token = "pq_nobody_x"
	o.checked(t, api, &get, http.StatusUnauthorized, "GET", "/v1/tokens", "")
}

// prepared is the path of a request, with a topic, a task that waits and an operation that are there.
func (o *openAPI) prepared(t *testing.T, api *instance, path string, op *operation) string {
	t.Helper()
	api.send(http.StatusOK, "POST", "/v1/batch", `{"tasks":[{"topic":"orders","name":"order-4711","url":"https://shop.example/","at":"2100-01-01T00:00:00Z"},
		{"topic":"campaign","name":"mail-1","url":"https://shop.example/","at":"2100-01-01T00:00:00Z"}]}`)
	id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"https://shop.example/","at":"2100-01-01T00:00:00Z"}`).id()
	for _, p := range op.Parameters {
		if p.In == "query" && p.Example != "" {
			path += "?" + p.Name + "=" + p.Example
		}
		if p.In != "path" {
			continue
		}
		value := strings.ReplaceAll(p.Example, "{id}", id)
		if value == "{operation}" {
			value = api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"retry","topic":"orders"}`).id()
		}
		path = strings.ReplaceAll(path, "{"+p.Name+"}", value)
	}
	if op.Try != nil {
		for _, before := range op.Try.Before {
			method, at, _ := strings.Cut(strings.ReplaceAll(before, "{id}", id), " ")
			api.send(http.StatusOK, method, at, "")
		}
	}
	return path
}

func valueOf(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// What receivers get is described, too: each header that the service sets, and what they are told of a failure.
func TestTheDescriptionOfTheCallbacksIsTrue(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/work" {
				w.WriteHeader(http.StatusGone)
			}
		})
		api := start(t, d)
		o := described(t, api)
		task := o.Webhooks["task"]["post"]
		api.send(http.StatusCreated, "PUT", "/v1/topics/orders/tasks/order-1", fmt.Sprintf(`{"url":"%s/work","expires":"2100-01-01T00:00:00Z","labels":{"a":"b"},"on_failure":{"url":"%[1]s/told"}}`, to.URL))
		await(t, "both have come", func() bool { return len(to.all()) == 2 })
		for _, c := range to.all() {
			for name := range c.header {
				ours := strings.HasPrefix(name, "Pq-") || strings.HasPrefix(name, "Webhook-") || name == "Idempotency-Key" || name == "Traceparent"
				if ours && !slices.ContainsFunc(task.Parameters, func(p struct{ Name, In, Example string }) bool { return p.In == "header" && p.Name == name }) {
					t.Errorf("%s comes with %s, which is not described", c.path, name)
				}
			}
			if c.path == "/told" {
				if wrong := o.fits(o.Components.Schemas["Failure"], valueOf(t, []byte(c.body)), ""); len(wrong) > 0 {
					t.Errorf("%s: %q", c.body, wrong)
				}
			}
		}
	})
}

func TestAnAnswerThatIsNotAnnouncedIsNoticed(t *testing.T) {
	t.Parallel()
	var o openAPI
	o.Components.Schemas = map[string]any{"N": map[string]any{"type": "integer"}}
	schema := valueOf(t, []byte(`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"$ref":"#/x/N"},"b":{"type":"array","items":{"enum":["x"]}}}}`))
	for value, n := range map[string]int{`{"a":1}`: 0, `{"a":1,"b":["x","x"]}`: 0, `{}`: 1, `[]`: 1, `{"a":1.5}`: 1, `{"a":1,"c":2}`: 1, `{"a":"1","b":["y"]}`: 2, `null`: 1} {
		if wrong := o.fits(schema, valueOf(t, []byte(value)), ""); len(wrong) != n {
			t.Errorf("%s: %q, want %d", value, wrong, n)
		}
	}
}
