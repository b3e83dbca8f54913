// Package upkeep does what is done once in a while. No job waits for it, and none of it has to be done by this instance: what one
// instance does not get to, another does, or the same one later.
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
//	                      Operations   on many jobs                           …_act_tab       async_job_tab
//	                      Connections  are they closed all the time?          the pool        the log
//	   one of all:        Rollup       minutes of history become hours        …_stat_tab      …_stat_tab
//	                      Pruner       what is old is deleted (walk, pacing)  async_job_tab   async_job_tab
//	   a line's holder:   Schedule     a job for each time                    …_type_tab      async_job_tab
//
// # One loop
//
// A Task says when it is done and what it does; Task.Run is the loop. What a task does is a tick that can be called by itself. It returns
// how long to wait, if that is not always the same. If there was nothing to do it returns errIdle, since no statement was sent that
// says whether the database answers.
//
// # What it knows of the engine
//
// The interfaces Instance, Line, Lease and Turn, the clock and the log; no more. The engine fills them in its file upkeep.go.
//
// # Why nothing breaks if it is done twice
//
// A turn saves work, and protects nothing. Each statement finds what there is: a row is deleted only if it is final and old at that
// moment; a minute is written by the lease and term that ran it; a time of a schedule has a job with a unique key; an operation goes on
// from where its row says that it is.
package upkeep
