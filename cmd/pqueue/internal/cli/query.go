package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// queryHelp is shown by the commands that take a query.
const queryHelp = `A query is a list of terms, all of which must hold:

  type:7  type:7,8  type:billing     job types, by number or by the name that the type's service has
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

// query is what the terms ask for. The database alone knows job types by name and what time it is, so the filter has neither before resolve.
type query struct {
	filter                queue_job.Filter
	names                 []string // job types
	created, updated, due moments
	fields                []string // the fields that were given
}

func (q *query) has(field string) bool { return slices.Contains(q.fields, field) }

// parseQuery reads terms.
func parseQuery(terms []string) (*query, error) {
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
		if err := q.add(field, value); err != nil {
			return nil, fmt.Errorf("%s: %w", term, err)
		}
	}
	if q.has("since") && q.has("updated") {
		return nil, fmt.Errorf("since: and updated: are both about when a row was written; use one of them")
	}
	return q, nil
}

func (q *query) add(field, value string) (err error) {
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
	case "state":
		f.States, err = queue_job.ParseStates(strings.Split(value, ",")...)
	case "key":
		f.Key = value
	case "created":
		q.created, err = rangeOf(value)
	case "updated":
		q.updated, err = rangeOf(value)
	case "due":
		q.due, err = rangeOf(value)
	case "since":
		q.updated.from, err = limitOf(value)
	default:
		err = fmt.Errorf("no such field; there are type, state, status, key, created, updated, due and since")
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

// ended puts states in which jobs have ended into the statuses. In another, a job that is to be changed may not be any more when its turn comes.
func (q *query) ended() error {
	of := map[string]queue_job.JobStatus{queue_job.StateCompleted: queue_job.JobStatusSuccess,
		queue_job.StateFailed: queue_job.JobStatusFailed, queue_job.StateCancelled: queue_job.JobStatusCancelled}
	if q.has("state") && q.has("status") {
		return fmt.Errorf("state: and status: choose the same jobs to change; use one of them")
	}
	for _, state := range q.filter.States {
		status, has := of[state]
		if !has {
			return fmt.Errorf("state:%s cannot choose jobs to change, because a job may leave that state before its turn comes; "+
				"use status:, and due: if need be", state)
		}
		q.filter.Statuses = append(q.filter.Statuses, status)
	}
	q.filter.States = nil
	return nil
}

// resolve puts into the filter what the database alone knows.
func (q *query) resolve(ctx context.Context, a *app, db *database) error {
	for _, name := range q.names {
		number, err := a.typeCalled(ctx, db, name)
		if err != nil {
			return err
		}
		q.filter.JobTypes = append(q.filter.JobTypes, number)
	}
	now, err := a.nowFor(ctx, db, q.created.from, q.created.to, q.updated.from, q.updated.to, q.due.from, q.due.to)
	if err == nil {
		q.count(now)
	}
	return err
}

// count counts the times of the filter from now.
func (q *query) count(now time.Time) {
	f := &q.filter
	f.CreatedFrom, f.CreatedTo = q.created.from.by(now), q.created.to.by(now)
	f.UpdatedFrom, f.UpdatedTo = q.updated.from.by(now), q.updated.to.by(now)
	f.DueFrom, f.DueTo = q.due.from.by(now), q.due.to.by(now)
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
