package share

import (
	"regexp"
	"strconv"
	"strings"
)

// Owner is who holds a lease, or held it last.
type Owner struct {
	Service  string
	Host     string
	Process  int    // its number on that host; 0: it is not known
	Instance string // the same in all leases of an instance, and in no others
}

var owned = regexp.MustCompile(`^(.*?)(?:@([^@]*))?#([0-9a-f]{12})\.\d+$`)

// OwnerOf takes the text in locked_by apart, which a keeper has written. It is empty if an older version has written the text, or
// another library.
func OwnerOf(text string) (o Owner) {
	m := owned.FindStringSubmatch(text)
	if m == nil {
		return Owner{}
	}
	o = Owner{Service: m[1], Host: m[2], Instance: m[3]}
	if host, process, ok := strings.Cut(m[2], "/"); ok {
		o.Host = host
		o.Process, _ = strconv.Atoi(process)
	}
	return o
}

// Readable is the part of the text in locked_by that people read: service, host and process.
func Readable(text string) string {
	readable, _, _ := strings.Cut(text, "#")
	return readable
}
