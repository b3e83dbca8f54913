package intake

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
)

// book is a database that only knows transactions, and what was added in those that were committed.
type book struct {
	mu        sync.Mutex
	open      []queue_job.AddModelJob
	stored    []string
	sizes     []int // of the transactions
	commitErr error
	refuse    func(job queue_job.AddModelJob) error
	began     atomic.Int64
}

func (b *book) Open(string) (driver.Conn, error)             { return b, nil }
func (b *book) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b *book) Driver() driver.Driver                        { return b }
func (b *book) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("no statements here") }
func (b *book) Close() error                                 { return nil }
func (b *book) Begin() (driver.Tx, error) {
	b.began.Add(1)
	b.mu.Lock()
	return b, nil
}

func (b *book) Commit() error {
	defer b.mu.Unlock()
	if b.commitErr == nil {
		for _, j := range b.open {
			b.stored = append(b.stored, j.Key)
		}
		b.sizes = append(b.sizes, len(b.open))
	}
	b.open = nil
	return b.commitErr
}

func (b *book) Rollback() error {
	defer b.mu.Unlock()
	b.open = nil
	return nil
}

func (b *book) AddMany(_ context.Context, _ queue_job.Executor, jobs []queue_job.AddModelJob) ([]queue_job.Added, error) {
	added := make([]queue_job.Added, len(jobs))
	for i, j := range jobs {
		if b.refuse != nil {
			if err := b.refuse(j); err != nil {
				return nil, err
			}
		}
		var id uint64
		fmt.Sscan(j.Key, &id)
		added[i].Id = id
	}
	b.open = append(b.open, jobs...)
	return added, nil
}

func open(t *testing.T, b *book) *Intake {
	t.Helper()
	db := sql.OpenDB(b)
	i := New(b, func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }, 1, 1000)
	t.Cleanup(func() {
		i.Close()
		db.Close()
	})
	return i
}

func job(n int) queue_job.AddModelJob {
	return queue_job.AddModelJob{JobType: int32(n % 3), Key: fmt.Sprint(n), Unique: queue_job.UniqueForever}
}

// hold has a first transaction wait, so that what comes then gathers. Release lets it go, when so many wait.
func hold(t *testing.T, b *book, i *Intake, all *sync.WaitGroup) (release func(waiting int)) {
	b.mu.Lock()
	all.Go(func() {
		if _, err := i.Add(t.Context(), job(0)); err != nil {
			t.Error(err)
		}
	})
	until := func(so func() bool) {
		for end := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				panic("the intake does not come so far")
			}
		}
	}
	until(func() bool { return b.began.Load() > 0 })
	return func(waiting int) {
		until(func() bool { return len(i.waiting) == waiting })
		b.mu.Unlock()
	}
}

func TestTasksThatComeAtOnceShareTransactionsAndEachGetsItsOwnId(t *testing.T) {
	b := &book{}
	i := open(t, b)
	const n = 400
	var all sync.WaitGroup
	release := hold(t, b, i, &all)
	for k := 1; k <= n; k++ {
		all.Go(func() {
			if added, err := i.Add(t.Context(), job(k)); err != nil || added.Id != uint64(k) {
				t.Errorf("%d: %+v, %v", k, added, err)
			}
		})
	}
	release(n)
	all.Wait()
	if len(b.stored) != n+1 || len(b.sizes) != 2 {
		t.Errorf("%d are stored in transactions of %v", len(b.stored), b.sizes)
	}
}

func TestATaskThatTheDatabaseRefusesFailsAlone(t *testing.T) {
	failsAlone(t, errors.New("seven"), problem.DatabaseAway)
}

func TestATaskThatTheLibraryRefusesIsWrongAndFailsAlone(t *testing.T) {
	failsAlone(t, fmt.Errorf("add: %w", queue_job.ErrBadKey), problem.Invalid)
}

