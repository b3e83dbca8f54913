package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

const (
	oneMax   = 1 << 20  // bytes of a request with one task
	batchMax = 32 << 20 // bytes of a request with many
)

// contentType is the media type of a request's body, in lower case.
func (c *call) contentType() string {
	media, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// wantsJSON refuses other bodies: what a browser sends from a foreign page without asking first is never JSON.
func (c *call) wantsJSON() error {
	if media := c.contentType(); media != "application/json" {
		return problem.New(problem.MediaType, "the body is %q; send JSON, with the header Content-Type: application/json (curl --json does)", media)
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

// body reads the whole body, if there is room for it. Release gives the room back, when the request is answered.
func (a *api) body(c *call, limit int64) (text []byte, release func(), err error) {
	if err := c.wantsJSON(); err != nil {
		return nil, nil, err
	}
	expected := c.ContentLength
	if expected < 0 {
		expected = limit
	}
	if expected > limit {
		return nil, nil, tooLarge(limit)
	}
	release, full := a.Intake.Admit(expected)
	if full != nil {
		return nil, nil, full
	}
	text, err = io.ReadAll(http.MaxBytesReader(c.ResponseWriter, c.Body, limit))
	if err == nil {
		return text, release, nil
	}
	release()
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		return nil, nil, tooLarge(limit)
	}
	return nil, nil, problem.New(problem.Invalid, "the body has not come in whole: %v", err)
}

func tooLarge(limit int64) error {
	return problem.New(problem.TooLarge, "a request like this has at most %d bytes; send several, or application/x-ndjson to /v1/batch, which has no end", limit)
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
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(target); err != nil {
		return problem.OfField("", "the request cannot be understood: %v", err)
	}
	if from.More() {
		return problem.OfField("", "there is something behind the JSON object; send one object")
	}
	return nil
}
