package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Priorities are the levels of priority, the most urgent first.
var Priorities = []int32{2, 1, 0, -1}

// pending is the condition that a row is not final. No index can be used for it, which is on purpose: a batch is found by
// its ids. Nearly all rows have the first status. If the list had more than two, SQLite would look each row's status up in a
// table of its own.
const pending = "(COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))"

// What column job_status says; queue_job.JobStatus has the words.
const (
	failed    = "2"
	cancelled = "5"
)

// FinalStatuses are those of rows that do not run any more: done, failed or cancelled.
var FinalStatuses = []int32{1, 2, 5}

// Newest reads the largest id of the table, 0 if there is none, and the database's clock in seconds. It reads where the
// tail reads, which may be a replica. If that server does not have the table yet, because it was made just now, Newest
// asks the primary, so that nobody is kept from starting.
func (s *Store) Newest(ctx context.Context) (id uint64, now float64, err error) {
	query := fmt.Sprintf("SELECT (SELECT COALESCE(MAX(id), 0) FROM %s WHERE id > 0) AS newest, %s AS now", s.Tables.Jobs, s.NowMicros)
	var micros int64
	ask := func(query string) error {
		_, err := conn.Read(ctx, s, func(rows *sql.Rows) (struct{}, error) {
			rows.Next()
			return struct{}{}, rows.Scan(&id, &micros)
		}, query)
		return err
	}
	if err = ask(query); err != nil && isNoTable(err) {
		err = ask(s.FromPrimary(query))
	}
	return id, inSeconds(micros), conn.Wrap("newest job", err)
}

func inSeconds(micros int64) float64 { return float64(micros) / 1e6 }

// isNoTable reports whether the server that answered has no such table.
func isNoTable(err error) bool {
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) {
		return refused.SQLState() == "42P01"
	}
	return strings.Contains(err.Error(), "Error 1146 ")
}

// Gap is a run of ids, both ends included.
type Gap struct{ From, To uint64 }

// TailRow is a row that [Store.Tail] read. If it is not whole, its parameters were not read.
type TailRow struct {
	Row
	Whole bool
}

// Wanted are job types of which [Store.Tail] returns rows whole if their priority is at least From.
type Wanted struct {
	From  int32
	Types []int32
}

// Tail reads the rows from an id on and the rows in the gaps, of every type and status, in the order of their ids. It
// reads along the primary key, so dead entries of other indexes cost nothing. It returns a row whole if the row is
// pending, wanted and due within horizon seconds. Fewer rows than the limit: there are no more at this moment, but a
// transaction that is still open may add a row below the last one. With nothing wanted, a row costs the server a third.
func (s *Store) Tail(ctx context.Context, from uint64, gaps []Gap, wanted []Wanted, horizon int64, limit int) ([]TailRow, error) {
	args := s.Arguments()
	first := from
	for _, gap := range gaps {
		first = min(first, gap.From)
	}
	// With the alternatives alone, PostgreSQL would read the index from its start.
	var where strings.Builder
	fmt.Fprintf(&where, "id >= %s AND (id >= %s", args.ID(first), args.ID(from))
	for _, gap := range conn.Evened(args, gaps) {
		fmt.Fprintf(&where, " OR id BETWEEN %s AND %s", args.ID(gap.From), args.ID(gap.To))
	}
	where.WriteByte(')')
	if len(wanted) == 0 {
		rows, err := conn.Read(ctx, s, takenRows, fmt.Sprintf("SELECT id, %s, "+conn.GroupOf+", %s FROM %s %s WHERE %s ORDER BY id LIMIT %s",
			fmt.Sprintf(s.Integer, "job_type"), fmt.Sprintf(s.Integer, "create_time"), s.Tables.Jobs, s.ByPrimary, where.String(), args.Number(int64(limit))),
			args.List...)
		return rows, conn.Wrap("look which ids are taken", err)
	}
	whole := fmt.Sprintf("(%s) AND %s AND (start_time <= %s + %d OR start_time IS NULL)", anyOf(wanted), pending, s.NowOnce(), horizon)
	rows, err := conn.Read(ctx, s, tailRows, fmt.Sprintf("SELECT %s FROM %s %s WHERE %s ORDER BY id LIMIT %s",
		s.RowColumns("CASE WHEN "+whole+" THEN params END", "meta"),
		s.Tables.Jobs, s.ByPrimary, where.String(), args.Number(int64(limit))), args.List...)
	return rows, conn.Wrap("tail jobs", err)
}

