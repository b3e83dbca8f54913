package store

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The end of a job in time stands in its metadata. So it costs the many jobs that have none nothing: no column is read for it, no text is
// longer, and nothing is asked of a row without metadata. It goes wherever the metadata go (an INSERT in any language, a replaced job, an archive),
// and tables need not be changed for it.
const (
	// MetaExpires is the name in the metadata, and its value is a time as in RFC 3339. What is no such time is no end.
	MetaExpires = "pqueue.expires"
	// MetaLifted takes its place when somebody has the job run again: that end does not count any more.
	MetaLifted = "pqueue.expired"
)

// MetaTags is the name in the metadata of the tags of a job, with commas between them.
const MetaTags = "pqueue.tags"

// ReservedMeta are the names in the metadata that are the library's.
var ReservedMeta = []string{MetaExpires, MetaLifted, MetaTags, MetaFlow}

// ExpiresLayout is how an end is written: in milliseconds, as the clock that it is compared with has them.
const ExpiresLayout = "2006-01-02T15:04:05.000Z"

// WithEnd returns metadata, as they stand in a row, with an end in unix milliseconds. They have none yet.
func WithEnd(meta string, end int64) string {
	text := `{"` + MetaExpires + `":"` + time.UnixMilli(end).UTC().Format(ExpiresLayout) + `"`
	if rest := strings.TrimPrefix(meta, "{"); rest != "" && rest != "}" {
		return text + "," + rest
	}
	return text + "}"
}

// ExtraOf is what metadata say of a row.
func ExtraOf(meta string) *Extra {
	extra := &Extra{Meta: meta}
	if strings.Contains(meta, `"`+MetaExpires+`"`) {
		var of map[string]string
		if json.Unmarshal([]byte(meta), &of) == nil {
			extra.Expires = expiresOf(of[MetaExpires])
		}
	}
	extra.Node = nodeOf(meta)
	return extra
}

// nodeOf is the node of a flow of which metadata say that it is the row's; 0: none.
func nodeOf(meta string) (node uint64) {
	if _, after, found := strings.Cut(meta, `"`+MetaFlow+`":"`); found {
		number, _, _ := strings.Cut(after, `"`)
		node, _ = strconv.ParseUint(number, 10, 64)
	}
	return node
}

// Tags are the tags of a row; nil: it has none.
func (e *Extra) Tags() []string {
	if e == nil || !strings.Contains(e.Meta, `"`+MetaTags+`"`) {
		return nil
	}
	var of map[string]string
	if json.Unmarshal([]byte(e.Meta), &of) != nil || of[MetaTags] == "" {
		return nil
	}
	return strings.Split(of[MetaTags], ",")
}

// expiresOf is the unix millisecond of an end; 0: the text is none. A time before 1970 has passed, like the first millisecond of that year.
func expiresOf(text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0
	}
	return max(1, at.UnixMilli())
}

// liftsEnd has a row run again, whatever its end was. No value can look like the name: in JSON, its quotes would be escaped.
const liftsEnd = `meta = REPLACE(meta, '"` + MetaExpires + `"', '"` + MetaLifted + `"')`
