package task

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
)

// Parse reads a task as the API takes it. The fields of an error stand below the pointer at: "" for a request that is the task itself,
// "/tasks/17" for the eighteenth of a batch. All that is wrong is said at once.
func Parse(text []byte, at string, from Defaults) (*Task, *problem.Problem) {
	t := &Task{Content: Content{Method: "POST"}, Topic: from.Topic, Name: from.Name, OnConflict: from.OnConflict}
	p := &parser{at: at, strict: !from.Stored}
	if p.object(text, "", taskFields, t) {
		if err := deliver.CheckNames(t.Headers); err != nil {
			p.say("/headers", "%v", err)
		}
		if p.settleType(&t.Content) {
			p.say("/content_type", "the header content-type says something else; give the type once, here or there")
		}
		p.agree(t, from)
		p.check(t)
	}
	return t, p.problem()
}

// Defaults are what the path of a request says of a task. The task may say the same, and nothing else.
type Defaults struct {
	Topic, Name string
	OnConflict  Conflict
	Stored      bool // it was taken before, perhaps by an earlier version that took more
}

func (p *parser) agree(t *Task, from Defaults) {
	if from.Topic != "" && t.Topic != from.Topic {
		p.say("/topic", "it is %q in the path of the request; leave it out here", from.Topic)
	}
	if from.Name != "" && t.Name != from.Name {
		p.say("/name", "it is %q in the path of the request; leave it out here", from.Name)
	}
}

// ParseContent reads the parameters of a task's job.
func ParseContent(params string) (*Content, *problem.Problem) {
	t := &Task{Content: Content{Method: "POST"}}
	p := &parser{}
	if p.object([]byte(params), "", contentFields, t) {
		p.settleType(&t.Content) // if it is given twice, content_type counts
		p.checkContent(&t.Content)
	}
	return &t.Content, p.problem()
}

// ParseRetry reads a retry that stands in something else, such as a topic. If it is strict, what says nothing is wrong.
func ParseRetry(text []byte, at string, strict bool) (*Retry, []problem.Field) {
	p := &parser{at: at, strict: strict}
	r := p.retry(text, "")
	return r, p.wrong
}

// ParseDuration reads a duration that stands in something else: a text such as "90s".
func ParseDuration(text []byte) (time.Duration, error) { return duration(text) }

// parser gathers what is wrong.
type parser struct {
	at     string
	strict bool // what has no effect is wrong
	wrong  []problem.Field
	bodies int    // fields that give a body
	usual  string // what the body has as its type if nobody says another
}

// settleType says of which type the body is: what content_type says, or the header, or what the field of the body stands for. The header
// goes, so that there is one place for it. It reports whether both say something, and not the same.
func (p *parser) settleType(c *Content) (twice bool) {
	for name, value := range c.Headers {
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			twice = c.ContentType != "" && c.ContentType != value
			c.ContentType = cmp.Or(c.ContentType, value)
			delete(c.Headers, name)
		}
	}
	c.ContentType = cmp.Or(c.ContentType, p.usual)
	return twice
}

// say notes what is wrong with a field. What is said first counts: the rest follows from it.
func (p *parser) say(pointer, format string, args ...any) {
	at := p.at + pointer
	if !slices.ContainsFunc(p.wrong, func(f problem.Field) bool { return f.Pointer == at }) {
		p.wrong = append(p.wrong, problem.Field{Pointer: at, Detail: fmt.Sprintf(format, args...)})
	}
}

// problem is all that is wrong, in the order of the fields; nil if nothing is.
func (p *parser) problem() *problem.Problem {
	if len(p.wrong) == 0 {
		return nil
	}
	slices.SortFunc(p.wrong, func(a, b problem.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return problem.OfFields(p.wrong)
}

// fields are what an object may have, each with what reads it.
type fields map[string]func(p *parser, value json.RawMessage, t *Task, pointer string)

var contentFields = fields{
	"url":    func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.URL) },
	"method": func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.Method) },
	"headers": func(p *parser, v json.RawMessage, t *Task, at string) {
		t.Headers = p.texts(v, at)
	},
	"content_type": func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.ContentType) },
	"body":         (*parser).body,
	"body_text":    (*parser).bodyText,
	"body_base64":  (*parser).bodyBase64,
	"timeout":      (*parser).timeout,
	"retry":        func(p *parser, v json.RawMessage, t *Task, at string) { t.Retry = p.retry(v, at) },
	"expires":      func(p *parser, v json.RawMessage, t *Task, at string) { p.time(v, at, &t.Expires) },
	"on_failure":   (*parser).onFailure,
	"labels":       func(p *parser, v json.RawMessage, t *Task, at string) { t.Labels = p.texts(v, at) },
}

