package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// queryHelp is shown by the commands that take a query.
const queryHelp = `A query is a list of terms, all of which must hold:

  type:7  type:7,8  type:billing     job types, by number or by the name that the type's service has
  status:failed,cancelled            init, success, failed, continue, retry, cancelled;
                                     or pending (not done) and final (done, failed or cancelled)
  key:order-47                       the business key
  created:FROM..TO                   when the job was added
  updated:FROM..TO                   when its row was last written: of a failed job, when it failed
  due:FROM..TO                       when it falls due
  since:2h                           the same as updated:2h..

FROM and TO are moments: a time ago (90s, 5m, 2h, 7d), a day (2026-11-24), or a time (2026-11-24T10:30, where you are, or
2026-11-24T10:30:00Z). Either may be left out. FROM belongs to the range, TO does not.`

// query is what the terms ask for.
type query struct {
	filter queue_job.Filter
	names  []string // job types by name, which only the database knows
	fields []string // the fields that were given
}

func (q *query) has(field string) bool { return slices.Contains(q.fields, field) }

// parseQuery reads terms. Times ago are counted from now.
func parseQuery(terms []string, now time.Time) (*query, error) {
	q := &query{}
	for _, term := range terms {
		field, value, ok := strings.Cut(term, ":")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q is no term of a query: write field:value, for example type:7 or status:failed", term)
		}
		if q.has(field) {
			return nil, fmt.Errorf("%s: comes twice; write several values as %s:a,b", field, field)
		}
		q.fields = append(q.fields, field)
		if err := q.add(field, value, now); err != nil {
			return nil, fmt.Errorf("%s: %w", term, err)
		}
	}
	if q.has("since") && q.has("updated") {
		return nil, fmt.Errorf("since: and updated: are both about when a row was written; use one of them")
	}
	return q, nil
}

func (q *query) add(field, value string, now time.Time) (err error) {
	f := &q.filter
	switch field {
	case "type":
		for name := range strings.SplitSeq(value, ",") {
			if number, err := strconv.ParseInt(name, 10, 32); err == nil {
				f.JobTypes = append(f.JobTypes, int32(number))
			} else {
				q.names = append(q.names, name)
			}
		}
	case "status":
		f.Statuses, err = statusesOf(value)
	case "key":
		f.Key = value
	case "created":
		f.CreatedFrom, f.CreatedTo, err = rangeOf(value, now)
	case "updated":
		f.UpdatedFrom, f.UpdatedTo, err = rangeOf(value, now)
	case "due":
		f.DueFrom, f.DueTo, err = rangeOf(value, now)
	case "since":
		f.UpdatedFrom, err = limitOf(value, now)
	default:
		err = fmt.Errorf("no such field; there are type, status, key, created, updated, due and since")
	}
	return err
}

func statusesOf(value string) (statuses []queue_job.JobStatus, err error) {
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

func rangeOf(value string, now time.Time) (from, to time.Time, err error) {
	first, last, ok := strings.Cut(value, "..")
	if !ok {
		return from, to, fmt.Errorf("it is a range: write %s.. for what came after it, ..%[1]s for what came before", value)
	}
	if from, err = limitOf(first, now); err != nil {
		return from, to, err
	}
	to, err = limitOf(last, now)
	return from, to, err
}

// limitOf reads the moment at which a range begins or ends; an empty text is none. A moment of long ago is refused before it becomes none, as
// the year 1 would.
func limitOf(text string, now time.Time) (time.Time, error) {
	at, err := momentOf(text, now)
	if err == nil && text != "" && at.Unix() <= 0 {
		err = fmt.Errorf("%q lies in the year %d, and no job is as old; write a moment after 1970, or leave it out for no limit", text, at.Year())
	}
	return at, err
}

// momentOf reads a moment; an empty text is none.
func momentOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := words.ParseSpan(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is no moment; write a time ago (5m, 2h, 7d), a day (2026-11-24) or a time (2026-11-24T10:30)", text)
	}
	return at, nil
}

// resolve finds the numbers of the job types that were given by name.
func (q *query) resolve(ctx context.Context, a *app, db *database) error {
	for _, name := range q.names {
		number, err := a.typeCalled(ctx, db, name)
		if err != nil {
			return err
		}
		q.filter.JobTypes = append(q.filter.JobTypes, number)
	}
	return nil
}

// typeOf reads a job type, by its number or its name.
func (a *app) typeOf(ctx context.Context, db *database, text string) (int32, error) {
	if number, err := strconv.ParseInt(text, 10, 32); err == nil {
		return int32(number), nil
	}
	return a.typeCalled(ctx, db, text)
}

// typesOf is typeOf for each of some texts.
func (a *app) typesOf(ctx context.Context, db *database, texts []string) (list []int32, err error) {
	for _, text := range texts {
		number, err := a.typeOf(ctx, db, text)
		if err != nil {
			return nil, err
		}
		list = append(list, number)
	}
	return list, nil
}

func (a *app) typeCalled(ctx context.Context, db *database, name string) (int32, error) {
	var types []queue_job.Type
	err := a.within(ctx, func(ctx context.Context) (err error) {
		types, err = db.jobs.Types(ctx, db)
		return err
	})
	if err != nil {
		return 0, err
	}
	var numbers []int32
	for _, t := range types {
		if t.Name == name {
			numbers = append(numbers, t.JobType)
		}
	}
	switch len(numbers) {
	case 0:
		return 0, exitf(exitNothing, "no job type is called %q; pqueue type list has their names", name)
	case 1:
		return numbers[0], nil
	}
	return 0, exitf(exitUsage, "%d job types are called %q: %v; name one by its number", len(numbers), name, numbers)
}
