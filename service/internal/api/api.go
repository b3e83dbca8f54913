// Package api is the HTTP interface of the service: tasks are added, looked at and steered, topics are configured.
package api

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bodies"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

const lookMax = 10 * time.Second // what a request may take that only reads, or changes a few rows

// Parts are what the interface stands on.
type Parts struct {
	DB     *sql.DB
	Jobs   *queue_job.Jobs
	Tables *tables.Tables
	Topics *topics.Registry
	Intake *intake.Intake
	// CheckURL refuses an address that the deliverer would not call, with the remedy.
	CheckURL func(address string) error
	// Destinations tells how the destinations of the topics are that may be seen, at most that many. The topic of what all have in common is
	// empty. Nil: this process sends nothing.
	Destinations func(seen func(topic string) bool, most int) []deliver.Destination
	Aliases      Aliases
	// Leaving ends when the service is about to stop; then no request waits any more. Nil: never.
	Leaving context.Context
	Log     *slog.Logger
}

type api struct {
	Parts
	streams *places
	waits   *waits
	logged  atomic.Int64 // when a problem with a cause was logged last, in unix seconds
}

const tasksPath, operationsPath = "/v1/tasks/", "/v1/operations/" // where they are, by their ids

const ofOwn = "/v1/topics/{topic}/tasks/{name}" // where a task is by the sender's own id

// Handler returns the interface: everything below /v1/, and its description.
func Handler(parts Parts) http.Handler {
	a := &api{Parts: parts, streams: newPlaces(), waits: &waits{of: map[string]int{}}}
	mux := http.NewServeMux()
	for pattern, route := range a.routes() {
		mux.HandleFunc(pattern, a.answer(pattern, route))
	}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		a.writeError(w, r, problem.New(problem.NotFound, "there is no %s %s; /docs has what there is", r.Method, r.URL.Path))
	})
	a.Aliases.serve(mux, a)
	describe(mux)
	return withID(mux)
}

// routes are what there is below /v1/. openapi.json describes them.
func (a *api) routes() map[string]route {
	return map[string]route{
		"POST /v1/topics/{topic}/tasks":          {tokens.AddTasks, a.addOne},
		"PUT /v1/topics/{topic}/tasks/{name}":    {tokens.AddTasks, a.putOne},
		"POST /v1/batch":                         {tokens.AddTasks, a.addBatch},
		"GET /v1/tasks":                          {tokens.ReadTasks, a.listTasks},
		"GET /v1/tasks/{id}":                     {tokens.ReadTasks, a.showTask},
		"GET /v1/tasks/{id}/body":                {tokens.ReadBodies, a.showBody},
		"GET /v1/tasks/{id}/attempts":            {tokens.ReadTasks, a.listAttempts},
		"GET /v1/tasks/{id}/why":                 {tokens.ReadTasks, a.why},
		"GET /v1/topics/{topic}/tasks/{name}":    {tokens.ReadTasks, a.showTask},
		"DELETE /v1/tasks/{id}":                  {tokens.ManageTasks, a.cancelTask},
		"DELETE /v1/topics/{topic}/tasks/{name}": {tokens.ManageTasks, a.cancelTask},
		"PATCH /v1/topics/{topic}/tasks/{name}":  {tokens.ManageTasks, a.changeTask},
		"GET " + ofOwn + "/body":                 {tokens.ReadBodies, a.showBody},
		"GET " + ofOwn + "/attempts":             {tokens.ReadTasks, a.listAttempts},
		"GET " + ofOwn + "/why":                  {tokens.ReadTasks, a.why},
		"POST " + ofOwn + "/run":                 {tokens.ManageTasks, a.runTask},
		"POST " + ofOwn + "/retry":               {tokens.ManageTasks, a.retryTask},
		"PATCH /v1/tasks/{id}":                   {tokens.ManageTasks, a.changeTask},
		"POST /v1/tasks/{id}/run":                {tokens.ManageTasks, a.runTask},
		"POST /v1/tasks/{id}/retry":              {tokens.ManageTasks, a.retryTask},
		"GET /v1/topics":                         {tokens.ReadTasks, a.listTopics},
		"DELETE /v1/topics":                      {tokens.ManageTopics, a.dropTopics},
		"GET /v1/topics/{topic}":                 {tokens.ReadTasks, a.showTopic},
		"PUT /v1/topics/{topic}":                 {tokens.ManageTopics, a.putTopic},
		"DELETE /v1/topics/{topic}":              {tokens.ManageTopics, a.dropTopic},
		"POST /v1/topics/{topic}/pause":          {tokens.ManageTopics, a.pauseTopic},
		"POST /v1/topics/{topic}/resume":         {tokens.ManageTopics, a.resumeTopic},
		"GET /v1/topics/{topic}/stats":           {tokens.ReadTasks, a.topicStats},
		"GET /v1/templates":                      {tokens.ReadTasks, a.listTemplates},
		"PUT /v1/templates/{pattern}":            {tokens.ManageTopics, a.putTemplate},
		"DELETE /v1/templates/{pattern}":         {tokens.ManageTopics, a.dropTemplate},
		"GET /v1/destinations":                   {tokens.ReadTasks, a.listDestinations},
		"GET /v1/schedules":                      {tokens.ReadTasks, a.listSchedules},
		"GET /v1/schedules/{name}":               {tokens.ReadTasks, a.showSchedule},
		"PUT /v1/schedules/{name}":               {tokens.ManageTasks, a.putSchedule},
		"DELETE /v1/schedules/{name}":            {tokens.ManageTasks, a.dropSchedule},
		"POST /v1/operations":                    {tokens.ManageTasks, a.addOperation},
		"GET /v1/operations":                     {tokens.ReadTasks, a.listOperations},
		"GET /v1/operations/{id}":                {tokens.ReadTasks, a.showOperation},
		"POST /v1/operations/{id}/stop":          {tokens.ManageTasks, a.stopOperation},
		"POST /v1/operations/{id}/resume":        {tokens.ManageTasks, a.resumeOperation},
		"GET /v1/tokens":                         {tokens.Admin, a.listTokens},
		"POST /v1/tokens":                        {tokens.Admin, a.addToken},
		"DELETE /v1/tokens/{id}":                 {tokens.Admin, a.dropToken},
	}
}

