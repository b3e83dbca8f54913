// Package service runs jobs for teams in any language: a job comes in over HTTP, or by an INSERT into the team's own database, and goes
// out as a callback, an HTTP request to an address of the team's. There, it is called a task. docs/service/service.md tells its life.
//
// [New] makes a [Service] over a *sql.DB; [Service.Handler] is for any server, as pqueue serve has one. It stands on the library alone: a
// topic is a job type, which the Runner gets while it runs, and a task is a job whose parameters are the task as JSON.
//
//	HTTP ──► api ──► task: what is wrong with it? ──► topics: which job type? ──► intake: many in a transaction ──► async_job_tab
//	          │                                          ▲                                                            │
//	          └── tokens: who may do that?               └── tables: topics, tokens, used keys                        ▼
//	receiver ◄── deliver: lanes, breakers, guard, signatures ◄──────────── callback: the handler ◄──────────── Runner
//
// The rooms: internal/task knows what a task is, internal/topics which there are, internal/tokens who may do what, internal/problem how an
// error is answered; internal/tables has all SQL; internal/intake adds, internal/callback is the handler of all jobs, internal/api speaks HTTP,
// and internal/deliver sends; what users need of it has names here, as [Guard], [Signer] and [Verify].
package service
