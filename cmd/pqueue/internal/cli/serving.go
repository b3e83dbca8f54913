package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/bodies"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service"
)

const (
	headersMax = 10 * time.Second // what a client may take for the header of a request
	requestMax = time.Minute      // and for the whole request, unless it is a stream
	replyMax   = 2 * time.Minute  // for the whole answer, unless it is a stream
	quietMax   = 2 * time.Minute  // an idle connection
	headerMax  = 32 << 10         // bytes of the header of a request, before anybody has said who it is

	leaveFor = time.Second      // while readiness is red and requests still come
	endMax   = 5 * time.Second  // for the answers to those
	stopMax  = 20 * time.Second // for the callbacks that run
)

// serveOn opens the database and serves. If the API or delivery is on, it makes the tables that are missing first.
func (a *app) serveOn(ctx context.Context, s *server, password string) error {
	if s.api || s.delivery {
		if err := a.makeTables(ctx); err != nil {
			return err
		}
	}
	return a.with(ctx, func(db *database) error { return a.serve(ctx, db, s, password) })
}

// serve serves until ctx ends: then readiness turns red, the listener closes, and what runs ends.
func (a *app) serve(ctx context.Context, db *database, s *server, password string) error {
	between, err := s.proxies()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return exitf(exitError, "--listen: %w", err)
	}
	defer listener.Close()
	mux := http.NewServeMux()
	own, measured := []net.Addr{listener.Addr()}, metrics.New()
	if s.metrics != "" {
		at, stop, err := serveMetrics(s.metrics, measured)
		if err != nil {
			return err
		}
		defer stop()
		own = append(own, at)
		a.sayf("metrics are at http://%s/metrics", at)
	}
	var tasks *service.Service
	lone := &alone{db: db.DB, log: a.log()}
	handler, leave := service.Probes(lone.live, lone.ready), lone.leave
	if s.api || s.delivery {
		if tasks, err = a.service(ctx, db, s, own, measured.Option()); err != nil {
			return err
		}
		handler, leave = tasks.Handler(), tasks.Leave
		db.SetMaxOpenConns(connectionsMax)
		db.SetMaxIdleConns(connectionsMax)
	}
	s.mount(mux, handler)
	if s.console {
		pages, err := a.protected(ctx, db, s, password, &between)
		if err != nil {
			return err
		}
		mux.Handle("/", pages)
		a.sayf("the console is at http://%s/%s until Ctrl-C", listener.Addr(), s.query())
	}
	if s.api {
		a.sayf("tasks are taken in at http://%s/v1/, see http://%[1]s/docs", listener.Addr())
	}
	web := &http.Server{Handler: bodies.Timed(between.believe(mux)),
		ReadHeaderTimeout: headersMax, ReadTimeout: requestMax, WriteTimeout: replyMax, IdleTimeout: quietMax, MaxHeaderBytes: headerMax,
		ErrorLog: slog.NewLogLogger(a.log().Handler(), slog.LevelWarn)}
	return a.serveUntil(ctx, web, listener, s, tasks, leave)
}

