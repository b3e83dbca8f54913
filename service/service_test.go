package service

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestTasksAreKeptForSomeDaysUnlessSomebodySaysOtherwise(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ given, want queue_job.Retention }{
		{queue_job.Retention{}, queue_job.Retention{Done: 3 * day, Cancelled: 3 * day, Failed: 30 * day}},
		{queue_job.Retention{Done: -1, Cancelled: -1, Failed: -1}, queue_job.Retention{}},
		{queue_job.Retention{Done: day, Cancelled: -1, Failed: 2 * day}, queue_job.Retention{Done: day, Failed: 2 * day}},
	} {
		if got := retentionOf(c.given); got != c.want {
			t.Errorf("%+v is %+v, want %+v", c.given, got, c.want)
		}
	}
}

func TestReadinessTellsTheLogAloneWhereTheDatabaseIs(t *testing.T) {
	refused := errors.New("dial tcp 10.1.2.3:3306: connection refused")
	for what, c := range map[string]struct {
		silent, unwell error
		says           string
	}{
		"the database is away":                  {refused, nil, "the database does not answer"},
		"it is away, so nothing is sent":        {refused, errors.New("no look at the leases has succeeded"), "the database does not answer"},
		"it answers, and takes no mark of 10.1": {nil, errors.New("10.1.2.3:3306: mark jobs: the table is locked"), "tasks are not sent, or not all of them; the log of the service says why"},
	} {
		var log strings.Builder
		s := &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for n := range 2 {
			for range 3 { // as probes do
				if err := s.answers(c.silent, c.unwell, errUnwell); err == nil || err.Error() != c.says {
					t.Errorf("%s: anybody hears %v", what, err)
				}
			}
			if lines := strings.Count(log.String(), "10.1.2.3:3306"); lines != n+1 {
				t.Errorf("%s: %d lines after it was red %d times: %s", what, lines, n+1, &log)
			}
			if err := s.answers(nil, nil, errUnwell); err != nil {
				t.Error(what, err)
			}
		}
	}
}
