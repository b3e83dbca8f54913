package console

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	jobsOnAPage = 50
	fewMax      = 2000 // an index finds the jobs of a type with a status if there are no more

	// A search goes along the ids in windows: a first one, and a second of which the first has shown how large it may be.
	windowFirst, windowMost = 10_000, 1_000_000
	searchMax               = 60 * time.Millisecond

	listsMax = 50 // that all who look share; a page of jobs may take some hundred kilobytes
)

// listKey is what a list is about, in the words of its address.
type listKey struct{ jobType, state, key, before string }

// found is what a search has found.
type found struct {
	jobs []queue_job.JobInfo
	goOn uint64
}

// search finds the jobs of a page, and one more if there is one, from the newest down. Where no index leads to them, few of millions may
// match. So it ends when it has taken long enough; jobs with ids from goOn down are for the next search then. 0: there are no more.
func (c *console) search(ctx context.Context, filter queue_job.Filter) (jobs []queue_job.JobInfo, goOn uint64, err error) {
	filter.NewestFirst, filter.OmitLongParams, filter.Limit = true, true, jobsOnAPage+1
	if filter.Key != "" || len(filter.JobTypes) == 0 && len(statusesOf(&filter)) == 0 {
		jobs, err = c.jobs.List(ctx, c.ex, filter)
		return jobs, 0, err
	}
	if len(filter.JobTypes) == 1 && len(statusesOf(&filter)) > 0 {
		if jobs, few, err := c.searchFew(ctx, filter); few || err != nil {
			return jobs, 0, err
		}
	}
	goOn = filter.Before
	if goOn == 0 {
		newest, now, err := faces.Newest(ctx, c.jobs, c.ex)
		if err != nil || newest == 0 {
			return nil, 0, err
		}
		c.clock.heard(now)
		goOn = newest + 1
	}
	window, began := uint64(windowFirst), time.Now()
	for range 2 {
		filter.Before, filter.After, filter.Limit = goOn, 0, jobsOnAPage+1-len(jobs)
		if goOn > window {
			filter.After = goOn - window - 1
		}
		some, err := c.jobs.List(ctx, c.ex, filter)
		if err != nil {
			return nil, 0, err
		}
		jobs, goOn = append(jobs, some...), filter.After+1
		took := time.Since(began)
		if goOn == 1 || len(jobs) > jobsOnAPage || took >= searchMax {
			break
		}
		window = min(windowMost, uint64(float64(window)*float64(searchMax-took)/float64(took)))
	}
	if goOn == 1 { // no job has a lower id
		goOn = 0
	}
	return jobs, goOn, nil
}

// searchFew finds the jobs of a type with a status, or in a state, by the index, if few have such a status.
func (c *console) searchFew(ctx context.Context, filter queue_job.Filter) (jobs []queue_job.JobInfo, few bool, err error) {
	st, err := bridge.QueueJob.StoreOf(c.jobs, c.ex)
	if err != nil {
		return nil, false, err
	}
	all := record.Filter{Types: filter.JobTypes}
	for _, s := range statusesOf(&filter) {
		all.Statuses = append(all.Statuses, int32(s))
	}
	if !st.HasIndexFor(&all) {
		return nil, false, nil
	}
	ids, err := st.IDs(ctx, all, fewMax+1)
	if err != nil || len(ids) > fewMax {
		return nil, false, err
	}
	slices.Sort(ids)
	if filter.Before > 0 {
		end, _ := slices.BinarySearch(ids, filter.Before)
		ids = ids[:end]
	}
	if len(filter.States) == 0 { // else, not all of them are in the state
		ids = ids[max(0, len(ids)-filter.Limit):]
	}
	if len(ids) == 0 {
		return nil, true, nil
	}
	filter.IDs = ids
	jobs, err = c.jobs.List(ctx, c.ex, filter)
	return jobs, true, err
}
