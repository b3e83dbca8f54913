package faces

import (
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// Heard says when an instance was heard of last. Empty: it has not to say that it is alive, or it is not known.
func Heard(i *queue_job.Instance, now time.Time) string {
	switch since := now.Sub(i.HeardOf); {
	case i.HeardOf.IsZero():
		return ""
	case since >= share.UnheardAfter:
		return words.Tenths(since) + " ago"
	}
	return "just now"
}

// Restless says in a few words what is out of the ordinary about an instance: it is buried or silent, stops, or is drained. Empty: nothing.
// Clock writes a moment.
func Restless(i *queue_job.Instance, now time.Time, clock func(time.Time) string) string {
	switch {
	case !i.Buried.IsZero() && i.BuriedBy != "":
		return fmt.Sprintf("buried by %s after %s", i.BuriedBy, words.Tenths(i.Buried.Sub(i.HeardOf)))
	case !i.Buried.IsZero():
		return "buried " + words.Span(now.Sub(i.Buried)) + " ago"
	case i.Silent(now):
		return "silent"
	case i.Leaving:
		return "stops"
	case !i.DrainedUntil.IsZero():
		return "drained until " + clock(i.DrainedUntil)
	}
	return ""
}

// LeftAlone says for how long what an instance runs is left alone if it is not heard of any more. Empty: it has no lease.
func LeftAlone(i *queue_job.Instance, now time.Time) string {
	if i.RunsUntil.IsZero() {
		return ""
	}
	return words.Roughly(i.RunsUntil.Sub(now))
}

// BuriedText says by whom the holder of a lease was buried, and why.
func BuriedText(t *operate.Tenure) string {
	return fmt.Sprintf("buried by %s: not heard of for %s", t.BuriedBy, words.Tenths(t.Ended.Sub(t.HeardOf)))
}
