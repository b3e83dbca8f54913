package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

var update = flag.Bool("update", false, "write the places of a case anew")

// crashing is a test that may fail. It keeps what was said.
type crashing struct {
	testing.TB
	name     string
	failed   bool
	said     []string
	cleanups []func()
	passes   []string // the names of the tests inside …
	found    []string // … and of those that have failed
	inside   []*crashing
}

func (c *crashing) Name() string     { return c.name }
func (c *crashing) Failed() bool     { return c.failed }
func (c *crashing) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }
func (c *crashing) Logf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}
func (c *crashing) Errorf(format string, args ...any) { c.Logf(format, args...); c.failed = true }

func (c *crashing) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

func (c *crashing) Run(name string, test func(*crashing)) bool {
	in := &crashing{TB: c.TB, name: c.name + "/" + strings.ReplaceAll(name, " ", "_")}
	in.run(test)
	_, place, _ := strings.Cut(name, " ")
	if c.passes = append(c.passes, place); in.failed {
		c.failed, c.found = true, append(c.found, place)
	}
	c.inside = append(c.inside, in)
	return !in.failed
}

func (c *crashing) run(test func(*crashing)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(c.cleanups) {
				clean()
			}
		}()
		test(c)
	}()
	<-done
}

// crash plays a case, and returns the test that it was.
func crash(t *testing.T, world func(*crashing) queuetest.World) *crashing {
	t.Helper()
	c := &crashing{TB: t, name: "TestIt"}
	c.run(func(c *crashing) { queuetest.CrashEverywhere(c, world) })
	return c
}

// till is a fake of something outside of the database. It counts what happens to it.
type till struct {
	charges int
	keys    map[string]bool
}

func (b *till) charge() (int, error) { b.charges++; return b.charges, nil }

func (b *till) chargeOnce(key string) (int, error) {
	if b.keys[key] {
		return b.charges, nil
	}
	b.keys = map[string]bool{key: true}
	return b.charge()
}

// charged is a case of one job, which charges once.
func charged(handler func(ctx context.Context, job *queue_job.Job, q *queuetest.Queue, b *till) error) func(*crashing) queuetest.World {
	return func(t *crashing) queuetest.World {
		b := &till{}
		return queuetest.World{
			Start: func(q *queuetest.Queue) {
				q.Handle(queue_job.Config{JobType: 1, NeedRetry: true, MaxRetries: 2, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
					return handler(ctx, job, q, b)
				}})
			},
			Begin: func(q *queuetest.Queue) {
				if _, err := q.DB.Exec("CREATE TABLE stock (id bigint PRIMARY KEY, n bigint)"); err != nil {
					t.Fatalf("%v", err)
				}
				if _, err := q.DB.Exec("INSERT INTO stock VALUES (1, 10)"); err != nil {
					t.Fatalf("%v", err)
				}
				if _, err := q.Jobs.Add(context.Background(), q.DB, queue_job.AddModelJob{JobType: 1}); err != nil {
					t.Fatalf("%v", err)
				}
			},
			Check: func(q *queuetest.Queue) {
				q.RequireAdded(1, queuetest.Status(queue_job.JobStatusSuccess))
				if b.charges != 1 {
					t.Errorf("charged %d times", b.charges)
				}
			},
		}
	}
}

// inTransaction runs a handler in a transaction, and commits.
func inTransaction(ctx context.Context, q *queuetest.Queue, do func(*sql.Tx) error) error {
	tx, err := q.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err = do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestAHandlerThatIsSafeEverywhereComesToTheSameEnd(t *testing.T) {
	for name, world := range map[string]func(*crashing) queuetest.World{
		"step with key": charged(func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
			_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int, error) { return b.chargeOnce(job.StepKey("charge")) })
			return err
		}),
		"key alone": charged(func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
			_, err := b.chargeOnce(job.IdempotencyKey())
			return err
		}),
		"key, sleep, transaction": charged(func(ctx context.Context, job *queue_job.Job, q *queuetest.Queue, b *till) error {
			if _, err := b.chargeOnce(job.IdempotencyKey()); err != nil {
				return err
			}
			if err := job.Sleep(ctx, "a day", 24*time.Hour); err != nil {
				return err
			}
			return inTransaction(ctx, q, func(tx *sql.Tx) error { return job.CompleteTx(ctx, tx) })
		}),
	} {
		if c := crash(t, world); c.failed || len(c.passes) < 4 {
			t.Errorf("%s: %d passes, %q failed: %q", name, len(c.passes), c.found, c.said)
		}
	}
}

