package share

import (
	"crypto/sha256"
	"encoding/hex"
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
	if mark < 0 || len(instance) != 12 || !only(instance, hexadecimal) || taking == "" || !only(taking, "0123456789") {
		return Owner{}
	}
	o := Owner{Service: text[:mark], Instance: instance}
	o.Service, _, _ = strings.Cut(o.Service, identified)
	if at := strings.LastIndexByte(o.Service, '@'); at >= 0 {
		o.Service, o.Host = o.Service[:at], o.Service[at+1:]
	}
	if host, process, ok := strings.Cut(o.Host, "/"); ok {
		o.Host = host
		o.Process, _ = strconv.Atoi(process)
	}
	return o
}

// identified stands before the identity in an owner.
const identified = "#~"

// Identity is what stands in the owner of a life of what an application says it is: [Identified] puts it there. It is another one in another
// service.
func Identity(service, says string) string {
	sum := sha256.Sum256([]byte(service + "\x00" + says))
	return hex.EncodeToString(sum[:8])
}

// Identified puts an identity behind the readable part of an owner. Older versions do not find the process in such an owner, and find all else.
func Identified(readable, identity string) string { return readable + identified + identity }

// IdentityOf is the identity in the text of an owner; empty: there is none.
func IdentityOf(text string) string {
	const digits = 16
	if mark := strings.LastIndexByte(text, '#'); mark >= 0 {
		at := strings.LastIndex(text[:mark], identified) + len(identified)
		if at >= len(identified) && mark-at == digits && only(text[at:mark], hexadecimal) {
			return text[at:mark]
		}
	}
	return ""
}

// Taking writes the last part of an owner: a number that is new at every call, behind a zero and before five digits with the length of
// the leases, in seconds. Older versions wrote the number alone, without a zero.
func Taking(n int64, length time.Duration) string {
	return fmt.Sprintf("0%d%05d", n, min(length/time.Second, LengthMax))
}

// Governed is what Taking writes, for leases that others take from an instance which is buried. It has another zero before it.
func Governed(taking string) string { return "0" + taking }

// TakingOf is the number of the taking that an owner names, the length of its leases, and whether others take them from an instance which is
// buried. The number is 0 if an older version has written the text, or another library.
func TakingOf(text string) (n int64, length time.Duration, governed bool) {
	taking := text[strings.LastIndexByte(text, '.')+1:]
	if len(taking) <= LengthDigits+1 || taking[0] != '0' {
		return 0, 0, false
	}
	at := len(taking) - LengthDigits
	n, err := strconv.ParseInt(taking[:at], 10, 64)
	seconds, errLength := strconv.ParseUint(taking[at:], 10, 32)
	if err != nil || errLength != nil {
		return 0, 0, false
	}
	return n, time.Duration(seconds) * time.Second, taking[1] == '0'
}

const (
	LengthDigits = 5
	LengthMax    = 99_999 // as long or longer: the owner does not say so
)

const hexadecimal = "0123456789abcdef"

func only(text, characters string) bool { return strings.Trim(text, characters) == "" }

// Readable is the part of the text in locked_by that people read: service, host and process.
func Readable(text string) string {
	readable, _, _ := strings.Cut(text, "#")
	return readable
}
