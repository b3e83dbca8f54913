// Package query is the language in which people search for jobs, the same in the console and on the command line:
//
//	queue:partner state:failed,retrying error:"connection refused" key:order-8* since:1h
//
// Parse makes a [Query] of a text. What a queue_job.Filter can say stands in its Filter; the rest ([Query.OnlyLists]) is for lists alone. A
// [Search] finds the jobs, and says how far it has looked if no index leads to them.
package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Help says what terms there are.
const Help = `A query is a list of terms, all of which must hold:

  queue:7  queue:7,8  queue:billing  job types, by number or by the name that the type's service has; type: is the same
  state:queued,running               scheduled, queued, running, retrying, deferred, completed, failed, cancelled
  status:failed,cancelled            as it stands in the table: init, success, failed, continue, retry, cancelled;
                                     or pending (not done) and final (done, failed or cancelled)
  key:order-47                       the business key
  created:FROM..TO                   when the job was added
  updated:FROM..TO                   when its row was last written: of a failed job, when it failed
  due:FROM..TO                       when it falls due
  since:2h                           the same as updated:2h..

FROM and TO are moments: a time ago (90s, 5m, 2h, 7d) by the database's clock, a day (2026-11-24), or a time (2026-11-24T10:30, where you are, or
2026-11-24T10:30:00Z). Either may be left out. FROM belongs to the range, TO does not.`

// ListHelp says what terms there are for lists alone.
const ListHelp = `For a list, there are also:

  key:order-*                        how the business key begins
  error:"connection refused"         a part of what one of its runs ended with, in small or capital letters
  params.Customer:c-28               what the parameters have there, if they are JSON; params.lines.0.sku goes deeper
  attempts:>3                        how many runs were started: 3, >3, >=3, <3, <=3
  tag:urgent                         a tag of the job
  order-47                           a word alone: the job with this id, else those with this key, else those whose key begins with it`

// Query is what somebody searches for. What the database alone knows, job types by name and what time it is, comes by [Query.SetTypes] and
// [Query.SetNow].
type Query struct {
	Filter queue_job.Filter
	Names  []string // of job types
	// Word is a word alone: an id, a key or the beginning of keys.
	Word string

	KeyPrefix                string
	Error                    string
	AttemptsFrom, AttemptsTo int // the end is left out; 0: no limit
	Params                   []Param
	Tags                     []string

	created, updated, due Range
	fields                []string // that were given
	terms                 []string // as they were written, but the word alone
}

// Param is a value in the parameters.
type Param struct {
	Path  []string
	Value string
}

// Parse reads a text, as somebody writes it into a field. Times of day are in the zone.
func Parse(text string, zone *time.Location) (*Query, error) {
	terms, err := termsOf(text)
	if err != nil {
		return nil, err
	}
	return parse(terms, zone)
}

// ParseArguments reads what a shell has made words of: each is a term, whose quotation marks are gone, or several terms.
func ParseArguments(arguments []string, zone *time.Location) (*Query, error) {
	var all []term
	for _, argument := range arguments {
		some, err := termsOf(argument)
		if err != nil || len(some) != 1 && !allHaveFields(some) { // the quotation marks were around the argument, or a value has some
			field, value, ok := strings.Cut(argument, ":")
			if !ok {
				field, value = "", argument
			}
			some = []term{{argument, field, value, strings.HasSuffix(value, "*")}}
		}
		all = append(all, some...)
	}
	return parse(all, zone)
}

func allHaveFields(terms []term) bool {
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t term) bool { return t.field == "" })
}

func parse(terms []term, zone *time.Location) (*Query, error) {
	q := &Query{}
	for _, t := range terms {
		word := q.Word
		if err := q.add(t, zone); err != nil {
			return nil, err
		}
		if q.Word == word {
			q.terms = append(q.terms, t.text)
		}
	}
	if q.Has("since") && q.Has("updated") {
		return nil, fmt.Errorf("since: and updated: are both about when a row was written; use one of them")
	}
	if q.Word != "" && q.Has("key") {
		return nil, fmt.Errorf("%q, alone, and key: are both about the key; use one of them", q.Word)
	}
	q.end()
	return q, nil
}

// Has reports whether a field was given: "queue" for type:, too, and "params" for any of these.
func (q *Query) Has(field string) bool { return slices.Contains(q.fields, field) }

// Empty reports whether nothing was asked for, so that every job is meant.
func (q *Query) Empty() bool { return len(q.fields) == 0 && q.Word == "" }

// OnlyLists names the first term that no change of many jobs can go by. Empty: there is none.
func (q *Query) OnlyLists() string {
	switch {
	case q.Word != "":
		return q.Word
	case q.KeyPrefix != "":
		return "key:" + q.KeyPrefix + "*"
	}
	for _, field := range []string{"error", "attempts", "tag"} {
		if q.Has(field) {
			return field + ":"
		}
	}
	if len(q.Params) > 0 {
		return "params." + strings.Join(q.Params[0].Path, ".") + ":"
	}
	return ""
}

