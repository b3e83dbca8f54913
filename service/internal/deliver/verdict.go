package deliver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// evidence is what a call has brought to light.
type evidence struct {
	answered bool // a header came in
	status   int  // whatever the receiver says: 000, too
	header   http.Header
	body     []byte
	cut      bool  // the body was longer than is read, slow or cut
	err      error // of the transport, or of reading the body
}

// verdict is what it means.
type verdict struct {
	outcome Outcome
	code    Code
	detail  string
	pause   bool          // the receiver asks for a pause
	wait    time.Duration // as long as this, if it said so

	connection charge // to the breaker of the origin
	status     charge // to the breaker of the lane
	overload   bool   // fewer calls at a time would be better
}

// charge is what a call tells about its destination.
type charge int

const (
	neutral charge = iota
	success
	failure
)

// judge says what the evidence means. It never sees a call that ended because its context was over.
func judge(e evidence, rules *Rules, now time.Time) verdict {
	if !e.answered {
		return judgeError(e.err)
	}
	v := judgeAnswer(e, rules, now)
	v.connection = success
	return v
}

// isStatus reports whether a number can be the status of an answer. Three digits can be written that are none, and HTTP/2 takes any number.
func isStatus(status int) bool { return status >= 200 && status <= 599 }

// judgeAnswer goes by the status.
func judgeAnswer(e evidence, rules *Rules, now time.Time) verdict {
	asked, hasAsked := retryAfter(e.header, now)
	switch {
	case !isStatus(e.status):
		return verdict{outcome: Retry, code: CodeProtocol,
			status: failure, detail: fmt.Sprintf("the receiver answered %03d, which is no final status", e.status)}
	case isSuccess(e.status, rules):
		return judgeBody(e, rules)
	case e.header.Get("Pq-Retry") == "no":
		return verdict{outcome: Failed, code: CodePermanent, status: success,
			detail: fmt.Sprintf("the receiver answered %d with pq-retry: no", e.status)}
	case isPermanent(e.status, rules):
		return verdict{outcome: Failed, code: CodePermanent, status: success,
			detail: fmt.Sprintf("the receiver answered %d, which no retry can repair by the topic's rules", e.status)}
	case e.status == http.StatusGone:
		return verdict{outcome: Failed, code: CodeGone, detail: "the receiver answered 410: it wants no more calls"}
	case e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable && hasAsked:
		return verdict{outcome: Deferred, code: CodeRateLimited, pause: true, wait: asked, overload: true,
			detail: fmt.Sprintf("the receiver answered %d: it asks for a pause", e.status)}
	case e.status >= 300 && e.status <= 399:
		return verdict{outcome: Retry, code: CodeRedirect, status: failure, detail: redirectDetail(e)}
	}
	return verdict{outcome: Retry, code: CodeStatus, status: failure, overload: e.status == http.StatusServiceUnavailable,
		detail: fmt.Sprintf("the receiver answered %d", e.status)}
}

func redirectDetail(e evidence) string {
	const locationMax = 200
	location := WithoutValues(e.header.Get("Location")) // it may repeat the task's own address
	return fmt.Sprintf("the receiver answered %d; redirects are not followed, so use the right URL at once; Location: %.*q",
		e.status, locationMax, location)
}

// judgeBody looks at the body of a success, if the rules want to.
func judgeBody(e evidence, rules *Rules) verdict {
	if !rules.needBody() {
		return verdict{outcome: Succeeded, status: success}
	}
	if e.err != nil {
		v := judgeError(e.err)
		v.connection = neutral
		return v
	}
	if why := bodyMismatch(e, rules); why != "" {
		return verdict{outcome: Retry, code: CodeBody, status: failure, detail: fmt.Sprintf("the receiver answered %d, but %s", e.status, why)}
	}
	return verdict{outcome: Succeeded, status: success}
}

func bodyMismatch(e evidence, rules *Rules) string {
	if e.cut {
		return fmt.Sprintf("its body is longer than the %d KiB that are read", bodyReadMax>>10)
	}
	if encoding := e.header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fmt.Sprintf("its body is encoded as %.40q, for which the call did not ask: accept-encoding is identity", encoding)
	}
	body := bytes.TrimPrefix(e.body, []byte("\ufeff")) // some programs of Windows begin a text with it
	if rules.BodyEquals != "" && string(bytes.TrimSpace(body)) != rules.BodyEquals {
		return fmt.Sprintf("its body is not %.100q", rules.BodyEquals)
	}
	if len(rules.BodyJSON) == 0 {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return "its body is no JSON object"
	}
	for name, want := range rules.BodyJSON {
		if !sameJSON(fields[name], []byte(want)) {
			return fmt.Sprintf("the field %.100q of its body is not %.100s", name, want)
		}
	}
	return ""
}

