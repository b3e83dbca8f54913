package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// described reads the description of the API.
func described(t *testing.T, api *instance) (o openAPI) {
	t.Helper()
	if err := json.Unmarshal(api.send(http.StatusOK, "GET", "/openapi.json", "").text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// fieldsOf are the fields of an object.
func (o *openAPI) fieldsOf(schema any) []string {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return o.fieldsOf(o.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]])
	}
	properties, _ := s["properties"].(map[string]any)
	return slices.Collect(maps.Keys(properties))
}

// pointersTo are the pointers of the objects in a value, which the schema says have fields of their own, or any names.
func (o *openAPI) pointersTo(schema any, value any, at string) (own, anyNames []string) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return o.pointersTo(o.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]], value, at)
	}
	add := func(schema any, value any, at string) {
		more, moreAny := o.pointersTo(schema, value, at)
		own, anyNames = append(own, more...), append(anyNames, moreAny...)
	}
	properties, _ := s["properties"].(map[string]any)
	switch v := value.(type) {
	case map[string]any:
		if properties == nil {
			if s["additionalProperties"] != nil {
				anyNames = append(anyNames, at)
			}
			return own, anyNames
		}
		own = append(own, at)
		for name, member := range v {
			add(properties[name], member, at+"/"+name)
		}
	case []any:
		for n, item := range v {
			add(s["items"], item, fmt.Sprint(at, "/", n))
		}
	}
	return own, anyNames
}

// inside is what stands at a pointer.
func inside(value any, pointer string) map[string]any {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := value.(type) {
		case map[string]any:
			if part != "" {
				value = v[part]
			}
		case []any:
			n := 0
			_, _ = fmt.Sscan(part, &n)
			value = v[n]
		}
	}
	return value.(map[string]any)
}

// with is the text of a value in which the object at a pointer has one more field, or has a field once more.
func with(t *testing.T, value any, pointer, field, text string) string {
	t.Helper()
	var write func(v any, at string) string
	write = func(v any, at string) string {
		switch v := v.(type) {
		case map[string]any:
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(v)) {
				parts = append(parts, fmt.Sprintf("%q:%s", name, write(v[name], at+"/"+name)))
			}
			if at == pointer {
				parts = append(parts, fmt.Sprintf("%q:%s", field, text))
			}
			return "{" + strings.Join(parts, ",") + "}"
		case []any:
			var parts []string
			for n := range v {
				parts = append(parts, write(v[n], fmt.Sprint(at, "/", n)))
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(plain)
	}
	return write(value, "")
}

// Whatever a request says has an effect, or is refused by its name: parameters, headers, bodies and fields that nobody reads, and what comes
// twice, of which one would count. It walks over all that is described.
func TestWhatWouldHaveNoEffectIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		o := described(t, api)
		requests := 0
		refused := func(what, pointer, method, path, body string, headers ...string) {
			t.Helper()
			requests++
			a := api.try(method, path, body, headers...)
			errs, _ := a.json("errors").([]any)
			named := slices.ContainsFunc(errs, func(e any) bool { return e.(map[string]any)["pointer"] == pointer })
			if a.StatusCode != http.StatusUnprocessableEntity || !named {
				t.Errorf("%s %s with %s: %d %s, want 422 and the pointer %q", method, path, what, a.StatusCode, a.text, pointer)
			}
		}
		n := 0
		for route := range routesOf(api) {
			n++
			method, pattern, _ := strings.Cut(route, " ")
			fill, body := secretsOf(api, n)
			at := fill(pattern)
			op := o.Paths[pattern][strings.ToLower(method)]
			refused("an unknown parameter", "?nonsense", method, at+"?nonsense=1", body[route])
			for _, p := range op.Parameters {
				if p.In == "query" && p.Name != "status" {
					refused("a parameter twice", "?"+p.Name, method, fmt.Sprintf("%s?%s=1&%[2]s=2", at, p.Name), body[route])
				}
			}
			for _, p := range op.Parameters { // a time that ends before it begins
				if from, isEnd := strings.CutSuffix(p.Name, "_to"); isEnd {
					refused("an end before its beginning", "?"+p.Name, method, fmt.Sprintf("%s?%s_from=2000&%s=2000", at, from, p.Name), body[route])
				}
			}
			refused("another header for a key", "X-Idempotency-Key", method, at, body[route], "X-Idempotency-Key: a")
			refused("another method", "X-Http-Method-Override", method, at, body[route], "X-Http-Method-Override: DELETE")
			if method != "GET" {
				refused("a condition", "If-Match", method, at, body[route], `If-Match: "1"`)
			}
			takesKey := slices.ContainsFunc(op.Parameters, func(p struct{ Name, In, Example string }) bool { return p.Name == "Idempotency-Key" })
			if (method == "POST" || method == "PATCH") && !takesKey {
				refused("a key that nobody keeps", "Idempotency-Key", method, at, body[route], "Idempotency-Key: a")
			}
			if takesKey {
				refused("an empty key", "Idempotency-Key", method, at, body[route], "Idempotency-Key: ")
			}
			for _, p := range op.Parameters { // a beginning of nothing begins all, and the first page has no cursor
				if p.In == "query" && p.Name != "prefix" && p.Name != "cursor" {
					refused("an empty parameter", "?"+p.Name, method, at+"?"+p.Name+"=", body[route])
				}
			}
			content, hasBody := op.RequestBody.Content["application/json"]
			if !hasBody {
				refused("a body", "", method, at, `{"nonsense":1}`)
				continue
			}
			if a := api.try(method, at, body[route], "Content-Type: application/json; charset=iso-8859-1"); a.StatusCode != http.StatusUnsupportedMediaType && body[route] != "" {
				t.Errorf("%s in Latin-1: %d %s", route, a.StatusCode, a.text)
			}
			for _, name := range o.fieldsOf(content.Schema) {
				if from, isEnd := strings.CutSuffix(name, "_to"); isEnd {
					value := valueOf(t, []byte(body[route])).(map[string]any)
					value[from+"_from"], value[name] = 2000, 1999
					text, _ := json.Marshal(value)
					refused("an end before its beginning", "/"+name, method, at, string(text))
				}
			}
			bodies := []string{body[route]}
			for _, e := range content.Examples {
				if e.Status < 300 {
					bodies = append(bodies, string(e.Value))
				}
			}
			for _, text := range bodies {
				value := valueOf(t, []byte(text))
				own, anyNames := o.pointersTo(content.Schema, value, "")
				for _, pointer := range own {
					refused("an unknown field in "+text, pointer+"/nonsense", method, at, with(t, value, pointer, "nonsense", "1"))
				}
				for _, pointer := range append(own, anyNames...) {
					for name := range inside(value, pointer) {
						refused("a field twice in "+text, pointer+"/"+name, method, at, with(t, value, pointer, name, `"2"`))
					}
				}
			}
		}
		t.Logf("%d requests", requests)
	})
}

