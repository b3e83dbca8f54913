// Package queue_job is about jobs: how to configure, add and handle them, and how to look at them and steer them.
//
// A job is a row of async_job_tab. Its job type, a number, says which [Config] runs it. Business code adds jobs through
// [Jobs], which [Open] makes; a [github.com/create-info/persistent-queue.Runner] runs them. Every verb of Jobs takes the
// [Executor] that it runs on, so it works inside your own transaction.
//
// # Adding
//
// [Jobs.Add] adds the job that an [AddModelJob] describes. Inside a transaction, the job exists if and only if the
// transaction commits. [Jobs.AddMany] adds thousands of jobs in few statements. [Jobs.AddUnique] also reports whether
// the job was there already. [AddAsyncJob] adds one job without Jobs and without a transaction.
//
// [At] and [After] say when a job falls due, [WithKey] and [UniqueKey] give it a business key, [WithPriority] sets its
// [Priority], [WithMaxRetries] gives it a number of retries of its own, and [WithMeta] metadata beside its parameters. [OnAdd] is
// called for each job that is added, to give it a trace or a tenant for example. [Define] ties a job type to the Go type of
// its parameters: [Definition.New] makes such a job, and [Definition.Handle] the Config that runs it. [Config.Schedule]
// adds jobs by the clock.
//
// # Handling
//
// [Config.HandleJobFunc] runs one [Job], [Config.HandleBatchFunc] several in one call. [Config.Timeout] limits how long
// a run may take. The handler's context ends when that time is over ([ErrTimeout]), when the job is cancelled
// ([ErrCancelled]), when the lease of the job type is lost, and when the Runner no longer waits for the handler to end.
//
// [Config.Middleware] or [Config.BatchMiddleware] wraps the handler, and [Config.OnFinished] is called after each run.
// With [Job.SetProgress] and [Job.SetResult], a handler stores texts that [Jobs.Get] reads.
//
// # Outcomes
//
// A handler that returns nil has succeeded; an error or a panic asks for a retry. For any other outcome, return an error
// that says so: [Snooze] runs the job again later without counting a retry, [Defer] without counting even the run,
// [RetryAfter] retries it after a wait of its own, [Fail] and [Cancel] end it. A batch handler returns [BatchErrors] to tell its jobs apart.
// A handler may also set [Job.Status] to a [JobStatus]; then the status wins over the error.
//
// # Retries
//
// [Config.NeedRetry] allows retries, and [Config.MaxRetries] limits their number, unless it is [Unlimited].
// [Config.WaitTime] is the wait before each. For other waits, set [Config.RetryTiming] to [Waits], to [Exponential], or
// to a function of yours. A job without retries left has failed; [Jobs.Retry] makes it run again.
//
// A run whose process died does not count as a retry. After the first such loss the job runs again, after the second it
// runs again alone, and after the third it has failed, unless [Config.LostLimit] says otherwise.
//
// # Keys and limits
//
// One instance at a time starts the jobs of a type, or of a shard of it ([Config.Shards]), so these limits hold over all instances.
// [Config.WorkerPoolCapacity] limits
// how many jobs of the type run at the same time, [Config.RatePerSecond] and [Config.RateBurst] how many start in a
// second.
//
// A business key, an order number for example, says what a job is about. [Config.MaxPerKey] limits how many jobs of one
// key run at the same time, and [Config.OrderedByKey] runs them one after the other. If a job has a group ([WithGroup]), both go
// by that, and the key is the job's own. [Uniqueness] says whether a second job of the key is added at all. [Priority] says
// which jobs go first.
//
// # Looking and steering
//
// [Jobs.Get] reads one job, [Jobs.List] a page of jobs, [Jobs.All] any number of them; [Jobs.Counts] counts jobs, and
// [Jobs.Attempts] tells why runs did not succeed.
//
// [Jobs.Cancel], [Jobs.Reschedule], [Jobs.SetParams], [Jobs.SetPriority] and [Jobs.Retry] change the jobs that [ID] or
// [Key] selects. [Jobs.RetryWith] retries jobs with other parameters, and [Jobs.RetryAll] retries all failed jobs of a type.
// [Jobs.Pause], [Jobs.PauseUntil] and [Jobs.Resume] stop and continue a job type on all instances, and [Jobs.Paused] tells which types
// are paused.
//
// [Jobs.Types], [Jobs.Leases], [Jobs.Lines] and [Jobs.Instances] tell how job types are run, by whom, and what waits in memory;
// [Jobs.Fleet] reads all of that at once. [Jobs.HandOver] moves a lease, and [Jobs.Drain] empties an instance. [Jobs.SetShards] divides a
// type, and [Jobs.SetLimits] lowers its capacity and rate.
//
// # Delivery
//
// Delivery is at least once: if a process dies while it runs a job, or is cut off from the database for longer than its
// lease, the job runs again. Another instance takes over within [Config.LockSecond] + 1 s. Recording is exactly once: of
// two runs, only the run whose lease is current can write the outcome.
//
// Effects happen exactly once only in the transaction that completes the job: see [Job.CompleteTx]. For effects
// elsewhere, hand [Job.IdempotencyKey] or [Job.Term] to the other side.
package queue_job
