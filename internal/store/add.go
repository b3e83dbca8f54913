package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NewJob is a row for [Store.AddJob], [Store.AddUnlessThere] or [Store.AddJobs].
type NewJob struct {
	Params     string
	JobType    int32
	StartTime  uint32 // unix seconds; 0: at once
	Delay      int64  // milliseconds from the adding to the start, by the database's clock; 0: StartTime says when
	Priority   int32
	Key        string // empty: none
	Unique     bool   // no other row of the type may have this key as its unique key
	MaxRetries int    // [NotSet]: as the job type says
}

// plain reports whether plainColumns are all that the row needs.
func (j *NewJob) plain() bool { return j.Priority == 0 && j.Key == "" && j.MaxRetries == NotSet }

// uniqueIn writes the job type within which no other row may have the key as its unique key.
func (j *NewJob) uniqueIn() string {
	if !j.Unique {
		return "NULL"
	}
	return strconv.Itoa(int(j.JobType))
}

const (
	plainColumns   = "params, job_type, job_status, start_time, create_time, update_time"
	furtherColumns = ", priority, job_key, unique_in, max_retries"
)

// AddJob inserts one row with status 0 and returns its id. Created is in unix seconds. Sent again, it adds a second row.
func (s *Store) AddJob(ctx context.Context, job *NewJob, created int64) (id uint64, err error) {
	id, _, err = s.insertJob(ctx, "INSERT INTO", "", job, created)
	return id, err
}

// insertJob inserts one row and returns its id. There reports that the statement inserted none, because a row is in its
// way.
func (s *Store) insertJob(ctx context.Context, insert, unlessThere string, job *NewJob, created int64) (id uint64, there bool, err error) {
	args := s.arguments()
	columns := plainColumns
	row := fmt.Sprintf("(%s, %s, 0, %s, %s, %s", args.value(job.Params), args.value(job.JobType), s.startOf(job, args), args.value(created), args.value(created))
	if !job.plain() {
		columns += furtherColumns
		row += fmt.Sprintf(", %d, %s, %s, %s", job.Priority, args.key(job.Key), job.uniqueIn(), setOrNull(job.MaxRetries))
	}
	query := fmt.Sprintf("%s %s (%s) VALUES %s)%s%s", insert, s.jobs, columns, row, unlessThere, s.returning)
	if s.returning != "" {
		ids, err := read(ctx, s, column[uint64], query, args.list...)
		switch {
		case err != nil:
			return 0, false, err
		case len(ids) == 1:
			return ids[0], false, nil
		case unlessThere != "" && len(ids) == 0:
			return 0, true, nil
		}
		return 0, false, fmt.Errorf("%d ids for one row", len(ids))
	}
	result, err := s.execute(ctx, query, args.list...)
	if err != nil {
		return 0, false, err
	}
	if insert == s.insertNew { // if no row was inserted, the driver tells the id of another row
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return 0, err == nil, wrap("whether the row was there", err)
		}
	}
	last, err := result.LastInsertId()
	return uint64(last), false, wrap("id of the row", err)
}

func (s *Store) startOf(job *NewJob, args *arguments) string {
	if job.Delay == 0 {
		return args.value(job.StartTime)
	}
	return s.afterMillis(args.number(job.Delay))
}

// afterMillis writes the first whole second that lies at least this number of milliseconds after now.
func (d dialect) afterMillis(delay string) string {
	return fmt.Sprintf(d.ceiling, fmt.Sprintf("%s + %s / 1000.0", d.nowPrecise, delay))
}

func setOrNull(n int) string {
	if n == NotSet {
		return "NULL"
	}
	return strconv.Itoa(n)
}

// AddUnlessThere inserts one row whose key is unique, and returns its id. If a row of the type has the key as its
// unique key already, it inserts nothing and returns the id of that row. With replaceFinal, a final row is not in the
// way: AddUnlessThere takes the uniqueness from it. If another transaction is about to commit a row with the key,
// AddUnlessThere waits for the end of that transaction. For the database it is no error that the row is there, so the
// caller's transaction goes on. Sent again, it returns the id of the row that the first sending added.
//
// On MySQL and MariaDB, several callers that add a key which was just taken from its row may end in a deadlock. It seems
// that each locks the index entry that is not purged yet, and the INSERTs of the others wait for that lock. If each
// statement is known to be a transaction of its own, a deadlock undoes the statement alone, and AddUnlessThere repeats
// it. In a transaction of the caller, the caller has to repeat everything.
func (s *Store) AddUnlessThere(ctx context.Context, job *NewJob, replaceFinal bool, created int64) (id uint64, there bool, err error) {
	err = s.inSpiteOfDeadlocks(func() (err error) {
		id, there, err = s.addUnlessThere(ctx, job, replaceFinal, created)
		return err
	})
	return id, there, err
}

