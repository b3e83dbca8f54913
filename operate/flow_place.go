package operate

import (
	"fmt"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// tellFlow adds to a reason which place the job has in its flow, and what its end means there.
func (f *facts) tellFlow(r *Reason) {
	if f.flow == nil {
		return
	}
	state, key := queue_job.FlowState(f.flow.State), ""
	if f.flow.Key != "" {
		key = fmt.Sprintf(", key %q", f.flow.Key)
	}
	undoes := store.Undoes(f.node.Kind)
	r.Text += fmt.Sprintf(" It %s %q in flow %d, which is %v (kind %q%s).", oneOf(undoes, "undoes", "is"), f.node.Name, f.flow.ID,
		state, f.flow.Kind, key)
	if state == queue_job.FlowStopping {
		r.Text += " No other job of it is added any more, and a retry of this one does nothing."
	}
	behind := f.behindIt()
	switch succeeded := f.job.Status == queue_job.JobStatusSuccess; {
	case state == queue_job.FlowCancelled && f.job.Status == queue_job.JobStatusCancelled:
		r.Remedy = "If the flow is to go on after all, retry the flow: it takes its jobs along."
	case undoes && state == queue_job.FlowUndoing && !succeeded:
		r.Text += " The flow is not undone before it has succeeded."
	case state != queue_job.FlowOpen, succeeded, f.node.Kind == store.NodeAlarm:
	case behind == 0:
		r.Text += " The flow is not done before it has succeeded."
	default:
		r.Text += fmt.Sprintf(" %s not added before it has succeeded.", oneOrMany(behind, "1 job that comes after it is",
			words.Count(behind, "job")+" that come after it are"))
	}
}

func oneOf(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// behindIt counts the jobs that wait for the success of this one. The end of the flow is none.
func (f *facts) behindIt() (n int) {
	for _, number := range f.node.Followers {
		if number < f.flow.Nodes {
			n++
		}
	}
	return n
}
