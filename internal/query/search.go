package query

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	fewMax     = 2000 // an index finds the jobs of a type with a status, or those whose keys begin alike, if there are no more
	checkedMax = 1000 // jobs that are read at a time to be looked at here, with up to 4 kB of parameters each

	// A search goes along the ids in windows: a first one, and others of which the one before has shown how large they may be.
	windowFirst, windowMost = 10_000, 1_000_000
)

// Search is how jobs are searched for, the newest first.
type Search struct {
	Jobs *queue_job.Jobs
	Ex   queue_job.Executor
	// Limit is how many jobs are wanted.
	Limit int
	// Where no index leads to the jobs, few of millions may match. So a search ends when it has taken so long, or has sent so many statements.
	Most       time.Duration
	Statements int
	// Shown is what parameters are like for whoever searches. Nil: as they are.
	Shown func(text string) string

	encoded bool
}

// Found is what a search has found.
type Found struct {
	Jobs []queue_job.JobInfo
	// GoOn: jobs with ids below it are for the next search. 0: all were looked at, or there are more than were wanted.
	GoOn uint64
	// Back is when the last job was added that was looked at, if the search ended there and a statement was left to ask.
	Back time.Time
	// As is what the query is by now, of a word alone: whoever goes on, or changes these jobs, means that.
	As *Query
	// ByID: the word alone is the id of the first job, which the query As does not select.
	ByID bool
	// TooMany: to look for keys that begin with the word would take more statements than were left.
	TooMany bool
	// Now is what the database's clock has said. Zero: it was not asked.
	Now time.Time
}

// Find sends the statements.
func (s Search) Find(ctx context.Context, q *Query) (*Found, error) {
	s.encoded = bridge.QueueJob.WithoutCodec(s.Jobs) != s.Jobs
	if q.Word != "" {
		return s.findWord(ctx, q)
	}
	found := &Found{As: q}
	rows, err := q.allRows(s.encoded)
	if err != nil {
		return nil, err
	}
	if rows.Key != "" || q.selectsAll() {
		found.Jobs, found.GoOn, err = s.list(ctx, q, rows)
		return found, err
	}
	st, err := bridge.QueueJob.StoreOf(s.Jobs, s.Ex)
	if err != nil {
		return nil, err
	}
	if by := indexedBy(q, st, rows); st.HasIndexFor(&by) {
		if few, err := s.findFew(ctx, q, st, by, rows, found); few || err != nil {
			return found, err
		}
	}
	return found, s.walk(ctx, q, st, rows, found)
}

// indexedBy is that part of a filter to which an index leads, if one does. Where it has other parts, a server might read many rows to find
// the few that match.
func indexedBy(q *Query, st *record.Store, rows record.Filter) (by record.Filter) {
	switch {
	case rows.KeyPrefix != "" && st.KeysInRow:
		by.KeyPrefix = rows.KeyPrefix
	case len(rows.Types) == 1:
		by.Types = rows.Types
		for _, status := range Statuses(&q.Filter) {
			by.Statuses = append(by.Statuses, int32(status))
		}
	}
	return by
}

// allRows is the filter of the rows.
func (q *Query) allRows(encoded bool) (record.Filter, error) {
	f := q.Filter
	f.NewestFirst, f.OmitLongParams = true, true
	rows, err := bridge.QueueJob.FilterOf(&f)
	return q.rows(rows, encoded), err
}

// selectsAll reports whether any job is one of those that are searched for, except for its type: so the first page is full at once, unless
// there are types that few jobs have.
func (q *Query) selectsAll() bool {
	return q.Empty() && len(q.Filter.JobTypes) == 0 && len(Statuses(&q.Filter)) == 0
}

// findWord finds the job with an id, and the jobs with a key, or else those whose keys begin with the word.
func (s Search) findWord(ctx context.Context, q *Query) (*Found, error) {
	exact := q.Exact()
	found, err := s.Find(ctx, exact)
	s.Statements--
	if err != nil && !errors.Is(err, queue_job.ErrBadKey) {
		return nil, err
	}
	if err != nil {
		found = &Found{As: exact}
	}
	if id, err := strconv.ParseUint(q.Word, 10, 64); err == nil && id > 0 && q.Filter.Before == 0 {
		s.Statements--
		if err := s.addByID(ctx, q, id, found); err != nil {
			return nil, err
		}
	}
	if len(found.Jobs) > 0 || q.Filter.Before > 0 || err != nil {
		return found, nil
	}
	begin := q.withKey("key:" + Quote(q.Word) + "*")
	begin.KeyPrefix = q.Word
	return s.Find(ctx, &begin)
}

