// Package bodies limits how long the body of a request may take. If a body takes longer, its connection is cut.
//
// net/http has one limit, for a whole request. It holds for a body that nobody reads, too: if a handler answers before the body is there, the
// server reads on before it sends the answer, for as long as the whole request may take.
package bodies

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	Grace      = 10 * time.Second // that each body has
	LeastSpeed = 64 << 10         // bytes that take a second more
	Most       = time.Minute      // that no body takes longer than

	rest = 5 * time.Second // for what is left of a body whose request is answered already
)

// Within returns how long a body of this many bytes may take.
func Within(bytes int64) time.Duration {
	bytes = min(bytes, int64(Most/time.Second)*LeastSpeed)
	return min(Most, Grace+time.Duration(bytes)*time.Second/LeastSpeed)
}

// Timed gives the body of each request its time. A handler that sets a deadline for reading has its own until it answers, and one that goes on
// reading then sets it anew.
func Timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(Within(max(0, r.ContentLength)))) // where deadlines are not supported, the server's own hold
		b := &body{ReadCloser: r.Body, control: control}
		a := &answer{w, b}
		defer b.answered()
		r = r.WithContext(r.Context()) // the server keeps its own, and looks at the body that it knows
		r.Body = b
		next.ServeHTTP(a, r)
	})
}

// body is what has not come in yet.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	over    atomic.Bool // read to its end or to an error, or answered
}

// Read takes the deadline away at the end: the server goes on listening there, and would take a deadline for a client that is gone.
func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if err != nil {
		b.over.Store(true)
	}
	return n, err
}

// answered limits how long the server waits for the rest, before it sends the answer or takes the next request.
func (b *body) answered() {
	if !b.over.Swap(true) {
		_ = b.control.SetReadDeadline(time.Now().Add(rest))
	}
}

// answer tells the body when it begins.
type answer struct {
	http.ResponseWriter
	body *body
}

func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.body.answered()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(text []byte) (int, error) {
	a.body.answered()
	return a.ResponseWriter.Write(text)
}

// FlushError flushes for a [http.ResponseController].
func (a *answer) FlushError() error {
	a.body.answered()
	return a.body.control.Flush()
}

// Unwrap is for a [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
