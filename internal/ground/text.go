package ground

import "fmt"

// Cut shortens a text to at most this many characters.
func Cut(text string, most int) string {
	return string([]rune(text)[:min(most, len([]rune(text)))])
}

// TypeText says a job type's number and, if it is known, its name.
func TypeText(jobType int32, name string) string {
	if name == "" {
		return fmt.Sprintf("type %d", jobType)
	}
	return fmt.Sprintf("type %d (%s)", jobType, name)
}

// Plural is a number with what it counts.
func Plural(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// JobsText says a number of jobs, of which no more than most were counted.
func JobsText(n, most int) string {
	switch n {
	case 1:
		return "1 job"
	case most:
		return fmt.Sprintf("at least %d jobs", n)
	}
	return fmt.Sprintf("%d jobs", n)
}