// What one field says can make another one pointless. Then the request is refused, and says so by the name of a field.
func TestWhatContradictsItselfIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		soon := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		const to = `"url":"http://127.0.0.1/"`
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{`+to+`,"at":"2100-01-01T00:00:00Z","expires":"2100-01-02T00:00:00Z"}`).id()
		for _, c := range [][4]string{
			{"/expires", "POST", "/v1/topics/orders/tasks", `{` + to + `,"at":"2100-01-01T00:00:00Z","expires":"2099-01-01T00:00:00Z"}`},
			{"/expires", "POST", "/v1/topics/orders/tasks", `{` + to + `,"delay":"1h","expires":"` + soon + `"}`},
			{"/tasks/1/expires", "POST", "/v1/batch", `{"tasks":[{"topic":"orders",` + to + `},{"topic":"orders",` + to + `,"delay":"1h","expires":"` + soon + `"}]}`},
			{"/task/expires", "PUT", "/v1/schedules/yearly", `{"cron":"@yearly","topic":"orders","task":{` + to + `,"expires":"` + soon + `"}}`},
			{"/at", "PATCH", "/v1/tasks/" + id, `{"at":"2100-01-02T00:00:00Z"}`},
			{"/retry/max_attempts", "POST", "/v1/topics/orders/tasks", `{` + to + `,"retry":{"waits":["1s","2s"],"max_attempts":2}}`},
			{"/updated_to", "POST", "/v1/operations", `{"do":"cancel","topic":"orders","created_from":3000,"updated_to":2000}`},
			{"/status", "POST", "/v1/operations", `{"do":"cancel","topic":"orders","status":[]}`},
			{"?updated_to", "GET", "/v1/tasks?created_from=3000&updated_to=2000", ``},
			{"/per_destination", "PUT", "/v1/topics/orders", `{"concurrency":4,"per_destination":5}`},
			{"/per_key", "PUT", "/v1/templates/orders-*", `{"concurrency":4,"per_key":5}`},
		} {
			if refused := api.send(http.StatusUnprocessableEntity, c[1], c[2], c[3]); refused.json("errors.0.pointer") != c[0] {
				t.Errorf("%s %s %s: %s, want %s", c[1], c[2], c[3], refused.text, c[0])
			}
		}
		line := api.send(http.StatusOK, "POST", "/v1/batch", `{"topic":"orders",`+to+`,"delay":"1h","expires":"`+soon+`"}`, "Content-Type: application/x-ndjson")
		if !strings.Contains(string(line.text), `"pointer":"/expires"`) {
			t.Errorf("%s", line.text)
		}
		// A request that comes once more is answered as before, also if it comes late.
		named, key := `{`+to+`,"delay":"1h","expires":"`+time.Now().Add(time.Hour+time.Second).UTC().Format(time.RFC3339Nano)+`"`, "Idempotency-Key: late"
		first := api.send(http.StatusCreated, "PUT", "/v1/topics/orders/tasks/late", named+`,"on_conflict":"keep"}`)
		once := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", named+`}`, key)
		await(t, "the requests contradict themselves by now", func() bool {
			return api.try("POST", "/v1/topics/orders/tasks", named+`}`).StatusCode == http.StatusUnprocessableEntity
		})
		if again := api.send(http.StatusOK, "PUT", "/v1/topics/orders/tasks/late", named+`,"on_conflict":"keep"}`); again.id() != first.id() {
			t.Errorf("%s, then %s", first.text, again.text)
		}
		if again := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", named+`}`, key); again.id() != once.id() {
			t.Errorf("%s, then %s", once.text, again.text)
		}
		// What has expired is not sent, and says so to whoever wants it sent.
		past := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{`+to+`,"expires":2000}`).id()
		for _, do := range []string{"run", "retry"} {
			if refused := api.send(http.StatusConflict, "POST", "/v1/tasks/"+past+"/"+do, ""); refused.json("code") != "ended" || !strings.Contains(string(refused.text), "expired") {
				t.Errorf("%s: %s", do, refused.text)
			}
		}
	})
}