// Each of these faults is one that a test without a death does not find. The names of the places say where it shows.
func TestAFaultThatShowsAtOnePlaceIsFoundThere(t *testing.T) {
	step := func(ctx context.Context, job *queue_job.Job, b *till) error {
		_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int, error) { return b.charge() })
		return err
	}
	for name, fault := range map[string]struct {
		at      []string
		handler func(context.Context, *queue_job.Job, *queuetest.Queue, *till) error
	}{
		"a step that is not told from its repetition": {
			[]string{`died after step "charge" of job 1 had run, before it was recorded`},
			func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
				return step(ctx, job, b)
			},
		},
		"an effect outside of steps": {
			[]string{
				`died before step "other" of job 1 ran`, `died after step "other" of job 1 had run, before it was recorded`,
				`died after step "other" of job 1 was recorded`, "died after the handler of job 1 had returned, before its outcome was written",
			},
			func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
				b.charge()
				_, err := queue_job.Step(ctx, job, "other", func(context.Context) (int, error) { return 0, nil })
				return err
			},
		},
		"an effect in StepTx that is not in the transaction": {
			[]string{`died before the commit of job 1 with step "charge"`},
			func(ctx context.Context, job *queue_job.Job, q *queuetest.Queue, b *till) error {
				return inTransaction(ctx, q, func(tx *sql.Tx) error {
					_, err := queue_job.StepTx(ctx, job, tx, "charge", func(context.Context) (int, error) { return b.charge() })
					return err
				})
			},
		},
		"an effect after the job was ended in a transaction": {
			[]string{"died after the commit of job 1 with the end of the job, before it heard of that"},
			func(ctx context.Context, job *queue_job.Job, q *queuetest.Queue, b *till) error {
				err := inTransaction(ctx, q, func(tx *sql.Tx) error { return job.CompleteTx(ctx, tx) })
				if err == nil {
					_, err = b.charge()
				}
				return err
			},
		},
		"two effects of which the first says that both have happened": {
			[]string{`died at "written down", in job 1`},
			func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
				if b.keys["charged"] {
					return nil
				}
				b.keys = map[string]bool{"charged": true}
				queuetest.Place(ctx, "written down")
				_, err := b.charge()
				return err
			},
		},
		"a row that says so, and is written before": {
			[]string{"died after job 1 had sent UPDATE stock SET n = n - 1 WHERE id = 1 AND n = 10, before it heard of that"},
			func(ctx context.Context, job *queue_job.Job, q *queuetest.Queue, b *till) error {
				result, err := q.DB.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = 1 AND n = 10")
				if err != nil {
					return err
				}
				if n, err := result.RowsAffected(); n == 0 || err != nil {
					return err
				}
				_, err = b.charge()
				return err
			},
		},
	} {
		if c := crash(t, charged(fault.handler)); !slices.Equal(c.found, fault.at) {
			t.Errorf("%s: found at %q, want %q, among %q; %q", name, c.found, fault.at, c.passes, c.said)
		}
	}
}

// flowing is a case of a flow, whose jobs have what the process has in memory.
func flowing(first, second func(ctx context.Context, job *queue_job.Job, memory map[string]int) error) func(*crashing) queuetest.World {
	return func(t *crashing) queuetest.World {
		var id uint64
		return queuetest.World{
			Start: func(q *queuetest.Queue) {
				memory := map[string]int{}
				handlers := map[string]func(context.Context, *queue_job.Job, map[string]int) error{`"first"`: first, `"second"`: second}
				q.Handle(queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
					return handlers[job.JobParams](ctx, job, memory)
				}})
			},
			Begin: func(q *queuetest.Queue) {
				f := queue_job.NewFlow("order")
				f.Job("first", queue_job.AddModelJob{JobType: 1, JobParams: "first"})
				f.Job("second", queue_job.AddModelJob{JobType: 1, JobParams: "second"}).After("first")
				added, err := q.Jobs.AddFlow(context.Background(), q.DB, f)
				if err != nil {
					t.Fatalf("%v", err)
				}
				id = added.Id
			},
			Check: func(q *queuetest.Queue) {
				if f, err := q.Jobs.Flow(context.Background(), q.DB, id); err != nil || f.State != queue_job.FlowDone {
					t.Errorf("%+v, %v", f, err)
				}
				if jobs := q.Added(1); len(jobs) != 2 {
					t.Errorf("%d jobs", len(jobs))
				}
			},
		}
	}
}

