package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/nearby"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// Aliases are the interfaces of two other services, for clients that shall stay as they are. Both are off by default.
type Aliases struct {
	// DelayQueue is the topic of tasks that come in at /api/task/save. Empty: none do.
	DelayQueue string
	// DelayService has the base address of each service whose tasks come in at /delay/task/add, by its sn. Nil: none do.
	DelayService map[string]string
	// From are networks whose programs need no token there.
	From []netip.Prefix
}

// Wrong says which alias can never work, by the name of its field, and why. Empty: each can.
func (s *Aliases) Wrong() (field, why string) {
	if s.DelayQueue != "" && !task.IsTopic(s.DelayQueue) {
		return "DelayQueue", fmt.Sprintf("%q: %s", s.DelayQueue, task.TopicRule)
	}
	for _, sn := range slices.Sorted(maps.Keys(s.DelayService)) {
		base := s.DelayService[sn]
		switch at, err := url.Parse(base); {
		case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
			return "DelayService", fmt.Sprintf("%s=%s: write the base as http://host:port", sn, base)
		case at.User != nil || at.RawQuery != "" || at.ForceQuery || strings.Contains(base, "#"):
			return "DelayService", fmt.Sprintf("%s=%s: each task's own path follows the base, so leave user, query and fragment out",
				sn, deliver.WithoutValues(base))
		}
	}
	return "", ""
}

// serve adds what is switched on.
func (s *Aliases) serve(mux *http.ServeMux, a *api) {
	if s.DelayQueue != "" {
		mux.HandleFunc("POST /api/task/save",
			s.answer(a, a.delayQueue, map[string]string{"/url": "/notify_url", "/body": "/notify_param"}, func(bad *problem.Problem, id uint64) any {
				if bad != nil {
					return delayQueueAnswer{Code: 1, Msg: bad.Detail}
				}
				return delayQueueAnswer{Msg: "success", Data: &delayQueueData{strconv.FormatUint(id, 10)}}
			}))
	}
	if s.DelayService != nil {
		mux.HandleFunc("POST /delay/task/add",
			s.answer(a, a.delayServiceTask, map[string]string{"/url": "/content/url", "/body": "/content", "/at": "/timing_moment"},
				func(bad *problem.Problem, id uint64) any {
					if bad != nil {
						return delayServiceAnswer{Error: bad.Status(), Msg: bad.Detail}
					}
					return delayServiceAnswer{Msg: "操作成功", TaskID: id}
				}))
	}
}

type delayQueueAnswer struct {
	Code int             `json:"code"`
	Msg  string          `json:"msg"`
	Data *delayQueueData `json:"data,omitempty"`
}

type delayQueueData struct {
	ID string `json:"id"`
}

type delayServiceAnswer struct {
	Error  int    `json:"dm_error"`
	Msg    string `json:"error_msg"`
	TaskID uint64 `json:"task_id,omitempty"`
}

// answer adds the task of a request, and answers in the other service's words. An error has our status, for programs that look at it.
func (s *Aliases) answer(
	a *api, read func(*call) (*task.Task, error), names map[string]string, say func(bad *problem.Problem, id uint64) any,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, id := &call{w, r, nil, a, nil}, uint64(0)
		err := func() error {
			var bad *problem.Problem
			if c.caller, bad = s.caller(a, r); bad != nil {
				return bad
			}
			t, err := read(c)
			if err != nil {
				return err
			}
			if bad = task.Check(t); bad != nil {
				return bad
			}
			job, err := a.job(r.Context(), t, c.caller)
			if err != nil {
				return err
			}
			added, err := a.Intake.Add(r.Context(), job)
			id = added.Id
			return err
		}()
		status, bad := http.StatusOK, (*problem.Problem)(nil)
		if err != nil {
			bad = called(intake.Away(err), names)
			status = bad.Status()
			a.note(w, bad)
		}
		_ = c.say(status, say(bad, id)) // numbers and texts
	}
}

// called is a problem in which fields are called what the other service calls them.
func called(p *problem.Problem, names map[string]string) *problem.Problem {
	if len(p.Fields) == 0 {
		return p
	}
	fields := slices.Clone(p.Fields)
	for n := range fields {
		fields[n].Pointer = cmp.Or(names[fields[n].Pointer], fields[n].Pointer)
	}
	renamed := problem.OfFields(fields)
	renamed.Code, renamed.RetryAfter, renamed.Cause = p.Code, p.RetryAfter, p.Cause
	return renamed
}

// foreign refuses what a foreign page sends, whose browser may have the token: a form needs no leave of ours.
var foreign = http.NewCrossOriginProtection()

// caller says who sent a request. From a network that needs no token, programs do not need one, and pages do: somebody in that network may
// look at a page from anywhere, which can even have the name of its own host lead here. The token may be the password of basic
// authentication, which clients can have in their address.
func (s *Aliases) caller(a *api, r *http.Request) (*tokens.Caller, *problem.Problem) {
	if err := foreign.Check(r); err != nil {
		return nil, problem.New(problem.Forbidden, "a page from elsewhere has sent this; only programs may, and pages of this host")
	}
	if _, password, given := r.BasicAuth(); given {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if addr, bad := netip.ParseAddr(peer); err == nil &&
		bad == nil && r.Header.Get("Authorization") == "" && !nearby.IsPassedOn(r) && !nearby.FromPage(r) &&
		slices.ContainsFunc(s.From, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) }) {
		return tokens.Adder("alias"), nil
	}
	return a.Topics.Tokens().Caller(r, time.Now())
}

