package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// oursSystem is this library as it comes: a pool from sql.Open, and the defaults of its configuration.
type oursSystem struct {
	*database
	jobs *queue_job.Jobs
}

func openOurs(dialect dialect) func(context.Context, string) (system, error) {
	return func(ctx context.Context, address string) (system, error) {
		d, jobs, err := openTables(ctx, dialect, address)
		if err != nil {
			return nil, err
		}
		return &oursSystem{d, jobs}, nil
	}
}

// openTables makes the library's tables in a database of their own.
func openTables(ctx context.Context, dialect dialect, address string) (*database, *queue_job.Jobs, error) {
	d, err := openDatabase(ctx, dialect, address)
	if err != nil {
		return nil, nil, errors.Join(err, closed(d))
	}
	if address == "" {
		if err := schema.Migrate(ctx, d.DB); err != nil {
			return nil, nil, errors.Join(err, closed(d))
		}
	}
	var options []queue_job.OpenOption
	if codec := encrypting(); codec != nil {
		options = append(options, queue_job.WithCodec(codec))
	}
	jobs, err := queue_job.Open(d.DB, options...)
	if err != nil {
		return nil, nil, errors.Join(err, closed(d))
	}
	return d, jobs, nil
}

func (s *oursSystem) add(ctx context.Context, jobs int, due time.Time) error {
	const together = 1000
	var start uint32
	if !due.IsZero() {
		start = uint32(due.Unix())
	}
	for ; jobs > 0; jobs -= together {
		list := make([]queue_job.AddModelJob, min(jobs, together))
		for i := range list {
			list[i] = queue_job.AddModelJob{JobType: 1, JobParams: time.Now().UnixNano(), StartTime: start}
		}
		if _, err := s.jobs.AddMany(ctx, s.DB, list); err != nil {
			return err
		}
	}
	return nil
}

func (s *oursSystem) addOne(ctx context.Context) error {
	_, err := s.jobs.Add(ctx, s.DB, queue_job.AddModelJob{JobType: 1, JobParams: time.Now().UnixNano()})
	return err
}

func (s *oursSystem) work(ctx context.Context, staff staff, _ func(error)) (stop func() error, err error) {
	var configs []queue_job.Config
	for i := range max(1, staff.types) {
		configs = append(configs, queue_job.Config{
			ServiceName: "bench", JobType: int32(i + 1), Db: s.DB,
			WorkerPoolCapacity: staff.workers,
			NeedRetry:          staff.retries > 0, MaxRetries: staff.retries,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error { return staff.handle(ctx, oursTask{job}) },
		})
	}
	var options []persistent_queue.Option
	if codec := encrypting(); codec != nil {
		options = append(options, persistent_queue.WithCodec(codec))
	}
	runner, err := persistent_queue.New(configs, logger.QueueLog{Slog: errorsOnly()}, options...)
	if err != nil {
		return nil, err
	}
	if err := runner.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		return runner.Stop(ctx)
	}, nil
}

// encrypting is a codec that encrypts all parameters, if the environment asks for that; nil: it does not. The processes that this one starts have
// the same environment.
func encrypting() *aesgcm.Codec {
	if os.Getenv("PQ_BENCH_AESGCM") == "" {
		return nil
	}
	codec, err := aesgcm.New(aesgcm.Key{ID: "bench", Secret: make([]byte, 32)})
	if err != nil {
		panic(err)
	}
	return codec
}

type oursTask struct{ *queue_job.Job }

func (t oursTask) addedAt() time.Time {
	at, _ := strconv.ParseInt(t.JobParams, 10, 64)
	return time.Unix(0, at)
}

func (t oursTask) attempt(context.Context) int { return t.Attempt }

// stopWait is how long workers may take to stop.
const stopWait = 20 * time.Second

// errorsOnly is what every system logs to: what goes wrong, and no word for each job.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// moduleVersion is the version of a peer in this program.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}