// Text is the query as it could be written.
func (q *Query) Text() string {
	terms := q.terms
	if q.Word != "" {
		terms = append(slices.Clone(terms), Quote(q.Word))
	}
	return strings.Join(terms, " ")
}

// Terms are the terms as they were written.
func (q *Query) Terms() []string { return slices.Clone(q.terms) }

// withKey is the query with a term for the key in the place of the word alone.
func (q *Query) withKey(term string) Query {
	with := *q
	with.Word, with.fields, with.terms = "", append(slices.Clone(q.fields), "key"), append(slices.Clone(q.terms), term)
	return with
}

// Exact is the query with the word alone as a key.
func (q *Query) Exact() *Query {
	if q.Word == "" {
		return q
	}
	exact := q.withKey("key:" + Quote(q.Word))
	exact.Filter.Key = q.Word
	return &exact
}

func (q *Query) add(t term, zone *time.Location) error {
	if t.field == "" && t.star && len(t.value) > 1 {
		t.field = "key"
	}
	if t.field == "" {
		if t.value == "" {
			return errEmpty
		}
		if q.Word != "" {
			return fmt.Errorf("%q and %q are two words alone, and one can be looked for; "+
				"put a text with blanks into quotation marks, as in error:\"no route\"", q.Word, t.value)
		}
		q.Word = t.value
		return nil
	}
	if t.value == "" {
		return fmt.Errorf("%q has no value; write field:value, for example queue:7 or state:failed", t.text)
	}
	field := t.field
	switch path, isParam := strings.CutPrefix(field, "params."); {
	case isParam:
		if err := q.addParam(path, t.value); err != nil {
			return fmt.Errorf("%s: %w", t.text, err)
		}
		q.fields = append(q.fields, "params")
		return nil
	case field == "type":
		field = "queue"
	case field == "tag":
		q.Tags, q.fields = append(q.Tags, t.value), append(q.fields, field)
		return nil
	}
	if q.Has(field) {
		return fmt.Errorf("%s: comes twice; write several values as %[1]s:a,b", t.field)
	}
	q.fields = append(q.fields, field)
	if err := q.set(field, t, zone); err != nil {
		return fmt.Errorf("%s: %w", t.text, err)
	}
	return nil
}

func (q *Query) set(field string, t term, zone *time.Location) (err error) {
	f := &q.Filter
	switch field {
	case "queue":
		for name := range strings.SplitSeq(t.value, ",") {
			if number, err := strconv.ParseInt(name, 10, 32); err == nil {
				f.JobTypes = append(f.JobTypes, int32(number))
			} else {
				q.Names = append(q.Names, name)
			}
		}
	case "status":
		f.Statuses, err = ParseStatuses(t.value)
	case "state":
		f.States, err = queue_job.ParseStates(strings.Split(t.value, ",")...)
	case "key":
		begin, isPrefix := strings.CutSuffix(t.value, "*")
		switch {
		case !t.star || !isPrefix:
			f.Key = t.value
		case begin == "":
			err = fmt.Errorf("write how the key begins, before the *")
		default:
			q.KeyPrefix = begin
		}
	case "created":
		q.created, err = ParseRange(t.value, zone)
	case "updated":
		q.updated, err = ParseRange(t.value, zone)
	case "due":
		q.due, err = ParseRange(t.value, zone)
	case "since":
		q.updated.From, err = parseLimit(t.value, zone)
	case "error":
		q.Error = t.value
	case "attempts":
		err = q.setAttempts(t.value)
	default:
		err = fmt.Errorf("no such field; there are queue, state, status, key, created, updated, due, since, error, params.NAME, attempts and tag; " +
			"if it is a key, put it into quotation marks")
	}
	return err
}

// ParseStatuses reads statuses: their words, or pending and final.
func ParseStatuses(value string) (statuses []queue_job.JobStatus, err error) {
	every := append(queue_job.PendingStatuses(), queue_job.FinalStatuses()...)
	for name := range strings.SplitSeq(value, ",") {
		switch i := slices.IndexFunc(every, func(s queue_job.JobStatus) bool { return s.String() == name }); {
		case i >= 0:
			statuses = append(statuses, every[i])
		case name == "pending":
			statuses = append(statuses, queue_job.PendingStatuses()...)
		case name == "final":
			statuses = append(statuses, queue_job.FinalStatuses()...)
		default:
			return nil, fmt.Errorf("no status %q; there are init, success, failed, continue, retry, cancelled, pending and final", name)
		}
	}
	return statuses, nil
}

const attemptsMost = 1_000_000_000

