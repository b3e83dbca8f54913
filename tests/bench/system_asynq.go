package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqSystem is asynq on Redis. A job is gone when it has succeeded; the queue counts it.
type asynqSystem struct {
	redis     asynq.RedisClientOpt
	look      *redis.Client
	client    *asynq.Client
	inspector *asynq.Inspector
	attached  bool
	looks     int64 // commands that only this program asks
	number    string
}

// asynqWorkers is more than asynq's own benchmark uses (10), and was the fastest of several numbers.
const asynqWorkers = 200

func openAsynq(ctx context.Context, address string) (_ system, err error) {
	s := &asynqSystem{attached: address != ""}
	if address == "" {
		if address = os.Getenv("PQ_TEST_REDIS_ADDR"); address == "" {
			return nil, errors.New("PQ_TEST_REDIS_ADDR is not set; make bench provides the servers")
		}
	}
	s.redis = asynq.RedisClientOpt{Addr: address}
	s.look = redis.NewClient(&redis.Options{Addr: address})
	s.client = asynq.NewClient(s.redis)
	s.inspector = asynq.NewInspector(s.redis)
	if s.number, err = s.info(ctx, "server", "redis_version"); err == nil && !s.attached {
		err = s.look.FlushAll(ctx).Err()
	}
	if err != nil {
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// add has no bulk to use: asynq takes tasks one by one. So many do it at once.
func (s *asynqSystem) add(ctx context.Context, jobs int, due time.Time) error {
	const adders = 16
	var options []asynq.Option
	if !due.IsZero() {
		options = append(options, asynq.ProcessAt(due))
	}
	errs := make([]error, adders)
	var all sync.WaitGroup
	for i := range adders {
		all.Go(func() {
			for n := i; n < jobs && errs[i] == nil; n += adders {
				errs[i] = s.enqueue(ctx, options...)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// connect relies on the pool to open a connection for each of the calls at the same time. A few more or less do not matter:
// it takes Redis a fraction of a millisecond.
func (s *asynqSystem) connect(_ context.Context, connections int) error {
	errs := make([]error, connections)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() { errs[i] = s.client.Ping() })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *asynqSystem) addOne(ctx context.Context) error { return s.enqueue(ctx) }

func (s *asynqSystem) enqueue(ctx context.Context, options ...asynq.Option) error {
	_, err := s.client.EnqueueContext(ctx, asynq.NewTask("bench", strconv.AppendInt(nil, time.Now().UnixNano(), 10)), options...)
	return err
}

func (s *asynqSystem) work(ctx context.Context, staff staff, _ func(error)) (stop func() error, err error) {
	workers := asynqWorkers
	if staff.workers > 0 {
		workers = staff.workers
	}
	server := asynq.NewServer(s.redis, asynq.Config{
		Concurrency:     workers,
		BaseContext:     func() context.Context { return context.WithoutCancel(ctx) },
		LogLevel:        asynq.ErrorLevel,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return 0 },
		ShutdownTimeout: stopWait,
	})
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return staff.handle(ctx, asynqTask{t})
	}))
	if err != nil {
		return nil, err
	}
	return func() error {
		server.Shutdown()
		return nil
	}, nil
}

// pending asks for the lengths of the lists and sets that hold tasks.
func (s *asynqSystem) pending(ctx context.Context) (bool, error) {
	const queue = "asynq:{default}:"
	ask := s.look.Pipeline()
	lengths := []*redis.IntCmd{
		ask.LLen(ctx, queue+"pending"), ask.LLen(ctx, queue+"active"),
		ask.ZCard(ctx, queue+"scheduled"), ask.ZCard(ctx, queue+"retry"),
	}
	s.looks += int64(len(lengths))
	if _, err := ask.Exec(ctx); err != nil {
		return false, err
	}
	for _, length := range lengths {
		if length.Val() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// counts is what asynq's inspector says of the queue, which does not exist before its first task.
func (s *asynqSystem) counts(context.Context) (c counts, err error) {
	q, err := s.inspector.GetQueueInfo("default")
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	return counts{
		pending:   q.Pending + q.Active + q.Scheduled + q.Retry + q.Aggregating,
		succeeded: q.ProcessedTotal - q.FailedTotal,
		other:     q.Archived,
	}, nil
}

// statements are Redis' commands, those that scripts call among them.
func (s *asynqSystem) statements(ctx context.Context) (int64, error) {
	text, err := s.info(ctx, "stats", "total_commands_processed")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n - s.looks, err
}

func (s *asynqSystem) serverCPU(ctx context.Context) (time.Duration, bool) {
	text, err := s.info(ctx, "server", "process_id")
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(text)
	if err != nil || !isProgram(pid, "redis") {
		return 0, false
	}
	return treeCPU(pid)
}

func (s *asynqSystem) info(ctx context.Context, section, field string) (string, error) {
	s.looks++
	text, err := s.look.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("INFO %s of Redis has no %s", section, field)
}

func (s *asynqSystem) versions() map[string]string {
	return map[string]string{"Redis": s.number, "asynq": strings.TrimPrefix(moduleVersion("github.com/hibiken/asynq"), "v")}
}

func (s *asynqSystem) address() string { return s.redis.Addr }

func (s *asynqSystem) close(ctx context.Context) error {
	var err error
	if !s.attached {
		err = s.look.FlushAll(ctx).Err()
	}
	return errors.Join(err, s.client.Close(), s.inspector.Close(), s.look.Close())
}

type asynqTask struct{ *asynq.Task }

func (t asynqTask) addedAt() time.Time {
	at, _ := strconv.ParseInt(string(t.Payload()), 10, 64)
	return time.Unix(0, at)
}

func (asynqTask) attempt(ctx context.Context) int {
	retried, _ := asynq.GetRetryCount(ctx)
	return retried + 1
}
