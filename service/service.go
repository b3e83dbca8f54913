package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/service/internal/api"
	"github.com/create-info/persistent-queue/service/internal/callback"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

const (
	againEvery = 2 * time.Second // while the database is away at the start
	workersMax = 2048            // tasks of all topics that are in flight in a process: topics take turns if there are more
	writersMax = 4               // groups of tasks that are added at a time: a server commits them together; on SQLite, they wait for each other
)

// Config says what a service does. The zero value of a field means its default.
type Config struct {
	// DB has the tables of the jobs and those of the service. Required.
	DB *sql.DB
	// TablePrefix stands before the names of all tables. Default: none.
	TablePrefix string
	// WithoutDelivery: this process takes tasks in and sends none. Default: it sends those of the topics that fall to it.
	WithoutDelivery bool
	// Deliver says how callbacks are sent, and to which addresses. Its Logger defaults to Log.
	Deliver Delivery
	// SignerOf returns what signs the callbacks of a topic. If it, or what it returns, is nil, they go out without a signature, and
	// receivers cannot tell that they are ours. A receiver that knows a secret can sign callbacks to all topics that have it.
	SignerOf func(topic string) *Signer
	// Codec encrypts what is stored of tasks and schedules: addresses, headers, bodies, labels. Package aesgcm has one. Names, keys and topics stay in
	// clear, and so do the headers of topics. All processes on one database need the codec; tasks from before it are sent, too. Default: nothing is
	// encrypted.
	Codec queue_job.Codec
	// Topics is how many topics there may be. Each is a job type, which costs nothing while it has no task; a topic with tasks, even if
	// they are due next week, costs a little. Default 10,000.
	Topics int
	// TopicsPerToken is how many topics may have names that fit the patterns of a token when somebody makes another one with it, so that one
	// token does not take all. Tokens with the scope admin may make as many as there may be. Default: half of Topics.
	TopicsPerToken int
	// Room is how many bytes requests and their answers may take in memory, of which one caller gets half. What finds none waits for some
	// seconds, and is answered with 503 then. Streams take up to 50 MiB more. Default 128 MiB.
	Room int64
	// Retention is how long ended tasks are kept; a negative time keeps them for ever. Default, if no time is set: 3 days for tasks
	// that succeeded or were cancelled, 30 days for tasks that failed.
	Retention queue_job.Retention
	// OpenToThisMachine: as long as there is no token, programs on this machine may do everything. A proxy on this machine may look like
	// such a program, and then everybody may; so use it where there is none. Default: each call needs a token, see [Service.FirstToken].
	OpenToThisMachine bool
	// Aliases are interfaces of other services that are served, too. Default: none.
	Aliases Aliases
	// Options are for the Runner that sends tasks, such as an observer of it: package metrics has one. Without delivery, there is no Runner.
	Options []persistent_queue.Option
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Aliases are the interfaces of delay_queue (POST /api/task/save) and of a delay service (POST /delay/task/add), for clients that shall
// stay as they are. docs/service/api.md says how their requests are understood.
type Aliases = api.Aliases

// Service takes tasks in over HTTP, and sends them when they are due. New makes one.
type Service struct {
	cfg      Config
	tables   *tables.Tables
	topics   *topics.Registry
	jobs     *queue_job.Jobs
	runner   *persistent_queue.Runner // nil: without delivery
	sender   *deliver.Deliverer       // nil: without delivery
	intake   *intake.Intake
	handler  atomic.Pointer[http.Handler] // nil: it has not started
	leaving  context.Context              // ends with Leave
	leave    context.CancelFunc
	red      atomic.Bool           // readiness is, and the log knows why
	refused  atomic.Pointer[error] // why the database takes no writes; nil: it does, or the runner would know
	endLooks func()                // ends the loops that look, and waits for them; nil: there are none
	began    time.Time

	mu     sync.Mutex
	served map[int32]bool // topics that the runner has
}

// New checks the configuration and returns a service that is not started.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("service.Config.DB is missing; pass the handle of the database that has, or shall have, the tables")
	}
	if cfg.Topics < 0 || cfg.TopicsPerToken < 0 || cfg.Room < 0 {
		return nil, fmt.Errorf("service.Config.Topics is %d, TopicsPerToken %d and Room %d; use positive numbers, or 0 for the defaults",
			cfg.Topics, cfg.TopicsPerToken, cfg.Room)
	}
	if field, why := cfg.Aliases.Wrong(); field != "" {
		return nil, fmt.Errorf("service.Config.Aliases.%s: %s", field, why)
	}
	cfg.Topics = cmp.Or(cfg.Topics, topics.LimitDefault)
	cfg.TopicsPerToken = cmp.Or(cfg.TopicsPerToken, (cfg.Topics+1)/2)
	cfg.Room = cmp.Or(cfg.Room, intake.RoomDefault)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Deliver.Logger = cmp.Or(cfg.Deliver.Logger, cfg.Log)
	cfg.Deliver.Guard = cmp.Or(cfg.Deliver.Guard, &Guard{})
	cfg.Retention = retentionOf(cfg.Retention)
	s := &Service{cfg: cfg, served: map[int32]bool{}, began: time.Now()}
	s.leaving, s.leave = context.WithCancel(context.Background())
	if cfg.WithoutDelivery {
		return s, nil
	}
	var err error
	if s.sender, err = deliver.New(cfg.Deliver); err != nil {
		return nil, err
	}
	options := append(slices.Clone(cfg.Options), persistent_queue.WithDB(cfg.DB),
		persistent_queue.WithRetention(cfg.Retention), persistent_queue.WithMaxWorkers(workersMax))
	if cfg.Codec != nil {
		options = append(options, persistent_queue.WithCodec(cfg.Codec))
	}
	s.runner, err = persistent_queue.New([]queue_job.Config{s.housekeeping(), s.schedules()}, quiet{logger.QueueLog{Slog: cfg.Log}}, options...)
	if err != nil {
		s.sender.Close()
		return nil, err
	}
	return s, nil
}