// Two requests with one Idempotency-Key begin one operation.
func TestAnOperationWithAKeyBeginsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later)
		begin := func(want int, do string) answer {
			return api.send(want, "POST", "/v1/operations", `{"do":"`+do+`","topic":"orders"}`, "Idempotency-Key: night-1")
		}
		first, second := begin(http.StatusAccepted, "cancel"), begin(http.StatusAccepted, "cancel")
		if second.Header.Get("Location") != "/v1/operations/"+first.id() {
			t.Errorf("it is at %q", second.Header.Get("Location"))
		}
		if first.id() != second.id() || second.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s, then %s", first.text, second.text)
		}
		if other := begin(http.StatusUnprocessableEntity, "retry"); other.json("code") != "key-reused" {
			t.Errorf("%s", other.text)
		}
		if n := len(api.send(http.StatusOK, "GET", "/v1/operations", "").json("operations").([]any)); n != 1 {
			t.Errorf("%d operations", n)
		}
	})
}

// fieldsOfATask are what a task says for each of its fields, other than nothing at all.
var fieldsOfATask = map[string]string{
	"name": `"order-1"`, "method": `"PUT"`, "headers": `{"X-Mine":"1"}`, "body": `{"a":1}`, "body_text": `"a"`, "body_base64": `"/w=="`, "content_type": `"text/csv"`,
	"at": `"2100-01-01T00:00:00Z"`, "delay": `"20h"`, "key": `"customer-1"`, "priority": `"high"`, "timeout": `"1s"`, "retry": `{"waits":["1h"]}`, "expires": `"2100-01-01T00:00:00Z"`,
	"labels": `{"a":"b"}`, "on_failure": `{"url":"%s/told"}`, "url": `"%s/elsewhere"`, "topic": `"another"`, "on_conflict": `"replace"`,
}

