package tests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// awkwardPairs are pairs of texts that some collation, or some session, does not tell apart: blanks at the end, case, accents,
// ligatures, width, kana, emoji, what cannot be seen, and what is normalized.
func awkwardPairs() [][2]string {
	return [][2]string{
		{"a", "a "},
		{"blank  ", "blank"},
		{"case", "CASE"},
		{"é", "e"},
		{"é", "e\u0301"},
		{"ß", "ss"},
		{"ø", "o"},
		{"ﬁ", "fi"},
		{"Ａ", "A"},
		{"①", "1"},
		{"ハ", "は"},
		{"ハ", "ﾊ"},
		{"か", "が"},
		{"日次バッチ", "日次パッチ"},
		{"😀", "😁"},
		{"nightly-😀", "nightly-?"},
		{"soft\u00adhyphen", "softhyphen"},
		{"zero\u200bwidth", "zerowidth"},
		{"tab", "tab\t"},
		{"I", "ı"},
		{"σ", "ς"},
		{"100%", "100_"},
		{`back\slash`, `back\\slash`},
		{"1", "01"},
		{"1e1", "10"},
	}
}

// Two names are two locks, or taking the second lock is an error that tells both. A lock is never taken for another one, and never
// looks as if somebody held it.
func TestALockWhoseNameTheDatabaseTakesForAnotherSaysSo(t *testing.T) {
	t.Parallel()
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		tables := map[string]func(){
			"a table of ours": func() { migrate(t, d) },
			"the original's": func() {
				execute(t, d.DB, "DROP TABLE shedlock_tab")
				for _, ddl := range original[d.Driver] {
					if strings.Contains(ddl, "shedlock_tab") {
						execute(t, d.DB, ddl)
					}
				}
				migrate(t, d)
			},
		}
		for _, table := range []string{"a table of ours", "the original's"} {
			if table == "the original's" && d.Driver != "mysql" {
				continue // there, no collation decides
			}
			tables[table]()
			for _, names := range awkwardPairs() {
				if strings.TrimSpace(names[0]) != names[0] || strings.TrimSpace(names[1]) != names[1] {
					continue // New refuses them
				}
				execute(t, d.DB, "DELETE FROM shedlock_tab")
				one, other := newLock(t, d.DB, shedlock.Config{ServiceName: names[0]}), newLock(t, d.DB, shedlock.Config{ServiceName: names[1]})
				wantTryLock(t, one, true)
				for _, held := range []bool{true, false} {
					if !held {
						unlock(t, one)
					}
					taken, err := other.TryLock(t.Context())
					collides := errors.Is(err, shedlock.ErrCollision) && strings.Contains(err.Error(), fmt.Sprintf("%q", names[0]))
					sameCase := d.Driver == "mysql" && strings.EqualFold(names[0], names[1])
					if err != nil && !collides || err == nil && taken == (sameCase && held) {
						t.Errorf("%s, %q: held %t, TryLock of the other: %v, %v", table, names, held, taken, err)
					}
					if taken {
						unlock(t, other)
					}
					if err == nil {
						continue
					}
					if errLock := other.Lock(t.Context()); !errors.Is(errLock, shedlock.ErrCollision) {
						t.Errorf("%s, %q: Lock: %v", table, names, errLock)
					}
				}
				if err := one.Lock(t.Context()); err != nil {
					t.Errorf("%s, %q: the first lock can be taken no more: %v", table, names, err)
				}
				unlock(t, one)
			}
		}
	})
}

// The name of a service stands in its leases, as far as they have room for it.
func TestTheInstancesOfAServiceShareItsTypesWhateverItIsCalled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		services := map[string]string{"a long name": strings.Repeat("日次バッチ", 60), "marks": "a@b#c@d/e"}
		for what, service := range services {
			execute(t, d.DB, "DELETE FROM shedlock_tab")
			execute(t, d.DB, "DELETE FROM async_job_type_tab")
			var ran runs
			var runners []*persistent_queue.Runner
			for range 2 {
				runners = append(runners, start(t, dbtest.Open(t, d.Driver, d.DSN), typesOf(4, queue_job.Config{ServiceName: service, HandleJobFunc: ran.handler})...))
			}
			var held []int
			await(t, func() string { return fmt.Sprintf("%s: the instances hold %v", what, held) }, func() bool {
				held = heldBy(t, d.DB)
				return slices.Equal(held, []int{2, 2})
			})
			terms := number(t, d.DB, "SELECT SUM(term) FROM shedlock_tab WHERE lock_name LIKE 'job-%'")
			sleep(t.Context(), 3*time.Second)
			if now := number(t, d.DB, "SELECT SUM(term) FROM shedlock_tab WHERE lock_name LIKE 'job-%'"); now != terms {
				t.Errorf("%s: leases were taken anew, though nobody has stopped", what)
			}
			for _, r := range runners {
				stop(t, r)
			}
		}
	})
}

// Jobs whose keys differ may be of one key for the database: whoever inserts a row by hand need not ask checkKey. All of them run.
func TestJobsWhoseKeysTheDatabaseMayHoldForEqualAllRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var keys []string
		for _, pair := range awkwardPairs() {
			keys = append(keys, pair[:]...)
		}
		now := time.Now().Unix()
		for jobType := 1; jobType <= 3; jobType++ {
			for range 2 {
				for _, key := range keys {
					for _, column := range []string{"job_key", "job_group"} {
						execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, %s) VALUES ('{}', %d, 0, 0, %d, %[3]d, ?)", column, jobType, now), key)
					}
				}
			}
		}
		var ran runs
		start(t, d.DB,
			queue_job.Config{JobType: 1, OrderedByKey: true, HandleJobFunc: ran.handler},
			queue_job.Config{JobType: 2, MaxPerKey: 1, HandleJobFunc: ran.handler},
			queue_job.Config{JobType: 3, OrderedByKey: true, Shards: 4, HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 3*2*2*len(keys))
	})
}
