package main

import (
	"errors"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestTheSearchEngineGetsManyOrdersInOneCallAndTellsThemApart(t *testing.T) {
	tr := newTrial(t)
	good, bad := tr.paid(), tr.paid() // two jobs each: placed, paid
	tr.refused = map[int64]error{bad.ID: errors.New("not indexed")}
	tr.RunDue()
	if len(tr.searched) != 1 || len(tr.searched[0]) != 2 || tr.searched[0][0] != good {
		t.Errorf("%+v, want one call with both orders as they are", tr.searched)
	}
	for id, status := range map[int64]queue_job.JobStatus{good.ID: queue_job.JobStatusSuccess, bad.ID: queue_job.JobStatusRetry} {
		if jobs := tr.Added(IndexOrder.JobType, queuetest.Params(OrderRef{id}), queuetest.Status(status)); len(jobs) != 2 {
			t.Errorf("order %d: %d jobs are %v, want two", id, len(jobs), status)
		}
	}
}

func TestABatchWhoseProcessDiesGoesToTheSearchEngineAgain(t *testing.T) {
	tr := newTrial(t)
	tr.placed()
	tr.LoseOne(tr.RequireAdded(IndexOrder.JobType).Id)
	tr.RunDue()
	if len(tr.searched) != 2 {
		t.Errorf("%d calls, want two", len(tr.searched))
	}
}
