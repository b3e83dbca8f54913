package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/bodies"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

const (
	oneMax   = 1 << 20  // bytes of a request with one task
	batchMax = 32 << 20 // bytes of a request with many

	firstBytes = 16 << 10 // that come in before more room is taken than what they need themselves
	smallTimes = 3        // a small body is in memory as text, as what was read of it, and as parameters

	drainMax = 5 * time.Second // for the rest of a body for which there was no room

	askAgain = 250 * time.Millisecond // after which it is asked again whether a token still counts
)

// isStream reports whether the body of a request is lines, each of which is a task: whatever stands behind the media type.
func isStream(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == ndjson
}

// wantsJSON refuses other bodies: what a browser sends from a foreign page without asking first is never JSON.
func (c *call) wantsJSON() error {
	media, parameters, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if media != "application/json" {
		return problem.New(problem.MediaType, "the body is %q; send JSON, with the header Content-Type: application/json (curl --json does)", media)
	}
	return isUTF8(parameters)
}

// isUTF8 refuses a media type that says that its text is something else.
func isUTF8(parameters map[string]string) error {
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return problem.New(problem.MediaType, "the body is said to be in %q; send it in UTF-8", charset)
	}
	return nil
}

// wantsPlain refuses a body that is compressed.
func (c *call) wantsPlain() error {
	if coding := c.Request.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return problem.New(problem.MediaType, "the body has the Content-Encoding %q; send it as it is, without one", coding)
	}
	return nil
}

// isEmpty reports whether a request has no body. One whose length is not known is looked at.
func (c *call) isEmpty() bool {
	if c.ContentLength >= 0 {
		return c.ContentLength == 0
	}
	first := make([]byte, 1)
	n, err := io.ReadFull(c.Body, first)
	c.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first[:n]), c.Body), c.Body}
	return err == io.EOF
}

// holder is in whose name a request takes room: its token's or, without one, that of the machine that it comes from.
func (c *call) holder() string {
	if tokens.IsToken(c.caller) {
		return c.caller.ID
	}
	host, _, err := net.SplitHostPort(c.RemoteAddr)
	if err != nil {
		host = c.RemoteAddr
	}
	return c.caller.ID + " " + host
}

// body reads the whole body of JSON. Release gives its room back, which the answer does, too.
func (a *api) body(c *call, limit int64) (text []byte, release func(), err error) {
	if err := c.wantsJSON(); err != nil {
		return nil, nil, err
	}
	return a.read(c, limit)
}

// read reads the whole body, whatever it is.
func (a *api) read(c *call, limit int64) (text []byte, release func(), err error) {
	from, err := a.reader(c, limit)
	if err != nil {
		return nil, nil, err
	}
	size := firstBytes
	if c.ContentLength >= 0 {
		size = int(min(c.ContentLength+bytes.MinRead, firstBytes)) // a longer body grows as it comes
	}
	into := bytes.NewBuffer(make([]byte, 0, size))
	if _, err = into.ReadFrom(from); err != nil {
		from.release()
		return nil, nil, from.problem(err)
	}
	if err := from.end(); err != nil {
		from.release()
		return nil, nil, err
	}
	return into.Bytes(), from.release, nil
}

// reader reads a body as it comes in, and takes room for what has come: first for its first bytes, then for a small body, and at last for the
// largest that it may be. So a sender takes no more room than what it really sends can need, and none that another caller needs.
type reader struct {
	a       *api
	c       *call
	control *http.ResponseController
	limit   int64
	got     int64
	holds   int64 // bytes that there is room for
	give    func()
	began   time.Time
	waited  time.Duration // for room
	full    *problem.Problem
	failed  error // why it could not be read
}

func (a *api) reader(c *call, limit int64) (*reader, error) {
	if err := c.wantsPlain(); err != nil {
		return nil, err
	}
	if c.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	r := &reader{a: a, c: c, control: http.NewResponseController(c.ResponseWriter), limit: limit, give: func() {}, began: time.Now()}
	if r.room(1); r.full != nil {
		return nil, r.problem(r.full)
	}
	c.held = r.release
	return r, nil
}

// release gives the room back.
func (r *reader) release() { r.give() }

// room sees that there is room for these bytes of the body.
func (r *reader) room(bytes int64) {
	if bytes <= r.holds || r.full != nil {
		return
	}
	rooms, most, began := r.a.Intake.Rooms(), r.most(), time.Now()
	in, holds, weight := rooms.Small, min(most, oneMax), int64(smallTimes)
	switch {
	case bytes <= firstBytes:
		holds = min(most, firstBytes)
	case bytes > oneMax:
		in, holds, weight = rooms.Large, most, 1
	}
	if in == rooms.Small && r.holds > 0 { // at once, so that two who have a part do not wait for each other
		r.give()
		r.give = func() {}
	}
	give, full := in.Take(r.c.Context(), r.c.holder(), weight*holds+weightLarge(in == rooms.Large, holds))
	r.waited += time.Since(began)
	if r.full = full; full == nil {
		r.give()
		r.give, r.holds = give, max(holds, 1)
	}
}

