// Package problem is what the service answers if it cannot do what it was asked: RFC 9457, with the field and the remedy.
package problem

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Code names a kind of problem. The codes are part of the API: they do not change.
type Code string

const (
	Invalid      Code = "invalid"         // the request cannot be understood, or a field has a wrong value
	Unauthorized Code = "unauthorized"    // no token, or a token that does not count
	Forbidden    Code = "forbidden"       // the token may not do that
	NotFound     Code = "not-found"       // no such task, topic or address
	Exists       Code = "exists"          // the name is taken
	InFlight     Code = "in-flight"       // the task is being sent, or is about to be
	Ended        Code = "ended"           // the task is in a state in which that cannot be done
	TopicLimit   Code = "topic-limit"     // there are as many topics as there may be
	TopicInUse   Code = "topic-in-use"    // the topic has tasks that have not ended
	TooLarge     Code = "too-large"       // the request, or a task, is larger than it may be
	MediaType    Code = "media-type"      // the request has a Content-Type that is not understood here
	KeyReused    Code = "key-reused"      // the Idempotency-Key was used for another request
	Slow         Code = "too-slow"        // the body has come in so slowly that it was cut off
	Busy         Code = "busy"            // more is coming in than the database takes, or than there is room for
	DatabaseAway Code = "database-away"   // the database does not answer, and nothing was stored
	Unknown      Code = "outcome-unknown" // the database did not say whether it has stored what it was given
)

var statuses = map[Code]int{
	Invalid: http.StatusUnprocessableEntity, Unauthorized: http.StatusUnauthorized, Forbidden: http.StatusForbidden,
	NotFound: http.StatusNotFound, Exists: http.StatusConflict, InFlight: http.StatusConflict, Ended: http.StatusConflict,
	TopicLimit: http.StatusConflict, TopicInUse: http.StatusConflict,
	TooLarge: http.StatusRequestEntityTooLarge, MediaType: http.StatusUnsupportedMediaType,
	KeyReused: http.StatusUnprocessableEntity, Slow: http.StatusRequestTimeout,
	Busy: http.StatusServiceUnavailable, DatabaseAway: http.StatusServiceUnavailable,
	Unknown: http.StatusServiceUnavailable,
}

// Problem is an error that whoever sent the request can act on.
type Problem struct {
	Code   Code
	Detail string
	// Fields are the fields that are wrong, if it is about fields.
	Fields []Field
	// RetryAfter is when it is worth to try again. 0: trying again does not help.
	RetryAfter time.Duration
	// Cause is for the log; who asked does not see it. Nil: there is none.
	Cause error
}

// Field says what is wrong with a field, and what would be right.
type Field struct {
	// Pointer is where the field stands in the request: a JSON pointer (RFC 6901), ?name for a parameter of the query, or the name of a header.
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// New makes a problem that is not about a field.
func New(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// OfField makes a problem about one field.
func OfField(pointer, format string, args ...any) *Problem {
	return OfFields([]Field{{pointer, fmt.Sprintf(format, args...)}})
}

// OfFields makes a problem about fields, of which there must be one at least.
func OfFields(fields []Field) *Problem {
	detail := fields[0].Detail
	if at := fields[0].Pointer; at != "" { // else it is about the whole request
		detail = at + ": " + detail
	}
	if more := len(fields) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more, see errors)", more)
	}
	return &Problem{Code: Invalid, Detail: detail, Fields: fields}
}

func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// Status is the HTTP status of an answer with the problem.
func (p *Problem) Status() int { return statuses[p.Code] }

// MarshalJSON writes the problem as application/problem+json has it.
func (p *Problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type   string  `json:"type"`
		Title  string  `json:"title"`
		Status int     `json:"status"`
		Code   Code    `json:"code"`
		Detail string  `json:"detail"`
		Fields []Field `json:"errors,omitempty"`
	}{"about:blank", http.StatusText(p.Status()), p.Status(), p.Code, p.Detail, p.Fields})
}

// Write answers a request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	text, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Detail, p.Status())
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status())
	_, _ = w.Write(append(text, '\n')) // whoever asked may be gone
}
