package api

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

// What a request says has an effect, or the request is refused. Of what stands in a body, the readers of the bodies see to that.
var (
	// queries are the parameters that routes have. The others have none.
	queries = map[string][]string{
		"GET /v1/tasks": {"topic", "state", "status", "name", "created_from",
			"created_to", "due_from", "due_to", "updated_from", "updated_to", "order", "limit", "cursor"},
		"GET /v1/tasks/{id}": {"wait"}, "GET /v1/topics/{topic}/tasks/{name}": {"wait"},
		"GET /v1/topics": {"prefix"}, "DELETE /v1/topics": {"prefix"},
	}
	// withBody are the routes that read a body.
	withBody = []string{
		"POST /v1/topics/{topic}/tasks", "PUT /v1/topics/{topic}/tasks/{name}",
		"POST /v1/batch", "PATCH /v1/tasks/{id}", "PATCH /v1/topics/{topic}/tasks/{name}", "PUT /v1/topics/{topic}",
		"POST /v1/topics/{topic}/pause", "PUT /v1/templates/{pattern}", "PUT /v1/schedules/{name}", "POST /v1/operations", "POST /v1/tokens",
	}
	// keyed are the routes that take an Idempotency-Key. GET, PUT and DELETE do what it asks for anyway: a second one changes nothing more.
	keyed = []string{"POST /v1/topics/{topic}/tasks", "PUT /v1/topics/{topic}/tasks/{name}", "POST /v1/batch", "POST /v1/operations"}
	// once are headers of which one counts.
	once = []string{"Authorization", "Content-Type", "Content-Encoding", "Idempotency-Key"}
	// overrides say that a request is another one than it seems.
	overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}
	// conditions say when a request is to change something. There are no versions of anything by which to judge that.
	conditions = []string{"If-Match", "If-None-Match", "If-Unmodified-Since", "Content-Range"}
)

// onlyWhatCounts refuses what would have no effect: parameters and bodies that a route does not have, and headers that ask for what is not done.
func (c *call) onlyWhatCounts(pattern string) error {
	wrong := append(c.queryThatDoesNotCount(queries[pattern]), c.headersThatDoNotCount(pattern)...)
	if len(wrong) > 0 {
		return problem.OfFields(wrong)
	}
	if slices.Contains(withBody, pattern) || c.isEmpty() {
		return nil
	}
	text, release, err := c.a.read(c, firstBytes)
	if err == nil {
		release()
	}
	if bad := (*problem.Problem)(nil); errors.As(err, &bad) && bad.Code == problem.Busy {
		return err
	}
	if text = bytes.TrimSpace(text); err == nil && (len(text) == 0 || string(text) == "{}") { // some clients cannot send less
		return nil
	}
	return problem.OfField("", "%s has no body; leave it out", pattern)
}

func (c *call) queryThatDoesNotCount(known []string) (wrong []problem.Field) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return []problem.Field{{Pointer: "?", Detail: "the query cannot be understood: " + err.Error()}}
	}
	for name, all := range values {
		detail := ""
		switch {
		case len(known) == 0:
			detail = "this request has no parameters; leave it out"
		case !slices.Contains(known, name):
			detail = "there is no such parameter; there are " + strings.Join(known, ", ")
		case len(all) > 1 && name != "status" && name != "state":
			detail = "it comes twice; send it once"
		}
		if detail != "" {
			wrong = append(wrong, problem.Field{Pointer: "?" + name, Detail: detail})
		}
	}
	slices.SortFunc(wrong, func(a, b problem.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return wrong
}

func (c *call) headersThatDoNotCount(pattern string) (wrong []problem.Field) {
	say := func(name, detail string) { wrong = append(wrong, problem.Field{Pointer: name, Detail: detail}) }
	changes := c.Method != http.MethodGet && c.Method != http.MethodHead
	for name, values := range c.Request.Header {
		switch isKey := name == "Idempotency-Key"; {
		case len(values) > 1 && slices.Contains(once, name):
			say(name, "it comes twice; send it once")
		case isKey && slices.Contains(keyed, pattern) && strings.TrimSpace(values[0]) == "": // who sends it counts on it
			say(name, "it is empty, so a second request would do the same again; send a key, such as a UUID, or leave it out")
		case isKey && !slices.Contains(keyed, pattern) && (c.Method == http.MethodPost || c.Method == http.MethodPatch):
			say(name, "this request takes none, and a second one would do the same again; leave it out")
		case !isKey && strings.Contains(strings.ToLower(name), "idempoten"):
			say(name, "there is no such header; it is called Idempotency-Key")
		case slices.Contains(overrides, name):
			say(name, "it has no effect; send the request with that method")
		case changes && slices.Contains(conditions, name):
			say(name, "it has no effect; leave it out, and look before you send the request")
		}
	}
	slices.SortFunc(wrong, func(a, b problem.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return wrong
}