// retentionOf is the retention of the service's Runner, for which zero is for ever.
func retentionOf(keep queue_job.Retention) queue_job.Retention {
	const day = 24 * time.Hour
	if keep == (queue_job.Retention{}) {
		return queue_job.Retention{Done: 3 * day, Cancelled: 3 * day, Failed: 30 * day}
	}
	return queue_job.Retention{Done: max(0, keep.Done), Cancelled: max(0, keep.Cancelled), Failed: max(0, keep.Failed)}
}

// Start creates the tables if they are not there, and begins to work. While the database is away, it waits, until ctx ends. The context
// covers the start only. Call Start once, and Stop after it has returned, whatever it returned.
func (s *Service) Start(ctx context.Context) (err error) {
	err = s.await(ctx, func() (err error) {
		if err = schema.Migrate(ctx, s.cfg.DB, schema.WithTablePrefix(s.cfg.TablePrefix)); err == nil {
			s.tables, err = tables.Open(ctx, s.cfg.DB, s.cfg.TablePrefix)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	serve := s.serve
	if s.runner == nil {
		serve = nil
	}
	s.topics = topics.New(s.tables, topics.Limits{All: s.cfg.Topics, OfToken: s.cfg.TopicsPerToken}, serve, s.cfg.Log)
	if err = s.await(ctx, func() error { return s.topics.Look(ctx) }); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	options := []queue_job.OpenOption{queue_job.WithTablePrefix(s.cfg.TablePrefix)}
	if s.cfg.Codec != nil {
		options = append(options, queue_job.WithCodec(s.cfg.Codec))
	}
	s.jobs, err = queue_job.OpenContext(ctx, s.cfg.DB, options...)
	if err == nil && s.runner != nil {
		err = s.runner.Start(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	s.intake = intake.New(s.jobs, func(ctx context.Context) (*sql.Tx, error) { return s.cfg.DB.BeginTx(ctx, nil) }, writersMax, s.cfg.Room)
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var looks sync.WaitGroup
	s.endLooks = func() { stop(); looks.Wait() }
	looks.Go(func() { s.topics.Run(looking) })
	if s.runner != nil {
		looks.Go(func() { s.mendSchedules(looking) })
	} else {
		looks.Go(func() { s.tryWrites(looking) })
	}
	parts := api.Parts{DB: s.cfg.DB, Jobs: s.jobs, Tables: s.tables,
		Topics: s.topics, Intake: s.intake, CheckURL: s.cfg.Deliver.Guard.Check, Aliases: s.cfg.Aliases, Log: s.cfg.Log,
		Leaving: s.leaving}
	if s.sender != nil {
		parts.Destinations = s.sender.Destinations
	}
	handler := api.Handler(parts)
	if s.cfg.OpenToThisMachine {
		handler = openToThisMachine(handler)
	}
	s.handler.Store(&handler)
	return nil
}

func openToThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(tokens.Open(r.Context())))
	})
}

// FirstToken makes a token that may do everything, if there is no token, and returns its text, which nothing can show again. It returns no
// text if there is one: of several processes that start at once, one makes it. Call it after Start.
func (s *Service) FirstToken(ctx context.Context) (text string, err error) {
	text, err = (&Tokens{s.tables}).First(ctx)
	if err == nil && text != "" {
		err = s.topics.Look(ctx) // so that it counts here at once
	}
	return text, err
}

// await tries until it succeeds or ctx ends.
func (s *Service) await(ctx context.Context, try func() error) error {
	for said := false; ; said = true {
		err := try()
		if err == nil || ctx.Err() != nil || errors.As(err, new(*schema.OutdatedError)) {
			return err
		}
		if !said {
			s.cfg.Log.Error("the database is away; trying again until it answers", "error", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(againEvery):
		}
	}
}

// serve has the runner run the topics' jobs.
func (s *Service) serve(ctx context.Context, news []*topics.Topic) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var added, changed []queue_job.Config
	for _, topic := range news {
		var signer *Signer
		if s.cfg.SignerOf != nil {
			signer = s.cfg.SignerOf(topic.Name)
		}
		cfg := topic.Job()
		cfg.TablePrefix, cfg.HandleJobFunc = s.cfg.TablePrefix, callback.Handler(topic, s.sender, signer, s.addUnique, s.clock, s.cfg.Log)
		if s.served[topic.Type] {
			changed = append(changed, cfg)
		} else {
			added = append(added, cfg)
		}
	}
	if len(added) > 0 {
		if err := s.runner.Add(ctx, added...); err != nil {
			return err
		}
		for _, cfg := range added {
			s.served[cfg.JobType] = true
		}
	}
	if len(changed) > 0 {
		return s.runner.Replace(ctx, changed...)
	}
	return nil
}

// clock asks the database's clock.
func (s *Service) clock(ctx context.Context) (time.Time, error) { return s.tables.Now(ctx) }

// addUnique adds a job, unless one with its key is there.
func (s *Service) addUnique(ctx context.Context, job queue_job.AddModelJob) error {
	_, err := s.jobs.AddUnique(ctx, s.cfg.DB, job)
	return err
}

// Leave turns readiness red, so that no more requests are sent here. Requests that come all the same are answered, and those that wait for the end of
// a task are answered at once.
func (s *Service) Leave() { s.leave() }

// Stop ends what was started: first what has come in is committed, then the callbacks that run end. Close the listener before; what
// comes in later is answered with 503. If ctx ends first, callbacks are cut off and will be sent again. Stop may be called twice.
func (s *Service) Stop(ctx context.Context) (err error) {
	s.Leave()
	if s.endLooks != nil {
		s.endLooks()
	}
	if s.intake != nil {
		s.intake.Close()
	}
	if s.runner != nil {
		err = s.runner.Stop(ctx)
	}
	if s.sender != nil {
		s.sender.Close()
	}
	return err
}