// most is how many bytes may come.
func (r *reader) most() int64 {
	if r.c.ContentLength >= 0 {
		return r.c.ContentLength
	}
	return r.limit
}

// weightLarge is what a large body takes besides its bytes.
func weightLarge(large bool, bytes int64) int64 {
	if !large {
		return 0
	}
	return bytes / 4
}

// Read reads a part of the body.
func (r *reader) Read(into []byte) (n int, err error) {
	n, err = r.next(into)
	if err != nil && err != io.EOF {
		r.failed = err
	}
	return n, err
}

func (r *reader) next(into []byte) (int, error) {
	if r.got >= r.holds && r.got < r.most() {
		r.room(r.got + 1)
	}
	if r.full != nil {
		return 0, r.full
	}
	if left := r.holds - r.got; left > 0 {
		into = into[:min(int64(len(into)), left)]
	} // else there is to be no more, and one byte tells
	took := r.waited + bodies.Within(r.got)
	_ = r.control.SetReadDeadline(r.began.Add(took)) // where deadlines are not supported, the server's own hold
	n, err := r.c.Body.Read(into)
	if r.got += int64(n); r.got > r.limit {
		return 0, tooLarge(r.limit)
	}
	return n, err
}

// end ends the reading of a body that has come in whole. If that took long, the token may count no more.
func (r *reader) end() error {
	_ = r.control.SetReadDeadline(time.Time{})
	if time.Since(r.began) < askAgain {
		return nil
	}
	return r.a.still(r.c)
}

// problem says why the body could not be read.
func (r *reader) problem(err error) error {
	bad := (*problem.Problem)(nil)
	switch {
	case errors.As(err, &bad):
		if bad == r.full {
			r.passOver()
		}
		return bad
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.c.Header().Set("Connection", "close")
		return problem.New(problem.Slow,
			"of the body, %d bytes have come in %v; a body has %v and a second more for each %d bytes, and %v in all; nothing was stored",
			r.got, time.Since(r.began).Round(time.Second), bodies.Grace, bodies.LeastSpeed, bodies.Most)
	}
	return problem.New(problem.Invalid, "the body has not come in whole: %v", err)
}

// passOver reads the rest of a body that is refused: who sends on without looking sees the answer at the end only. Of one that does not come,
// the connection ends.
func (r *reader) passOver() {
	_ = r.control.SetReadDeadline(time.Now().Add(drainMax))
	if _, err := io.CopyN(io.Discard, r.c.Body, r.most()); err == io.EOF {
		_ = r.control.SetReadDeadline(time.Time{})
	} else { // or net/http waits for the rest, before it sends the answer and for as long as something comes
		r.c.Header().Set("Connection", "close")
		_ = r.control.SetReadDeadline(time.Now())
	}
}

// still refuses a caller who may not call any more, since the request came in.
func (a *api) still(c *call) error {
	if !tokens.IsToken(c.caller) {
		return nil
	}
	if _, bad := a.Topics.Tokens().Caller(c.Request, time.Now()); bad != nil {
		return bad
	}
	return nil
}

func tooLarge(limit int64) error {
	remedy := "send several, or application/x-ndjson to /v1/batch, which has no end"
	if limit == oneMax {
		remedy = "store what is large elsewhere, and send its address"
	}
	return problem.New(problem.TooLarge, "a request like this has at most %d bytes; %s", limit, remedy)
}

const wordsMax = 1000 // characters of a text that says something to people

// checkWords refuses a text that one of the databases does not take.
func checkWords(pointer, text string) error {
	if n := utf8.RuneCountInString(text); n > wordsMax || strings.ContainsRune(text, 0) {
		return problem.OfField(pointer, "it has %d characters, or a zero in it; the most is %d, without a zero", n, wordsMax)
	}
	return nil
}

// decode reads a small object with no other fields than the target's.
func decode(text []byte, target any) error {
	if wrong := object.Read(text, "", target); len(wrong) > 0 {
		return problem.OfFields(wrong)
	}
	return nil
}

// answerRoom takes room for an answer that waits until somebody reads it. One that fits the buffers of a connection needs none.
func (a *api) answerRoom(c *call, bytes int) (release func(), full *problem.Problem) {
	if bytes <= firstBytes || c.caller == nil {
		return func() {}, nil
	}
	return a.Intake.Rooms().Answers.Take(c.Context(), c.holder(), int64(bytes))
}

// unmarked explains the error of a text that begins with a byte order mark, which is no JSON.
func unmarked(err error) error {
	if strings.Contains(err.Error(), "invalid character 'ï'") {
		return errors.New("it begins with a byte order mark, or is not UTF-8; send JSON in UTF-8 without such a mark")
	}
	return err
}
