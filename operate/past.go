package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// past is what befell a job, beside the runs of which the log has a row.
type past struct {
	steps     []queue_job.StepInfo // nil: nothing of the past was read
	logs      []queue_job.RunLog
	acts      []Act
	actsSince time.Time
	holder    string
}

// actsOfJobMost is how many acts a past has at most.
const actsOfJobMost = 50

// ReadPast reads the steps of the job, what its runs have logged, what people did to it, and who had it last. It takes one statement; if
// [Explain] has read all that, it takes none.
func (e *Explanation) ReadPast(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor) error {
	if e.Job == nil || e.Steps != nil {
		return nil
	}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	var p past
	if err == nil {
		p, err = pastOf(ctx, st, jobs, e.Job)
	}
	if err != nil {
		return fmt.Errorf("past of job %d: %w", e.Id, err)
	}
	e.Steps, e.Logs, e.Acts, e.ActsSince, e.Holder = p.steps, p.logs, p.acts, p.actsSince, p.holder
	return nil
}

func pastOf(ctx context.Context, st *record.Store, jobs *queue_job.Jobs, job *queue_job.JobInfo) (p past, err error) {
	read, err := st.PastOfJob(ctx, record.OfPast{
		ID: job.Id, Created: job.Created.Unix(), Lease: share.TypeLease(job.JobType), Term: job.Term, Acts: actsOfJobMost})
	if err != nil {
		return past{}, err
	}
	p.steps, p.logs = bridge.QueueJob.StepsAndLogs(jobs, job, read.Steps)
	for i := range read.Acts {
		act := actOf(&read.Acts[i])
		act.Jobs = []uint64{job.Id}
		p.acts = append(p.acts, act)
	}
	if read.ActsSince > 0 {
		p.actsSince = time.Unix(read.ActsSince, 0)
	}
	for i := range read.Tenures {
		holder := share.Readable(read.Tenures[i].Owner)
		if i > 0 && holder != p.holder { // a lease of another shard has the same term
			p.holder = ""
			break
		}
		p.holder = holder
	}
	return p, nil
}
