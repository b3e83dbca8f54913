package queue_job

import "fmt"

// Priority says which jobs of a type go first. Jobs of lower priorities run in between, about one for every ten of
// higher ones. The default is [PriorityNormal].
type Priority int8

const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
	PriorityUrgent Priority = 2
)

func (p Priority) String() string {
	names := [...]string{"low", "normal", "high", "urgent"}
	if p < PriorityLow || p > PriorityUrgent {
		return fmt.Sprintf("unknown priority %d", int8(p))
	}
	return names[p-PriorityLow]
}

func checkPriority(p Priority) error {
	if p < PriorityLow || p > PriorityUrgent {
		return fmt.Errorf("%v; use %d (low) to %d (urgent)", p, PriorityLow, PriorityUrgent)
	}
	return nil
}
