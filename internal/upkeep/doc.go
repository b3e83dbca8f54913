// Package upkeep does what is done once in a while. No job waits for it. A start, Add and Replace wait until the names of the types are read and
// written, for three seconds at most (Claim), and Stop waits two for the last stats. If an instance misses a turn at what one does for all,
// another instance takes it, or the same one later.
//
//	                 ┌────────────────────── wait ◄─────────────────────┐
//	                 ▼                                                  │
//	Task.Run ──► is it time? ──► is it our turn? ──► do ──► Errlog: did it work?
//	              every, wake     a lease, if one     │
//	                              does it for all     │
//	                                                  │                       reads           writes
//	   each instance:     Register     names and settings of types            Types           async_job_type_tab
//	                      Snapshot     what lines have in memory              Held            async_job_now_tab
//	                      Stats        what lines have run, who had leases    Lines, LeaseLog async_job_stat_tab, …_lease_log_tab
//	                      Orphans      jobs that nobody runs                  Held, table     the log
//	                      Operations   on many jobs                           …_act_tab       async_job_tab, …_act_tab
//	                      FlowPruner   old flows are deleted                  …_flow_tab      …_flow_tab, …_node_tab
//	                      Connections  are they closed all the time?          the pool        the log
//	   one for all:       Rollup       minutes of history become hours        …_stat_tab      …_stat_tab, …_lease_log_tab
//	                      Timetable    a job for each time of a row           …_schedule_tab  async_job_tab, …_schedule_tab
//	   one for its types: Pruner       what is old is deleted (walk, pacing)  async_job_tab   async_job_tab, …_log_tab
//	   the holder:        Schedule     a job for each time (of shard 0)       …_type_tab      async_job_tab, …_type_tab
//
// # One loop
//
// A Task says when it is done and what it does; Task.Run is the loop. What a task does is a tick that can be called by itself. It returns
// how long to wait, if that is not always the same. If there was nothing to do, it returns errIdle: then the Errlog does not
// hear of a success, since no statement was sent.
//
// # What it knows of the engine
//
// The interfaces Instance, Line, Lease and Turn, the clock and the log; no more. The engine fills them in (upkeep.go, member.go), and
// enters the tasks: database.upkeep in upkeep.go.
//
// # Why nothing breaks if it is done twice
//
// The lease of a task, its turn, only avoids double work. Each statement finds what there is: a row is deleted only if it is final and old at
// that moment. A row of stats is named by minute, lease and term, and only this instance had that term. A time of a schedule has a job with a
// unique key. The row of an operation says how far it has come.
package upkeep