var taskFields = func() fields {
	all := maps.Clone(contentFields)
	maps.Copy(all, fields{
		"topic":       func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.Topic) },
		"name":        func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.Name) },
		"key":         func(p *parser, v json.RawMessage, t *Task, at string) { p.text(v, at, &t.Key) },
		"at":          func(p *parser, v json.RawMessage, t *Task, at string) { p.time(v, at, &t.At) },
		"delay":       func(p *parser, v json.RawMessage, t *Task, at string) { p.duration(v, at, &t.Delay) },
		"priority":    (*parser).priority,
		"on_conflict": (*parser).conflict,
	})
	return all
}()

// object reads an object field by field, so each error has its pointer. It reports whether it is an object at all.
func (p *parser) object(text []byte, at string, known fields, t *Task) bool {
	members := p.members(text, at)
	for name, value := range members {
		read, ok := known[name]
		switch pointer := at + "/" + object.Escaped(name); {
		case !ok:
			p.say(pointer, "there is no such field; there are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !bytes.Equal(value, []byte("null")): // null means that the field is not given
			read(p, value, t, pointer)
		}
	}
	return members != nil
}

func (p *parser) members(text []byte, at string) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if !utf8.Valid(text) {
		p.say(at, "it is not UTF-8; send JSON in UTF-8")
		return nil
	}
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		p.say(at, "it is no JSON object%s", because(err))
	}
	if p.strict {
		if name, twice := object.Twice(text, len(members)); twice {
			p.say(at+"/"+object.Escaped(name), "it comes twice; send it once")
		}
	}
	return members
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + strings.TrimPrefix(err.Error(), "json: ")
}

func (p *parser) text(v json.RawMessage, at string, target *string) {
	switch {
	case json.Unmarshal(v, target) != nil:
		p.say(at, "it is to be a text")
	case p.strict && object.IsHalved(v):
		p.say(at, "%s", object.Halved)
	}
}

// texts reads an object of texts.
func (p *parser) texts(v json.RawMessage, at string) (texts map[string]string) {
	texts, wrong := object.ReadTexts(v, at, p.strict)
	for _, f := range wrong {
		p.say(f.Pointer, "%s", f.Detail)
	}
	return texts
}

func (p *parser) timeout(v json.RawMessage, t *Task, at string) {
	if p.duration(v, at, &t.Timeout); t.Timeout == 0 && p.strict { // else checkContent looks at it
		p.say(at, "it is to be from %v to %v", TimeoutMin, TimeoutMax)
	}
}

func (p *parser) duration(v json.RawMessage, at string, target *time.Duration) {
	var err error
	if *target, err = duration(v); err != nil {
		p.say(at, "%v", err)
	}
}

func duration(v json.RawMessage) (time.Duration, error) {
	var text string
	if json.Unmarshal(v, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d, nil
		}
	}
	return 0, fmt.Errorf(`it is to be a duration of 0 or more, such as "90s", "15m" or "1h30m"`)
}

var errDelay = fmt.Errorf("it is to be %v (ten years) at most", DelayMax)

// ParseDelay reads how long from now a task is due.
func ParseDelay(text []byte) (time.Duration, error) {
	d, err := duration(text)
	if err == nil && d > DelayMax {
		err = errDelay
	}
	return d, err
}

// time takes RFC 3339 and unix seconds.
func (p *parser) time(v json.RawMessage, at string, target *time.Time) {
	when, err := ParseTimeJSON(v)
	if err != nil {
		p.say(at, "%v", err)
	}
	*target = when
}

// ParseTimeJSON is ParseTime for a text or a number of JSON. In a text, some encoders escape characters that stand in times, such as the plus.
func ParseTimeJSON(v []byte) (time.Time, error) {
	text := string(v)
	if strings.HasPrefix(text, `"`) && json.Unmarshal(v, &text) != nil {
		return time.Time{}, errTime
	}
	return ParseTime(text)
}

// ParseTime reads a time: RFC 3339, or unix seconds.
func ParseTime(text string) (time.Time, error) {
	when, err := time.Parse(time.RFC3339, text)
	if second, asNumber := strconv.ParseInt(text, 10, 64); asNumber == nil {
		when, err = time.Unix(second, 0), nil
	}
	if err != nil || !inTime(when) {
		return time.Time{}, errTime
	}
	return when, nil
}

var errTime = errors.New(`it is to be a time between 1970 and 2106: RFC 3339 such as "2030-12-01T09:00:00Z", or unix seconds`)

