package metrics

import "github.com/create-info/persistent-queue/queue_job"

// Observer is what a Runner tells the metrics by.
func (m *Metrics) Observer() queue_job.Observer { return m.observer() }
