package service

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/internal/bodies"
)

// Handler answers requests: the API below /v1/, its description at /openapi.json and /docs, /livez and /readyz. It may be used before
// the service has started; then only /livez is well.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	probes := Probes(s.stuck, s.Ready)
	mux.Handle("GET /livez", probes)
	mux.Handle("GET /readyz", probes)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if handler := s.handler.Load(); handler != nil {
			(*handler).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "2")
		say(w, errStarting)
	})
	return bodies.Timed(mux)
}

// Probes answers /livez and /readyz with 200 if a function returns nil, and with 503 and the error if it does not. [Service.Handler] has
// both paths already; this is for a process without a Service, which serves a console alone, for example.
func Probes(live, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, live()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { say(w, ready()) })
	return mux
}

// stuck returns an error if only a new process can help. That the database is away is no such reason.
func (s *Service) stuck() error {
	if s.handler.Load() == nil {
		return nil
	}
	return s.topics.Stuck()
}

var errStarting = errors.New("the service is starting: it waits for its database")

// Ready returns nil if requests may be sent here. The error says why not: the service is starting or about to stop, its database does not
// answer, or tasks are not sent although it does. A service without delivery sends none; it is not ready if its database has refused to
// write for ten seconds. Anybody may ask, so what the driver says, which may have the database's address, is in the log.
func (s *Service) Ready() error {
	switch {
	case s.leaving.Err() != nil:
		return errors.New("the service is about to stop")
	case s.handler.Load() == nil:
		return errStarting
	}
	if s.runner != nil {
		return s.answers(s.topics.Fresh(), s.runner.Health(), errUnwell)
	}
	var refused error
	if why := s.refused.Load(); why != nil {
		refused = *why
	}
	return s.answers(s.topics.Fresh(), refused, errRefused)
}

const (
	writeEvery = time.Second
	writeMax   = 2 * time.Second
	refusedFor = 10 * time.Second // a failover takes less
)

// tryWrites finds out, until ctx ends, whether the database takes writes. A Runner finds that out as it works; without one, reads would
// succeed and no task be taken in.
func (s *Service) tryWrites(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for written := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		try, cancel := context.WithTimeout(ctx, writeMax)
		err := s.tables.TakesWrites(try)
		cancel()
		switch {
		case err == nil:
			written = sent
			s.refused.Store(nil)
		case time.Since(written) >= refusedFor:
			s.refused.Store(&err)
		}
	}
}

var (
	errAway    = errors.New("the database does not answer")
	errUnwell  = errors.New("tasks are not sent, or not all of them; the log of the service says why")
	errRefused = errors.New("tasks are not taken in, since the database refuses to write; the log of the service says why")
)

// answers turns what keeps the database from answering, or nil, and what else is wrong, or nil, into what anybody may hear, and logs it when
// it begins.
func (s *Service) answers(silent, unwell, saidOfUnwell error) (said error) {
	cause := silent
	switch {
	case silent != nil:
		said = errAway
	case unwell != nil:
		said, cause = saidOfUnwell, unwell
	}
	if was := s.red.Swap(said != nil); said != nil && !was {
		s.cfg.Log.Error("readiness is red: "+said.Error(), "error", cause)
	}
	return said
}

func say(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(err.Error() + "\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
