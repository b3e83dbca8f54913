package tests

import (
	"context"
	"database/sql"
	"errors"
	"maps"
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
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
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

// What changed while a document was being indexed is in the next run, and ten changes before that are one job.
func TestAJobThatIsUniqueWhileItWaitsIsNotLostWhileTheOneOfItsKeyRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		begun, end := make(chan uint64, 9), make(chan error)
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 1, MaxPerKey: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			begun <- job.Id
			return <-end
		}})
		index := queue_job.AddModelJob{JobType: 1}.With(queue_job.UniqueKey("document-7", queue_job.UniqueWhileWaiting))
		add := func() queue_job.Added {
			t.Helper()
			added, err := jobs.AddUnique(t.Context(), d.DB, index)
			if err != nil {
				t.Fatal(err)
			}
			return added
		}
		first := add()
		if id := <-begun; first.Existed || id != first.Id {
			t.Fatalf("%+v, and job %d runs", first, id)
		}
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		many, err := jobs.AddMany(t.Context(), tx, []queue_job.AddModelJob{index})
		if err == nil {
			err = tx.Commit()
		}
		if err != nil || many[0].Existed || many[0].Id == first.Id {
			t.Fatalf("while the first one runs: %+v, %v", many, err)
		}
		for range 3 {
			if more := add(); !more.Existed || more.Id != many[0].Id {
				t.Errorf("while the second one waits: %+v, want job %d", more, many[0].Id)
			}
		}
		end <- errors.New("the first one fails, and is retried beside the second one")
		ran := []uint64{<-begun}
		end <- nil
		ran = append(ran, <-begun)
		end <- nil
		if slices.Sort(ran); !slices.Equal(ran, []uint64{first.Id, many[0].Id}) {
			t.Errorf("jobs %d ran", ran)
		}
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		if again := add(); again.Existed {
			t.Errorf("when both are done: %+v", again)
		}
		<-begun
		end <- nil
	})
}

// A transaction changes a document, and finds that a job to index it waits. If that job began before the commit, nobody would index the change.
func TestAJobThatIsUniqueWhileItWaitsDoesNotStartBeforeItsDuplicatesTransactionEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for name, add := range map[string]func(tx *sql.Tx, job queue_job.AddModelJob) (queue_job.Added, error){
			"one": func(tx *sql.Tx, job queue_job.AddModelJob) (queue_job.Added, error) {
				return jobs.AddUnique(t.Context(), tx, job)
			},
			"many": func(tx *sql.Tx, job queue_job.AddModelJob) (queue_job.Added, error) {
				added, err := jobs.AddMany(t.Context(), tx, []queue_job.AddModelJob{job, job.With(queue_job.UniqueKey("another", queue_job.UniqueWhileWaiting))})
				return append(added, queue_job.Added{})[0], err
			},
		} {
			index := queue_job.AddModelJob{JobType: 1, JobParams: name}.With(queue_job.UniqueKey(name, queue_job.UniqueWhileWaiting))
			first := addOne(t, jobs, d.DB, func(j *queue_job.AddModelJob) { *j = index })
			tx, err := d.DB.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if added, err := add(tx, index); err != nil || !added.Existed || added.Id != first.Id {
				t.Fatalf("%s: %+v, %v", name, added, err)
			}
			began := make(chan bool, 1)
			runner := newRunner(t, d.DB, queue_job.Config{JobType: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if job.Id == first.Id {
					began <- true
				}
				return nil
			}})
			if err := runner.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			early := false
			select {
			case early = <-began:
				t.Errorf("%s: it has begun before the commit", name)
			case <-time.After(2 * time.Second):
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if !early {
				<-began
			}
			stop(t, runner)
		}
	})
}

func TestAJobIsAddedOnceInAPeriod(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		now := time.Date(2026, 10, 24, 23, 59, 59, 0, berlin) // summer ends in the night after the next midnight
		jobs, err := queue_job.Open(d.DB, queue_job.WithClock(func() time.Time { return now }))
		if err != nil {
			t.Fatal(err)
		}
		report := queue_job.AddModelJob{JobType: 1}
		add := func(period queue_job.Period) queue_job.Added {
			t.Helper()
			added, err := jobs.AddUnique(t.Context(), d.DB, report.With(queue_job.Once("report", period)))
			if err != nil {
				t.Fatal(err)
			}
			return added
		}
		days, hours := map[uint64]int{}, map[uint64]int{}
		for ; now.Before(time.Date(2026, 10, 26, 1, 0, 0, 0, berlin)); now = now.Add(20 * time.Minute) {
			days[add(queue_job.EachDay(berlin)).Id]++
			hours[add(queue_job.EachHour(berlin)).Id]++
		}
		counts := slices.Sorted(maps.Values(days))
		if !slices.Equal(counts, []int{1, 3, 75}) { // a second before midnight, 25 hours, and an hour
			t.Errorf("looks on each day: %v", counts)
		}
		if n := len(hours); n != 27 {
			t.Errorf("%d hours", n)
		}
		first, err := jobs.Get(t.Context(), d.DB, queue_job.ID(slices.Min(slices.Collect(maps.Keys(days)))))
		if err != nil || first.Key != "report@2026-10-24" || first.Group != "report" {
			t.Errorf("%+v, %v", first, err)
		}
		if _, err := jobs.AddUnique(t.Context(), d.DB, report.With(queue_job.Once(strings.Repeat("k", 120), queue_job.EachDay(berlin)))); !errors.Is(err, queue_job.ErrBadKey) {
			t.Error(err)
		}
	})
}