func TestAJobOfAFlowThatCountsOnTheMemoryOfTheOneBeforeIsFound(t *testing.T) {
	second := func(_ context.Context, _ *queue_job.Job, memory map[string]int) error {
		if memory["paid"] == 0 {
			return queue_job.Fail(errors.New("nothing was paid"))
		}
		return nil
	}
	c := crash(t, flowing(func(_ context.Context, _ *queue_job.Job, memory map[string]int) error { memory["paid"] = 7; return nil }, second))
	if want := "died after the ends of node 0 of flow 1 were counted, and what comes next was added"; !slices.Contains(c.found, want) {
		t.Errorf("found at %q of %q", c.found, c.passes)
	}
	c = crash(t, flowing(
		func(ctx context.Context, job *queue_job.Job, _ map[string]int) error { return job.SetResult(ctx, "7") },
		func(ctx context.Context, job *queue_job.Job, _ map[string]int) error {
			if paid, err := queue_job.ResultOf[string](ctx, job, "first"); err != nil || paid != "7" {
				return queue_job.Fail(fmt.Errorf("nothing was paid: %q, %w", paid, err))
			}
			return nil
		}))
	if c.failed {
		t.Errorf("found at %q: %q", c.found, c.said)
	}
}

// everything is a case of a job that does all that has places.
func everything(t *crashing) queuetest.World {
	b, sent := &till{}, false
	return queuetest.World{
		Start: func(q *queuetest.Queue) {
			q.Handle(queue_job.Config{JobType: 1, NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				_, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (int, error) {
					defer queuetest.Place(ctx, "the till has charged")
					return b.chargeOnce(job.StepKey("charge"))
				})
				if err == nil {
					err = job.Sleep(ctx, "rest", time.Hour)
				}
				if err == nil {
					_, _, err = queue_job.Await[string](ctx, job, "approval", 48*time.Hour)
				}
				if err == nil {
					err = inTransaction(ctx, q, func(tx *sql.Tx) error {
						_, err := queue_job.StepTx(ctx, job, tx, "take", func(ctx context.Context) (int64, error) {
							result, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = 1")
							if err != nil {
								return 0, err
							}
							return result.RowsAffected()
						})
						return err
					})
				}
				if err == nil {
					err = job.SetResult(ctx, "done")
				}
				if err == nil {
					err = q.Jobs.Then(ctx, job, queue_job.AddModelJob{JobType: 2})
				}
				return err
			}}, queue_job.Config{JobType: 2, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		},
		Begin: charged(nil)(t).Begin,
		Play: func(q *queuetest.Queue) {
			for range 3 {
				q.RunDue()
				q.Advance(time.Hour)
			}
			if !sent {
				sent = true
				if err := q.Jobs.Signal(context.Background(), q.DB, queue_job.ID(1), "approval", "yes"); err != nil {
					t.Fatalf("%v", err)
				}
			}
			q.Advance(time.Second)
			q.RunDue()
		},
		Check: func(q *queuetest.Queue) {
			q.RequireAdded(1, queuetest.Status(queue_job.JobStatusSuccess))
			var left int
			if err := q.DB.QueryRow("SELECT n FROM stock").Scan(&left); err != nil || left != 9 || b.charges != 1 || len(q.Added(2)) != 1 {
				t.Errorf("%v: %d are left, charged %d times, %d jobs follow", err, left, b.charges, len(q.Added(2)))
			}
		},
	}
}

func TestThePlacesAreOnBothSidesOfAllThatIsWritten(t *testing.T) {
	c := crash(t, everything)
	if c.failed {
		t.Errorf("found at %q: %q", c.found, c.said)
	}
	shown := filepath.Join("testdata", "places.txt")
	got := strings.Join(c.passes, "\n") + "\n"
	if *update {
		if err := os.WriteFile(shown, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(shown); err != nil || string(want) != got {
		t.Errorf("%v; the places are, other than in %s:\n%s", err, shown, got)
	}
}

func TestAFailureNamesThePlaceThePassAndTheCommand(t *testing.T) {
	c := crash(t, charged(func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
		_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int, error) { return b.charge() })
		return err
	}))
	for i, in := range c.inside {
		said := strings.Join(in.said, "\n")
		want := fmt.Sprintf(`queuetest: the process died after step "charge" of job 1 had run, before it was recorded: place %d of %d. `+
			`This pass alone: go test -run '^TestIt$/^%d_'`, i+1, len(c.passes), i+1)
		if in.failed && !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}

