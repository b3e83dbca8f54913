// Package queue_job is about jobs: how to configure, add and handle them, and how to look at them and steer them.
//
// A job is a row of async_job_tab. Its job type, a number, says which [Config] runs it. Business code adds jobs through [Jobs], which [Open]
// makes; a [github.com/create-info/persistent-queue.Runner] runs them. Every verb of Jobs takes the [Executor] that it runs on, so it works
// inside your own transaction.
//
//	AddModelJob ── Add ──► waits ──► the handler returns …
//	                         ▲          ├── nil ───────────────────────────► succeeded
//	                         │          ├── Fail, or no retry is left ─────► failed: Jobs.Retry makes it run again
//	                         │          ├── Cancel ────────────────────────► cancelled: so does Jobs.Retry
//	                         ├──────────┼── an error, RetryAfter: a retry, after WaitTime or a wait of its own
//	                         └──────────┴── Snooze, Defer: later, which counts as no retry
//
// # Adding
//
// [Jobs.Add] adds the job that an [AddModelJob] describes. Inside a transaction, the job exists if and only if the transaction commits.
// [Jobs.AddMany] adds thousands of jobs in few statements, [Jobs.AddSeq] as many as an iterator has, [Jobs.AddUnique] also reports whether the job
// was there already, and [AddAsyncJob] adds one job without Jobs and without a transaction. [At], [After], [Expires], [WithKey], [UniqueKey],
// [WithPriority], [WithMaxRetries] and [WithMeta] say more about a job; [OnAdd] is called for each job that is added. [Define] ties a job type
// to the Go type of its parameters: [Definition.New] makes such a job, and [Definition.Handle] the Config that runs it.
// [Config.Schedule] adds jobs by the clock.
//
// # Handling
//
// [Config.HandleJobFunc] runs one [Job], [Config.HandleBatchFunc] several in one call. The handler's context ends when the run takes longer
// than [Config.Timeout] ([ErrTimeout]), when the job is cancelled ([ErrCancelled]), when the lease of the job type is lost, and when the Runner
// no longer waits for the handler. [Config.Middleware] or [Config.BatchMiddleware] wraps the handler, and [Config.OnFinished] is called after
// each run. [Job.SetProgress] and [Job.SetResult] store texts that [Jobs.Get] reads.
//
// A panic counts as an error. To ask for another outcome, return [Snooze], [Defer], [RetryAfter], [Fail] or [Cancel]; Defer does not count
// even the run. A batch handler returns [BatchErrors] to tell its jobs apart. If a handler sets [Job.Status], that [JobStatus] wins.
//
// [Config.NeedRetry] allows retries, and [Config.MaxRetries] limits their number, unless it is [Unlimited]. The wait before
// each is [Config.WaitTime], or what [Config.RetryTiming] says: [Waits], [Exponential] or a function of yours. A run whose process died is no
// retry: after the first such loss the job runs again, after the second again and alone, and after the third it has failed ([Config.LostLimit]).
//
// # Limits
//
// One instance at a time starts the jobs of a type, or of a shard of it ([Config.Shards]), so limits hold over all instances; only handlers
// that go on after their lease was lost are not counted. [Config.WorkerPoolCapacity] limits how many jobs run at the same time,
// [Config.RatePerSecond] and [Config.RateBurst] how many start in a second. [Config.MaxPerKey] limits how many jobs of one business key run at
// the same time, [Config.RatePerKey] how many of them start in a second, and [Config.OrderedByKey] runs them one after the other; if a job has
// a group ([WithGroup]), that counts as its key. With [Config.FairByGroup], the groups take turns, so that a customer with many jobs does not
// hold up the others. [Uniqueness] says whether a second job of a key is added at all. [Priority] says which jobs go first.
//
// # Looking and steering
//
//   - Jobs: [Jobs.Get], [Jobs.List] and [Jobs.All] read them, [Jobs.Counts] counts; [Jobs.Attempts] and [Jobs.Steps] say what runs have done.
//   - Some, by [ID] or [Key]: [Jobs.Cancel], [Jobs.Reschedule], [Jobs.SetParams], [Jobs.SetPriority], [Jobs.Signal], [Jobs.Retry], [Jobs.RetryWith].
//   - A type: [Jobs.Pause], [Jobs.PauseUntil], [Jobs.Resume], [Jobs.Paused], [Jobs.RetryAll], [Jobs.SetShards], [Jobs.SetLimits].
//   - Who runs what: [Jobs.Types], [Jobs.Leases], [Jobs.Lines], [Jobs.Instances], or [Jobs.Fleet]; [Jobs.HandOver] and [Jobs.Drain] move it,
//     and [Jobs.Bury] says that an instance is dead.
//
// # Delivery
//
// Delivery is at least once: if a process dies while it runs a job, or is cut off from the database for longer than its lease, the job runs
// again. Another instance takes over within [Config.LockSecond] + 1 s. Recording is exactly once: of two runs, only the run whose mark came
// last can write the outcome. Effects happen exactly once only in the transaction that completes the job: see [Job.CompleteTx],
// and [StepTx] for a handler that has several. For effects elsewhere, hand [Job.IdempotencyKey] or [Job.Term] to the other side.
package queue_job
