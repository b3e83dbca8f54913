package topics

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
)

// success says which answers mean that a task has succeeded, as the API and the table have it.
type success struct {
	Status     string                     `json:"status,omitempty"`
	BodyEquals string                     `json:"body_equals,omitempty"`
	JSON       map[string]json.RawMessage `json:"json,omitempty"`
}

const bodyEqualsMax = 1000 // bytes

// parseRules reads what an answer means. If it is strict, what says nothing is wrong.
func parseRules(text json.RawMessage, permanent string, strict bool) (r deliver.Rules, wrong []problem.Field) {
	say := func(pointer, format string, args ...any) {
		wrong = append(wrong, problem.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
	var s success
	if given(text) {
		wrong = object.Read(text, "/success", &s)
	}
	var err error
	if r.Success, err = parseStatuses(s.Status); err != nil {
		say("/success/status", "%v", err)
	}
	if r.Permanent, err = parseStatuses(permanent); err != nil {
		say("/permanent_statuses", "%v", err)
	}
	if r.BodyEquals = strings.TrimSpace(s.BodyEquals); len(r.BodyEquals) > bodyEqualsMax {
		say("/success/body_equals", "it has %d bytes; it is to have %d at most", len(r.BodyEquals), bodyEqualsMax)
	}
	if strict && s.BodyEquals != "" && r.BodyEquals == "" {
		say("/success/body_equals", "it has only white space, which is not looked at")
	}
	for name, value := range s.JSON {
		if r.BodyJSON == nil {
			r.BodyJSON = map[string]string{}
		}
		r.BodyJSON[name] = string(value)
	}
	return r, wrong
}

// writtenSuccess is what parseRules read, without defaults. Nil: there was nothing.
func writtenSuccess(r *deliver.Rules) (json.RawMessage, error) {
	s := success{Status: statusesText(r.Success), BodyEquals: r.BodyEquals}
	for name, value := range r.BodyJSON {
		if s.JSON == nil {
			s.JSON = map[string]json.RawMessage{}
		}
		s.JSON[name] = json.RawMessage(value)
	}
	if s.Status == "" && s.BodyEquals == "" && s.JSON == nil {
		return nil, nil
	}
	return json.Marshal(s)
}

// parseStatuses reads statuses and ranges of them: "200-299, 304".
func parseStatuses(text string) (list []deliver.StatusRange, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || from < 200 || to > 599 || from > to {
			return nil, fmt.Errorf("%q is no status from 200 to 599 and no range of them; write \"200-299, 304\"", strings.TrimSpace(part))
		}
		list = append(list, deliver.StatusRange{From: from, To: to})
	}
	return list, nil
}

func statusesText(list []deliver.StatusRange) string {
	var parts []string
	for _, r := range list {
		if r.From == r.To {
			parts = append(parts, strconv.Itoa(r.From))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.From, r.To))
		}
	}
	return strings.Join(parts, ", ")
}
