package query

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// matches reports whether a job is one of those that are searched for, as far as its row was not asked. The parameters are as whoever
// searches may see them: else, a search would tell what is masked.
func (q *Query) matches(job *queue_job.JobInfo, params string) bool {
	if !strings.HasPrefix(job.Key, q.KeyPrefix) {
		return false
	}
	for _, tag := range q.Tags {
		if !slices.Contains(job.Tags, tag) {
			return false
		}
	}
	if len(q.Params) == 0 {
		return true
	}
	from := json.NewDecoder(strings.NewReader(params))
	from.UseNumber()
	var whole any
	if from.Decode(&whole) != nil {
		return false
	}
	for _, p := range q.Params {
		if text, is := textAt(whole, p.Path); !is || text != p.Value {
			return false
		}
	}
	return true
}

// textAt is what stands at a place in a JSON value, unless that is an object or a list.
func textAt(value any, path []string) (text string, is bool) {
	for _, name := range path {
		switch in := value.(type) {
		case map[string]any:
			value, is = in[name]
		case []any:
			var i uint64
			i, err := strconv.ParseUint(name, 10, 31)
			if is = err == nil && int(i) < len(in); is {
				value = in[i]
			}
		default:
			is = false
		}
		if !is {
			return "", false
		}
	}
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case nil:
		return "null", true
	}
	return "", false
}

// rows is the filter of the rows. What a row does not tell by itself, matches looks at.
func (q *Query) rows(f record.Filter, encoded bool) record.Filter {
	f.KeyPrefix, f.Error = q.KeyPrefix, q.Error
	f.AttemptsFrom, f.AttemptsTo = int64(q.AttemptsFrom), int64(q.AttemptsTo)
	for _, p := range q.Params {
		if part := plainPart(p.Value); part != "" && !encoded {
			f.Params = append(f.Params, part)
		}
	}
	for _, tag := range q.Tags {
		if part := plainPart(tag); part != "" {
			f.Meta = append(f.Meta, part)
		}
	}
	return f
}

// plainPart is the longest part of a text that stands in JSON as it is, whatever has written it.
func plainPart(text string) (longest string) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\/<>&'+=`+"`", r)
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}
