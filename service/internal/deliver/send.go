package deliver

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	bodyReadMax     = 64 << 10
	bodyTimeout     = 5 * time.Second
	bodyKeptMax     = 4 << 10
	headersKept     = 20
	headerBytesKept = 4 << 10
)

// exchange is one request and what came of it.
type exchange struct {
	evidence
	ip     netip.AddrPort
	timing Timing
}

// send sends a request and reads the head of the answer. Each part has a time of its own; ctx ends it early.
func send(ctx context.Context, transport http.RoundTripper, req *http.Request, timeout time.Duration, wholeBody bool) (x exchange) {
	began := time.Now()
	c := newClock(ctx)
	defer c.stop()
	left := &traces{}
	req = req.WithContext(left.follow(c.ctx, req.Header, func() { c.next(errHeaderTimeout, timeout) }, func() { c.cancel(errSentOnce) }))
	answer, err := transport.RoundTrip(req)
	if err == nil {
		x.answered, x.status, x.header = true, answer.StatusCode, answer.Header
		left.keep(answer.Header, time.Now())
		c.next(errBodyTimeout, bodyTimeout)
		x.body, x.cut, err = readHead(answer, wholeBody)
		_ = answer.Body.Close()
	}
	timing, ip, tlsErr := left.read()
	x.timing, x.ip = timing, ip
	x.timing.Start, x.timing.Total = began, time.Since(began)
	x.err = c.cause(err)
	if tlsErr != nil && x.err != nil && !x.answered {
		x.err = &handshakeError{x.err}
	}
	return x
}

// readHead reads the first part of a body: as much as is kept, or as much as the rules may want. A little more is read and dropped, so that
// the connection can serve again.
func readHead(answer *http.Response, whole bool) (head []byte, cut bool, err error) {
	most := int64(bodyKeptMax)
	if whole {
		most = bodyReadMax
	}
	if answer.ContentLength == 0 {
		return nil, false, nil
	}
	if answer.ContentLength > 0 && answer.ContentLength <= most {
		head = make([]byte, 0, answer.ContentLength+1) // and one to see the end
	}
	head, err = appendAll(head, io.LimitReader(answer.Body, most))
	if err == nil {
		var more int64
		more, err = io.Copy(io.Discard, io.LimitReader(answer.Body, bodyReadMax-most+1))
		cut = more > bodyReadMax-most
	}
	return head, cut || err != nil, err
}

// appendAll is io.ReadAll into a slice that has room already.
func appendAll(head []byte, r io.Reader) ([]byte, error) {
	if head == nil {
		head = make([]byte, 0, 512)
	}
	for {
		n, err := r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err == io.EOF {
			return head, nil
		}
		if err != nil {
			return head, err
		}
		if len(head) == cap(head) {
			head = slices.Grow(head, len(head))
		}
	}
}

// clock ends a call when its present part takes too long, and remembers which part that was.
type clock struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu      sync.Mutex
	present error
}

func newClock(parent context.Context) *clock {
	c := &clock{present: errConnectTimeout}
	c.ctx, c.cancel = context.WithCancelCause(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(connectionPatience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cancel(c.present)
	})
	return c
}

// next begins another part.
func (c *clock) next(part error, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present != part { // a second connection, after a dead one, gets no new time
		c.present = part
		c.timer.Reset(most)
	}
}

func (c *clock) stop() {
	c.timer.Stop()
	c.cancel(nil)
}

// cause is what ended a call that ended with an error.
func (c *clock) cause(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return err
}

// handshakeError is an error that came while TLS was being agreed on.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// response is what is kept of an answer.
func (x *exchange) response() *Response {
	if !x.answered {
		return nil
	}
	r := &Response{Status: x.status, Truncated: x.cut, Body: x.body[:min(len(x.body), bodyKeptMax)]}
	r.Header = make([]HeaderField, 0, min(len(x.header), headersKept))
	for name, values := range x.header {
		r.Header = append(r.Header, HeaderField{name, strings.Join(values, ", ")})
	}
	slices.SortFunc(r.Header, func(a, b HeaderField) int { return strings.Compare(a.Name, b.Name) })
	r.Header = r.Header[:min(len(r.Header), headersKept)]
	room := headerBytesKept
	for i := range r.Header {
		f := &r.Header[i]
		if f.Name == "Set-Cookie" {
			f.Value = "(not kept)" // it lets its owner in
		}
		if room -= len(f.Name) + len(f.Value); room < 0 {
			r.Header = r.Header[:i]
			break
		}
	}
	return r
}
