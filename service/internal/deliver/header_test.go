package deliver

import (
	"net/http"
	"strings"
	"testing"
)

func TestHeadersOfTheProtocolCannotBeForged(t *testing.T) {
	for _, name := range strings.Fields("host Host content-length Transfer-Encoding connection keep-alive TE trailer upgrade expect proxy-authorization Proxy-Connection " +
		"webhook-id WEBHOOK-SIGNATURE webhook-anything pq-attempt Pq-Anything idempotency-key traceparent accept-encoding") {
		if CheckHeader(http.Header{name: {"x"}}) == nil {
			t.Errorf("%s passes", name)
		}
	}
	for _, name := range strings.Fields("pq_topic PQ_TERM Webhook_Id webhook-timestamp_ pq_-x proxy_authorization content_length idempotency_key accept_encoding x_idempotency-key") {
		if CheckHeader(http.Header{name: {"x"}}) == nil {
			t.Errorf("%s passes, and is a header of ours to some receivers", name)
		}
	}
	for _, twice := range []map[string]string{{"X-A": "", "x-a": ""}, {"X-A": "", "x_a": ""}, {"x_a_b": "", "x_a-b": ""}} {
		if CheckNames(twice) == nil {
			t.Errorf("%v pass", twice)
		}
	}
	for _, name := range []string{"", "pq-topic ", "webhook-id\t", " pq-topic", "a b", "a:b", "a\r\nb", "a\x00", "ü", "host "} {
		if CheckHeader(http.Header{name: {"x"}}) == nil {
			t.Errorf("the name %q passes", name)
		}
	}
	for _, value := range []string{"a\r\nhost: b", "a\nb", "a\rb", "a\x00b", "a\x7f"} {
		if CheckHeader(http.Header{"x-a": {"x", value}}) == nil {
			t.Errorf("the value %q passes", value)
		}
	}
	many := http.Header{}
	for range headersMax + 1 {
		many["x-"+strings.Repeat("a", len(many)+1)] = nil
	}
	if CheckHeader(many) == nil || CheckHeader(http.Header{"x-a": {strings.Repeat("a", headerBytesMax)}}) == nil {
		t.Error("headers without end pass")
	}
	if err := CheckHeader(http.Header{"authorization": {"Bearer x"}, "cookie": {"a=b"}, "X-Tenant": {"7", "8"}, "accept": {"*/*"}}); err != nil {
		t.Error(err)
	}
}

func TestCallsThatCanNeverBeSentFailAtOnce(t *testing.T) {
	d, dials := noDial(t, Config{})
	for what, change := range map[string]func(*Call){
		"no topic": func(c *Call) { c.Topic = nil }, "a topic without a name": func(c *Call) { c.Topic = &Topic{} },
		"no id": func(c *Call) { c.ID = "" }, "an id with a dot": func(c *Call) { c.ID = "a.b" }, "an id with a line": func(c *Call) { c.ID = "a\nb" },
		"a quoted id": func(c *Call) { c.ID = `a"b` }, "a long id": func(c *Call) { c.ID = strings.Repeat("a", idMax+1) },
		"a short timeout": func(c *Call) { c.Timeout = TimeoutMin - 1 }, "a long timeout": func(c *Call) { c.Timeout = TimeoutMax + 1 },
		"a method": func(c *Call) { c.Method = "CONNECT" }, "a line as method": func(c *Call) { c.Method = "GET / HTTP/1.1\r\n" },
		"a header": func(c *Call) { c.Header = http.Header{"host": {"b"}} }, "a topic's header": func(c *Call) { c.Topic.Header = http.Header{"host": {"b"}} },
		"a content type": func(c *Call) { c.ContentType = "a\nb" }, "a URL": func(c *Call) { c.URL = "ftp://shop.example/" },
	} {
		call := callTo("http://8.8.8.8/")
		change(call)
		if result := d.Deliver(t.Context(), call); result.Outcome != Failed || result.Code != CodeInvalid || result.Detail == "" {
			t.Errorf("%s: %+v", what, result)
		}
	}
	if dials.Load() != 0 {
		t.Errorf("%d connections", dials.Load())
	}
}
