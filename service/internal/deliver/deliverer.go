package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Config is what a Deliverer needs.
type Config struct {
	// Guard says which addresses may be called. Nil: public ones only.
	Guard *Guard
	// InFlight is how many calls run at a time at most, over all topics. Default: what the limit of open files leaves room for, 4,096 at
	// most.
	InFlight int
	// UserAgent defaults to "pqueue/1.0".
	UserAgent string
	// Resolver looks up hosts. Nil: the resolver of the system's configuration. What it answers is kept for 30 seconds.
	Resolver Resolver
	// Logger hears when a breaker opens or closes. Nil: nobody does.
	Logger *slog.Logger
}

// Deliverer sends callbacks. It may be used by any number of goroutines.
type Deliverer struct {
	lanes      *lanes
	names      *names
	dialer     *dialer
	identities *identities
	userAgent  string
	logger     *slog.Logger

	judge func(evidence, *Rules, time.Time) verdict // tests have others

	over context.Context // ends with Close
	end  context.CancelFunc
	tidy sync.WaitGroup
}

const tidyEvery = time.Minute

// New makes a Deliverer. Close it when no call is to be sent any more.
func New(cfg Config) (*Deliverer, error) {
	if cfg.InFlight < 0 {
		return nil, fmt.Errorf("service.Config.Deliver.InFlight is %d; use a positive number, or 0 for the default", cfg.InFlight)
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = placesOfProcess()
	}
	if cfg.Guard == nil {
		cfg.Guard = &Guard{}
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "pqueue/1.0"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Deliverer{lanes: newLanes(cfg.InFlight), userAgent: cfg.UserAgent, logger: cfg.Logger, judge: judge}
	d.over, d.end = context.WithCancel(context.Background())
	d.names = newNames(d.over, cfg.Resolver)
	d.dialer = newDialer(d.over, d.names)
	d.identities = newIdentities(d.dialer, cfg.Guard)
	d.tidy.Go(d.tidyNowAndThen)
	return d, nil
}

// Deliver sends a call, unless its destination is broken, paused or busy, and says what becomes of the task. It waits for a place for some
// ten milliseconds at most; then the result is [Deferred], and the task is to be called again later.
//
// A call is one request on the wire at most. If the connection breaks when a byte of it has gone out, nobody can say whether the receiver
// has got it, and the result is [Retry] with [CodeReset]. Delivery is at least once: the receiver may get a task twice, with the same
// webhook-id. That happens with such a Retry, and if the process dies before the result is written.
func (d *Deliverer) Deliver(ctx context.Context, call *Call) Result {
	if err := call.check(); err != nil {
		return Result{Outcome: Failed, Code: CodeInvalid, Detail: err.Error()}
	}
	to, err := d.identities.guardOf(call.Topic.Identity).target(call.URL)
	if err != nil {
		return refused(err)
	}
	transport, err := d.identities.transport(call.Topic.Identity)
	if err != nil {
		return Result{Outcome: Retry, Code: CodeInvalid, Detail: err.Error()}
	}
	t, why, wait := d.lanes.enter(ctx, laneKey{call.Topic.Name, to.origin}, call.Topic.Limits)
	if why == CodeStopped {
		return Result{Outcome: Aborted, Code: why, Detail: details[why]}
	}
	if why != "" {
		detail, until := d.lanes.blame(laneKey{call.Topic.Name, to.origin}, why, time.Now())
		return Result{Outcome: Deferred, Code: why, Detail: detail, Wait: wait, Until: until}
	}
	return d.deliver(ctx, call, to, transport, t)
}

// deliver sends a call that has its place. The place is given back whatever happens here, and in what is called from here.
func (d *Deliverer) deliver(ctx context.Context, call *Call, to *target, transport http.RoundTripper, t ticket) (result Result) {
	v := verdict{outcome: Retry}
	defer func() { result.Wait = d.leave(t, v) }()
	req, err := call.request(to.url, d.userAgent, time.Now())
	if err != nil {
		return Result{Outcome: Retry, Code: CodeInvalid, Detail: err.Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.over, cancel)()
	rules := &call.Topic.Rules
	x := send(ctx, transport, req, call.timeout(), rules.needBody())
	if whole := x.err == nil || x.answered && !rules.needBody(); whole || ctx.Err() == nil {
		v = d.judge(x.evidence, rules, time.Now())
	} else {
		v = verdict{outcome: Aborted, code: CodeStopped, detail: details[CodeStopped]}
	}
	return Result{Outcome: v.outcome, Code: v.code, Detail: v.detail, Response: x.response(), IP: x.ip, Timing: x.timing}
}

// refused is the result of a URL that may not be called. A blocked URL may be allowed later; a URL that cannot be read stays so.
func refused(err error) Result {
	var blocked *BlockedError
	if errors.As(err, &blocked) {
		return Result{Outcome: Retry, Code: CodeBlocked, Detail: err.Error()}
	}
	return Result{Outcome: Failed, Code: CodeInvalid, Detail: err.Error()}
}

func (c *Call) timeout() time.Duration {
	if c.Timeout == 0 {
		return TimeoutDefault
	}
	return c.Timeout
}

// leave gives the place of a call back, and tells of breakers.
func (d *Deliverer) leave(t ticket, v verdict) (wait time.Duration) {
	wait, changes := d.lanes.leave(t, v)
	for _, c := range changes {
		d.logger.Info("callbacks: a breaker changed",
			"origin", c.Origin, "topic", c.Topic, "state", string(c.State), "why", string(c.Why), "until", c.OpenUntil)
	}
	return wait
}

// closeMax is how long Close waits: a call ends within milliseconds of its context, unless something is wrong with it.
const closeMax = 5 * time.Second

// Close ends the calls that run, with [Aborted], and returns when they have ended, or after five seconds if some have not: then the log
// says how many. Later calls are Aborted, too.
func (d *Deliverer) Close() {
	d.end()
	d.lanes.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.lanes.end()
		d.names.running.Wait()
		d.tidy.Wait()
	}()
	timer := time.NewTimer(closeMax)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		d.logger.Error("callbacks: some have not ended, and are left alone", "calls", d.lanes.running(), "after", closeMax)
	}
	d.identities.close()
	d.dialer.closeAll()
}

// tidyNowAndThen forgets what has not been used for long.
func (d *Deliverer) tidyNowAndThen() {
	for sleep(d.over, tidyEvery) {
		now := time.Now()
		d.lanes.tidy(now)
		d.names.tidy(now)
	}
}
