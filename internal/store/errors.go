package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/create-info/persistent-queue/internal/conn"
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
	const escaped = 6 // bytes of JSON for a byte, at most
	if len(text)*escaped < errorBytes {
		return conn.Cut(text, len(text))
	}
	for most := 250; ; most = most * 3 / 4 {
		short := conn.Cut(text, most)
		if written, _ := json.Marshal(short); len(written) <= errorBytes {
			return short
		}
	}
}

// Add adds the errors of other runs. Of more kinds than there may be, those with the fewest runs become others.
func (e *Errors) Add(other *Errors) {
	var t ErrorTally
	t.Add(e)
	t.Add(other)
	*e = t.Errors()
}

// ErrorTally counts errors by their kinds, as they come. The zero value has none.
type ErrorTally struct {
	kinds  map[string]*ErrorStat
	others int64
}

// Note counts the runs of an error.
func (t *ErrorTally) Note(e *ErrorStat) {
	kind := KindOfError(e.Text)
	all := t.kinds[kind]
	if all == nil {
		if len(t.kinds) >= 5*ErrorsMost { // seldom, if each error is of a kind of its own
			t.dropRare()
		}
		if t.kinds == nil {
			t.kinds = map[string]*ErrorStat{}
		}
		all = &ErrorStat{}
		t.kinds[kind] = all
	}
	all.add(e)
}

// Add counts the errors of other runs.
func (t *ErrorTally) Add(other *Errors) {
	t.others += other.Others
	for i := range other.Errors {
		t.Note(&other.Errors[i])
	}
}

// Errors are the kinds with the most runs, and how many runs ended with others.
func (t *ErrorTally) Errors() (e Errors) {
	if len(t.kinds) == 0 {
		return Errors{Others: t.others}
	}
	t.dropRare()
	e.Others = t.others
	for _, all := range t.kinds {
		e.Errors = append(e.Errors, *all)
	}
	slices.SortFunc(e.Errors, moreRuns)
	return e
}

// dropRare makes others of the kinds with the fewest runs, if there are more than may be told.
func (t *ErrorTally) dropRare() {
	if len(t.kinds) <= ErrorsMost {
		return
	}
	kinds := slices.SortedFunc(maps.Keys(t.kinds), func(a, b string) int { return moreRuns(*t.kinds[a], *t.kinds[b]) })
	for _, kind := range kinds[ErrorsMost:] {
		t.others += t.kinds[kind].Runs
		delete(t.kinds, kind)
	}
}

func moreRuns(a, b ErrorStat) int {
	return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(b.Last, a.Last), cmp.Compare(b.Job, a.Job))
}

// Runs is how many runs ended with these errors.
func (e *Errors) Runs() (n int64) {
	for i := range e.Errors {
		n += e.Errors[i].Runs
	}
	return n + e.Others
}

// KindOfError is what errors of the same kind have in common: the text without UUIDs, other hexadecimal words that have a digit, and numbers.
// Each run that fails is asked for it, so no regular expression says it: one takes twenty times as long.
func KindOfError(text string) string {
	kind := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		n := 0
		if i == 0 || !isWord(text[i-1]) {
			n = hexadecimal(text[i:])
		}
		if n == 0 {
			n = span(text[i:], isDigit)
		}
		if n > 0 {
			kind, i = append(kind, '#'), i+n
			continue
		}
		kind, i = append(kind, text[i]), i+1
	}
	return string(kind)
}

// hexadecimal is how long the UUID is, or the hexadecimal word, with which a text begins; 0: it begins with neither.
func hexadecimal(text string) (n int) {
	ends := func(n int) bool { return n == len(text) || !isWord(text[n]) }
	if n = uuid(text); n > 0 && ends(n) {
		return n
	}
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		if n = span(text[2:], isHex); n > 0 && ends(n+2) {
			return n + 2
		}
	}
	const enough = 7 // before a digit, or behind it
	if n = span(text, isHex); n <= enough || !ends(n) {
		return 0
	}
	for i := range n {
		if isDigit(text[i]) && (i >= enough || n-1-i >= enough) {
			return n
		}
	}
	return 0
}

// uuid is how long the UUID is with which a text begins; 0: it begins with none.
func uuid(text string) (n int) {
	for i, digits := range [...]int{8, 4, 4, 4, 12} {
		if i > 0 {
			if n == len(text) || text[n] != '-' {
				return 0
			}
			n++
		}
		if span(text[n:min(len(text), n+digits)], isHex) < digits {
			return 0
		}
		n += digits
	}
	return n
}

// span is how many bytes at the beginning of a text are of a kind.
func span(text string, is func(byte) bool) (n int) {
	for n < len(text) && is(text[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isWord(c byte) bool  { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }
