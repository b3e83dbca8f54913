package faces

import (
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
)

// FlowStuck is how both faces call an open flow that cannot go on by itself.
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
		return fmt.Errorf("a flow that is %s is open; leave the other states out", FlowStuck)
	}
	return nil
}

// WaitsFor are, for each job of a flow that is to come, the names of those that it waits for: they have not succeeded or, if it waits for their
// end, not ended.
func WaitsFor(f *queue_job.FlowInfo) map[string][]string {
	waits, toCome := map[string][]string{}, map[string]bool{}
	for i := range f.Jobs {
		toCome[f.Jobs[i].Name] = f.Jobs[i].State() == queue_job.FlowJobToCome
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
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
