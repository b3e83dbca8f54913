package deliver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	headersMax     = 50        // of a call
	headerBytesMax = 16 * 1024 // of all of them together; many servers refuse more
)

// reserved headers are those of the connection and of the protocol of callbacks.
var reserved = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Upgrade": true, "Expect": true, "Idempotency-Key": true, "X-Idempotency-Key": true, "Traceparent": true, "Accept-Encoding": true,
}

var reservedPrefixes = []string{"Proxy-", "Webhook-", "Pq-"}

// CheckHeader reports why headers may not be sent with a call: they belong to the connection or to the protocol of callbacks, such as
// Host, Content-Length and all that begin with webhook- or pq-, or they have characters that end a line.
func CheckHeader(header http.Header) error {
	size := 0
	if len(header) > headersMax {
		return fmt.Errorf("there are %d headers; use at most %d", len(header), headersMax)
	}
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("header %.40q has a character that no name may have; use letters, digits and -", name)
		}
		if isReserved(name) {
			return fmt.Errorf("header %q is set by the service; leave it out", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("header %q has a line break or a control character; leave it out", name)
			}
			size += len(name) + len(v)
		}
	}
	if size > headerBytesMax {
		return errors.New("the headers are longer than 16 KiB; send the rest in the body")
	}
	return nil
}

// CheckNames reports whether two headers have one name: X-A and x-a are the same to all receivers, and x_a is to many. Only one of them
// would reach the receiver's program.
func CheckNames(header map[string]string) error {
	seen := make(map[string]string, len(header))
	for name := range header {
		if other, twice := seen[plainName(name)]; twice {
			return fmt.Errorf("the headers %q and %q have the same name for many receivers; leave one out", min(name, other), max(name, other))
		}
		seen[plainName(name)] = name
	}
	return nil
}

// plainName is the name of a header as CGI, WSGI and PHP tell their programs: to them, pq_topic is pq-topic.
func plainName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

func isReserved(name string) bool {
	name = plainName(name)
	if reserved[name] {
		return true
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
