package tests

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

var whilePending = queue_job.UniqueKey("k", queue_job.UniqueWhilePending)

// takenKey adds a job that has failed, and whose key the next job has taken, which is done and deleted.
func takenKey(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) (id uint64) {
	t.Helper()
	id = addOne(t, jobs, d.DB, whilePending).Id
	finish(t, d.DB, id, queue_job.JobStatusFailed)
	next := addOne(t, jobs, d.DB, whilePending).Id
	finish(t, d.DB, next, queue_job.JobStatusSuccess)
	addOne(t, jobs, d.DB, inAnHour()) // the one with the largest id is not deleted
	if n, err := jobs.DeleteJobs(t.Context(), d.DB, queue_job.ID(next)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return id
}

func TestAJobWhoseKeyWasTakenHasItAgainWhenItRunsAgain(t *testing.T) {
	t.Parallel()
	ways := map[string]func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error){
		"retry": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error) {
			return jobs.Retry(ctx, db, queue_job.ID(id))
		},
		"retry with": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error) {
			return jobs.RetryWith(ctx, db, queue_job.ID(id), "new")
		},
		"retry all": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error) {
			return jobs.RetryAll(ctx, db, queue_job.RetryRange{JobType: 1})
		},
		"retry with an actor": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error) {
			return jobs.Retry(queue_job.WithActor(ctx, "anna", ""), db, queue_job.ID(id))
		},
		"operation": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, _ uint64) (queue_job.Retried, error) {
			id, err := operate.Begin(queue_job.WithActor(ctx, "anna", ""), jobs, db, operate.Change{Verb: operate.Retry, Filter: queue_job.Filter{JobTypes: []int32{1}}})
			if err != nil {
				return queue_job.Retried{}, err
			}
			changed := 0
			err = operate.CarryOut(ctx, jobs, db, id, func(o operate.Operation) { changed = o.Changed })
			return queue_job.Retried{Jobs: changed}, err
		},
		"archived and restored": func(ctx context.Context, jobs *queue_job.Jobs, db *sql.DB, id uint64) (queue_job.Retried, error) {
			var archived []queue_job.Archived
			_, err := jobs.Delete(ctx, db, queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Archive: func(_ context.Context, some []queue_job.Archived) error {
				archived = append(archived, some...)
				return nil
			}})
			if err == nil {
				_, err = jobs.Restore(ctx, db, archived)
			}
			if err != nil {
				return queue_job.Retried{}, err
			}
			return jobs.Retry(ctx, db, queue_job.ID(id))
		},
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for name, retry := range ways {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			id := takenKey(t, d, jobs)
			if !get(t, jobs, d.DB, id).Unique {
				t.Errorf("%s: a job whose key was taken was added with a uniqueness, and is said not to be unique", name)
			}
			if r, err := retry(t.Context(), jobs, d.DB, id); err != nil || r.Jobs != 1 {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			if info := get(t, jobs, d.DB, id); !info.Unique || info.Status != queue_job.JobStatusInit {
				t.Errorf("%s: %+v", name, info)
			}
			if again := addOne(t, jobs, d.DB, whilePending); !again.Existed || again.Id != id {
				t.Errorf("%s: a second job of the key was added: %+v", name, again)
			}
		}
	})
}

// between is a handle on which something happens before each statement that has a word in it, once.
type between struct {
	db   *sql.DB
	word string
	then func()
}

func (b *between) before(query string) {
	if then := b.then; then != nil && strings.Contains(query, b.word) {
		b.then = nil
		then()
	}
}

func (b *between) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	b.before(query)
	return b.db.ExecContext(ctx, query, args...)
}

func (b *between) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	b.before(query)
	return b.db.QueryContext(ctx, query, args...)
}

func TestAJobThatIsRetriedWhileItsKeyIsTakenHasItOrStays(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		list := func() []queue_job.AddModelJob {
			return []queue_job.AddModelJob{
				queue_job.AddModelJob{JobType: 1, JobParams: "x"}.With(whilePending),
				queue_job.AddModelJob{JobType: 1, JobParams: "x"}.With(queue_job.UniqueKey("other", queue_job.UniqueWhilePending)),
			}
		}
		for name, add := range map[string]func(ex queue_job.Executor) (queue_job.Added, error){
			"one": func(ex queue_job.Executor) (queue_job.Added, error) {
				return jobs.AddUnique(t.Context(), ex, list()[0])
			},
			"many": func(ex queue_job.Executor) (queue_job.Added, error) {
				added, err := jobs.AddMany(t.Context(), ex, list())
				if err != nil {
					return queue_job.Added{}, err
				}
				return added[0], nil
			},
		} {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			failed := addOne(t, jobs, d.DB, whilePending).Id
			finish(t, d.DB, failed, queue_job.JobStatusFailed)
			added, err := add(&between{db: d.DB, word: "INSERT", then: func() { // the key is taken, and no other job has it
				if r, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(failed)); err != nil || r.Jobs != 1 {
					t.Errorf("%s: the job is not retried: %+v, %v", name, r, err)
				}
			}})
			if err != nil || !added.Existed || added.Id != failed {
				t.Errorf("%s, retried before the key is given to the new job: %+v, %v", name, added, err)
			}

			finish(t, d.DB, failed, queue_job.JobStatusFailed)
			var second queue_job.Added
			r, err := jobs.Retry(t.Context(), &between{db: d.DB, word: "UPDATE", then: func() {
				if second, err = add(d.DB); err != nil || second.Existed {
					t.Errorf("%s: %+v, %v", name, second, err)
				}
			}}, queue_job.ID(failed))
			if err != nil || r.Jobs != 0 || !slices.Equal(r.Taken, []uint64{failed}) {
				t.Errorf("%s, added before the retry: %+v, %v; want that the key is taken", name, r, err)
			}
		}
	})
}