// takenRows scans rows of which nothing is wanted. The key of such a row is its group.
func takenRows(rows *sql.Rows) (list []TailRow, err error) {
	var r TailRow
	places := []any{conn.Whole(&r.ID), conn.Whole(&r.JobType), conn.Text(&r.Key), conn.Whole(&r.CreateTime)}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// anyOf writes the condition that a row is wanted.
func anyOf(wanted []Wanted) string {
	any := "1 = 0"
	for _, w := range wanted {
		any += fmt.Sprintf(" OR job_type IN (%s)", conn.Numbers(w.Types))
		if w.From > Priorities[len(Priorities)-1] {
			any += fmt.Sprintf(" AND priority >= %d", w.From)
		}
	}
	return any
}

// SweepAll reads pending rows of the types that are due within horizon seconds, at most limit rows of each of four kinds,
// and returns the most urgent first. It needs rows with one of the [Priorities]; [Store.ClampPriorities] sees to that.
// More reports that a limit was reached, so there may be other rows; otherwise there are no more at this moment.
func (s *Store) SweepAll(ctx context.Context, types []int32, horizon int64, limit int) (rows []Row, more bool, err error) {
	args := s.Arguments()
	var parts []string
	for _, k := range []kind{{statuses: []int32{0, 3, 4}}, {statuses: []int32{0, 3, 4}, unset: true}, {}, {unset: true}} {
		k.until = fmt.Sprintf("%s + %d", s.NowSecond, horizon)
		parts = append(parts, s.sweep(len(parts), k, types, limit, args))
	}
	got, err := conn.Read(ctx, s, partRows, s.UnionAll(parts), args.List...)
	count := make([]int, len(parts))
	for _, row := range got {
		count[row.part]++
		more = more || count[row.part] == limit
	}
	rows = onlyRows(got)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.Priority, a.Priority) })
	return rows, more, conn.Wrap("sweep jobs", err)
}

// kind is one of the four kinds of rows that [Store.SweepAll] looks for.
type kind struct {
	statuses []int32 // empty: the column is NULL
	unset    bool    // start_time is NULL
	until    string  // otherwise: start_time is at most this
}

// start writes the condition on the start time. It leaves out rows with an id below 1, which somebody inserted by hand:
// no id of ours can hold such a number.
func (k kind) start() string {
	if k.unset {
		return "start_time IS NULL AND id > 0"
	}
	return "start_time <= " + k.until + " AND id > 0"
}

// sweep writes one part of [Store.SweepAll].
func (s *Store) sweep(part int, k kind, types []int32, limit int, args *conn.Arguments) string {
	if s.SweepsEach {
		return s.sweepEach(part, k, types, limit, args)
	}
	return s.sweepRanges(part, k, types, limit, args)
}

// sweepRanges looks at all types at once. It needs the index hint: only with it are rows of all types and
// statuses read along the due index.
func (s *Store) sweepRanges(part int, k kind, types []int32, limit int, args *conn.Arguments) string {
	status := "job_status IS NULL"
	if len(k.statuses) > 0 {
		status = fmt.Sprintf("job_status IN (%s)", conn.Numbers(k.statuses))
	}
	return s.selectDue(part, s.RowColumns("params", "meta"),
		fmt.Sprintf("job_type IN (%s) AND %s AND priority IN (%s) AND %s", conn.Numbers(types), status, conn.Numbers(Priorities), k.start()), limit, args)
}

// sweepEach looks at each type, status and priority by itself, where the planner cannot be told to use the due index for all at once.
func (s *Store) sweepEach(part int, k kind, types []int32, limit int, args *conn.Arguments) string {
	statuses, status := "(0)", "job_status IS NULL"
	if len(k.statuses) > 0 {
		statuses, status = values(k.statuses), "job_status = status AND (job_status IN ("+conn.PendingStatuses+") OR job_status IS NULL)"
	}
	return fmt.Sprintf("SELECT %d AS part, %s "+
		"FROM (VALUES %s) AS types (type) "+
		"CROSS JOIN (VALUES %s) AS statuses (status) "+
		"CROSS JOIN (VALUES %s) AS levels (level) "+
		"CROSS JOIN LATERAL "+
		"(SELECT * FROM %s WHERE job_type = type AND %s AND priority = level AND %s ORDER BY job_status, start_time, id LIMIT %s) AS due LIMIT %s",
		part, s.RowColumns("params", "meta"), values(types),
		statuses, values(Priorities), s.Tables.Jobs, status, k.start(), args.Number(int64(limit)), args.Number(int64(limit)))
}