func failsAlone(t *testing.T, seven error, want problem.Code) {
	t.Helper()
	b := &book{refuse: func(j queue_job.AddModelJob) error {
		if j.Key == "7" {
			return seven
		}
		return nil
	}}
	i := open(t, b)
	var all sync.WaitGroup
	release := hold(t, b, i, &all)
	for k := 1; k <= 20; k++ {
		all.Go(func() {
			_, err := i.Add(t.Context(), job(k))
			if bad := (*problem.Problem)(nil); (err != nil) != (k == 7) || err != nil && (!errors.As(err, &bad) || bad.Code != want) {
				t.Errorf("%d: %v", k, err)
			}
		})
	}
	release(20)
	all.Wait()
	if len(b.stored) != 20 {
		t.Errorf("%d are stored", len(b.stored))
	}
}

func TestACommitThatNobodyKnowsTheEndOfIsNotDoneTwice(t *testing.T) {
	b := &book{commitErr: errors.New("the connection broke")}
	i := open(t, b)
	_, err := i.Add(t.Context(), job(1))
	if bad := (*problem.Problem)(nil); !errors.As(err, &bad) || bad.Code != problem.Unknown {
		t.Error(err)
	}
	tries := 0
	_, err = i.AddAll(t.Context(), []queue_job.AddModelJob{job(2)}, Around{Before: func(context.Context, *sql.Tx) error {
		tries++
		return nil
	}})
	if bad := (*problem.Problem)(nil); !errors.As(err, &bad) || bad.Code != problem.Unknown || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestATransactionThatTheDatabaseEndsIsBegunAgain(t *testing.T) {
	left := 2
	b := &book{refuse: func(queue_job.AddModelJob) error {
		if left--; left >= 0 {
			return errors.New("deadlock")
		}
		return nil
	}}
	i := open(t, b)
	added, err := i.AddAll(t.Context(), []queue_job.AddModelJob{job(5), job(3), job(4)}, Around{})
	if err != nil || added[0].Id != 5 || added[1].Id != 3 || added[2].Id != 4 {
		t.Errorf("%+v, %v", added, err)
	}
}

func TestAClosedIntakeRefusesAndHasLeftNothing(t *testing.T) {
	b := &book{}
	i := open(t, b)
	var all sync.WaitGroup
	release := hold(t, b, i, &all)
	for k := 1; k <= 10; k++ {
		all.Go(func() {
			if _, err := i.Add(t.Context(), job(k)); err != nil {
				t.Errorf("%d: %v", k, err)
			}
		})
	}
	release(10)
	i.Close()
	i.Close()
	all.Wait()
	if _, err := i.Add(t.Context(), job(11)); err == nil || len(b.stored) != 11 {
		t.Errorf("%v, and %d are stored", err, len(b.stored))
	}
}

func TestAClosedIntakeTakesNoTasksThatComeTogetherAndWaitsForThoseThatItTook(t *testing.T) {
	b := &book{}
	i := open(t, b)
	begun, goOn, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var adding sync.WaitGroup
	adding.Go(func() {
		_, err := i.AddAll(t.Context(), []queue_job.AddModelJob{job(1)}, Around{Before: func(context.Context, *sql.Tx) error {
			close(begun)
			<-goOn
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	go func() {
		i.Close()
		close(closed)
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // until it is closed, this waits for the transaction before
		_, err := i.Add(ctx, job(2))
		cancel()
		if bad := (*problem.Problem)(nil); errors.As(err, &bad) && bad.Code == problem.Busy {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not close")
		}
	}
	select {
	case <-closed:
		t.Error("it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	adding.Wait()
	<-closed
	_, err := i.AddAll(t.Context(), []queue_job.AddModelJob{job(3)}, Around{})
	if bad := (*problem.Problem)(nil); !errors.As(err, &bad) || bad.Code != problem.Busy || slices.Contains(b.stored, "3") || !slices.Contains(b.stored, "1") {
		t.Errorf("%v, and %v are stored", err, b.stored)
	}
}
