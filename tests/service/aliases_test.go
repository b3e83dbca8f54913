package service

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// ask sends a request as another service's client does, and returns the answer as it is.
func (i *instance) ask(want int, path, contentType, body, user string) string {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), "POST", i.base+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	if user != "" {
		r.SetBasicAuth("shop", user)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		i.t.Fatalf("%s %s: %d, %v, want %d: %s", path, body, answer.StatusCode, err, want, text)
	}
	return string(text)
}

// newest is the id of the last task that came into a topic.
func (i *instance) newest(topic string) string {
	i.t.Helper()
	return fmt.Sprint(i.send(http.StatusOK, "GET", "/v1/tasks?topic="+topic+"&limit=1", "").json("tasks.0.id"))
}

func TestClientsOfDelayQueueStayAsTheyAre(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const form = "application/x-www-form-urlencoded"
		to := receive(t, nil)
		api := start(t, d, func(c *service.Config) { c.Aliases.DelayQueue = "delay_queue" })
		now := time.Now().Unix()
		save := func(plan int64, method, param string) {
			t.Helper()
			body := url.Values{"notify_url": {to.URL + "/notify?shop=7"}, "plan_time": {fmt.Sprint(plan)}, "method_name": {method}, "notify_param": {param}}.Encode()
			got := api.ask(http.StatusOK, "/api/task/save", form, body, "")
			if want := `{"code":0,"msg":"success","data":{"id":"` + api.newest("delay_queue") + `"}}` + "\n"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		save(now+1, "get", "order_id=4711&a=b")
		save(now+1, "post", "order_id=4711&a=b")
		await(t, "both have come", func() bool { return len(to.all()) == 2 })
		for _, call := range to.all() {
			switch {
			case call.body == "" && call.query == "shop=7&order_id=4711&a=b" && call.method == "GET":
			case call.body == "order_id=4711&a=b" && call.query == "shop=7" && call.method == "POST" && call.header.Get("Content-Type") == form:
			default:
				t.Errorf("%+v", call)
			}
			if call.at.Unix() < now+1 {
				t.Errorf("it came at %v", call.at)
			}
		}
		// A time that has passed is ten seconds from now.
		before := time.Now().Unix()
		save(1, "", "")
		after := time.Now().Unix()
		due, err := time.Parse(time.RFC3339, api.send(http.StatusOK, "GET", "/v1/tasks?topic=delay_queue&limit=1", "").json("tasks.0.due").(string))
		if due := due.Unix(); err != nil || due < before+10 || due > after+12 {
			t.Errorf("it is due %d to %d s after it was saved, %v", due-after, due-before, err)
		}
		if got := api.ask(http.StatusUnprocessableEntity, "/api/task/save", form, "plan_time=5", ""); got != `{"code":1,"msg":"/notify_url: it is missing"}`+"\n" {
			t.Errorf("%q", got)
		}
		for body, part := range map[string]string{
			"notify_url=x": "/notify_url: ", "notify_url=http://10.1.2.3/": "/notify_url: 10.1.2.3 belongs to private networks", "notify_url=http://127.0.0.1/&plan_time=soon": "/plan_time: ", "notify_url=http://127.0.0.1/&method_name=put": "/method_name: ",
		} {
			if got := api.ask(http.StatusUnprocessableEntity, "/api/task/save", form, body, ""); !strings.HasPrefix(got, `{"code":1,`) || !strings.Contains(got, part) {
				t.Errorf("%s: %s", body, got)
			}
		}
		api.ask(http.StatusNotFound, "/delay/task/add", form, "{}", "")
	})
}