// serveUntil answers requests and works until ctx ends.
func (a *app) serveUntil(ctx context.Context, web *http.Server, listener net.Listener, s *server, tasks *service.Service, leave func()) error {
	serving, failed := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed(web.Serve(listener))
	}()
	err := a.work(serving, s, tasks, listener.Addr())
	if ctx.Err() != nil {
		err = nil // Ctrl-C is the way out
	}
	err = errors.Join(err, a.stop(ctx, web, tasks, leave))
	<-ended
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// work starts the service, if there is one, and returns when ctx ends, with its cause.
func (a *app) work(ctx context.Context, s *server, tasks *service.Service, at net.Addr) error {
	if tasks != nil {
		err := tasks.Start(ctx)
		if err == nil && s.api {
			err = a.sayFirstToken(ctx, tasks, s)
		}
		if err != nil {
			return err
		}
	}
	if s.tell != nil {
		s.tell(at)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// log is where the service says what goes wrong.
func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// connectionsMax is how many connections to the database a process may have. The API, delivery and the console share them.
const connectionsMax = 32

func (a *app) service(ctx context.Context, db *database, s *server, own []net.Addr, options ...persistent_queue.Option) (*service.Service, error) {
	driver, dsn, err := a.address()
	if err != nil {
		return nil, err
	}
	never, err := serverOf(ctx, driver, dsn)
	if err != nil {
		return nil, err
	}
	for _, listener := range own {
		if at, err := netip.ParseAddrPort(listener.String()); err == nil {
			never = append(never, at)
		}
	}
	guard, errGuard := s.guard(never)
	signers, errSigners := s.signers()
	aliases, errAliases := s.aliases()
	if err := errors.Join(errGuard, errSigners, errAliases); err != nil {
		return nil, err
	}
	cfg := service.Config{
		DB: db.DB, TablePrefix: a.prefix, WithoutDelivery: !s.delivery,
		OpenToThisMachine: s.open, Topics: s.topics, TopicsPerToken: s.topicsOfOne, Retention: s.retention(), Aliases: aliases, Options: options,
		Deliver: service.Delivery{Guard: guard}, SignerOf: signers.of, Log: a.log(), Codec: a.codec,
	}
	tasks, err := service.New(cfg)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	return tasks, nil
}

// guard says where callbacks may go. The addresses are the service's own.
func (s *server) guard(never []netip.AddrPort) (*service.Guard, error) {
	guard, err := service.NewGuard(s.allow, never)
	if err != nil {
		return nil, exitf(exitUsage, "--egress-allow: %w", err)
	}
	return guard, nil
}

// aliases are the interfaces of other services.
func (s *server) aliases() (service.Aliases, error) {
	a := service.Aliases{DelayQueue: s.delayQueue, DelayService: s.delayService}
	var err error
	if a.From, err = networksOf("--alias-from", s.aliasFrom); err == nil && len(a.From) > 0 && a.DelayQueue == "" && a.DelayService == nil {
		err = exitf(exitUsage, "--alias-from is for clients of --delay-queue and --delay-service, and neither is given; leave it out, or switch one on")
	}
	flags := map[string]string{"DelayQueue": "--delay-queue", "DelayService": "--delay-service"}
	if field, why := a.Wrong(); field != "" {
		err = errors.Join(err, exitf(exitUsage, "%s: %s", flags[field], why))
	}
	return a, err
}

// retention is how long ended tasks are kept. The flags say 0 for no limit, and the service wants a negative time.
func (s *server) retention() queue_job.Retention {
	done, failed := cmp.Or(s.keep.Done, -1), cmp.Or(s.keep.Failed, -1)
	return queue_job.Retention{Done: done, Cancelled: done, Failed: failed}
}

// mount puts a handler where its parts belong: probes always, and before any login, so that Kubernetes can ask.
func (s *server) mount(mux *http.ServeMux, handler http.Handler) {
	paths := []string{"/livez", "/readyz"}
	if s.api {
		paths = append(paths, "/v1/", "/docs", "/openapi.json", "/api/task/save", "/delay/task/add")
	}
	for _, path := range paths {
		mux.Handle(path, handler)
	}
}

// stop ends what serves. The function leave turns readiness red; without tasks, only the console is served.
func (a *app) stop(ctx context.Context, web *http.Server, tasks *service.Service, leave func()) error {
	unhurried := context.WithoutCancel(ctx)
	leave()
	time.Sleep(leaveFor) // a load balancer sees that, and sends no more
	patience, cancel := context.WithTimeout(unhurried, endMax)
	defer cancel()
	err := web.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = web.Close()
	}
	if tasks == nil {
		return err
	}
	patience, cancel = context.WithTimeout(unhurried, stopMax)
	defer cancel()
	return errors.Join(err, tasks.Stop(patience))
}
