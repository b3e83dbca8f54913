package queue_job

import (
	"context"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// rowsByNow are rows that may have changed since somebody has seen that they were old.
type rowsByNow []record.Listed

func (r rowsByNow) List(context.Context, record.Filter, int) ([]record.Listed, error) { return r, nil }

func (r rowsByNow) AttemptsOf(context.Context, []uint64) ([]store.Attempt, error) {
	return []store.Attempt{{JobID: 1, Attempt: 1}, {JobID: 2, Attempt: 1}, {JobID: 1, Attempt: 2}}, nil
}

func (r rowsByNow) StepsAndLogsOf(context.Context, []uint64) ([]store.Step, error) {
	return []store.Step{{JobID: 3, Name: "charge", Value: "1"}, {JobID: 2, Name: "charge"}, {JobID: 3, Kind: store.StepLog, Name: "1/7", Attempt: 1, Term: 7, Value: `"a"`}}, nil
}

func TestAJobThatRunsAgainIsNotArchived(t *testing.T) {
	row := func(id uint64, status JobStatus) record.Listed {
		return record.Listed{Row: store.Row{ID: id, Status: int16(status), MaxRetries: store.NotSet}}
	}
	rows := rowsByNow{row(1, JobStatusFailed), row(2, JobStatusInit), row(3, JobStatusSuccess)} // and 4 is gone
	jobs, err := archivedOf(t.Context(), rows, []uint64{1, 2, 3, 4})
	if err != nil || len(jobs) != 2 || jobs[0].Id != 1 || len(jobs[0].Runs) != 2 || jobs[1].Id != 3 || len(jobs[1].Runs) != 0 ||
		len(jobs[0].Steps) != 0 || len(jobs[1].Steps) != 1 || len(jobs[0].Logs) != 0 || len(jobs[1].Logs) != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
}
