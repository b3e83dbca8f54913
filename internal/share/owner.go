package share

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Owner is who holds a lease, or held it last.
type Owner struct {
	Service  string
	Host     string
	Process  int    // its number on that host; 0: it is not known
	Instance string // the same in all leases of an instance, and in no others
}

// OwnerOf takes the text in locked_by apart, which a keeper has written: service@host/process#instance.taking. It is empty if an
// older version has written the text, or another library.
func OwnerOf(text string) Owner {
	mark := strings.LastIndexByte(text, '#')
	instance, taking, _ := strings.Cut(text[mark+1:], ".")
	if mark < 0 || len(instance) != 12 || !only(instance, "0123456789abcdef") || taking == "" || !only(taking, "0123456789") {
		return Owner{}
	}
	o := Owner{Service: text[:mark], Instance: instance}
	if at := strings.LastIndexByte(o.Service, '@'); at >= 0 {
		o.Service, o.Host = text[:at], text[at+1:mark]
	}
	if host, process, ok := strings.Cut(o.Host, "/"); ok {
		o.Host = host
		o.Process, _ = strconv.Atoi(process)
	}
	return o
}

// Taking writes the last part of an owner: a number that is new at every call, behind a zero and before five digits with the length of
// the leases, in seconds. Older versions wrote the number alone, without a zero.
func Taking(n int64, length time.Duration) string {
	return fmt.Sprintf("0%d%05d", n, min(length/time.Second, LengthMax))
}

const (
	LengthDigits = 5
	LengthMax    = 99_999 // as long or longer: the owner does not say so
)

func only(text, characters string) bool { return strings.Trim(text, characters) == "" }

// Readable is the part of the text in locked_by that people read: service, host and process.
func Readable(text string) string {
	readable, _, _ := strings.Cut(text, "#")
	return readable
}
