package queue_job

import "fmt"

// BatchErrors is what a [Config.HandleBatchFunc] returns to tell its jobs apart. It holds the error of each job, at the
// job's index in the list that the handler got, and nil for a job that went well. It needs as many entries as there are
// jobs. With fewer or more, nobody knows which entry is for which job, and each job ends with an error that says so.
type BatchErrors []error

// Error says how many of the jobs ended with an error, and which error was the first.
func (b BatchErrors) Error() string {
	n := 0
	var first error
	for _, err := range b {
		if err == nil {
			continue
		}
		if n++; first == nil {
			first = err
		}
	}
	if n == 0 {
		return fmt.Sprintf("none of %d jobs ended with an error", len(b))
	}
	return fmt.Sprintf("%d of %d jobs ended with an error; the first: %v", n, len(b), first)
}

// Unwrap lets errors.Is and errors.As look at each error.
func (b BatchErrors) Unwrap() []error { return b }
