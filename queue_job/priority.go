package queue_job

// Priority says which jobs of a type go first. Those of lower ones run meanwhile too, though rarely.
type Priority int8

const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
	PriorityUrgent Priority = 2
)
