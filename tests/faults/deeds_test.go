package faults

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// computeRounds take some 20 ms.
const computeRounds = 200_000

// deeds are what handlers do that is more than taking time.
var deeds = map[string]func(context.Context, *sql.DB, *queue_job.Job) error{
	"error":  func(context.Context, *sql.DB, *queue_job.Job) error { return errors.New("not today") },
	"panic":  func(context.Context, *sql.DB, *queue_job.Job) error { panic("a handler's panic") },
	"goexit": func(context.Context, *sql.DB, *queue_job.Job) error { runtime.Goexit(); return nil },
	"exit":   func(context.Context, *sql.DB, *queue_job.Job) error { os.Exit(3); return nil },
	// fatal error: concurrent map writes, which no recover catches.
	"fatal": func(context.Context, *sql.DB, *queue_job.Job) error {
		shared := map[int]int{}
		for range 8 {
			go func() {
				for i := range 1 << 30 {
					shared[i&7] = i
				}
			}()
		}
		select {}
	},
	// out of memory, as under a container's limit.
	"memory": func(context.Context, *sql.DB, *queue_job.Job) error {
		limitMemory()
		hoard()
		return nil
	},
	// fails at the first attempt.
	"once": func(_ context.Context, _ *sql.DB, job *queue_job.Job) error {
		if job.Attempt == 1 {
			return errors.New("once")
		}
		return nil
	},
	// fills a processor for 20 ms of its time.
	"compute": func(context.Context, *sql.DB, *queue_job.Job) error {
		sum := [32]byte{}
		for range computeRounds {
			sum = sha256.Sum256(sum[:])
		}
		return nil
	},
	// ignores its context, for ten seconds; the next attempt takes no time.
	"deaf": func(_ context.Context, _ *sql.DB, job *queue_job.Job) error {
		if job.Attempt == 1 {
			time.Sleep(10 * time.Second)
		}
		return nil
	},
	// waits until its context ends.
	"hang": func(ctx context.Context, _ *sql.DB, _ *queue_job.Job) error { <-ctx.Done(); return context.Cause(ctx) },
	// takes as long as its process lives; the next attempt takes no time.
	"first": func(ctx context.Context, _ *sql.DB, job *queue_job.Job) error {
		if job.Attempt == 1 {
			<-ctx.Done()
		}
		return context.Cause(ctx)
	},
	// needs 64 MB for a moment.
	"hungry": func(context.Context, *sql.DB, *queue_job.Job) error {
		block := make([]byte, 64<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		time.Sleep(time.Millisecond)
		runtime.KeepAlive(block)
		return nil
	},
	// sits on a connection of the runner's pool, in a transaction, for a moment …
	"pool": func(ctx context.Context, db *sql.DB, _ *queue_job.Job) error {
		return occupy(ctx, db, 100*time.Millisecond)
	},
	// … and for longer than a lease lasts.
	"longpool": func(ctx context.Context, db *sql.DB, _ *queue_job.Job) error {
		return occupy(ctx, db, 2*renewedLock*time.Second)
	},
	// moves money between two accounts and completes the job, in one transaction, whatever its context says.
	"transfer": transferMoney,
	// moves it in one of four steps, whatever its context says.
	"steps": moveInSteps,
	// is one of a flow.
	"flow": runFlowJob,
	// runs again in five seconds, once.
	"snooze": func(_ context.Context, _ *sql.DB, job *queue_job.Job) error {
		if job.Attempt == 1 {
			return queue_job.Snooze(5 * time.Second)
		}
		return nil
	},
	// completes the job in a transaction that does nothing else.
	"complete": complete,
	// completes the job, and then sends the mail.
	"outlive": func(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
		defer sayEnd(job)
		err := complete(ctx, db, job)
		time.Sleep(outlives)
		return err
	},
	// is cancelled, and then tidies up.
	"tidy": func(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
		defer sayEnd(job)
		jobs, err := queue_job.Open(db)
		if err == nil {
			_, err = jobs.Cancel(ctx, db, queue_job.ID(job.Id))
		}
		time.Sleep(outlives)
		return err
	},
}

// outlives is for how long a handler runs on when its job is final.
const outlives = 1200 * time.Millisecond

func complete(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// occupy sits on a connection, in a transaction.
func occupy(ctx context.Context, db *sql.DB, long time.Duration) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM shedlock_tab").Scan(&n); err != nil {
		return err
	}
	time.Sleep(long)
	return tx.Commit()
}

// hoard takes memory until there is none.
func hoard() {
	var blocks [][]byte
	for {
		block := make([]byte, 64<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		blocks = append(blocks, block)
		runtime.KeepAlive(blocks)
	}
}

// limitMemory lets the process have half a gigabyte more than it has.
func limitMemory() {
	var pages uint64
	if status, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(status), &pages)
	}
	most := pages*uint64(os.Getpagesize()) + 512<<20
	syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most})
}