// sameJSON reports whether two texts of JSON have the same value: 0 and 0.0 are the same, and so are objects in another order.
func sameJSON(a, b []byte) bool {
	x, okX := decoded(a)
	y, okY := decoded(b)
	return okX && okY && sameValue(x, y)
}

func decoded(text []byte) (value any, ok bool) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.UseNumber()
	return value, from.Decode(&value) == nil
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || decimalOf(string(a)) == decimalOf(string(b)))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	}
	return a == b
}

// decimal is a number of JSON: its digits without zeros at the ends, times a power of ten. A number with an exponent that no program reads
// keeps its text.
type decimal struct {
	minus  bool
	digits string
	power  int64
}

func decimalOf(text string) (d decimal) {
	number, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	power, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 32)
	if err != nil {
		return decimal{digits: text}
	}
	number, d.minus = strings.CutPrefix(number, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	d.power = power - int64(len(fraction))
	short := strings.TrimRight(d.digits, "0")
	if d.power += int64(len(d.digits) - len(short)); short == "" {
		return decimal{}
	}
	d.digits = short
	return d
}

func isSuccess(status int, rules *Rules) bool {
	if len(rules.Success) == 0 {
		return status >= 200 && status <= 299
	}
	return inRanges(status, rules.Success)
}

func isPermanent(status int, rules *Rules) bool {
	if rules.Strict4xx && slices.Contains([]int{400, 404, 405, 422}, status) {
		return true
	}
	return status == 489 || inRanges(status, rules.Permanent) // 489: what QStash has for it
}

func inRanges(status int, ranges []StatusRange) bool {
	return slices.ContainsFunc(ranges, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

// judgeError goes by what went wrong on the way.
func judgeError(err error) verdict {
	code := codeOf(err)
	v := verdict{outcome: Retry, code: code, detail: details[code]}
	switch code {
	case CodeBlocked:
		var blocked *BlockedError
		errors.As(err, &blocked)
		v.detail = blocked.Error() // without the address that a dialer's error names
	case CodeDNS, CodeRefused, CodeUnreachable, CodeConnectTimeout, CodeTLS:
		v.connection = failure
	case CodeHeaderTimeout, CodeBodyTimeout:
		v.connection, v.status, v.overload = success, failure, true
	case CodeReset, CodeProtocol, CodeNetwork:
		v.status = failure
	case CodeLocal:
		v.outcome = Deferred
	case CodeProxy:
		if isProxyDown(err) {
			v.outcome = Deferred
		}
	}
	return v
}

// details are sentences without the texts of errors: who may see a task need not see what stands behind a firewall.
var details = map[Code]string{
	CodeDNS:            "the host's name has no address; correct the URL or the name's records",
	CodeRefused:        "nobody listens at the host's port; start the receiver or correct the URL",
	CodeUnreachable:    "there is no way to the host's address; look at routes and firewalls",
	CodeConnectTimeout: "no connection came about in time; look at the receiver, at routes and firewalls",
	CodeTLS:            "TLS could not be agreed on; look at the receiver's certificate, its name and its date",
	CodeProxy:          "the egress proxy made no connection; look at the proxy and its rules",
	CodeReset:          "the receiver ended the connection before its answer was whole",
	CodeHeaderTimeout:  "the receiver did not begin to answer in time; make it faster, or give the task a longer timeout",
	CodeBodyTimeout:    "the body of the answer, which the rules need, did not come in time",
	CodeProtocol:       "the answer is not HTTP, or its header is longer than 64 KiB",
	CodeNetwork:        "the call failed on its way",
	CodeLocal:          "this process has no files or ports left for connections; raise its limit of open files",
	CodeRateLimited:    "the receiver has asked for a pause, which goes on",
	CodeBreakerOpen:    "the destination failed too often; it gets no calls for a while",
	CodeRate:           "the destination has as many calls a second as it may",
	CodeBusy:           "the destination has as many calls at a time as it may",
	CodeStopped:        "the run is over, or the service stops",
}
