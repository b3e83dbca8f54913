package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
)

// NewJob is a row for [Store.AddJob] and [Store.AddJobs] or, if it is unique, for [Store.AddUnlessThere] and
// [Store.AddJobsUnlessThere].
type NewJob struct {
	Params     string
	JobType    int32
	StartTime  uint32 // unix seconds; 0: at once
	Delay      int64  // milliseconds from the adding to the start, by the database's clock; 0: StartTime says when
	Priority   int32
	Key        string // empty: none
	Unique     bool   // no other row of the type may have this key as its unique key …
	Takes      Takes  // … but this takes it from some rows, which are not in the way then
	MaxRetries int    // [NotSet]: as the job type says
	Meta       string // JSON; empty: none
	Group      string // empty: the key
	Within     int64  // milliseconds from its birth in a flow to its end in time, for which [EndToCome] stands in Meta; 0: no such end
}

// plain reports whether the row needs none of the furtherColumns.
func (j *NewJob) plain() bool {
	return j.Priority == 0 && j.Key == "" && j.MaxRetries == NotSet && j.Meta == "" && j.Group == ""
}

// uniqueIn writes the job type within which no other row may have the key as its unique key.
func (j *NewJob) uniqueIn() string {
	if !j.Unique {
		return "NULL"
	}
	return strconv.Itoa(int(j.JobType))
}

const (
	plainColumns   = "params, job_type, job_status, start_time, create_time, update_time"
	furtherColumns = ", priority, job_key, unique_in, max_retries, meta, job_group"
	longColumn     = ", long_params"
)

// AddJob inserts one row with status 0 and returns its id. Created is in unix seconds. Sent again, it adds a second row.
func (s *Store) AddJob(ctx context.Context, job *NewJob, created int64) (id uint64, err error) {
	id, _, err = s.insertJob(ctx, "INSERT INTO", "", job, created)
	return id, err
}

// insertJob inserts one row and returns its id. There reports that the statement inserted none, because a row is in its
// way.
func (s *Store) insertJob(ctx context.Context, insert, unlessThere string, job *NewJob, created int64) (id uint64, there bool, err error) {
	args := s.Arguments()
	columns := plainColumns
	params, long := InColumns(job.Params)
	row := fmt.Sprintf("(%s, %s, 0, %s, %s, %s",
		args.Value(params), args.Value(job.JobType), s.startOf(job, args), args.Value(created), args.Value(created))
	if !job.plain() {
		columns += furtherColumns
		row += fmt.Sprintf(", %d, %s, %s, %s, %s, %s",
			job.Priority, args.OrNull(job.Key), job.uniqueIn(), SetOrNull(job.MaxRetries), args.OrNull(job.Meta), args.OrNull(job.Group))
	}
	if long != "" {
		columns += longColumn
		row += ", " + args.Value(long)
	}
	query := fmt.Sprintf("%s %s (%s) VALUES %s)%s%s", insert, s.Tables.Jobs, columns, row, unlessThere, s.Returning)
	if s.Returning != "" {
		ids, err := conn.Read(ctx, s, conn.Column[uint64], query, args.List...)
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
	result, err := conn.Execute(ctx, s, query, args.List...)
	if err != nil {
		return 0, false, err
	}
	if insert == s.InsertNew { // if no row was inserted, the driver tells the id of another row
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return 0, err == nil, conn.Wrap("whether the row was there", err)
		}
	}
	last, err := result.LastInsertId()
	return uint64(last), false, conn.Wrap("id of the row", err)
}

func (s *Store) startOf(job *NewJob, args *conn.Arguments) string {
	if job.Delay == 0 {
		return args.Value(job.StartTime)
	}
	return s.afterMillis(fmt.Sprintf("CAST(%s AS %s)", args.Number(job.Delay), s.BigInt))
}