// withID gives each answer an id, by which it can be found in the log.
func withID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", rand.Text()[:16])
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// call is a request whose sender is known.
type call struct {
	http.ResponseWriter
	*http.Request
	caller *tokens.Caller
	a      *api
	held   func() // gives back the room that the body has; nil: it has none
}

// route is what a request is for: the scope that its sender needs, and what it does.
type route struct {
	scope tokens.Scope
	do    func(*call) error
}

// answer makes a handler of what may return a problem. An error that is none is the database's.
func (a *api) answer(pattern string, route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, bad := a.Topics.Tokens().Caller(r, time.Now())
		if bad == nil && !caller.May(route.scope) {
			bad = problem.New(problem.Forbidden, "the token lacks the scope %s", route.scope)
		}
		if bad != nil {
			a.writeError(w, r, bad)
			return
		}
		c := &call{w, r, caller, a, nil}
		c.Request = r.WithContext(queue_job.WithActor(r.Context(), c.actor(), ""))
		err := c.onlyWhatCounts(pattern)
		if err == nil {
			err = route.do(c)
		}
		switch {
		case err == nil:
		// The client is gone, or has closed its own direction and still reads. Without an answer, net/http would send 200.
		case r.Context().Err() != nil:
			problemOf(err).Write(w)
		default:
			a.writeError(w, r, problemOf(err))
		}
	}
}

// problemOf is what an error is answered with. If it is the database's, nothing was changed, unless it is that of a commit.
func problemOf(err error) *problem.Problem {
	p := intake.Away(err)
	if p.Code == problem.DatabaseAway && errors.Is(err, tables.ErrUnknown) {
		p.Code, p.Detail = problem.Unknown, "the database has not said whether it did that; look before you send the request again"
	}
	return p
}

const triesMax = 3 // of a transaction that the database ends, as a deadlock

// change runs what changes something in a transaction, together with what reads it back for the answer. So after an error, nothing was
// changed, unless it is that of the commit. The act runs again if the database ends the transaction before that.
func (a *api) change(ctx context.Context, act func(tx *sql.Tx) error) (err error) {
	for range triesMax {
		err = a.Tables.In(ctx, act)
		if p := (*problem.Problem)(nil); err == nil || ctx.Err() != nil || errors.Is(err, tables.ErrUnknown) || errors.As(err, &p) {
			break
		}
	}
	return err
}

const pingMax = 2 * time.Second