// values writes numbers as rows of one column.
func values(list []int32) string {
	return "(" + strings.ReplaceAll(conn.Numbers(list), ",", "), (") + ")"
}

// Lane is a stretch of the due index of one job type: the pending rows of one priority and one status that start at once,
// or that start at a time, or that have no start time. Together the lanes hold all pending rows of the type, if
// [Store.ClampPriorities] has run.
type Lane struct {
	Priority int32
	Status   int32 // [NoStatus]: the column is NULL
	Start    Start
}

// Start says what a lane's rows have in start_time.
type Start int

const (
	AtOnce  Start = iota // 0
	AtATime              // unix seconds
	Unset                // NULL

	NoStatus int32 = -1
)

// Lanes returns the lanes of a job type, the most urgent first.
//
// A NULL has lanes of its own, and parts of its own in [Store.SweepAll], and nothing makes it 0 first. An INSERT that leaves job_status
// out writes a NULL, since that is the column's default. So each row of a backlog of such rows would be written once more before it is
// read, and a row that is committed late would not be found by the next sweep, but by the one behind that write.
func Lanes() (lanes []Lane) {
	for _, priority := range Priorities {
		for _, status := range []int32{0, 3, 4, NoStatus} {
			for _, start := range []Start{AtOnce, AtATime, Unset} {
				lanes = append(lanes, Lane{priority, status, start})
			}
		}
	}
	return lanes
}

// ClampPriorities gives pending rows whose priority is not one of the [Priorities], since somebody inserted them by
// hand, the nearest of the Priorities. Sent again, it finds nothing to change.
//
// It looks for such rows first: an UPDATE along the due index would also lock the rows beside them, and deadlock with a
// settle of these rows. Rows that others have locked wait for the next call. The look has a part for each stretch of the index: for
// alternatives, SQLite would read all finished rows of the types.
func (s *Store) ClampPriorities(ctx context.Context, types []int32) error {
	const lowest, most, together = -1, 2, 250 // together: rows of each part at most
	tooLow, tooHigh := fmt.Sprintf("priority < %d", lowest), fmt.Sprintf("priority > %d", most)
	var parts []string
	for _, status := range []string{"job_status IN (" + conn.PendingStatuses + ")", "job_status IS NULL"} {
		for _, wild := range []string{tooLow, tooHigh} {
			parts = append(parts, fmt.Sprintf("SELECT id FROM %s %s WHERE job_type IN (%s) AND %s AND %s AND id > 0 LIMIT %d",
				s.Tables.Jobs, s.ByDue, conn.Numbers(types), status, wild, together))
		}
	}
	for {
		ids, err := conn.Read(ctx, s, conn.Column[uint64], s.UnionAll(parts))
		changed, found := 0, len(ids)
		if err == nil && found > 0 {
			ids, err = s.Unlocked(ctx, ids) // the sweep of all types would wait for a row that is locked
		}
		if err == nil && len(ids) > 0 {
			args := s.Arguments()
			changed, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s %s SET priority = CASE WHEN %s THEN %d ELSE %d END WHERE %s AND %s AND (%s OR %s)",
				s.Tables.Jobs, s.ByPrimary, tooLow, lowest, most, args.In(ids), pending, tooLow, tooHigh), args.List...)
		}
		if err != nil || changed == 0 || found < together {
			return conn.Wrap("set priorities right", err)
		}
	}
}

func (s *Store) lane(jobType int32, l Lane) string {
	start := map[Start]string{AtOnce: s.AtOnce, AtATime: "start_time > 0", Unset: "start_time IS NULL"}[l.Start]
	return l.level(jobType) + " AND " + start
}

// level writes the condition for the lane and all lanes that differ from it in Start alone.
func (l Lane) level(jobType int32) string {
	status := "job_status IS NULL"
	if l.Status != NoStatus {
		status = fmt.Sprintf("job_status = %d", l.Status)
	}
	return fmt.Sprintf("job_type = %d AND %s AND priority = %d", jobType, status, l.Priority)
}

// Place is a place in a lane: right behind the row with this start time and id.
type Place struct {
	Lane
	StartTime int64
	ID        uint64
}

// order writes the order of a lane along the due index.
func (s *Store) order(l Lane) string {
	switch {
	case s.LanesInFull:
		return "job_status, start_time, id"
	case l.Start == AtATime:
		return "start_time, id"
	default:
		return "id"
	}
}

