// Package queuetest is for the tests of applications that use persistent-queue: a queue in a temporary SQLite database in
// one line, assertions about the jobs that were added, and jobs that run when the test says so.
//
//	func TestAnOrderIsConfirmedByMail(t *testing.T) {
//		q := queuetest.New(t, mailer.config())
//		placeOrder(q.DB, q.Jobs, "anna@example.com")
//		q.RequireAdded(OrderMail.JobType, queuetest.Params(Mail{To: "anna@example.com"}))
//		q.RunDue()
//		if len(mailer.sent) != 1 { … }
//	}
//
// Nothing runs in the background: RunOne runs one job, RunDue all that are due, in the goroutine that calls them. What
// becomes of a job is decided by the same code as in production, and written by the same statements: status, retries,
// waits and the log table; jobs of a key keep their order, and a handler of several jobs gets them in one call. There is no
// lease, no worker pool and no waiting; so rates, WorkerPoolCapacity, BatchWait, FirstPullDay and ScheduleCatchUp mean nothing
// here, and what persistent_queue.WithMiddleware gives is missing: put it into Config.Middleware.
//
// The time by which jobs fall due is the real one, in whole seconds, plus what the test has advanced it by: Advance moves
// it on without waiting. Code under test that asks time.Now goes on seeing the real one.
//
// Wrap does the same on a database of yours: MySQL, MariaDB or PostgreSQL, where SQL of the code under test needs one.
package queuetest