// afterMillis writes the first whole second that lies at least this number of milliseconds after now.
func (s *Store) afterMillis(delay string) string {
	return fmt.Sprintf(s.Seconds, fmt.Sprintf("%s + CAST(%s AS %s) * 1000 + 999999", s.NowMicros, delay, s.BigInt))
}

func SetOrNull(n int) string {
	if n == NotSet {
		return "NULL"
	}
	return strconv.Itoa(n)
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
			added, err = s.addMany(ctx, some, created)
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
		bytes += addRowBytes + len(jobs[rows].Params) + len(jobs[rows].Key) + len(jobs[rows].Meta) + len(jobs[rows].Group)
		if bytes > addBytesMax && rows > 0 {
			break
		}
	}
	return rows
}

// addMany inserts rows by one statement, and returns their ids in the order of the rows.
func (s *Store) addMany(ctx context.Context, jobs []NewJob, created int64) ([]uint64, error) {
	if s.Arrays {
		return s.addByArrays(ctx, jobs, created)
	}
	return s.addByValues(ctx, jobs, created)
}

// addByValues inserts the rows as a list of values. The database tells one id, MySQL the first and SQLite the last, and
// the others lie a fixed step apart. MySQL promises that for one INSERT whose rows are counted beforehand, in every
// innodb_autoinc_lock_mode; SQLite has one writer at a time.
func (s *Store) addByValues(ctx context.Context, jobs []NewJob, created int64) ([]uint64, error) {
	values, args := s.valuesOf(jobs, created)
	result, err := conn.Execute(ctx, s, "INSERT INTO "+s.Tables.Jobs+values, args...)
	if err != nil {
		return nil, err
	}
	told, step, err := s.toldID(ctx, result)
	if err != nil {
		return nil, err
	}
	if s.IDStep == "" {
		told -= uint64(len(jobs) - 1)
	}
	return idsFrom(told, step, len(jobs)), nil
}

// toldID is the id that the database tells of an INSERT of several rows, and how far apart their ids lie.
func (s *Store) toldID(ctx context.Context, result sql.Result) (told, step uint64, err error) {
	id, err := result.LastInsertId()
	if err != nil {
		return 0, 0, conn.Wrap("ids of the rows", err)
	}
	if s.IDStep == "" {
		return uint64(id), 1, nil
	}
	steps, err := conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(s.IDStep))
	if err == nil && len(steps) != 1 {
		err = errors.New("no row")
	}
	if err != nil {
		return 0, 0, conn.Wrap("step between ids", err)
	}
	return uint64(id), steps[0], nil
}

func idsFrom(first, step uint64, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = first + uint64(i)*step
	}
	return ids
}

// valuesOf writes what follows the table in an INSERT of the rows.
func (s *Store) valuesOf(jobs []NewJob, created int64) (string, []any) {
	args := s.Arguments()
	further, anyLong := false, anyLong(jobs)
	for i := range jobs {
		further = further || !jobs[i].plain()
	}
	columns := plainColumns
	if further {
		columns += furtherColumns
	}
	if anyLong {
		columns += longColumn
	}
	var rows strings.Builder
	for i := range jobs {
		job := &jobs[i]
		start := strconv.FormatUint(uint64(job.StartTime), 10)
		if i > 0 {
			rows.WriteString(", ")
		}
		params, long := InColumns(job.Params)
		fmt.Fprintf(&rows, "(%s, %d, 0, ", args.Value(params), job.JobType)
		if job.Delay != 0 {
			start = s.afterMillis(args.Number(job.Delay))
		}
		fmt.Fprintf(&rows, "%s, %d, %d", start, created, created)
		if further {
			fmt.Fprintf(&rows, ", %d, %s, %s, %s, %s, %s",
				job.Priority, args.OrNull(job.Key), job.uniqueIn(), SetOrNull(job.MaxRetries), args.OrNull(job.Meta), args.OrNull(job.Group))
		}
		if anyLong {
			rows.WriteString(", " + args.OrNull(long))
		}
		rows.WriteByte(')')
	}
	return fmt.Sprintf(" (%s) VALUES %s", columns, rows.String()), args.List
}

