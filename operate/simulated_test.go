package operate

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/simulator"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Explain is asked at each mark and each start of simulated worlds: then it is certain why the job does not start, or that it does.
func TestWhatIsSaidOfAJobIsTrueInSimulatedWorlds(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 50
	}
	if text := os.Getenv("PQ_SIM_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	saw := map[string]int{}
	for seed := 1; seed <= seeds && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			again := promised{}
			simulator.Watch(uint64(seed), func(s simulator.Sight) {
				what, wrong := judge(s)
				if wrong == "" {
					what, wrong = again.heed(s, what)
				}
				if saw[what]++; wrong != "" {
					t.Errorf("seed %d: %s: %s", seed, what, wrong)
				}
			})
		})
	}
	t.Logf("%d worlds: %v", seeds, saw)
	cases := []string{"marked", "marked early", "lost", "started", "marked in a pause", "with a buried instance"}
	if !testing.Short() { // one world in a dozen has it
		cases = append(cases, "lost as promised")
	}
	for _, what := range cases {
		if saw[what] == 0 {
			t.Errorf("no job was %s in %d worlds: that proves nothing", what, seeds)
		}
	}
}

// judge asks why the job of a sight does not start, and says what the sight is and what is wrong about the answer.
func judge(s simulator.Sight) (what, wrong string) {
	f := factsOf(s)
	e := explain(f)
	var kinds []string
	for _, r := range e.Reasons {
		kinds = append(kinds, r.Kind)
	}
	lease, missing := f.lease()
	switch {
	case s.Buried:
		what = "with a buried instance"
		holder, _ := f.holderOf(s.Row.Term)
		if holder == nil {
			return what + ", and its lease has ended", ""
		}
		if _, _, governed := share.TakingOf(holder.Owner); !governed {
			what += ", under a lease with one end"
			if e.Reasons[0].saysBuried() {
				wrong = "nobody takes that lease"
			}
		} else if !e.Reasons[0].saysBuried() || share.OwnerOf(holder.Owner).Instance != s.Instance {
			wrong = fmt.Sprintf("instance %s has it, and was buried", s.Instance)
		}
	case s.Starts && e.Reasons[0].saysBuried():
		what, wrong = "started", fmt.Sprintf("instance %s starts it", s.Instance)
	case s.Starts:
		what = "started"
		if holder, _ := f.holderOf(s.Row.Term); !slices.Equal(kinds, []string{InFlight}) || share.OwnerOf(holder.Owner).Instance != s.Instance {
			wrong = fmt.Sprintf("instance %s starts it", s.Instance)
		}
	case missing != nil || share.OwnerOf(lease.Owner).Instance != s.Instance:
		what, wrong = "marked", fmt.Sprintf("instance %s marks it, and does not hold its lease", s.Instance)
	case s.Row.Term != 0:
		if what = "lost"; kinds[0] != Died {
			wrong = fmt.Sprintf("instance %s takes it over", s.Instance)
		}
	default:
		what = "marked"
		for _, r := range e.Reasons {
			switch {
			case r.Kind == InLine:
			case r.Kind == NotDue && r.Until.Sub(f.now) <= aheadMost:
				what = "marked early"
			case r.Kind == Paused: // a mark may be under way when a pause begins; it is not started then
				what = "marked in a pause"
			default:
				wrong = fmt.Sprintf("instance %s marks it", s.Instance)
			}
		}
	}
	if wrong != "" {
		wrong = fmt.Sprintf("%s; Explain says %+v of %+v; leases %+v", wrong, e.Reasons, s.Row, s.Fleet)
	}
	return what, wrong
}

func (r *Reason) saysBuried() bool { return r.Kind == InFlight && strings.Contains(r.Text, "buried") }

// promised are the moments at which jobs run again, as Explain says it when their instances are buried, by their ids.
type promised map[uint64]promise

type promise struct {
	term     int64
	at       time.Time
	instance string
}

// heed says so if a job counts as lost before that moment, and nobody has said that its instance's process is gone.
func (p promised) heed(s simulator.Sight, what string) (is, wrong string) {
	now := factsOf(s).now
	switch was, known := p[s.Row.ID]; {
	case s.Buried:
		if r := explain(factsOf(s)).Reasons[0]; r.saysBuried() {
			p[s.Row.ID] = promise{s.Row.Term, r.Until, s.Instance}
		}
	case what == "lost" && known && was.term == s.Row.Term:
		if slices.ContainsFunc(s.Fleet.Leases, func(l store.Seen) bool { return l.Name == share.Life(was.instance) && l.Running <= store.Dead }) {
			return "lost since its process is gone", ""
		}
		if now.Before(was.at.Add(-time.Millisecond)) {
			wrong = fmt.Sprintf("it counts as lost at %v, and was to at %v", now, was.at)
		}
		return "lost as promised", wrong
	}
	return what, ""
}

// aheadMost is how long before its time, as Explain says it, a job may be marked: marks come up to 0.2 s ahead, and the row's second
// is rounded up.
const aheadMost = 1200 * time.Millisecond

func factsOf(s simulator.Sight) *facts {
	row := &s.Row
	f := &facts{id: row.ID, now: time.UnixMicro(int64(s.Fleet.Now * 1e6)), first: s.First, fleet: s.Fleet}
	f.kind = queue_job.Type{JobType: row.JobType, Paused: s.Paused, Told: time.Unix(1, 0), Config: s.Config}
	f.job = &queue_job.JobInfo{
		Id: row.ID, JobType: row.JobType, Status: queue_job.JobStatus(row.Status), Term: row.Term, Attempts: int(row.Attempts), Lost: int(row.Lost), Retries: int(row.Retries),
		Group: row.Group(), Due: time.Unix(row.CreateTime, 0), Updated: time.Unix(row.CreateTime, 0),
	}
	if row.StartTime > 0 {
		f.job.Due = time.Unix(row.StartTime, 0)
	}
	f.job.InFlight = f.job.Pending() && row.Term != 0
	return f
}
