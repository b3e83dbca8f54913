package task

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

var (
	topicName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)
	methods   = []string{"POST", "PUT", "PATCH", "GET", "DELETE", "HEAD"}
)

// TopicRule says what a topic may be called.
const TopicRule = "a topic's name has 1 to 100 of a-z 0-9 . _ -, and begins with a letter or digit"

// IsTopic reports whether a topic may be called that.
func IsTopic(name string) bool { return topicName.MatchString(name) }

// Check reports what is wrong with a task that was not read by Parse.
func Check(t *Task) *problem.Problem {
	p := &parser{}
	p.check(t)
	return p.problem()
}

// check says what is wrong with a task whose fields can be read.
func (p *parser) check(t *Task) {
	if !IsTopic(t.Topic) {
		p.say("/topic", "%s", TopicRule)
	}
	if !t.At.IsZero() && t.Delay != 0 {
		p.say("/delay", "a task has at or delay, not both; leave one out")
	}
	if t.Delay > DelayMax {
		p.say("/delay", "%v", errDelay)
	}
	if !t.At.IsZero() && !inTime(t.At) {
		p.say("/at", "%v", errTime)
	}
	if p.strict && !t.At.IsZero() && IsTooLate(t.Expires, t.At) {
		p.say("/expires", "the task would have expired when it is due; let it expire later, or be due earlier")
	}
	p.checkKey("/name", t.Name)
	p.checkKey("/key", t.Key)
	if strings.HasPrefix(t.Name, FailurePrefix) {
		p.say("/name", "names that begin with %s are those of the tasks that tell of failures; take another one", FailurePrefix)
	}
	if t.Name == "" && t.OnConflict != Keep && t.OnConflict != "" {
		p.say("/on_conflict", "a task without a name has no conflict; give it a name")
	}
	p.checkContent(&t.Content)
}

// IsTooLate reports whether a task has expired when it is due: then it is never sent. The time when it is due is stored in whole seconds, the
// later one.
func IsTooLate(expires, due time.Time) bool {
	second := due.Truncate(time.Second)
	if second.Before(due) {
		second = second.Add(time.Second)
	}
	return !expires.IsZero() && !second.Before(expires)
}

// CanBeKey reports whether a task can have that name or key. The databases do not even take some texts to look for.
func CanBeKey(text string) bool {
	p := &parser{}
	p.checkKey("", text)
	return len(p.wrong) == 0
}

func (p *parser) checkKey(at, key string) {
	switch n := utf8.RuneCountInString(key); {
	case !utf8.ValidString(key):
		p.say(at, "it is not UTF-8")
	case n > NameMax:
		p.say(at, "it has %d characters, and the most is %d", n, NameMax)
	case strings.TrimSpace(key) != key || strings.ContainsRune(key, 0):
		p.say(at, "it has white space at an end, or a zero in it; take that away")
	}
}

func (p *parser) checkContent(c *Content) {
	p.checkURL("/url", c.URL)
	if !slices.Contains(methods, c.Method) {
		p.say("/method", "it is to be one of %s", strings.Join(methods, ", "))
	}
	if p.bodies > 1 {
		p.say("", "a task has one of body, body_text and body_base64; leave the others out")
	}
	if len(c.Body) > BodyMax {
		p.say("/body", "it has %d bytes, and the most is %d; store it elsewhere and send its address", len(c.Body), BodyMax)
	}
	if c.Timeout != 0 && (c.Timeout < TimeoutMin || c.Timeout > TimeoutMax) {
		p.say("/timeout", "it is to be from %v to %v", TimeoutMin, TimeoutMax)
	}
	if !httpguts.ValidHeaderFieldValue(c.ContentType) { // the deliverer would not send it
		p.say("/content_type", "it has a line break or a control character in it")
	}
	if len(c.Labels) > labelsMax {
		p.say("/labels", "there are %d, and the most is %d", len(c.Labels), labelsMax)
	}
}

// checkURL looks at the form only. Where the address leads, and which headers may be sent, is the deliverer's to judge.
func (p *parser) checkURL(at, address string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		p.say(at, "it is missing: the address that is called")
	case len(address) > URLMax:
		p.say(at, "it has %d bytes, and the most is %d", len(address), URLMax)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.say(at, "it must be a URL such as https://shop.example/cancel")
	}
}
