package metrics

import (
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Observer is what a Runner tells the metrics by.
func (m *Metrics) Observer() queue_job.Observer { return m.observer() }

// Scraped is what a scrape does with the types that are there, each of which is called mail.
func (m *Metrics) Scraped(now time.Time, types ...int32) {
	there := map[namedType]bool{}
	for _, jobType := range types {
		m.gaugesOf(namedType{jobType, "mail", ""})
		there[namedType{jobType, "mail", ""}] = true
	}
	m.forget(there, now)
}

// ForgetAfter is how long series stay of what is gone.
const ForgetAfter = forgetAfter
