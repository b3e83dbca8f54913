package deliver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEachAnswerMeansWhatTheTableSays(t *testing.T) {
	type wanted struct {
		outcome  Outcome
		code     Code
		status   charge
		overload bool
		wait     time.Duration
	}
	ra := http.Header{"Retry-After": {"30"}}
	no := http.Header{"Pq-Retry": {"no"}}
	for _, c := range []struct {
		what   string
		e      evidence
		rules  Rules
		wanted wanted
	}{
		{"200", evidence{answered: true, status: 200}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"204", evidence{answered: true, status: 204}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"299", evidence{answered: true, status: 299}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"200, cut", evidence{answered: true, status: 200, cut: true, err: io.ErrUnexpectedEOF}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"200, slow", evidence{answered: true, status: 200, cut: true, err: errBodyTimeout}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"200, no success", evidence{answered: true, status: 200}, Rules{Success: []StatusRange{{201, 204}}}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"404, a success", evidence{answered: true, status: 404}, Rules{Success: []StatusRange{{200, 299}, {404, 404}}}, wanted{Succeeded, "", success, false, 0}},
		{"302", evidence{answered: true, status: 302}, Rules{}, wanted{Retry, CodeRedirect, failure, false, 0}},
		{"304", evidence{answered: true, status: 304}, Rules{}, wanted{Retry, CodeRedirect, failure, false, 0}},
		{"400", evidence{answered: true, status: 400}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"400, strict", evidence{answered: true, status: 400}, Rules{Strict4xx: true}, wanted{Failed, CodePermanent, success, false, 0}},
		{"403, strict", evidence{answered: true, status: 403}, Rules{Strict4xx: true}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"408", evidence{answered: true, status: 408}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"410", evidence{answered: true, status: 410}, Rules{}, wanted{Failed, CodeGone, neutral, false, 0}},
		{"425", evidence{answered: true, status: 425}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"429", evidence{answered: true, status: 429}, Rules{}, wanted{Deferred, CodeRateLimited, neutral, true, 0}},
		{"429, until", evidence{answered: true, status: 429, header: ra}, Rules{}, wanted{Deferred, CodeRateLimited, neutral, true, 30 * time.Second}},
		{"429, permanent", evidence{answered: true, status: 429}, Rules{Permanent: []StatusRange{{400, 499}}}, wanted{Failed, CodePermanent, success, false, 0}},
		{"489", evidence{answered: true, status: 489}, Rules{}, wanted{Failed, CodePermanent, success, false, 0}},
		{"500", evidence{answered: true, status: 500}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"500, Retry-After", evidence{answered: true, status: 500, header: ra}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"500, no retry", evidence{answered: true, status: 500, header: no}, Rules{}, wanted{Failed, CodePermanent, success, false, 0}},
		{"200, no retry", evidence{answered: true, status: 200, header: no}, Rules{}, wanted{Succeeded, "", success, false, 0}},
		{"503", evidence{answered: true, status: 503}, Rules{}, wanted{Retry, CodeStatus, failure, true, 0}},
		{"503, until", evidence{answered: true, status: 503, header: ra}, Rules{}, wanted{Deferred, CodeRateLimited, neutral, true, 30 * time.Second}},
		{"599", evidence{answered: true, status: 599}, Rules{}, wanted{Retry, CodeStatus, failure, false, 0}},
		{"600", evidence{answered: true, status: 600}, Rules{}, wanted{Retry, CodeProtocol, failure, false, 0}},
		{"101", evidence{answered: true, status: 101}, Rules{}, wanted{Retry, CodeProtocol, failure, false, 0}},

		{"body ok", evidence{answered: true, status: 200, body: []byte(" ok\n")}, Rules{BodyEquals: "ok"}, wanted{Succeeded, "", success, false, 0}},
		{"body not ok", evidence{answered: true, status: 200, body: []byte("ok.")}, Rules{BodyEquals: "ok"}, wanted{Retry, CodeBody, failure, false, 0}},
		{"body too long", evidence{answered: true, status: 200, body: []byte("ok"), cut: true}, Rules{BodyEquals: "ok"}, wanted{Retry, CodeBody, failure, false, 0}},
		{"body slow", evidence{answered: true, status: 200, err: errBodyTimeout}, Rules{BodyEquals: "ok"}, wanted{Retry, CodeBodyTimeout, failure, true, 0}},
		{"body cut", evidence{answered: true, status: 200, err: io.ErrUnexpectedEOF}, Rules{BodyEquals: "ok"}, wanted{Retry, CodeReset, failure, false, 0}},
		{"field ok", evidence{answered: true, status: 200, body: []byte(`{"code": 0, "d":{ "a" : 1 }}`)}, Rules{BodyJSON: map[string]string{"code": "0", "d": `{"a":1}`}}, wanted{Succeeded, "", success, false, 0}},
		{"field 0.0", evidence{answered: true, status: 200, body: []byte(`{"code":-0.00e3}`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Succeeded, "", success, false, 0}},
		{"field in another order", evidence{answered: true, status: 200, body: []byte(`{"d":{"b":[1.50e2,true],"a":null}}`)}, Rules{BodyJSON: map[string]string{"d": `{"a":null,"b":[150,true]}`}}, wanted{Succeeded, "", success, false, 0}},
		{"field in an order", evidence{answered: true, status: 200, body: []byte(`{"d":[1,2]}`)}, Rules{BodyJSON: map[string]string{"d": `[2,1]`}}, wanted{Retry, CodeBody, failure, false, 0}},
		{"field as a text", evidence{answered: true, status: 200, body: []byte(`{"code":"0"}`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Retry, CodeBody, failure, false, 0}},
		{"field nearly", evidence{answered: true, status: 200, body: []byte(`{"code":1e-400}`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Retry, CodeBody, failure, false, 0}},
		{"field after a mark", evidence{answered: true, status: 200, body: []byte("\ufeff{\"code\":0}")}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Succeeded, "", success, false, 0}},
		{"body after a mark", evidence{answered: true, status: 200, body: []byte("\ufeffok\n")}, Rules{BodyEquals: "ok"}, wanted{Succeeded, "", success, false, 0}},
		{"body encoded", evidence{answered: true, status: 200, header: http.Header{"Content-Encoding": {"gzip"}}, body: []byte("\x1f\x8b")}, Rules{BodyEquals: "ok"}, wanted{Retry, CodeBody, failure, false, 0}},
		{"field wrong", evidence{answered: true, status: 200, body: []byte(`{"code":1}`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Retry, CodeBody, failure, false, 0}},
		{"field missing", evidence{answered: true, status: 200, body: []byte(`{}`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Retry, CodeBody, failure, false, 0}},
		{"no JSON", evidence{answered: true, status: 200, body: []byte(`<html>`)}, Rules{BodyJSON: map[string]string{"code": "0"}}, wanted{Retry, CodeBody, failure, false, 0}},
	} {
		v := judge(c.e, &c.rules, testTime)
		if got := (wanted{v.outcome, v.code, v.status, v.overload, v.wait}); got != c.wanted || v.connection != success && v.code != CodeReset {
			t.Errorf("%s: %+v, connection %v; want %+v", c.what, got, v.connection, c.wanted)
		}
		if (v.detail == "") != (v.outcome == Succeeded) {
			t.Errorf("%s: detail %q", c.what, v.detail)
		}
	}
}

func TestEachErrorHasItsCodeAndItsBreaker(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err                error
		outcome            Outcome
		code               Code
		connection, status charge
	}{
		{&net.DNSError{Err: "no such host"}, Retry, CodeDNS, failure, neutral},
		{&net.DNSError{Err: "no answer", IsTimeout: true}, Retry, CodeDNS, failure, neutral},
		{dial(syscall.ECONNREFUSED), Retry, CodeRefused, failure, neutral},
		{dial(syscall.ENETUNREACH), Retry, CodeUnreachable, failure, neutral},
		{dial(syscall.EHOSTUNREACH), Retry, CodeUnreachable, failure, neutral},
		{dial(timeoutError{}), Retry, CodeConnectTimeout, failure, neutral},
		{errConnectTimeout, Retry, CodeConnectTimeout, failure, neutral},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Retry, CodeTLS, failure, neutral},
		{tls.RecordHeaderError{}, Retry, CodeTLS, failure, neutral},
		{&handshakeError{io.EOF}, Retry, CodeTLS, failure, neutral},
		{&handshakeError{timeoutError{}}, Retry, CodeConnectTimeout, failure, neutral},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), Retry, CodeReset, neutral, failure},
		{io.EOF, Retry, CodeReset, neutral, failure},
		{io.ErrUnexpectedEOF, Retry, CodeReset, neutral, failure},
		{errHeaderTimeout, Retry, CodeHeaderTimeout, success, failure},
		{errors.New("malformed HTTP response"), Retry, CodeProtocol, neutral, failure},
		{errors.New("something new"), Retry, CodeNetwork, neutral, failure},
		{dial(&BlockedError{Host: "shop.example", Range: "private networks"}), Retry, CodeBlocked, neutral, neutral},
		{dial(syscall.EMFILE), Deferred, CodeLocal, neutral, neutral},
		{dial(syscall.EADDRNOTAVAIL), Deferred, CodeLocal, neutral, neutral},
		{&proxyError{403}, Retry, CodeProxy, neutral, neutral},
		{&net.OpError{Op: "proxyconnect", Err: dial(syscall.ECONNREFUSED)}, Deferred, CodeProxy, neutral, neutral},
	} {
		v := judge(evidence{err: c.err}, &Rules{}, testTime)
		if v.outcome != c.outcome || v.code != c.code || v.connection != c.connection || v.status != c.status || v.detail == "" {
			t.Errorf("%v: %+v", c.err, v)
		}
		if strings.Contains(v.detail, "dial tcp") || strings.Contains(v.detail, c.err.Error()) && v.code != CodeBlocked {
			t.Errorf("%v: the detail shows an error's text: %s", c.err, v.detail)
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "i/o timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestRetryAfterIsReadInSecondsAndAsADate(t *testing.T) {
	at := func(d time.Duration) string { return testTime.Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		text, date string
		wait       time.Duration
		found      bool
	}{
		{"", "", 0, false}, {"soon", "", 0, false}, {"-5", "", 0, false}, {"1e9", "", 0, false}, {"0x10", "", 0, false}, {"5, 6", "", 0, false},
		{"0", "", 0, true}, {"120", "", 2 * time.Minute, true}, {" 7 ", "", 7 * time.Second, true}, {"3600", "", time.Hour, true},
		{"3601", "", time.Hour, true}, {strings.Repeat("9", 400), "", time.Hour, true},
		{at(90 * time.Second), "", 90 * time.Second, true}, {at(-time.Hour), "", 0, true}, {at(1000 * time.Hour), "", time.Hour, true},
		{at(90 * time.Second), at(80 * time.Second), 10 * time.Second, true}, {at(90 * time.Second), "never", 90 * time.Second, true},
	} {
		h := http.Header{"Retry-After": {c.text}, "Date": {c.date}}
		if wait, found := retryAfter(h, testTime); wait != c.wait || found != c.found {
			t.Errorf("%.40q with the date %q: %v, %v", c.text, c.date, wait, found)
		}
	}
}

func FuzzRetryAfterIsBounded(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT"} {
		f.Add(s, "")
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		wait, found := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, testTime)
		if wait < 0 || wait > retryAfterMax || wait%time.Second != 0 || !found && wait != 0 {
			t.Fatalf("%q with the date %q: %v, %v", text, date, wait, found)
		}
	})
}