// inTime reports whether the column holds a time. A part of a second is rounded up.
func inTime(t time.Time) bool { return t.Unix() >= 0 && !t.After(time.Unix(LatestUnix, 0)) }

var priorities = map[string]queue_job.Priority{
	"low": queue_job.PriorityLow, "normal": queue_job.PriorityNormal, "high": queue_job.PriorityHigh, "urgent": queue_job.PriorityUrgent,
}

// ParsePriority reads a priority.
func ParsePriority(v json.RawMessage) (queue_job.Priority, error) {
	var name string
	_ = json.Unmarshal(v, &name) // what is no text has no priority
	if priority, ok := priorities[name]; ok {
		return priority, nil
	}
	return 0, fmt.Errorf(`it is to be "low", "normal", "high" or "urgent"`)
}

func (p *parser) priority(v json.RawMessage, t *Task, at string) {
	var err error
	if t.Priority, err = ParsePriority(v); err != nil {
		p.say(at, "%v", err)
	}
}

func (p *parser) conflict(v json.RawMessage, t *Task, at string) {
	_ = json.Unmarshal(v, &t.OnConflict)
	if !slices.Contains([]Conflict{Keep, Replace, Error}, t.OnConflict) {
		p.say(at, `it is to be "keep", "replace" or "error"`)
	}
}

func (p *parser) onFailure(v json.RawMessage, t *Task, at string) {
	for name, value := range p.members(v, at) {
		if name == "url" {
			p.text(value, at+"/url", &t.OnFailure)
		} else {
			p.say(at+"/"+object.Escaped(name), "there is no such field; there is url")
		}
	}
	p.checkURL(at+"/url", t.OnFailure)
}

func (p *parser) retry(v json.RawMessage, at string) *Retry {
	r, members, given := &Retry{}, p.members(v, at), 0
	for name, value := range members {
		pointer, isGiven := at+"/"+object.Escaped(name), !bytes.Equal(value, []byte("null"))
		if isGiven {
			given++
		}
		switch {
		case name == "waits" && isGiven:
			p.waits(value, pointer, r)
		case name == "max_attempts" && isGiven:
			if json.Unmarshal(value, &r.MaxAttempts) != nil || r.MaxAttempts < 1 || r.MaxAttempts > AttemptsMax {
				p.say(pointer, "it is to be a number from 1 to %d; 1 means that nothing is sent again", AttemptsMax)
			}
		case name != "waits" && name != "max_attempts":
			p.say(pointer, "there is no such field; there are max_attempts, waits")
		}
	}
	if p.strict && r.MaxAttempts > 0 && len(r.Waits) >= r.MaxAttempts {
		p.say(at+"/max_attempts", "it is the first attempt and %d more, and there are %d waits; leave out the waits that are too many, or raise it",
			r.MaxAttempts-1, len(r.Waits))
	}
	if p.strict && members != nil && given == 0 {
		p.say(at, "it says nothing; set waits, or max_attempts, of which 1 means that nothing is sent again")
	}
	return r
}

func (p *parser) waits(v json.RawMessage, at string, r *Retry) {
	var texts []json.RawMessage
	if json.Unmarshal(v, &texts) != nil || len(texts) > waitsMax {
		p.say(at, `it is to be a list of at most %d durations, such as ["5s", "1m", "1h"]`, waitsMax)
		return
	}
	for i, text := range texts {
		wait, err := duration(text)
		if err == nil && wait > waitMax {
			err = fmt.Errorf("a wait is at most %v", waitMax)
		}
		if err != nil {
			p.say(at+"/"+strconv.Itoa(i), "%v", err)
		}
		r.Waits = append(r.Waits, wait)
	}
}

func (p *parser) body(v json.RawMessage, t *Task, _ string) {
	p.bodies++
	t.Body = v // as it came: no white space, number or order changes
	p.usual = "application/json"
}

func (p *parser) bodyText(v json.RawMessage, t *Task, at string) {
	p.bodies++
	var text string
	p.text(v, at, &text)
	t.Body = []byte(text)
	p.usual = "text/plain; charset=utf-8"
}

func (p *parser) bodyBase64(v json.RawMessage, t *Task, at string) {
	p.bodies++
	var text string
	p.text(v, at, &text)
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		p.say(at, "it is to be base64 with padding (RFC 4648, section 4)")
	}
	t.Body = bytes
	p.usual = "application/octet-stream"
}

// asText returns a body as a text, if a text of JSON can hold it unchanged.
func asText(body []byte) (string, bool) { return string(body), utf8.Valid(body) }
