package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	notifyCustomer int32 = 7001 // the job type
	maxRetries           = 3
	retryWait            = time.Second

	customerEvery = 40 * time.Millisecond
	lookEvery     = 100 * time.Millisecond
	patience      = time.Minute // for the jobs, after the last customer left
)

// order is a customer's order, and what the job of notifying the customer is to go through.
type order struct {
	Number     int
	Story      string
	RolledBack bool          // the payment's transaction is
	DueIn      time.Duration // 0: at once
	Takes      time.Duration // each run
	FailsFirst int           // runs
	Want       want
}

// want is how a job is to end. No runs: there is to be no job.
type want struct {
	Status queue_job.JobStatus
	Runs   int
}

// notification is what a job's parameters say, as JSON.
type notification struct {
	Visit      int64 `json:"visit"`
	Order      int   `json:"order"`
	TakesMS    int64 `json:"takes_ms"`
	FailsFirst int   `json:"fails_first"`
}

// shop is the application: it has a database, and customers who come for one visit.
type shop struct {
	db     *sql.DB
	jobs   *queue_job.Jobs
	now    string // SQL: the database's clock, in unix milliseconds
	where  string // the database, for people
	close  func()
	visit  int64 // tells this run of the program from others in the same database
	orders []order
}

// sellAll lets one customer after the other pay.
func (s *shop) sellAll(ctx context.Context, show func([]end)) error {
	for _, o := range s.orders {
		if err := s.sell(ctx, o); err != nil {
			return fmt.Errorf("sell order %d: %w", o.Number, err)
		}
		if err := s.lookAfter(ctx, customerEvery, show); err != nil {
			return err
		}
	}
	return nil
}

// sell records that an order is paid and adds the job of notifying the customer: both, or neither.
func (s *shop) sell(ctx context.Context, o order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit, it does nothing

	job := queue_job.AddModelJob{
		JobType:   notifyCustomer,
		JobParams: notification{s.visit, o.Number, o.Takes.Milliseconds(), o.FailsFirst},
	}
	if o.DueIn > 0 {
		job.StartTime = uint32(time.Now().Add(o.DueIn).Unix())
	}
	if _, err := s.jobs.Add(ctx, tx, job); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO quickstart_order (visit, number, due, paid) VALUES (?, ?, ?, "+s.now+")",
		s.visit, o.Number, int64(job.StartTime)*1000)
	if err != nil {
		return err
	}
	if o.RolledBack {
		return nil // say, the card was declined
	}
	return tx.Commit()
}

// notify is the handler: the library calls it for each run of a job. An error means that the job is to run again.
func (s *shop) notify(ctx context.Context, job *queue_job.Job) error {
	var n notification
	if err := job.Decode(&n); err != nil {
		job.Status = queue_job.JobStatusFailed // running it again would not help
		return err
	}
	const noteStart = `UPDATE quickstart_order SET runs = runs + 1, last_start = %[1]s,
		first_start = CASE first_start WHEN 0 THEN %[1]s ELSE first_start END WHERE visit = ? AND number = ?`
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf(noteStart, s.now), n.Visit, n.Order); err != nil {
		return err
	}
	began := time.Now()
	err := sendMail(ctx, n, job.Retries)
	const noteEnd = "UPDATE quickstart_order SET ended = ended + 1, run_ms = run_ms + ? WHERE visit = ? AND number = ?"
	_, errNote := s.db.ExecContext(context.WithoutCancel(ctx), noteEnd, time.Since(began).Milliseconds(), n.Visit, n.Order)
	return errors.Join(err, errNote)
}

