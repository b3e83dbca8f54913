package tests

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// SQLite has no second connection for that.
func TestAnInstanceSaysOnceASecondThatItLivesHoweverManyLeasesItHas(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		const types, span = 20, 10 * time.Second
		quiet := func(context.Context, *queue_job.Job) error { return nil }
		r := start(t, d.DB, typesOf(types, queue_job.Config{HandleJobFunc: quiet})...)
		awaitNumber(t, d.DB, types, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%'")
		sleep(t.Context(), 2*time.Second) // whatever is taken now, has numbers of its own
		const latest = "SELECT layout FROM shedlock_tab WHERE lock_name LIKE 'live-%'"
		before := number(t, d.DB, latest)
		sleep(t.Context(), span)
		if beats, most := number(t, d.DB, latest)-before, int64(span/time.Second)+1; beats < 1 || beats > most {
			t.Errorf("%d beats in %v, want %d at most", beats, span, most)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%'")
	})
}
