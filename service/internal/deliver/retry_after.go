package deliver

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfterMax bounds for how long a receiver can stop the calls to it; then they try again.
const retryAfterMax = time.Hour

// retryAfter reads for how long a receiver asks to be left alone: up to retryAfterMax, in whole seconds, rounded up. Absent or without
// sense, it is not found. A date counts from the receiver's own clock, if it told that by the header Date.
func retryAfter(header http.Header, now time.Time) (wait time.Duration, found bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseUint(text, 10, 32)
		if err != nil || seconds > uint64(retryAfterMax/time.Second) { // more digits than fit are many seconds, too
			return retryAfterMax, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(header.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(wholeSeconds(until.Sub(now)), 0), retryAfterMax), true
}
