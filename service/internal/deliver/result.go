package deliver

import (
	"fmt"
	"net/netip"
	"time"
)

// Result is what became of a call.
type Result struct {
	Outcome Outcome
	// Code says why, in one of few words; empty if the call succeeded.
	Code Code
	// Detail is Code in a sentence that names the cause and, where there is one, the remedy. It has nothing of the answer's body.
	Detail string
	// Wait is how long the task is to wait, if Outcome is Deferred: of few different values, so that many tasks settle in one
	// statement.
	Wait time.Duration
	// Until is when what keeps the call back ends, or when it will be seen whether it has ended; zero: not known.
	Until time.Time
	// Response is what the receiver answered; nil: no header came in.
	Response *Response
	// IP is the address that was asked, if there was a connection.
	IP netip.AddrPort
	// Timing says where the time went. It is zero if nothing was sent.
	Timing Timing
}

// Outcome is what becomes of the task.
type Outcome int

const (
	// Succeeded: the task is done.
	Succeeded Outcome = iota + 1
	// Retry: this attempt failed; another one may succeed.
	Retry
	// Failed: this attempt failed, and no other can succeed or is wanted.
	Failed
	// Deferred: this was no attempt. The destination is busy, paused or broken; the task is to wait for [Result.Wait] and be called again.
	Deferred
	// Aborted: this was no attempt. The context is over or the Deliverer is closed. The receiver may have got the request all the same.
	Aborted
)

func (o Outcome) String() string {
	names := [...]string{Succeeded: "succeeded", Retry: "retry", Failed: "failed", Deferred: "deferred", Aborted: "aborted"}
	if o < Succeeded || o > Aborted {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return names[o]
}

// IsAttempt reports whether the call counts as an attempt of the task.
func (o Outcome) IsAttempt() bool { return o == Succeeded || o == Retry || o == Failed }

// Code is the cause of an outcome. The set is closed, so that it can be counted, filtered, and translated.
type Code string

// Codes of calls that got no answer, or only part of it.
const (
	CodeInvalid        Code = "invalid"         // the call itself can never be sent, see Detail
	CodeBlocked        Code = "blocked-address" // the guard does not allow the address
	CodeDNS            Code = "dns"             // the host's name has no address
	CodeRefused        Code = "refused"         // nobody listens there
	CodeUnreachable    Code = "unreachable"     // there is no way to the address
	CodeConnectTimeout Code = "connect-timeout" // no connection in time: looked up, connected, TLS agreed
	CodeTLS            Code = "tls"             // the certificate is not valid, or there is no common version of TLS
	CodeProxy          Code = "proxy"           // the egress proxy could not connect
	CodeReset          Code = "reset"           // the connection ended before the answer was there
	CodeHeaderTimeout  Code = "header-timeout"  // no header in time, see Call.Timeout
	CodeBodyTimeout    Code = "body-timeout"    // no whole body in time, and the rules need the body
	CodeProtocol       Code = "protocol"        // the answer is not HTTP, or its header is too large
	CodeInternal       Code = "internal"        // the sender itself made a mistake, which its log describes
	CodeNetwork        Code = "network"         // anything else that went wrong on the way
)

// Codes of answers.
const (
	CodeStatus      Code = "status"      // the answer's status is no success
	CodeRedirect    Code = "redirect"    // 3xx; redirects are not followed
	CodeGone        Code = "gone"        // 410: the receiver wants no more calls
	CodePermanent   Code = "permanent"   // the receiver or the rules say that no retry helps
	CodeBody        Code = "body"        // the status is a success, but the body is not as the rules want it
	CodeRateLimited Code = "retry-after" // 429, or 503 with Retry-After
)

// Codes of calls that were not sent.
const (
	CodeBreakerOpen Code = "breaker-open" // the destination failed too often, see Destination
	CodeRate        Code = "rate"         // of the destination, see Limits.PerSecond, or of its slow start
	CodeBusy        Code = "busy"         // as many calls to the destination run as may
	CodeLocal       Code = "local"        // this process has no room: too many calls, files or ports
	CodeStopped     Code = "stopped"      // the context is over or the Deliverer is closed
)

// Response is what is kept of an answer.
type Response struct {
	Status int
	// Header has at most 20 headers, in the order of their names, and at most 4 KiB together.
	Header []HeaderField
	// Body has the first 4 KiB.
	Body []byte
	// Truncated: the body was longer than 64 KiB, slow or cut.
	Truncated bool
}

// HeaderField is one line of a header.
type HeaderField struct{ Name, Value string }

// Timing is where the time of a call went. What did not take place took 0, as connecting if a connection was there.
type Timing struct {
	Start     time.Time     // when the call was let in, without the wait for its place
	DNS       time.Duration // looking up the host
	Connect   time.Duration // TCP
	TLS       time.Duration
	FirstByte time.Duration // from the connection to the first byte of the answer
	Total     time.Duration
}