func TestACaseThatFailsWithoutADeathHasNoPasses(t *testing.T) {
	c := crash(t, charged(func(context.Context, *queue_job.Job, *queuetest.Queue, *till) error { return nil }))
	if len(c.passes) > 0 || !c.failed {
		t.Errorf("%q", c.passes)
	}
}

func TestACaseThatCannotBePlayedSaysWhy(t *testing.T) {
	step := func(name func() string) func(context.Context, *queue_job.Job, *queuetest.Queue, *till) error {
		return func(ctx context.Context, job *queue_job.Job, _ *queuetest.Queue, b *till) error {
			_, err := queue_job.Step(ctx, job, name(), func(context.Context) (int, error) { return b.chargeOnce("a") })
			return err
		}
	}
	for want, world := range map[string]func(*crashing) queuetest.World{
		"must be the same in each pass": charged(step(func() string { return fmt.Sprint(rand.Uint64()) })),
		"more than World.Most, 3": func(t *crashing) queuetest.World {
			w := charged(step(func() string { return "charge" }))(t)
			w.Most = 3
			return w
		},
		"needs Start, Begin and Check": func(*crashing) queuetest.World { return queuetest.World{} },
		"there is no place to die at": func(*crashing) queuetest.World {
			nothing := func(*queuetest.Queue) {}
			return queuetest.World{Start: nothing, Begin: nothing, Play: nothing, Check: nothing}
		},
		"let World.Play say what happens": func(t *crashing) queuetest.World {
			w := flowing(nil, nil)(t)
			w.Start = func(q *queuetest.Queue) {
				q.Handle(queue_job.Config{JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
			}
			w.Begin = func(q *queuetest.Queue) {
				f := queue_job.NewFlow("order")
				f.Await("approved")
				f.Job("ship", queue_job.AddModelJob{JobType: 1}).After("approved")
				if _, err := q.Jobs.AddFlow(context.Background(), q.DB, f); err != nil {
					t.Fatalf("%v", err)
				}
			}
			return w
		},
	} {
		c := crash(t, world)
		said := slices.Clone(c.said)
		for _, in := range c.inside {
			said = append(said, in.said...)
		}
		if !c.failed || !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}

func TestAHandleFromBeforeTheDeathIsDead(t *testing.T) {
	c := crash(t, func(t *crashing) queuetest.World {
		w := charged(func(_ context.Context, _ *queue_job.Job, _ *queuetest.Queue, b *till) error {
			_, err := b.chargeOnce("a")
			return err
		})(t)
		begin, check := w.Begin, w.Check
		var early *sql.DB
		w.Begin = func(q *queuetest.Queue) { begin(q); early = q.DB }
		w.Check = func(q *queuetest.Queue) {
			check(q)
			if err := early.Ping(); (err == nil) != (early == q.DB) || err != nil && !strings.Contains(err.Error(), "the process of this handle has died") {
				t.Errorf("%v", err)
			}
		}
		return w
	})
	if c.failed || len(c.passes) == 0 {
		t.Errorf("%q, %q", c.found, c.said)
	}
}

// orders is a configuration of orders, which are charged in a step.
func orders(bank *bank) queue_job.Config {
	return queue_job.Config{JobType: 8, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		_, err := queue_job.Step(ctx, job, "charge", func(ctx context.Context) (int, error) { return bank.charge(ctx, job.StepKey("charge")) })
		return err
	}}
}

func addOrder(t *testing.T, q *queuetest.Queue) {
	t.Helper()
	add(t, q, queue_job.AddModelJob{JobType: 8})
}

func TestAnOrderIsChargedOnceWhereverItsProcessDies(t *testing.T) {
	queuetest.CrashEverywhere(t, func(t *testing.T) queuetest.World {
		bank := &bank{had: map[string]bool{}} // what is outside outlives the process
		return queuetest.World{
			Start: func(q *queuetest.Queue) { q.Handle(orders(bank)) },
			Begin: func(q *queuetest.Queue) { addOrder(t, q) },
			Check: func(q *queuetest.Queue) {
				if bank.booked != 1 {
					t.Errorf("charged %d times", bank.booked)
				}
			},
		}
	})
}
