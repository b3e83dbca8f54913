package faces

import (
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
)

// FlowStuck is how both faces call a flow that cannot go on by itself.
const FlowStuck = "stuck"

// FlowWord says in a word how a flow stands.
func FlowWord(f *queue_job.FlowInfo) string {
	if f.Stuck {
		return FlowStuck
	}
	return f.State.String()
}

// flowStates are the states of flows that queue_job has a word for.
func flowStates() (states []queue_job.FlowState) {
	for state := queue_job.FlowState(0); !strings.Contains(state.String(), "("); state++ {
		states = append(states, state)
	}
	return states
}

// FlowWords are the words by which flows can be looked for.
func FlowWords() []string {
	words := []string{FlowStuck}
	for _, state := range flowStates() {
		words = append(words, state.String())
	}
	return words
}

// ChooseFlows narrows a filter to the flows that words mean.
func ChooseFlows(f *queue_job.FlowFilter, words ...string) error {
	for _, word := range words {
		known := word == FlowStuck
		f.Stuck = f.Stuck || known
		for _, state := range flowStates() {
			if state.String() == word {
				f.States, known = append(f.States, state), true
			}
		}
		if !known {
			return fmt.Errorf("no state %q; there are %s", word, strings.Join(FlowWords(), ", "))
		}
	}
	if f.Stuck && len(f.States) > 0 {
		return fmt.Errorf("a flow that is %s is open or being undone; leave the other states out", FlowStuck)
	}
	return nil
}

// FlowChanged are the jobs of a flow that a cancellation or a retry may change: if the flow is being undone, a retry changes the jobs that undo
// others, and nothing else can be done to a flow from the moment that it stops.
func FlowChanged(f *queue_job.FlowInfo, retry bool) []queue_job.FlowJobInfo {
	switch f.State {
	case queue_job.FlowOpen, queue_job.FlowCancelled:
		return f.Jobs
	case queue_job.FlowUndoing:
		if retry {
			return f.All()[len(f.Jobs):]
		}
	}
	return nil
}

// WaitsFor are, for each job of a flow that is to come, the names of those that it waits for: they have not succeeded or, if it waits for their
// end, not ended.
func WaitsFor(f *queue_job.FlowInfo) map[string][]string {
	waits, toCome, all := map[string][]string{}, map[string]bool{}, f.All()
	for i := range all {
		toCome[all[i].Name] = all[i].State() == queue_job.FlowJobToCome
	}
	for i := range all {
		j := &all[i]
		if j.Status == queue_job.JobStatusSuccess && !j.ToCount {
			continue
		}
		forSuccess := len(j.Followers) - len(j.AfterEnd)
		for n, name := range j.Followers {
			if toCome[name] && (n < forSuccess || j.ToCount || !j.HoldsUp() || j.JobId == 0) {
				waits[name] = append(waits[name], j.Name)
			}
		}
	}
	return waits
}
