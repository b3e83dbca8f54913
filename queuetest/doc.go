// Package queuetest is for the tests of applications that use persistent-queue: a queue in a temporary SQLite database
// in one line, assertions about the jobs that were added, and jobs that run when the test says so.
//
//	func TestAnOrderIsConfirmedByMail(t *testing.T) {
//		q := queuetest.New(t, mailer.config())
//		placeOrder(q.DB, q.Jobs, "anna@example.com")
//		q.RequireAdded(OrderMail.JobType, queuetest.Params(Mail{To: "anna@example.com"}))
//		q.RunDue()
//		if len(mailer.sent) != 1 { … }
//	}
//
// Nothing runs in the background: [Queue.RunOne] runs one job and [Queue.RunDue] all jobs that are due, in the goroutine
// that calls them. The code that decides what becomes of a job is the same as in production, and so are the statements
// that write it: status, retries, waits and the log table. Jobs of a key keep their order, a handler of several jobs
// gets them in one call, and with FairByGroup the groups take turns, by their weights, among the first thousand jobs that are due.
//
// Flows go on as in production ([queue_job.Jobs.AddFlow]): when a run has ended, the jobs that come next are there, so a test can look for them with
// RequireAdded, and RunDue runs them. What the test itself has ended, with [queue_job.Jobs.Cancel] or with SQL, counts in the next RunDue. If a
// job that has run is cancelled, its end counts ten seconds later, for jobs AfterEnd: call Advance.
//
// RatePerKey holds by the test's time, which Advance alone moves on, however long the test takes: each key begins with BurstPerKey starts, and a
// second that passes adds RatePerKey. Jobs beyond that wait for the next Advance, and [Queue.RunDue] again. Among the first thousand jobs that are
// due, those of other keys pass them. RunOne runs a job all the same, and counts.
//
// There is no lease, no worker pool and no waiting. So RatePerSecond, RateBurst, WorkerPoolCapacity, BatchWait, FirstPullDay and
// ScheduleCatchUp have no effect here. There is no [github.com/create-info/persistent-queue.WithMiddleware] and no
// WithBatchMiddleware: set [queue_job.Config.Middleware] and [queue_job.Config.BatchMiddleware] instead. WithBaseContext, WithOnSettled,
// WithOnDead and WithObserver have no counterpart either: call their functions from the test, or set [queue_job.Config.OnFinished].
//
// Jobs fall due by the real time, in whole seconds, plus the time that the test has added: [Queue.Advance] moves it on
// without waiting. If code under test asks time.Now, it still sees the real time.
//
// [Queue.LoseOne] runs a job in a process that dies before the outcome is written, so that the test sees what a second run
// does. [CrashEverywhere] plays a case once for each place at which its process can die, and demands the same end each time.
//
// [Wrap] does the same on a database of yours: MySQL, MariaDB or PostgreSQL, if the SQL of the code under test needs
// one. [Apart] makes tables of its own there, for tests that run at the same time.
package queuetest