func (q *Query) setAttempts(value string) error {
	digits := strings.TrimLeft(value, "<>=")
	n, err := strconv.ParseUint(digits, 10, 32)
	how := strings.TrimSuffix(value, digits)
	if err == nil && n < attemptsMost {
		switch n := int(n); {
		case how == "", how == "=":
			q.AttemptsFrom, q.AttemptsTo = n, n+1
			return nil
		case how == ">":
			q.AttemptsFrom = n + 1
			return nil
		case how == ">=":
			q.AttemptsFrom = n
			return nil
		case how == "<" && n > 0:
			q.AttemptsTo = n
			return nil
		case how == "<=":
			q.AttemptsTo = n + 1
			return nil
		}
	}
	return fmt.Errorf("%q is no number of runs; write 3, >3, >=3, <3 or <=3", value)
}

func (q *Query) addParam(path, value string) error {
	p := Param{strings.Split(path, "."), value}
	if slices.Contains(p.Path, "") {
		return fmt.Errorf("name the value, as in params.Customer:c-28 or params.lines.0.sku:47")
	}
	q.Params = append(q.Params, p)
	return nil
}

// end puts states in which jobs have ended into the statuses: an index leads to those, and changes of many jobs take them.
func (q *Query) end() {
	f := &q.Filter
	if len(f.Statuses) > 0 {
		return
	}
	var ended []queue_job.JobStatus
	for _, state := range f.States {
		statuses := inState[state]
		if statuses[0].Pending() {
			return
		}
		ended = append(ended, statuses...)
	}
	f.States, f.Statuses = nil, ended
}

// inState are the statuses of the jobs that are in a state. A state in which jobs have ended is a status of its own.
var inState = map[string][]queue_job.JobStatus{
	queue_job.StateScheduled: {queue_job.JobStatusInit},
	queue_job.StateQueued:    {queue_job.JobStatusInit},
	queue_job.StateRunning:   queue_job.PendingStatuses(),
	queue_job.StateRetrying:  {queue_job.JobStatusRetry},
	queue_job.StateDeferred:  {queue_job.JobStatusContinue},
	queue_job.StateCompleted: {queue_job.JobStatusSuccess},
	queue_job.StateFailed:    {queue_job.JobStatusFailed},
	queue_job.StateCancelled: {queue_job.JobStatusCancelled},
}

// Statuses are the statuses that the jobs of a filter may have. None: any.
func Statuses(f *queue_job.Filter) (list []queue_job.JobStatus) {
	if len(f.States) == 0 {
		return f.Statuses
	}
	for _, state := range f.States {
		for _, s := range inState[state] {
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list
}

// SetState narrows the query to the jobs that a word means: a state, or the status of jobs that have not ended.
func (q *Query) SetState(word string) error {
	q.fields = append(q.fields, "state")
	for _, s := range queue_job.PendingStatuses() {
		if s.String() == word {
			q.Filter.Statuses = []queue_job.JobStatus{s}
			return nil
		}
	}
	states, err := queue_job.ParseStates(word)
	q.Filter.States = states
	q.end()
	return err
}

// SetType narrows the query to a job type.
func (q *Query) SetType(jobType int32) {
	q.fields, q.Filter.JobTypes = append(q.fields, "queue"), []int32{jobType}
}

// SetTypes gives the job types that were named their numbers.
func (q *Query) SetTypes(types []queue_job.Type) error {
	for _, name := range q.Names {
		var numbers []int32
		var names []string
		for _, t := range types {
			if t.Name == name {
				numbers = append(numbers, t.JobType)
			}
			if t.Name != "" && len(names) < 10 {
				names = append(names, t.Name)
			}
		}
		switch len(numbers) {
		case 0:
			return fmt.Errorf("queue:%s: no queue is called that; there are %s", name, strings.Join(names, ", "))
		case 1:
			q.Filter.JobTypes = append(q.Filter.JobTypes, numbers[0])
		default:
			return fmt.Errorf("queue:%s: %d queues are called that: %v; name one by its number", name, len(numbers), numbers)
		}
	}
	q.Names = nil
	return nil
}

// Counted reports whether a time of the query is counted from now.
func (q *Query) Counted() bool {
	for _, m := range []Moment{q.created.From, q.created.To, q.updated.From, q.updated.To, q.due.From, q.due.To} {
		if m.counted {
			return true
		}
	}
	return false
}

// SetNow counts the times of the filter from now.
func (q *Query) SetNow(now time.Time) {
	f := &q.Filter
	f.CreatedFrom, f.CreatedTo = q.created.From.By(now), q.created.To.By(now)
	f.UpdatedFrom, f.UpdatedTo = q.updated.From.By(now), q.updated.To.By(now)
	f.DueFrom, f.DueTo = q.due.From.By(now), q.due.To.By(now)
}