// behind writes what lies behind a place and is due until a second: one or more conditions, for stretches that follow
// each other.
func (s *Store) behind(p Place, jobType int32, until string, args *conn.Arguments) (stretches []string) {
	if p.Start != AtATime {
		return []string{s.lane(jobType, p.Lane) + " AND id > " + fmt.Sprintf(s.Unforeseen, args.ID(p.ID))}
	}
	for _, later := range s.Later(args.Number(p.StartTime), args.ID(p.ID)) {
		stretches = append(stretches, fmt.Sprintf("%s AND %s AND start_time <= %s AND id > 0", p.level(jobType), later, until))
	}
	return stretches
}

// Page reads the rows of a shard behind each place that are due within horizon seconds, in the order of the place's lane, at most
// limit rows for each place. Fewer: the lane has no more at this moment. Only MySQL and MariaDB can tell which rows with a group
// belong to the shard: on other databases, rows of other shards that have a group come, too. The result has a list for each place. Rows with
// a priority that is not one of the [Priorities] are in no lane, see [Store.ClampPriorities].
func (s *Store) Page(ctx context.Context, jobType int32, shard Shard, places []Place, horizon int64, limit int) ([][]Row, error) {
	args := s.Arguments()
	parts := make([]string, len(places))
	for i, place := range places {
		startTime := "0" // as NULL reads, too
		if place.Start == AtATime {
			startTime = fmt.Sprintf(s.Integer, "start_time")
		}
		var stretches []string
		for _, stretch := range s.behind(place, jobType, fmt.Sprintf("%s + %d", s.NowSecond, horizon), args) {
			stretches = append(stretches,
				s.selectDue(i, s.laneColumns("params", "meta", startTime), stretch+s.inShard(shard)+" ORDER BY "+s.order(place.Lane), limit, args))
		}
		parts[i] = s.UnionAll(stretches)
		if len(stretches) > 1 {
			parts[i] += " LIMIT " + args.Number(int64(limit))
		}
	}
	pages, err := conn.Read(ctx, s, lanePages(jobType, places, limit), s.UnionAll(parts), args.List...)
	return pages, conn.Wrap("page jobs", err)
}

// lanePages returns a function that collects rows by their places. What the lanes say is not in the rows.
func lanePages(jobType int32, places []Place, limit int) func(*sql.Rows) ([][]Row, error) {
	return func(rows *sql.Rows) ([][]Row, error) {
		pages := make([][]Row, len(places))
		if len(places) == 1 { // a backlog's, so it will be full
			pages[0] = make([]Row, 0, limit)
		}
		var part int
		r := Row{JobType: jobType}
		to := append([]any{conn.Whole(&part)}, r.lanePlaces()...)
		for rows.Next() {
			if err := rows.Scan(to...); err != nil {
				return nil, err
			}
			r.Status, r.Priority = int16(max(places[part].Status, 0)), places[part].Priority // NoStatus reads as 0
			pages[part] = append(pages[part], r)
		}
		return pages, nil
	}
}

// Abandoned counts the rows at the head of a lane that fell due before a second of unix time, and returns the place
// behind them. Rows with ids larger than upTo do not count. In a lane of rows that start at a time, the place is behind
// the last second before that moment.
//
// In the other lanes, a row fell due when it was created, and rows count up to the first younger row. There the place
// is right behind the last row that was counted, since a transaction that is still open may add a row before the first
// row that was not counted.
func (s *Store) Abandoned(ctx context.Context, jobType int32, lane Lane, before int64, upTo uint64) (Place, int, error) {
	where := fmt.Sprintf("%s AND start_time < %d AND id <= %d", s.lane(jobType, lane), before, upTo)
	if lane.Start != AtATime {
		young, err := conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND create_time >= %d ORDER BY %s LIMIT 1",
			s.Tables.Jobs, s.ByDue, s.lane(jobType, lane), before, s.order(lane)))
		if err != nil {
			return Place{}, 0, conn.Wrap("first young job", err)
		}
		where = fmt.Sprintf("%s AND id <= %d", s.lane(jobType, lane), upTo)
		if len(young) > 0 {
			where += fmt.Sprintf(" AND id < %d", young[0])
		}
	}
	type counted struct {
		n    int
		last uint64
	}
	old, err := conn.Read(ctx, s, conn.Each(func(c *counted) []any { return []any{&c.n, &c.last} }),
		fmt.Sprintf("SELECT COUNT(*) AS n, COALESCE(MAX(id), 0) AS last FROM %s %s WHERE %s", s.Tables.Jobs, s.ByDue, where))
	if err != nil {
		return Place{}, 0, conn.Wrap("count abandoned jobs", err)
	}
	if lane.Start == AtATime {
		return Place{Lane: lane, StartTime: before - 1, ID: 1<<63 - 1}, old[0].n, nil
	}
	return Place{Lane: lane, ID: old[0].last}, old[0].n, nil
}

