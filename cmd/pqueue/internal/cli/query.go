package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/queue_job"
)

// queryHelp is shown by the commands that take a query.
const queryHelp = query.Help

// endedQuery puts states in which jobs have ended into the statuses. In another, a job that is to be changed may not be any more when its turn
// comes.
func endedQuery(q *query.Query) error {
	if term := q.OnlyLists(); term != "" {
		return fmt.Errorf("%s cannot choose jobs to change: no index leads to them, so they are for pqueue job list alone, whose ids can be "+
			"given here (-o id)", term)
	}
	if q.Has("state") && q.Has("status") {
		return fmt.Errorf("state: and status: choose the same jobs to change; use one of them")
	}
	for _, state := range q.Filter.States {
		ended := query.Statuses(&queue_job.Filter{States: []string{state}})
		if ended[0].Pending() {
			return fmt.Errorf("state:%s cannot choose jobs to change, because a job may leave that state before its turn comes; "+
				"use status:, and due: if need be", state)
		}
		q.Filter.Statuses = append(q.Filter.Statuses, ended...)
	}
	q.Filter.States = nil
	return nil
}

// resolve puts into the filter what the database alone knows.
func (a *app) resolve(ctx context.Context, db *database, q *query.Query) error {
	for _, name := range q.Names {
		number, err := a.typeCalled(ctx, db, name)
		if err != nil {
			return err
		}
		q.Filter.JobTypes = append(q.Filter.JobTypes, number)
	}
	q.Names = nil
	var now time.Time
	var err error
	if q.Counted() {
		now, err = a.now(ctx, db)
	}
	q.SetNow(now)
	return err
}

// search looks for jobs by terms to which no index leads, the newest first. It goes along the ids part by part, and says how far it is.
func (a *app) search(ctx context.Context, db *database, q *query.Query) iter.Seq2[queue_job.JobInfo, error] {
	const (
		together = 1000
		aPart    = 2 * time.Second
	)
	whole, left := !q.Filter.OmitLongParams, q.Filter.Limit
	if left <= 0 {
		left = math.MaxInt
	}
	return func(yield func(queue_job.JobInfo, error) bool) {
		for left > 0 {
			s := query.Search{Jobs: db.jobs, Ex: db, Limit: min(left, together), Most: aPart, Statements: together}
			found, err := s.Find(ctx, q)
			if err != nil {
				yield(queue_job.JobInfo{}, err)
				return
			}
			for _, job := range found.Jobs {
				if job.LongParams && whole {
					all, err := db.jobs.Get(ctx, db, queue_job.ID(job.Id))
					if errors.Is(err, queue_job.ErrNoJob) {
						continue // it was deleted since it was found
					} else if err != nil {
						yield(queue_job.JobInfo{}, err)
						return
					}
					job = *all
				}
				if !yield(job, nil) {
					return
				}
			}
			left -= len(found.Jobs)
			if found.GoOn == 0 {
				return
			}
			if left > 0 && len(found.Jobs) < s.Limit {
				a.sayf("looked at the jobs from id %d on", found.GoOn)
			}
			q = found.As
			q.Filter.Before = found.GoOn
		}
	}
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