func (s *Store) addUnlessThere(ctx context.Context, job *NewJob, replaceFinal bool, created int64) (id uint64, there bool, err error) {
	if replaceFinal {
		// This read locks nothing. With a locking read, two callers would both lock the index entry of the key, and then
		// neither could take the uniqueness. The read may be out of date; what follows does not rely on it.
		if err := s.freeKey(ctx, job); err != nil {
			return 0, false, err
		}
	}
	const tries = 5 // the row in the way may go between two statements
	for range tries {
		id, there, err := s.insertJob(ctx, s.insertNew, s.unlessThere, job, created)
		if err != nil || !there {
			return id, false, err
		}
		found, err := s.bearerOf(ctx, job, s.lockingRead)
		switch {
		case err != nil:
			return 0, false, err
		case len(found) == 0:
		case !replaceFinal || found[0].pending:
			return found[0].id, true, nil
		default:
			if err := s.takeKey(ctx, found[0].id); err != nil {
				return 0, false, err
			}
		}
	}
	// Something else than the key keeps the row out. An INSERT that ignores nothing returns the error.
	id, err = s.AddJob(ctx, job, created)
	return id, false, err
}

// freeKey takes the uniqueness of the job's key from the row that has it, if that row is final.
func (s *Store) freeKey(ctx context.Context, job *NewJob) error {
	found, err := s.bearerOf(ctx, job, "")
	if err != nil || len(found) == 0 || found[0].pending {
		return err
	}
	return s.takeKey(ctx, found[0].id)
}

// bearer is the row that has a key as its unique key.
type bearer struct {
	id      uint64
	pending bool
}

// bearerOf finds the row that has the job's key as its unique key; none: no row has it. A locking read sees what is
// committed, even if the transaction's own snapshot of the table is older.
func (s *Store) bearerOf(ctx context.Context, job *NewJob, locking string) ([]bearer, error) {
	args := s.arguments()
	found, err := read(ctx, s, each(func(b *bearer) []any { return []any{&b.id, &b.pending} }),
		s.fromPrimary(fmt.Sprintf("SELECT id, CASE WHEN %s THEN 1 ELSE 0 END AS pending FROM %s %s WHERE job_key = %s AND unique_in = %s%s",
			pending, s.jobs, s.byKey, args.value(job.Key), args.value(job.JobType), locking)), args.list...)
	return found, wrap("find the job of the key", err)
}

// takeKey takes the uniqueness of its key from a final row. No row: another caller took it, or the row is gone or pending
// again.
func (s *Store) takeKey(ctx context.Context, id uint64) error {
	_, err := s.exec(ctx, fmt.Sprintf("UPDATE %s %s SET unique_in = NULL WHERE id = %d AND unique_in IS NOT NULL AND NOT %s", s.jobs, s.byPrimary, id, pending))
	return wrap("take the key from a job that is done", err)
}

const (
	addRowsMax  = 1000
	addBytesMax = 1 << 20
	addRowBytes = 100 // bytes of a row besides its texts
)

// AddJobs inserts rows with status 0 and returns their ids in the order of the rows. It needs rows that are not unique.
// Each statement inserts at most a thousand rows and about a megabyte. After an error, the ids are those of the rows
// before the statement that failed; if the handle is no transaction, these rows are in the table. Sent again, a statement
// adds its rows again.
func (s *Store) AddJobs(ctx context.Context, jobs []NewJob, created int64) (ids []uint64, err error) {
	for len(jobs) > 0 {
		some := jobs[:statementRows(jobs)]
		jobs = jobs[len(some):]
		var added []uint64
		err := s.onOneSession(ctx, func(s *Store) (err error) {
			added, err = s.addMany(ctx, s, some, created)
			return err
		})
		if err != nil {
			return ids, err
		}
		ids = append(ids, added...)
	}
	return ids, nil
}

// statementRows returns how many of the jobs one statement inserts: at least one.
func statementRows(jobs []NewJob) (rows int) {
	for bytes := 0; rows < min(len(jobs), addRowsMax); rows++ {
		bytes += addRowBytes + len(jobs[rows].Params) + len(jobs[rows].Key)
		if bytes > addBytesMax && rows > 0 {
			break
		}
	}
	return rows
}