func TestClientsOfTheDelayServiceStayAsTheyAre(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d, func(c *service.Config) {
			c.Aliases.DelayService = map[string]string{"shop": to.URL + "/base/"}
		})
		const form = "application/x-www-form-urlencoded" // what curl -d says of JSON
		due := time.Now().Unix() + 1
		content := `{"sn":"shop","url":"/cancel?a=1","order": 4711}`
		for _, body := range []string{
			fmt.Sprintf(`{"topic":"orders","timing_moment":%d,"content":%q}`, due, content),
			fmt.Sprintf(`{"topic":"orders","timing_moment":"%d","content":%s}`, due, content),
		} {
			got := api.ask(http.StatusOK, "/delay/task/add", form, strings.Replace(body, `"orders"`, `"Orders"`, 1), "") // its topics may have capitals
			if want := `{"dm_error":0,"error_msg":"操作成功","task_id":` + api.newest("orders") + "}\n"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		await(t, "both have come", func() bool { return len(to.all()) == 2 })
		for _, call := range to.all() {
			if call.method != "POST" || call.path != "/base/cancel" || call.query != "a=1" || call.body != content || call.header.Get("Content-Type") != "application/json" || call.at.Unix() < due {
				t.Errorf("%+v", call)
			}
		}
		for body, part := range map[string]string{
			`{}`: "/timing_moment", `{"topic":"orders","timing_moment":1,"content":"{}"}`: "/content/sn: it is missing", `{"topic":"orders","timing_moment":1,"content":{"sn":"nobody","url":"/"}}`: `no service is called`,
			`{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"http://elsewhere/"}}`: "/content/url", `{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"../admin/x"}}`: "/content/url", `{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"/a/%2e%2E/%2e./x"}}`: "/content/url",
			`{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"/..%2fadmin"}}`: "/content/url", `{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"/..;a/x?b"}}`: "/content/url",
			`{"topic":"orders","timing_moment":1,"content":{"sn":"shop","url":"\\..\\x"}}`: "/content/url", `{"topic":"A B","timing_moment":1,"content":{"sn":"shop","url":"/"}}`: "/topic", `nothing`: "no JSON",
		} {
			if got := api.ask(http.StatusUnprocessableEntity, "/delay/task/add", form, body, ""); !strings.HasPrefix(got, `{"dm_error":422,`) || !strings.Contains(got, part) {
				t.Errorf("%s: %s", body, got)
			}
		}
	})
}

func TestOldClientsAreKnownByTheirTokenOrTheirNetwork(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		const form, body = "application/x-www-form-urlencoded", "notify_url=http://127.0.0.1/&plan_time=4102444800"
		api := start(t, d, func(c *service.Config) { c.Aliases.DelayQueue = "delay_queue" })
		token := func(scope, topic string) string {
			return api.send(http.StatusCreated, "POST", "/v1/tokens", fmt.Sprintf(`{"scopes":[%q],"topics":[%q]}`, scope, topic)).json("token").(string)
		}
		api.token = token("admin", "*")
		api.ask(http.StatusUnauthorized, "/api/task/save", form, body, "")
		api.ask(http.StatusUnauthorized, "/api/task/save", form, body, "pq_a_b")
		api.ask(http.StatusForbidden, "/api/task/save", form, body, token("tasks:add", "shop.*"))
		api.ask(http.StatusForbidden, "/api/task/save", form, body, token("tasks:read", "*"))
		api.ask(http.StatusOK, "/api/task/save", form, body, token("tasks:add", "delay_queue"))

		near := start(t, d, func(c *service.Config) {
			c.Aliases = service.Aliases{DelayQueue: "delay_queue", From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		})
		near.ask(http.StatusOK, "/api/task/save", form, body, "")
		near.ask(http.StatusUnauthorized, "/api/task/save", form, body, "pq_a_b")
		for headers, want := range map[string]int{
			"Sec-Fetch-Site=cross-site": http.StatusForbidden, "Sec-Fetch-Site=same-site": http.StatusForbidden, "Origin=http://evil.example": http.StatusForbidden, "Origin=null": http.StatusForbidden,
			"Host=evil.example Origin=http://evil.example": http.StatusUnauthorized, // its name leads here
			"Host=evil.example Sec-Fetch-Site=same-origin": http.StatusUnauthorized, "Host=tasks.internal": http.StatusOK,
		} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", near.base+"/api/task/save", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", form)
			for _, header := range strings.Fields(headers) {
				name, value, _ := strings.Cut(header, "=")
				if r.Header.Set(name, value); name == "Host" {
					r.Host = value
				}
			}
			wantAnswer(t, "with "+headers, r, want)
		}
		near.send(http.StatusUnauthorized, "GET", "/v1/tasks", "")
	})
}