func anyLong(jobs []NewJob) bool {
	return slices.ContainsFunc(jobs, func(job NewJob) bool { return IsLong(job.Params) })
}

// addByArrays inserts the rows from one array for each column, so the text is the same for any number of rows and a
// driver may keep it. No element is NULL, which a session with array_nulls=off takes for a text. The ids are given, and come back, in
// the order of the rows.
func (s *Store) addByArrays(ctx context.Context, jobs []NewJob, created int64) ([]uint64, error) {
	ids, err := s.insertArrays(ctx, jobs, created, "NULL", "")
	if err == nil && len(ids) != len(jobs) {
		err = fmt.Errorf("%d ids for %d rows", len(ids), len(jobs))
	}
	return ids, err
}

func (s *Store) insertArrays(ctx context.Context, jobs []NewJob, created int64, uniqueIn, unlessThere string) ([]uint64, error) {
	type array struct {
		name, kind string
		value      func(*NewJob) string
	}
	columns := []array{
		{"params", "text", func(j *NewJob) string { params, _ := InColumns(j.Params); return quoted(params) }},
		{"type", "int", func(j *NewJob) string { return strconv.Itoa(int(j.JobType)) }},
		{"start", "bigint", func(j *NewJob) string { return strconv.FormatUint(uint64(j.StartTime), 10) }},
		{"delay", "bigint", func(j *NewJob) string { return strconv.FormatInt(j.Delay, 10) }},
		{"priority", "smallint", func(j *NewJob) string { return strconv.Itoa(int(j.Priority)) }},
		{"key", "text", func(j *NewJob) string { return quoted(j.Key) }},
		{"most", "int", func(j *NewJob) string { return strconv.Itoa(j.MaxRetries) }},
		{"meta", "text", func(j *NewJob) string { return quoted(j.Meta) }},
		{"grouping", "text", func(j *NewJob) string { return quoted(j.Group) }},
	}
	further, long := furtherColumns, ""
	if anyLong(jobs) {
		columns = append(columns, array{"long", "text", func(j *NewJob) string { _, long := InColumns(j.Params); return quoted(long) }})
		further, long = further+longColumn, ", NULLIF(long, '')"
	}
	args := s.Arguments()
	made := args.Value(created)
	var arrays, names []string
	for _, c := range columns {
		values := make([]string, len(jobs))
		for i := range jobs {
			values[i] = c.value(&jobs[i])
		}
		arrays = append(arrays, fmt.Sprintf("CAST(%s AS %s[])", args.Value("{"+strings.Join(values, ",")+"}"), c.kind))
		names = append(names, c.name)
	}
	return conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("INSERT INTO %s (%s%s) "+
		"SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE %s END, made, made, priority, NULLIF(key, ''), %s, "+
		"NULLIF(most, %d), NULLIF(meta, ''), NULLIF(grouping, '')%s "+
		"FROM (SELECT CAST(%s AS bigint) AS made) AS moment, unnest(%s) WITH ORDINALITY AS job (%s, n) "+
		"ORDER BY n%s%s",
		s.Tables.Jobs, plainColumns, further, s.afterMillis("delay"), uniqueIn, NotSet, long,
		made, strings.Join(arrays, ", "), strings.Join(names, ", "), unlessThere, s.Returning), args.List...)
}

// quoted writes a text as an element of an array.
func quoted(text string) string {
	return `"` + arrayEscapes.Replace(text) + `"`
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// StartSecond is when a row may start that falls due at the time: in the first second that is not before it. For times before 1970 it is 0.
func StartSecond(t time.Time) (uint32, error) {
	second := t.Unix()
	if t.Nanosecond() > 0 {
		second++
	}
	if second > 1<<32-1 {
		return 0, fmt.Errorf("%v is after 2106, where the column start_time ends", t)
	}
	return uint32(max(0, second)), nil
}
