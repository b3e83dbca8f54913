package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

const (
	// ErrorsMost is how many kinds of errors are told of a span.
	ErrorsMost = 20
	// errorBytes is how long the text of an error is, as JSON: the errors of a span have room in a column of 64 kB.
	errorBytes = 600
)

// ErrorStat is an error with which runs ended. Errors that differ in numbers only are one.
type ErrorStat struct {
	Text   string `json:"text"` // of the last of these runs
	Runs   int64  `json:"runs"`
	Failed int64  `json:"failed,omitempty"` // of the runs: the last ones of their jobs, which have failed for good
	First  int64  `json:"first"`            // when the first of these runs ended, in unix milliseconds
	Last   int64  `json:"last"`
	Job    uint64 `json:"job"` // had the last of them
}

// add adds what other runs with the same error are.
func (e *ErrorStat) add(other *ErrorStat) {
	if e.Runs == 0 || other.First < e.First {
		e.First = other.First
	}
	if e.Runs == 0 || other.Last >= e.Last {
		e.Text, e.Last, e.Job = other.Text, other.Last, other.Job
	}
	e.Runs, e.Failed = e.Runs+other.Runs, e.Failed+other.Failed
}

// Errors are the errors of a span: some kinds, and how many runs ended with others.
type Errors struct {
	Errors []ErrorStat `json:"errors,omitempty"`
	Others int64       `json:"other_errors,omitempty"`
}

// ErrorOf is the error of a run that was logged.
func ErrorOf(a *Attempt) ErrorStat {
	e := ErrorStat{Text: shortError(cmp.Or(a.Error, a.Outcome)), Runs: 1, First: a.Finished, Last: a.Finished, Job: a.JobID}
	if a.Outcome == failedOutcome {
		e.Failed = 1
	}
	return e
}

const failedOutcome = "failed"

// shortError cuts the text of an error to what a stat has room for.
func shortError(text string) string {
	for most := 250; ; most = most * 3 / 4 {
		short := cut(text, most)
		if written, _ := json.Marshal(short); len(written) <= errorBytes {
			return short
		}
	}
}

// Add adds the errors of other runs. Of more kinds than there may be, those with the fewest runs become others.
func (e *Errors) Add(other *Errors) {
	e.Others += other.Others
	if len(other.Errors) == 0 {
		return
	}
	at := make(map[string]int, len(e.Errors)+len(other.Errors))
	all := slices.Clone(e.Errors)
	for i := range all {
		at[KindOfError(all[i].Text)] = i
	}
	for i := range other.Errors {
		kind := KindOfError(other.Errors[i].Text)
		known, there := at[kind]
		if !there {
			known = len(all)
			at[kind], all = known, append(all, ErrorStat{})
		}
		all[known].add(&other.Errors[i])
	}
	slices.SortStableFunc(all, func(a, b ErrorStat) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(b.Last, a.Last)) })
	for len(all) > ErrorsMost {
		last := len(all) - 1
		e.Others, all = e.Others+all[last].Runs, all[:last]
	}
	e.Errors = all
}

// Runs is how many runs ended with these errors.
func (e *Errors) Runs() (n int64) {
	for i := range e.Errors {
		n += e.Errors[i].Runs
	}
	return n + e.Others
}

// numbersInErrors are what tells two errors of the same kind apart: UUIDs and other hexadecimal words that have a digit, and numbers.
var numbersInErrors = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]*[0-9][0-9a-f]{7,}\b|\b[0-9a-f]{7,}[0-9][0-9a-f]*\b|[0-9]+`)

// KindOfError is what errors of the same kind have in common.
func KindOfError(text string) string { return numbersInErrors.ReplaceAllString(text, "#") }

// SpanErrors are the errors of the span of a stat.
type SpanErrors struct {
	JobType int32
	Begin   int64 // unix seconds
	Lease   string
	Term    int64
	Errors
}

// Errors reads the errors of these job types in the stats that begin at a moment or later, in unix seconds: the latest stats, as many as
// most. Stats without an error do not count. It may be asked of a replica.
func (s *Store) Errors(ctx context.Context, jobTypes []int32, from int64, most int) ([]SpanErrors, error) {
	if len(jobTypes) == 0 {
		return nil, nil
	}
	type told struct {
		SpanErrors
		state string
	}
	args := s.arguments()
	rows, err := read(ctx, s, each(func(t *told) []any { return []any{&t.JobType, &t.Begin, &t.Lease, &t.Term, &t.state} }),
		fmt.Sprintf("SELECT job_type, begins_at, lock_name, term, state FROM %s WHERE job_type IN (%s) AND begins_at >= %s AND state LIKE '%%\"errors\":%%' ORDER BY begins_at DESC LIMIT %s",
			s.stats, numbers(jobTypes), args.number(from), args.number(int64(most))), args.list...)
	all := make([]SpanErrors, len(rows))
	for i := range rows {
		all[i] = rows[i].SpanErrors
		_ = json.Unmarshal([]byte(rows[i].state), &all[i].Errors) // a later version may have written it
	}
	return all, wrap("errors", err)
}
