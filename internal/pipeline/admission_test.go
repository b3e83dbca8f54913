package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestATypeHasTheAdmissionsThatItsConfigurationAsksForAndAPlainOneNone(t *testing.T) {
	for _, c := range []struct {
		cfg    queue_job.Config
		places int
		want   string
	}{
		{queue_job.Config{}, 0, "[]"},
		{queue_job.Config{RatePerSecond: 9, RateBurst: 9, BatchSize: 5}, 0, "[]"}, // the gate's
		{queue_job.Config{BatchSize: 5, BatchWait: time.Second}, 0, "[*pipeline.filling]"},
		{queue_job.Config{}, 9, "[*pipeline.claims]"},
		{queue_job.Config{MaxPerKey: 2}, 0, "[*pipeline.keyTurns]"},
		{queue_job.Config{OrderedByKey: true, BatchWait: time.Second}, 9, "[*pipeline.filling *pipeline.claims *pipeline.keyTurns]"},
	} {
		l := lineOf(9)
		l.part.cfg, l.workers.places, l.queue.keys = c.cfg, newPlaces(NewQuota(c.places), &l.workers), newKeys(c.cfg.MaxPerKey, c.cfg.OrderedByKey, 9)
		kinds := []string{}
		for _, a := range newDispatcher(l, lease).admissions {
			kinds = append(kinds, fmt.Sprintf("%T", a))
		}
		if got := fmt.Sprint(kinds); got != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}