// Each field of a task is sent alone, to a receiver that takes a while and refuses. What is seen of the task, and what the receiver and those
// who are told of failures get, differs from a task without the field, or the field is refused by its name.
func TestEachFieldOfATaskHasAnEffect(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const takes = 1500 * time.Millisecond
		to := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/told") {
				return
			}
			select {
			case <-time.After(takes):
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusGone)
		})
		api := start(t, d)
		o := described(t, api)
		// seen is what is seen of a task with some fields, in a place of its own, whose name is taken away.
		seen := func(place, fields string) string {
			body := `{"url":"` + to.URL + "/" + place + `"`
			if fields != "" {
				body += "," + fields
			}
			a := api.try("POST", "/v1/topics/"+place+"/tasks", body+"}")
			if a.StatusCode != http.StatusCreated {
				return fmt.Sprint(a.StatusCode, " ", string(a.text))
			}
			path := "/v1/tasks/" + a.id()
			var view map[string]any
			await(t, "task of "+place+" has been tried, or waits for long", func() bool {
				view, _ = api.send(http.StatusOK, "GET", path, "").value.(map[string]any)
				due, _ := time.Parse(time.RFC3339, fmt.Sprint(view["due"]))
				return view["status"] == "failed" || view["status"] == "retrying" || view["status"] == "waiting" && time.Until(due) > time.Hour
			})
			if strings.Contains(fields, "/told") {
				await(t, "somebody is told", func() bool {
					return slices.ContainsFunc(to.all(), func(c called) bool { return c.path == "/"+place+"/told" })
				})
			}
			if due, _ := time.Parse(time.RFC3339, fmt.Sprint(view["due"])); time.Until(due) > time.Hour {
				view["due"] = "far away"
			} else {
				delete(view, "due")
			}
			for _, volatile := range []string{"id", "created", "updated"} {
				delete(view, volatile)
			}
			text, _ := json.Marshal(view)
			attempts := api.send(http.StatusOK, "GET", path+"/attempts", "").json("attempts.0.error")
			said := []string{string(text), fmt.Sprint(attempts)}
			for _, c := range to.all() {
				if c.path == "/"+place || strings.HasPrefix(c.path, "/"+place+"/") {
					header := c.header.Clone()
					for name := range header {
						if strings.HasPrefix(name, "Webhook-") || strings.HasPrefix(name, "Pq-") && name != "Pq-Expires" || name == "Idempotency-Key" || name == "Traceparent" {
							delete(header, name)
						}
					}
					said = append(said, fmt.Sprint(c.method, " ", c.path, " ", header, " ", c.body))
				}
			}
			return strings.ReplaceAll(strings.Join(said, "\n"), place, "PLACE")
		}
		task := o.Components.Schemas["NewTask"].(map[string]any)["properties"].(map[string]any)
		plain := ""
		results := map[string]string{}
		var mu sync.Mutex
		var all sync.WaitGroup
		all.Go(func() { plain = seen("plain", "") })
		for field := range task {
			value, known := fieldsOfATask[field]
			if !known {
				t.Errorf("what does %s do? fieldsOfATask needs a value", field)
				continue
			}
			place := "of-" + strings.ReplaceAll(field, "_", "-")
			if strings.Contains(value, "%s") {
				value = fmt.Sprintf(value, to.URL+"/"+place)
			}
			text := fmt.Sprintf("%q:%s", field, value)
			if field == "url" {
				text = "" // it is what the plain task is compared with itself by: see below
			}
			all.Go(func() {
				result := seen(place, text)
				mu.Lock()
				defer mu.Unlock()
				results[field] = result
			})
		}
		all.Wait()
		if results["url"] != plain {
			t.Fatalf("two tasks that say the same differ:\n%s\n%s", plain, results["url"])
		}
		delete(results, "url") // without it, there is no task
		for field, result := range results {
			if result == plain {
				t.Errorf("%s has no effect", field)
			}
			if strings.HasPrefix(result, "4") && !strings.Contains(result, `"/`+field+`"`) {
				t.Errorf("%s is refused without its name: %s", field, result)
			}
		}
		t.Logf("without a field:\n%s", plain)
	})
}

// A task's header content-type is its body's type, whatever the body is given as. Who says two types is refused, and so is a topic that says
// one, since the type is the body's.
func TestTheTypeOfABodyIsWhatTheTaskSays(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		n := 0
		for given, want := range map[string]string{
			`"headers":{"content-type":"text/csv"}`: "text/csv", `"headers":{"Content-Type":"text/csv"},"content_type":"text/csv"`: "text/csv", `"content_type":"text/csv"`: "text/csv", `"priority":"high"`: "",
		} {
			for body, usual := range map[string]string{`"body":{"a":1}`: "application/json", `"body_text":"a,b"`: "text/plain; charset=utf-8", `"body_base64":"/w=="`: "application/octet-stream", `"labels":{}`: ""} {
				n++
				path := fmt.Sprint("/", n)
				api.add(1, fmt.Sprintf(`{"topic":"types","url":"%s%s",%s,%s}`, to.URL, path, given, body))
				await(t, given+" arrives", func() bool { return slices.ContainsFunc(to.all(), func(c called) bool { return c.path == path }) })
				for _, c := range to.all() {
					if expected := map[bool]string{true: usual, false: want}[want == ""]; c.path == path && c.header.Get("Content-Type") != expected {
						t.Errorf("%s and %s: it is %q, want %q", given, body, c.header.Get("Content-Type"), expected)
					}
				}
			}
		}
		for _, c := range [][3]string{
			{"POST", "/v1/topics/types/tasks", `{"url":"http://127.0.0.1/","content_type":"text/csv","headers":{"content-type":"text/html"}}`},
			{"PUT", "/v1/topics/types", `{"headers":{"content-type":"text/csv"}}`}, {"PUT", "/v1/templates/types*", `{"headers":{"Content-type":"text/csv"}}`},
		} {
			if refused := api.send(http.StatusUnprocessableEntity, c[0], c[1], c[2]); !strings.Contains(string(refused.text), "content_type") {
				t.Errorf("%s", refused.text)
			}
		}
	})
}