// The model: of the jobs that were added with a uniqueness, no two of a key are pending.
func TestNoTwoUniqueJobsOfAKeyArePendingWhateverTwoCallersDo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		keys := []string{"a", "b", "c"}
		var mu sync.Mutex
		var unique []uint64 // were added so
		isUnique := map[uint64]bool{}
		var archived []queue_job.Archived
		var wait sync.WaitGroup
		for caller := range 2 {
			dice := rand.New(rand.NewPCG(seed, uint64(caller)))
			actor := queue_job.WithActor(t.Context(), "anna", "")
			wait.Go(func() {
				for step := range unlessShort(400, 120) / slack {
					ctx := t.Context()
					if dice.IntN(3) == 0 {
						ctx = actor
					}
					mu.Lock()
					some := slices.Clone(unique[max(0, len(unique)-12):])
					mu.Unlock()
					one := queue_job.ID(0)
					if len(some) > 0 {
						one = queue_job.ID(some[dice.IntN(len(some))])
						dice.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
						some = some[:1+dice.IntN(len(some))]
					}
					key := keys[dice.IntN(len(keys))]
					var err error
					act := dice.IntN(12)
					switch act {
					case 0, 1:
						job := queue_job.AddModelJob{JobType: 1, JobParams: step}.With(queue_job.UniqueKey(key, queue_job.Uniqueness(1+dice.IntN(3)/2)))
						job.ReplaceWaiting = dice.IntN(2) == 0
						var added queue_job.Added
						if added, err = jobs.AddUnique(ctx, d.DB, job); err == nil {
							mu.Lock()
							unique, isUnique[added.Id] = append(unique, added.Id), true
							mu.Unlock()
						}
					case 2:
						var list []queue_job.AddModelJob
						for _, key := range keys {
							list = append(list, queue_job.AddModelJob{JobType: 1, JobParams: step}.With(queue_job.UniqueKey(key, queue_job.UniqueWhilePending)))
						}
						var added []queue_job.Added
						added, err = jobs.AddMany(ctx, d.DB, list)
						mu.Lock()
						for _, a := range added {
							unique, isUnique[a.Id] = append(unique, a.Id), true
						}
						mu.Unlock()
					case 3:
						_, err = jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 1}.With(queue_job.WithKey(key)))
					case 4, 5:
						_, err = jobs.Cancel(ctx, d.DB, one)
					case 6:
						var id uint64
						change := operate.Change{Verb: operate.Retry, Filter: queue_job.Filter{JobTypes: []int32{1}, Statuses: []queue_job.JobStatus{queue_job.JobStatusCancelled}}}
						if id, err = operate.Begin(actor, jobs, d.DB, change); err == nil {
							err = operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {})
						}
					case 7:
						_, err = jobs.Retry(ctx, d.DB, one)
					case 8:
						_, err = jobs.RetryWith(ctx, d.DB, queue_job.ID(some...), "new")
					case 9:
						_, err = jobs.RetryAll(ctx, d.DB, queue_job.RetryRange{JobType: 1, Cancelled: true})
					case 10:
						_, err = jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Limit: 1 + dice.IntN(20), Archive: func(_ context.Context, some []queue_job.Archived) error {
							mu.Lock()
							defer mu.Unlock()
							archived = append(archived, some...)
							return nil
						}})
					case 11:
						mu.Lock()
						some := archived[max(0, len(archived)-8):]
						mu.Unlock()
						_, err = jobs.Restore(ctx, d.DB, some)
					}
					if err != nil && len(some) > 0 && !strings.Contains(err.Error(), "database is locked") {
						t.Errorf("act %d: %v", act, err)
					}
					infos, err := jobs.List(t.Context(), d.DB, queue_job.Filter{Statuses: []queue_job.JobStatus{queue_job.JobStatusInit}, Limit: 10_000})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					pending := map[string]uint64{}
					for _, info := range infos {
						if !isUnique[info.Id] {
							continue
						}
						if other := pending[info.Key]; other > 0 || !info.Unique {
							t.Errorf("after act %d of %d: jobs %d and %d of the key %q are pending, or not said to be unique", step, act, other, info.Id, info.Key)
							mu.Unlock()
							return
						}
						pending[info.Key] = info.Id
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
	})
}
