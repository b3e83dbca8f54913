package console

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	jobsOnAPage = 50

	// A search goes along the ids in windows, which grow as long as each is read in a moment.
	windowFirst, windowMost = 10_000, 1_000_000
	momentMax               = 30 * time.Millisecond
	searchMax               = 150 * time.Millisecond
)

// search finds the jobs of a page, and one more if there is one, from the newest down. Where no index leads to them, few of millions may
// match. So it ends when it has taken long enough; jobs with ids from goOn down are for the next search then. 0: there are no more.
func (c *console) search(ctx context.Context, filter queue_job.Filter) (jobs []queue_job.JobInfo, goOn uint64, err error) {
	filter.NewestFirst, filter.OmitLongParams, filter.Limit = true, true, jobsOnAPage+1
	if filter.Key != "" || len(filter.JobTypes) == 0 && len(filter.Statuses) == 0 {
		jobs, err = c.jobs.List(ctx, c.ex, filter)
		return jobs, 0, err
	}
	goOn = filter.Before
	if goOn == 0 {
		newest, err := c.jobs.List(ctx, c.ex, queue_job.Filter{NewestFirst: true, Limit: 1, OmitLongParams: true})
		if err != nil || len(newest) == 0 {
			return nil, 0, err
		}
		goOn = newest[0].Id + 1
	}
	window := uint64(windowFirst)
	for began := time.Now(); goOn > 1 && len(jobs) <= jobsOnAPage && time.Since(began) < searchMax; {
		filter.Before, filter.After, filter.Limit = goOn, 0, jobsOnAPage+1-len(jobs)
		if goOn > window {
			filter.After = goOn - window - 1
		}
		read := time.Now()
		some, err := c.jobs.List(ctx, c.ex, filter)
		if err != nil {
			return nil, 0, err
		}
		jobs, goOn = append(jobs, some...), filter.After+1
		if time.Since(read) < momentMax {
			window = min(4*window, windowMost)
		}
	}
	if goOn == 1 { // no job has a lower id
		goOn = 0
	}
	return jobs, goOn, nil
}