// addByID puts the job with an id first, if it is one of those that are searched for. So whoever looks for 4711 finds the job with that id, and
// the jobs with that key, which alone are what an operation on all of them changes.
func (s *Search) addByID(ctx context.Context, q *Query, id uint64, found *Found) error {
	one := *q
	one.Word, one.Filter.IDs = "", []uint64{id}
	rows, err := one.allRows(s.encoded)
	if err != nil {
		return err
	}
	some, _, err := s.list(ctx, &one, rows)
	if len(some) == 1 && !slices.ContainsFunc(found.Jobs, func(j queue_job.JobInfo) bool { return j.Id == id }) {
		found.Jobs, found.ByID = slices.Insert(found.Jobs, 0, some[0]), true
	}
	return err
}

// list reads some of the rows, and looks at them. Jobs with ids from goOn down were not read; 0: there are none.
func (s *Search) list(ctx context.Context, q *Query, rows record.Filter) (jobs []queue_job.JobInfo, goOn uint64, err error) {
	limit := s.Limit
	if len(q.Params)+len(q.Tags) > 0 {
		limit = checkedMax
	}
	some, err := bridge.QueueJob.List(ctx, s.Jobs, s.Ex, rows, limit)
	if len(some) == limit {
		goOn = some[limit-1].Id
	}
	for i := range some {
		params := some[i].JobParams
		if s.Shown != nil && len(q.Params) > 0 {
			params = s.Shown(params)
		}
		if q.matches(&some[i], params) {
			jobs = append(jobs, some[i])
		}
	}
	if len(jobs) >= s.Limit {
		jobs, goOn = jobs[:s.Limit], jobs[s.Limit-1].Id
	}
	return jobs, goOn, err
}

// findFew finds the jobs to which an index leads, if it leads to few.
func (s *Search) findFew(ctx context.Context, q *Query, st *record.Store, by, rows record.Filter, found *Found) (few bool, err error) {
	if s.Statements < 2 {
		found.TooMany = true
		return true, nil
	}
	s.Statements--
	ids, err := st.IDs(ctx, by, fewMax+1)
	if err != nil || len(ids) > fewMax {
		return false, err
	}
	slices.Sort(ids)
	if rows.Before > 0 {
		end, _ := slices.BinarySearch(ids, rows.Before)
		ids = ids[:end]
	}
	if len(ids) == 0 {
		return true, nil
	}
	rows.IDs = ids
	found.Jobs, found.GoOn, err = s.list(ctx, q, rows)
	return true, err
}

// walk goes along the ids, from the newest down.
func (s *Search) walk(ctx context.Context, q *Query, st *record.Store, rows record.Filter, found *Found) (err error) {
	goOn, end := rows.Before, rows.After
	if goOn == 0 {
		if s.Statements < 2 {
			found.TooMany = true
			return nil
		}
		s.Statements--
		newest, second, err := st.Newest(ctx)
		if err != nil || newest <= end {
			return err
		}
		found.Now = time.UnixMilli(int64(math.Round(second * 1000)))
		goOn = newest + 1
	}
	window, began, wanted := uint64(windowFirst), time.Now(), s.Limit
	for s.Statements > 0 {
		rows.Before, rows.After = goOn, end
		if goOn > window {
			rows.After = max(end, goOn-window-1)
		}
		s.Statements--
		some, reached, err := s.list(ctx, q, rows)
		if err != nil {
			return err
		}
		found.Jobs = append(found.Jobs, some...)
		if goOn = max(reached, rows.After+1); goOn == end+1 {
			return nil // no job has a lower id
		}
		if s.Limit -= len(some); s.Limit <= 0 {
			found.GoOn = goOn
			return nil
		}
		took := time.Since(began)
		if took >= s.Most {
			break
		}
		window = min(windowMost, max(1, uint64(float64(window)*float64(s.Most-took)/float64(took))))
	}
	found.GoOn = goOn
	if s.Statements > 0 && len(found.Jobs) < wanted {
		at, err := bridge.QueueJob.List(ctx, s.Jobs, s.Ex, record.Filter{After: goOn - 1, OmitLong: true}, 1)
		if err != nil {
			return err
		}
		if len(at) > 0 {
			found.Back = at[0].Created
		}
	}
	return nil
}