// delayQueueWait is how long a task waits whose time has passed, and delayQueueRetry what its retries wait, as in that service.
const delayQueueWait = 10 * time.Second

var delayQueueRetry = &task.Retry{Waits: []time.Duration{5 * time.Second,
	15 * time.Second, 30 * time.Second, 3 * time.Minute, time.Hour, 2 * time.Hour}}

func (a *api) delayQueue(c *call) (*task.Task, error) { return a.delayQueueTask(c, a.clock(c)) }

// delayQueueTask reads a form with notify_url, plan_time, method_name and notify_param. If the plan_time has passed by this process's clock, the
// database's, by which the task falls due, is asked: most times are to come by both, and cost no statement.
func (a *api) delayQueueTask(c *call, clock func() (time.Time, error)) (*task.Task, error) {
	form, err := a.readForm(c)
	if err != nil {
		return nil, err
	}
	t := &task.Task{Topic: a.Aliases.DelayQueue, Delay: delayQueueWait, Content: task.Content{Retry: delayQueueRetry}}
	if t.URL = form.Get("notify_url"); t.URL == "" {
		return nil, problem.OfField("/notify_url", "it is missing")
	}
	if text := form.Get("plan_time"); text != "" {
		unix, err := strconv.ParseInt(text, 10, 64)
		if err != nil || unix < 0 || unix > task.LatestUnix {
			return nil, problem.OfField("/plan_time", "%q is not a time in unix seconds before 2106", text)
		}
		at := time.Unix(unix, 0)
		isToCome := at.After(time.Now())
		if !isToCome {
			now, err := clock()
			if err != nil {
				return nil, err
			}
			isToCome = at.After(now)
		}
		if isToCome {
			t.At, t.Delay = at, 0
		}
	}
	param := form.Get("notify_param")
	switch method := strings.ToLower(form.Get("method_name")); method {
	case "", "get":
		t.Method = http.MethodGet
		if param != "" {
			joint := "?"
			if strings.Contains(t.URL, "?") {
				joint = "&"
			}
			t.URL += joint + strings.TrimLeft(param, "?&")
		}
	case "post":
		t.Method, t.Body, t.ContentType = http.MethodPost, []byte(param), "application/x-www-form-urlencoded"
	default:
		return nil, problem.OfField("/method_name", "%q is neither get nor post", method)
	}
	return t, nil
}

// readForm reads a form: of the kind that browsers send, or in parts, as PHP's curl sends an array.
func (a *api) readForm(c *call) (url.Values, error) {
	text, _, err := a.read(c, oneMax)
	if err != nil {
		return nil, err
	}
	media, params, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type")) // what is none is a form, as most send it
	if media != "multipart/form-data" {
		form, err := url.ParseQuery(string(text))
		if err != nil {
			return nil, problem.New(problem.Invalid, "the body is no form: %v", err)
		}
		return form, nil
	}
	parts, err := multipart.NewReader(bytes.NewReader(text), params["boundary"]).ReadForm(oneMax)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the body is no form in parts: %v", err)
	}
	_ = parts.RemoveAll() // files, which nobody asks for
	return parts.Value, nil
}

// delayServiceTask reads JSON with topic, timing_moment and content, whatever the content type says: curl -d says that it is a form.
func (a *api) delayServiceTask(c *call) (*task.Task, error) {
	text, _, err := a.read(c, oneMax)
	if err != nil {
		return nil, err
	}
	var given struct {
		Topic   string          `json:"topic"`
		Moment  json.RawMessage `json:"timing_moment"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, problem.New(problem.Invalid, "the body is no JSON with topic, timing_moment and content: %v", err)
	}
	unix, err := strconv.ParseInt(strings.Trim(string(given.Moment), `"`), 10, 64)
	if err != nil || unix < 0 || unix > task.LatestUnix {
		return nil, problem.OfField("/timing_moment", "it must be a time in unix seconds before 2106")
	}
	content := []byte(given.Content)
	if inText := ""; json.Unmarshal(content, &inText) == nil { // JSON in a text, or an object
		content = []byte(inText)
	}
	t := &task.Task{Topic: strings.ToLower(given.Topic),
		At: time.Unix(unix, 0), Content: task.Content{Method: http.MethodPost, Body: content, ContentType: "application/json"}}
	if t.URL, err = a.delayServiceURL(content); err != nil {
		return nil, err
	}
	return t, nil
}

// delayServiceURL is the address of the service that a content names by its sn, and in it the path that is its url.
func (a *api) delayServiceURL(content []byte) (string, error) {
	var to struct{ SN, URL string }
	if err := json.Unmarshal(content, &to); err != nil {
		return "", problem.OfField("/content", "it is no JSON object with sn and url")
	}
	base, known := a.Aliases.DelayService[to.SN]
	switch {
	case to.SN == "":
		return "", problem.OfField("/content/sn", "it is missing: which service url belongs to")
	case !known:
		return "", problem.OfField("/content/sn", "no service is called %q here", to.SN)
	}
	at, err := url.Parse(to.URL)
	if err != nil || at.IsAbs() || at.Host != "" || leavesBase(at.Path) {
		return "", problem.OfField("/content/url", "it is to be a path, without . and .. as parts of it")
	}
	return strings.TrimRight(base, "/") + "/" + strings.TrimLeft(to.URL, "/"), nil
}

// leavesBase reports whether a path, in which nothing is escaped any more, has a part that could lead out of the address it is put behind:
// also with a backslash, which some servers take for a slash, and with what some cut off behind a semicolon.
func leavesBase(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(part, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}