// search reads what may take long, on a connection of its own. If the time is over and the database answers something else, the search is
// what takes long, and too names what narrows it. Otherwise there was no connection, or the database hangs.
func (a *api) search(ctx context.Context, too string, look func(queue_job.Executor) error) error {
	conn, err := a.DB.Conn(ctx)
	if err != nil {
		return err
	}
	err = look(conn)
	_ = conn.Close() // before another one is asked for
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	ping, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingMax)
	defer cancel()
	if a.DB.PingContext(ping) != nil {
		return err
	}
	return problem.New(problem.TooLarge, "the search takes more than %v; %s", lookMax, too)
}

// learn has this instance know at once of tokens that it has changed. If it cannot, it learns of them as the other instances do.
func (a *api) learn(ctx context.Context) {
	if err := a.Topics.Look(ctx); err != nil {
		a.Log.Warn("a change of the tokens is known here when the database answers again", "error", err)
	}
}

// now is the database's clock, from which on a time lasts that a request names: it decides what is due.
func (a *api) now(ctx context.Context) (time.Time, error) { return a.Tables.Now(ctx) }

// clock asks the database's clock for a request, if what it names depends on that.
func (a *api) clock(c *call) func() (time.Time, error) {
	return func() (time.Time, error) {
		ctx, cancel := c.within()
		defer cancel()
		return a.now(ctx)
	}
}

// actor is who asks, as the record of acts has it.
func (c *call) actor() string { return "API, " + c.caller.ID }

func (a *api) writeError(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	a.note(w, p)
	if isStream(r) { // its sender may wait for the answer, and the server would first wait for the body's end
		w.Header().Set("Connection", "close")
	}
	if p.Code == problem.Unauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pqueue"`)
	}
	p.Write(w)
}

// note logs a problem that has a cause, once a second at most.
func (a *api) note(w http.ResponseWriter, p *problem.Problem) {
	if last, now := a.logged.Load(), time.Now().Unix(); p.Cause != nil && last != now && a.logged.CompareAndSwap(last, now) {
		a.Log.Error("a request cannot be answered", "request", w.Header().Get("X-Request-Id"), "code", string(p.Code), "error", p.Cause)
	}
}

// topic is the name of the topic in a request's path, if the caller may do something with it.
func (c *call) topic(scope tokens.Scope) (string, error) {
	name := c.PathValue("topic")
	return name, mayTopic(c.caller, scope, name)
}

func mayTopic(caller *tokens.Caller, scope tokens.Scope, name string) error {
	if !caller.MayTopic(scope, name) {
		return problem.New(problem.Forbidden, "the token may not do that with topic %q", name)
	}
	return nil
}

// within gives what only looks, or changes little, its time.
func (c *call) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context(), lookMax)
}

// say answers with JSON.
func (c *call) say(status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.sayText(status, text)
}

// sayText answers with a text of JSON. While it waits for who reads it, the request has no room any more, and a large answer has its own.
func (c *call) sayText(status int, text []byte) error {
	if c.held != nil {
		c.held()
	}
	release, full := c.a.answerRoom(c, len(text))
	if full != nil {
		if c.Method != http.MethodGet {
			return problem.New(problem.Unknown,
				"it is done, and there is no room for the answer: this caller, or all together, do not read theirs; look at what there is")
		}
		return full
	}
	defer release()
	c.Header().Set("Content-Type", "application/json")
	c.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	c.WriteHeader(status)
	c.writeWithin(append(text, '\n')) // whoever asked may be gone
	return nil
}

// writeWithin writes a text. A large one is given up if nobody reads it at the least speed.
func (c *call) writeWithin(text []byte) {
	if len(text) <= firstBytes {
		_, _ = c.Write(text)
		return
	}
	control, began := http.NewResponseController(c.ResponseWriter), time.Now()
	for sent := 0; sent < len(text); {
		// where deadlines are not supported, the server's own hold
		_ = control.SetWriteDeadline(began.Add(bodies.Grace + time.Duration(sent)*time.Second/bodies.LeastSpeed))
		n, err := c.Write(text[sent:min(len(text), sent+bodies.LeastSpeed)])
		if sent += n; err != nil {
			return // and so is the connection
		}
	}
	if control.Flush() == nil {
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// Header is the answer's: of the two that a call embeds, the request's is c.Request.Header.
func (c *call) Header() http.Header { return c.ResponseWriter.Header() }

// Write writes to the answer.
func (c *call) Write(text []byte) (int, error) { return c.ResponseWriter.Write(text) }

// noJob turns the error of a job that is not there into a problem.
func noJob(err error) error {
	if errors.Is(err, queue_job.ErrNoJob) {
		return problem.New(problem.NotFound, "there is no such task; it may have been deleted, as ended ones are after a time")
	}
	return err
}