// FirstOfKeys returns, for each key, the smallest id of the pending rows that have it as their group, from an id on. If a key is
// missing, there is no such row. A transaction that is still open may add a row with a smaller id. Rows up to upTo that fell due
// before the moment, in unix seconds, do not count, since they are left alone. The read goes along the key index and the group
// index, through the finished rows of the keys too.
func (s *Store) FirstOfKeys(ctx context.Context, jobType int32, keys []string, from uint64, before int64, upTo uint64) (map[string]uint64, error) {
	// With MIN(id), a planner may read along the ids instead, and look at each row's key.
	firsts, err := ofGroups(ctx, s, "MIN(id + 0) AS first", jobType, keys, func(args *conn.Arguments) string {
		return fmt.Sprintf("id + 0 >= %s AND (id > %s OR %s >= %s)", args.ID(from), args.ID(upTo), s.DueSecond(), args.Number(before))
	}, func(a, b uint64) uint64 { return min(a, b) })
	return firsts, conn.Wrap("first jobs of keys", err)
}

// RunningOfKeys counts, for each key, the pending rows that have it as their group and are marked with one of the terms. If a key
// is missing, there is none.
func (s *Store) RunningOfKeys(ctx context.Context, jobType int32, keys []string, terms []int64) (map[string]int, error) {
	running, err := ofGroups(ctx, s, "COUNT(*) AS running", jobType, keys, func(args *conn.Arguments) string {
		termIn := make([]string, len(terms))
		for i, term := range terms {
			termIn[i] = args.Number(term)
		}
		return fmt.Sprintf("term IN (%s)", strings.Join(termIn, ", "))
	}, func(a, b int) int { return a + b })
	return running, conn.Wrap("running jobs of keys", err)
}

// EarlierOfGroup counts the pending rows of a type and a group that have a smaller id. The read goes along the key index and the group
// index, through the finished rows of the group too.
func (s *Store) EarlierOfGroup(ctx context.Context, jobType int32, group string, id uint64) (int, error) {
	earlier, err := ofGroups(ctx, s, "COUNT(*) AS earlier", jobType, []string{group}, func(args *conn.Arguments) string {
		return "id + 0 < " + args.ID(id)
	}, func(a, b int) int { return a + b })
	return earlier[group], conn.Wrap("earlier jobs of a group", err)
}

// ofGroups reads a number for each of some groups, from the pending rows of a type for which the condition holds. Rows with a group
// of their own stand in one index, and rows whose key is their group in another; join makes one number of both.
func ofGroups[N int | uint64](
	ctx context.Context, s *Store, number string, jobType int32, groups []string, where func(*conn.Arguments) string, join func(a, b N) N,
) (map[string]N, error) {
	args := s.Arguments()
	part := func(column, index, further string) string {
		return fmt.Sprintf("SELECT %s, %s FROM %s %s WHERE job_type = %s AND %s%s AND %s AND %s GROUP BY %[1]s",
			column, number, s.Tables.Jobs, index, args.Number(int64(jobType)), args.Among(column, groups), further, pending, where(args))
	}
	type found struct {
		group string
		n     N
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(f *found) []any { return []any{&f.group, &f.n} }),
		s.FromPrimary(part("job_key", s.ByKey, " AND "+conn.GroupOfOwn+" IS NULL")+" UNION ALL "+part("job_group", s.ByGroup, "")), args.List...)
	numbers := make(map[string]N, len(rows))
	for _, f := range rows {
		if n, twice := numbers[f.group]; twice {
			f.n = join(n, f.n)
		}
		numbers[f.group] = f.n
	}
	return numbers, err
}

// selectDue writes a SELECT of rows along the due index; part is its number in the result.
func (s *Store) selectDue(part int, columns, where string, limit int, args *conn.Arguments) string {
	return fmt.Sprintf("SELECT %d AS part, %s FROM %s %s WHERE %s LIMIT %s", part, columns, s.Tables.Jobs, s.ByDue, where, args.Number(int64(limit)))
}