// sendMail takes its time, and fails as often as the order's story has it.
func sendMail(ctx context.Context, n notification, failed int) error {
	select {
	case <-time.After(time.Duration(n.TakesMS) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if failed < n.FailsFirst {
		return errors.New("mail server busy, as staged")
	}
	return nil
}

// awaitJobs waits until every job is final. One that is not after some time shows in the report.
func (s *shop) awaitJobs(ctx context.Context, show func([]end)) error {
	pending := true
	for deadline := time.Now().Add(patience); pending && time.Now().Before(deadline); {
		err := s.lookAfter(ctx, lookEvery, func(ends []end) {
			pending = count(ends, end.pending) > 0
			show(ends)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shop) lookAfter(ctx context.Context, wait time.Duration, show func([]end)) error {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	ends, err := s.look(ctx)
	if err == nil {
		show(ends)
	}
	return err
}

// end is where an order's job has come to.
type end struct {
	order
	Jobs     int // rows in async_job_tab
	Status   queue_job.JobStatus
	Attempts int
	Retries  int

	// What the handler noted. Moments are unix milliseconds of the database's clock; 0: not yet.
	Runs, Ended                      int
	Due, Paid, FirstStart, LastStart int64
	RunMS                            int64 // all runs together
}

// look reads where the jobs of this visit are: first the jobs, then the notes, which are written before a job's outcome.
func (s *shop) look(ctx context.Context) ([]end, error) {
	ends := make([]end, len(s.orders))
	byNumber := map[int]*end{}
	for i, o := range s.orders {
		ends[i].order = o
		byNumber[o.Number] = &ends[i]
	}
	for job, err := range s.jobs.All(ctx, s.db, queue_job.Filter{JobTypes: []int32{notifyCustomer}}) {
		var n notification
		if err == nil {
			err = job.Decode(&n)
		}
		if err != nil {
			return nil, fmt.Errorf("look at the jobs: %w", err)
		}
		if n.Visit == s.visit {
			e := byNumber[n.Order]
			e.Jobs, e.Status, e.Attempts, e.Retries = e.Jobs+1, job.Status, job.Attempts, job.Retries
		}
	}
	err := s.each(ctx, func(rows *sql.Rows) error {
		var number int
		var read end
		err := rows.Scan(&number, &read.Runs, &read.Ended, &read.Due, &read.Paid, &read.FirstStart, &read.LastStart, &read.RunMS)
		if err != nil {
			return err
		}
		e := byNumber[number]
		e.Runs, e.Ended, e.Due, e.Paid = read.Runs, read.Ended, read.Due, read.Paid
		e.FirstStart, e.LastStart, e.RunMS = read.FirstStart, read.LastStart, read.RunMS
		return nil
	}, "SELECT number, runs, ended, due, paid, first_start, last_start, run_ms FROM quickstart_order WHERE visit = ?", s.visit)
	if err != nil {
		return nil, fmt.Errorf("look at the orders: %w", err)
	}
	return ends, nil
}

func (s *shop) each(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// openShop opens the database and makes sure of the table of orders.
func openShop(ctx context.Context, dsn string, orders []order) (*shop, error) {
	s, err := openDatabase(dsn)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s.orders, s.visit = orders, time.Now().UnixNano()
	_, err = s.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS quickstart_order (
		visit       bigint NOT NULL,
		number      int NOT NULL,
		due         bigint NOT NULL,
		paid        bigint NOT NULL,
		runs        int NOT NULL DEFAULT 0,
		ended       int NOT NULL DEFAULT 0,
		first_start bigint NOT NULL DEFAULT 0,
		last_start  bigint NOT NULL DEFAULT 0,
		run_ms      bigint NOT NULL DEFAULT 0,
		PRIMARY KEY (visit, number)
	)`)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("create the table of orders: %w", err)
	}
	return s, nil
}

func openDatabase(dsn string) (*shop, error) {
	if dsn != "" {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			return nil, err
		}
		return &shop{db: db, where: "the database of -dsn", now: "FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)", close: func() { db.Close() }}, nil
	}
	folder, err := os.MkdirTemp("", "quickstart-")
	if err != nil {
		return nil, err
	}
	file := filepath.ToSlash(filepath.Join(folder, "shop.db"))
	// SQLite has one writer at a time: WAL lets others read meanwhile, and a second writer waits instead of failing.
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	return &shop{db: db, where: "SQLite, in a temporary folder", now: "CAST(unixepoch('subsec') * 1000 AS integer)", close: func() {
		db.Close()
		os.RemoveAll(folder)
	}}, nil
}