// addByValues inserts the rows as a list of values. The database tells one id, MySQL the first and SQLite the last, and
// the others lie a fixed step apart. MySQL promises that for one INSERT whose rows are counted beforehand, in every
// innodb_autoinc_lock_mode; SQLite has one writer at a time.
func addByValues(ctx context.Context, s *Store, jobs []NewJob, created int64) ([]uint64, error) {
	args := s.arguments()
	further := false
	for i := range jobs {
		further = further || !jobs[i].plain()
	}
	columns := plainColumns
	if further {
		columns += furtherColumns
	}
	var rows strings.Builder
	for i := range jobs {
		job := &jobs[i]
		start := strconv.FormatUint(uint64(job.StartTime), 10)
		if i > 0 {
			rows.WriteString(", ")
		}
		fmt.Fprintf(&rows, "(%s, %d, 0, ", args.value(job.Params), job.JobType)
		if job.Delay != 0 {
			start = s.afterMillis(args.number(job.Delay))
		}
		fmt.Fprintf(&rows, "%s, %d, %d", start, created, created)
		if further {
			fmt.Fprintf(&rows, ", %d, %s, NULL, %s", job.Priority, args.key(job.Key), setOrNull(job.MaxRetries))
		}
		rows.WriteByte(')')
	}
	result, err := s.execute(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", s.jobs, columns, rows.String()), args.list...)
	if err != nil {
		return nil, err
	}
	told, err := result.LastInsertId()
	if err != nil {
		return nil, wrap("ids of the rows", err)
	}
	first, step := uint64(told), uint64(1)
	if s.idStep != "" {
		steps, err := read(ctx, s, column[uint64], s.fromPrimary(s.idStep))
		if err == nil && len(steps) != 1 {
			err = errors.New("no row")
		}
		if err != nil {
			return nil, wrap("step between ids", err)
		}
		step = steps[0]
	} else {
		first -= uint64(len(jobs) - 1)
	}
	ids := make([]uint64, len(jobs))
	for i := range ids {
		ids[i] = first + uint64(i)*step
	}
	return ids, nil
}

// addByArrays inserts the rows from one array for each column, so the text is the same for any number of rows and a
// driver may keep it. The ids are given, and come back, in the order of the rows.
func addByArrays(ctx context.Context, s *Store, jobs []NewJob, created int64) ([]uint64, error) {
	columns := []struct {
		name, kind string
		value      func(*NewJob) string
	}{
		{"params", "text", func(j *NewJob) string { return quoted(j.Params) }},
		{"type", "int", func(j *NewJob) string { return strconv.Itoa(int(j.JobType)) }},
		{"start", "bigint", func(j *NewJob) string { return strconv.FormatUint(uint64(j.StartTime), 10) }},
		{"delay", "bigint", func(j *NewJob) string { return strconv.FormatInt(j.Delay, 10) }},
		{"priority", "smallint", func(j *NewJob) string { return strconv.Itoa(int(j.Priority)) }},
		{"key", "text", func(j *NewJob) string {
			if j.Key == "" {
				return "NULL"
			}
			return quoted(j.Key)
		}},
		{"most", "int", func(j *NewJob) string { return setOrNull(j.MaxRetries) }},
	}
	args := s.arguments()
	made := args.value(created)
	var arrays, names []string
	for _, c := range columns {
		values := make([]string, len(jobs))
		for i := range jobs {
			values[i] = c.value(&jobs[i])
		}
		arrays = append(arrays, fmt.Sprintf("CAST(%s AS %s[])", args.value("{"+strings.Join(values, ",")+"}"), c.kind))
		names = append(names, c.name)
	}
	ids, err := read(ctx, s, column[uint64], fmt.Sprintf("INSERT INTO %s (%s%s) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE %s END, made, made, priority, key, NULL, most "+
		"FROM (SELECT CAST(%s AS bigint) AS made) AS moment, unnest(%s) WITH ORDINALITY AS job (%s, n) ORDER BY n%s",
		s.jobs, plainColumns, furtherColumns, s.afterMillis("delay"), made, strings.Join(arrays, ", "), strings.Join(names, ", "), s.returning), args.list...)
	if err == nil && len(ids) != len(jobs) {
		err = fmt.Errorf("%d ids for %d rows", len(ids), len(jobs))
	}
	return ids, err
}

// quoted writes a text as an element of an array.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
