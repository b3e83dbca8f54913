package operate

import (
	"fmt"
	"math"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	unheardAfter = share.UnheardAfter
	buriedWithin = 2 * time.Second // after the last beat counts no more: others look twice a second, and take the leases a look later
)

// silence is that the holder of a lease is not heard of. Package keeper says what others do about it.
type silence struct {
	buried bool
	heard  time.Time // when it was heard of last, or some time later: nothing was heard since
	starts time.Time // until when it may start jobs
}

// silenceOf returns the silence of who has a lease, or runs what remains of one. Nil: it is heard of, or the lease has one end.
func (f *facts) silenceOf(l *store.Seen) *silence {
	taking, _, governed := share.TakingOf(l.Owner)
	if !governed {
		return nil
	}
	name := share.Life(share.OwnerOf(l.Owner).Instance)
	for i := range f.fleet.Leases {
		row := &f.fleet.Leases[i]
		if row.Name != name || row.Free {
			continue
		}
		if began, _, _ := share.TakingOf(row.Owner); began > taking {
			return nil // it was buried, and is heard of again
		}
		s := &silence{buried: share.IsOver(row.Running), starts: time.UnixMilli(row.Term)}
		s.heard = s.starts.Add(-time.Duration(row.Running) * time.Millisecond)
		if s.buried {
			s.heard = s.starts.Add(-keeper.BeatCounts) // the beat may have counted for longer
		} else if f.now.Sub(s.heard) < unheardAfter {
			return nil
		}
		return s
	}
	return nil
}

// lasts is for how long nothing has been heard, in words.
func (s *silence) lasts(now time.Time) string {
	return max(0, now.Sub(s.heard)).Truncate(time.Second / 10).String()
}

// others are the instances that could take over from the holder of a lease.
func (f *facts) others(l *store.Seen) int {
	here, n := share.Presence(share.OwnerOf(l.Owner).Instance), f.present()
	for i := range f.fleet.Leases {
		if row := &f.fleet.Leases[i]; row.Name == here && f.isPresent(row) {
			n--
		}
	}
	return n
}

// isPresent reports whether a row says that an instance is there that is not about to stop, and that nobody has buried.
func (f *facts) isPresent(l *store.Seen) bool {
	id, ok := share.ParsePresence(l.Name)
	if !ok || l.Free || l.Running == share.Leaves {
		return false
	}
	for i := range f.fleet.Leases {
		if row := &f.fleet.Leases[i]; row.Name == share.Life(id) && !row.Free && share.IsOver(row.Running) {
			return false
		}
	}
	return true
}

// ofHolder says so if the holder of a lease is not heard of, or has not renewed the lease in time.
func (f *facts) ofHolder(l *store.Seen) string {
	s := f.silenceOf(l)
	switch {
	case s == nil:
		return f.overdue(l)
	case s.buried:
		return fmt.Sprintf(" But it has not been heard of for %s, and was buried: others take its leases.", s.lasts(f.now))
	}
	text := fmt.Sprintf(" But it has not been heard of for %s.", s.lasts(f.now))
	switch left := s.starts.Add(buriedWithin).Sub(f.now); {
	case f.others(l) == 0:
		return text + " If it has died, the next instance that starts takes over within some seconds."
	case left > 0:
		return text + fmt.Sprintf(" If that goes on, others take over within %s.", upTo(left))
	}
	return text + fmt.Sprintf(" The others have not taken over yet; they do so in %s at the latest, when its lease ends.", leftOf(l))
}

// leftOf is how long a lease lasts that nobody renews.
func leftOf(l *store.Seen) time.Duration { return upTo(time.Duration(l.Left * float64(time.Second))) }

// upTo rounds a span up to whole seconds.
func upTo(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(max(0, d).Seconds())) * time.Second
}

// runsOfBuried says what becomes of a job whose instance is buried. Nobody runs it again before the lease under which it runs has ended.
func (f *facts) runsOfBuried(holder *store.Seen, s *silence) Reason {
	r := Reason{Kind: InFlight, Since: f.job.Updated, Until: f.now.Add(time.Duration(holder.Left * float64(time.Second))), Remedy: seeToIt,
		Text: fmt.Sprintf("It runs on an instance that has not been heard of for %s, %s: that was buried, and others take its leases. As long as it may "+
			"still run the job, nobody else does. When the lease of this run has ended, or Jobs.Bury has said that the process is gone, the run counts as "+
			"lost, and the job",
			s.lasts(f.now), share.Readable(holder.Owner))}
	if limit := f.kind.Config.LostLimit; limit > 0 && f.job.Lost+1 >= limit {
		r.Text += fmt.Sprintf(" has failed: LostLimit is %d.", limit)
	} else {
		r.Text += " runs again."
	}
	return r
}

const seeToIt = "See to that process: it has died, was frozen, or could not write to shedlock_tab each second."

// ofRunner says so if the instance that has a job is not heard of, or has not renewed its lease in time.
func (f *facts) ofRunner(holder *store.Seen) string {
	s := f.silenceOf(holder)
	if s == nil {
		return f.overdue(holder)
	}
	return fmt.Sprintf(" But it has not been heard of for %s. If it has died, this run counts as lost in %s.",
		s.lasts(f.now), leftOf(holder))
}

// judgeUnheard says which instances are buried, and of which nothing is heard although nobody has buried them.
func (h *Health) judgeUnheard() {
	for i := range h.Instances {
		of := &h.Instances[i]
		who := fmt.Sprintf("%s@%s/%d", of.Service, of.Host, of.Process)
		say := func(severity Severity, kind, format string, args ...any) {
			h.Findings = append(h.Findings, Finding{Severity: severity, Kind: kind, Text: fmt.Sprintf(format, args...), Remedy: seeToIt})
		}
		switch {
		case !of.Buried.IsZero():
			say(Warning, buriedInstance, "%s was buried %s ago%s: others take its leases.%s",
				who, words.Roughly(h.At.Sub(of.Buried)), buriedWhy(of), h.leftAlone(of))
		case !of.Silent(h.At):
		case h.At.Sub(of.StartsUntil) < buriedWithin:
			say(Note, unheardInstance, "%s has not been heard of for %s. If that goes on, others take over in a moment.",
				who, words.Tenths(h.At.Sub(of.HeardOf)))
		default:
			say(Warning, unheardInstance, "%s has not been heard of for %s, so it starts no jobs, and nobody has taken its leases.%s", who,
				words.Tenths(h.At.Sub(of.HeardOf)), h.leftAlone(of))
		}
	}
}

// buriedWhy says by whom an instance was buried, and after which silence. Empty: that is not known.
func buriedWhy(i *queue_job.Instance) string {
	if i.BuriedBy == "" {
		return ""
	}
	return fmt.Sprintf(" by %s, which had not heard of it for %s", i.BuriedBy, words.Tenths(i.Buried.Sub(i.HeardOf)))
}

// leftAlone says until when nobody runs again what an instance runs of which nothing is heard. Empty: that is over, or it runs nothing.
func (h *Health) leftAlone(i *queue_job.Instance) string {
	left := i.RunsUntil.Sub(h.At)
	if i.Running == 0 || left <= 0 {
		return ""
	}
	return fmt.Sprintf(" What it runs (%s, as it said last) is left alone for another %s at most, and runs again then.",
		words.Count(i.Running, "handler"), words.Roughly(left))
}
