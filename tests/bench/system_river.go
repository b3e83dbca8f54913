package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// tuning is how River is set up.
type tuning struct {
	cooldown, poll time.Duration // between two fetches; 0: River's default
	workers        int
}

var (
	// tuned is what River's own benchmark (river bench) uses.
	tuned = tuning{cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, workers: 2000}
	// asItComes is River's defaults. It has none for the workers; its documentation begins with 100.
	asItComes = tuning{workers: 100}
)

// riverSystem is River on PostgreSQL with its pgx driver.
type riverSystem struct {
	*database // for what this program asks
	tuning
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // adds
}

func openRiver(tuning tuning) func(context.Context, string) (system, error) {
	return func(ctx context.Context, address string) (_ system, err error) {
		d, err := openDatabase(ctx, postgreSQL, address)
		if err != nil {
			return nil, errors.Join(err, closed(d))
		}
		s := &riverSystem{database: d, tuning: tuning}
		if err := s.dial(ctx, address != ""); err != nil {
			return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
		return s, nil
	}
}

func (s *riverSystem) dial(ctx context.Context, migrated bool) error {
	config, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return err
	}
	config.MaxConns = riverConnections
	config.ConnConfig.Tracer = (*tracer)(&s.sent)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	driver := riverpgxv5.New(s.pool)
	// Who adds wakes the workers no more often than once in this time.
	adding := &river.Config{FetchCooldown: s.cooldown, FetchPollInterval: s.poll, Logger: errorsOnly()}
	if s.client, err = river.NewClient(driver, adding); err != nil || migrated {
		return err
	}
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: errorsOnly()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverConnections are the most that its pool has; pgx's default is four, or one for each core.
const riverConnections = 16

func (s *riverSystem) connect(ctx context.Context, connections int) error {
	for range min(connections, riverConnections) {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // not before all are open
	}
	return nil
}

type riverArgs struct {
	At int64 `json:"at"`
}

func (riverArgs) Kind() string { return "bench" }

func (s *riverSystem) add(ctx context.Context, jobs int, due time.Time) error {
	const together = 10_000
	for ; jobs > 0; jobs -= together {
		list := make([]river.InsertManyParams, min(jobs, together))
		for i := range list {
			list[i] = river.InsertManyParams{Args: riverArgs{time.Now().UnixNano()}, InsertOpts: &river.InsertOpts{ScheduledAt: due}}
		}
		if _, err := s.client.InsertManyFast(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

func (s *riverSystem) addOne(ctx context.Context) error {
	_, err := s.client.Insert(ctx, riverArgs{time.Now().UnixNano()}, nil)
	return err
}

func (s *riverSystem) work(ctx context.Context, staff staff, _ func(error)) (stop func() error, err error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[riverArgs]) error {
		return staff.handle(ctx, riverTask{job})
	}))
	capacity := s.workers
	if staff.workers > 0 {
		capacity = staff.workers
	}
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		FetchCooldown:     s.cooldown,
		FetchPollInterval: s.poll,
		Logger:            errorsOnly(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: capacity}},
		RetryPolicy:       atOnce{},
		Workers:           workers,
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		return client.Stop(ctx)
	}, nil
}

// atOnce is the wait before a retry that all systems have here.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func (s *riverSystem) pending(ctx context.Context) (bool, error) {
	var n int
	err := s.ask(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM river_job WHERE "+riverPending+" LIMIT 1) AS one", &n)
	return n > 0, err
}

const riverPending = "state IN ('available', 'pending', 'retryable', 'running', 'scheduled')"

func (s *riverSystem) counts(ctx context.Context) (c counts, err error) {
	var all int
	err = s.ask(ctx, "SELECT COUNT(*), COUNT(*) FILTER (WHERE "+riverPending+"), COUNT(*) FILTER (WHERE state = 'completed') FROM river_job",
		&all, &c.pending, &c.succeeded)
	c.other = all - c.pending - c.succeeded
	return c, err
}

func (s *riverSystem) versions() map[string]string {
	return map[string]string{s.name: s.number, "River": strings.TrimPrefix(moduleVersion("github.com/riverqueue/river"), "v")}
}

func (s *riverSystem) close(ctx context.Context) error {
	if s.pool != nil {
		s.pool.Close()
	}
	return s.database.close(ctx)
}

type riverTask struct{ *river.Job[riverArgs] }

func (t riverTask) addedAt() time.Time          { return time.Unix(0, t.Args.At) }
func (t riverTask) attempt(context.Context) int { return t.Attempt }
