package deliver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const idMax = 200 // characters

// check reports why a call can never be sent, apart from its URL.
func (c *Call) check() error {
	switch {
	case c.Topic == nil || c.Topic.Name == "":
		return errors.New("the call has no topic")
	case c.ID == "" || len(c.ID) > idMax ||
		strings.ContainsFunc(c.ID, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' || r == '"' || r == '\\' }):
		return fmt.Errorf("the id %.40q is empty, longer than %d, or has a dot or another character that cannot be signed", c.ID, idMax)
	case c.Timeout != 0 && (c.Timeout < TimeoutMin || c.Timeout > TimeoutMax):
		return fmt.Errorf("the timeout is %v; use %v to %v", c.Timeout, TimeoutMin, TimeoutMax)
	case c.ContentType != "" && !httpguts.ValidHeaderFieldValue(c.ContentType):
		return errors.New("the content type has a line break or a control character; leave it out")
	}
	if err := CheckMethod(c.Method); err != nil {
		return err
	}
	if err := CheckHeader(c.Topic.Header); err != nil {
		return err
	}
	return CheckHeader(c.Header)
}

// CheckMethod reports why a method may not be used. Empty means POST.
func CheckMethod(method string) error {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return nil
	}
	return fmt.Errorf("the method is %.20q; use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS", method)
}

// request is the HTTP request of a call that was checked.
func (c *Call) request(to *url.URL, userAgent string, now time.Time) (*http.Request, error) {
	req := &http.Request{Method: c.Method, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if c.Method == "" {
		req.Method = http.MethodPost
	}
	if len(c.Body) > 0 {
		req.ContentLength = int64(len(c.Body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.Body)), nil }
		req.Body, _ = req.GetBody()
	}
	h := headerOf(c)
	if len(c.Body) > 0 || c.ContentType != "" {
		h.setDefault("Content-Type", c.ContentType, "application/json")
	}
	h.setDefault("User-Agent", "", userAgent)
	h.set("Accept-Encoding", "identity") // nobody here reads another; without it, any would be welcome
	if c.Topic.Signer != nil {
		signature, err := c.Topic.Signer.Sign(c.ID, now, c.Body)
		if err != nil {
			return nil, err
		}
		h.set("Webhook-Signature", signature)
	}
	h.set("Webhook-Id", c.ID)
	h.set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.set("Idempotency-Key", `"`+c.ID+`"`)
	h.set("Pq-Topic", visible(c.Topic.Name))
	h.task(&c.Task)
	req.Header = h.header
	return req, nil
}

// headers is a header being made, whose values lie side by side.
type headers struct {
	header http.Header
	values []string
}

func headerOf(c *Call) *headers {
	const own = 16
	h := &headers{make(http.Header, own+len(c.Topic.Header)+len(c.Header)), make([]string, 0, own)}
	for name, values := range c.Topic.Header {
		h.header[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range c.Header {
		name = http.CanonicalHeaderKey(name)
		if _, there := h.header[name]; !there && len(c.Topic.Header) > 0 {
			maps.DeleteFunc(h.header, func(other string, _ []string) bool { return plainName(other) == plainName(name) }) // x_a is x-a to some
		}
		h.header[name] = values
	}
	return h
}

func (h *headers) set(name, value string) {
	h.values = append(h.values, value)
	h.header[name] = h.values[len(h.values)-1 : len(h.values) : len(h.values)]
}

// has reports whether there is a header, or what some receivers take for it.
func (h *headers) has(name string) bool {
	if _, there := h.header[name]; there {
		return true
	}
	for other := range h.header {
		if len(other) == len(name) && plainName(other) == name {
			return true
		}
	}
	return false
}

// setDefault sets a header that the caller may have set.
func (h *headers) setDefault(name, value, otherwise string) {
	if value != "" {
		h.set(name, value)
	} else if !h.has(name) {
		h.set(name, otherwise)
	}
}

func (h *headers) task(t *Task) {
	h.setText("Pq-Task-Name", t.Name)
	h.setNumber("Pq-Attempt", int64(t.Attempt))
	h.setNumber("Pq-Max-Attempts", int64(t.MaxAttempts))
	h.setTime("Pq-Due", t.Due)
	h.setTime("Pq-First-Attempt", t.FirstAttempt)
	h.setTime("Pq-Expires", t.Expires)
	h.setNumber("Pq-Term", t.Term)
	if t.Replay {
		h.set("Pq-Replay", "1")
	}
	if len(t.Traceparent) == 55 { // as version 00 is; anything else would confuse the receiver's tracing
		h.setText("Traceparent", t.Traceparent)
	}
}

func (h *headers) setText(name, value string) {
	if value != "" {
		h.set(name, visible(value))
	}
}

func (h *headers) setNumber(name string, value int64) {
	if value != 0 {
		h.set(name, strconv.FormatInt(value, 10))
	}
}

func (h *headers) setTime(name string, value time.Time) {
	if !value.IsZero() {
		h.set(name, value.UTC().Format(time.RFC3339))
	}
}

// visible is a text as a header can have it: encoded with % if it has other characters than those of ASCII.
func visible(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '%' }) {
		return url.PathEscape(text)
	}
	return text
}
