package record

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Listed is a row with all its columns, as [Store.List] returns it.
type Listed struct {
	store.Row
	UpdateTime int64 // unix seconds
	TypeName   string
	Long       bool // the parameters are long
	Unique     bool // it was added with a uniqueness, though another row may have its key now
	Progress   string
	Result     string
	Now        int64 // the database's clock when the row was read, unix seconds
}

// Kind is a kind of rows, by what people want to know of a job.
type Kind struct {
	Statuses []int32
	Mark     Mark
	Due      Due
}

// Mark says whether rows of a [Kind] bear a term.
type Mark int8

// The zero value is for rows with and without.
const (
	Marked Mark = iota + 1
	Unmarked
)

// Due says whether the start_time of rows of a [Kind] has come, by the clock that jobs go by.
type Due int8

// The zero value is for both.
const (
	DueNow Due = iota + 1
	DueLater
)

// Filter says which rows [Store.List] returns. A zero value does not restrict. Ranges are in unix seconds; the end is
// left out.
type Filter struct {
	IDs      []uint64
	Types    []int32
	Statuses []int32
	Kinds    []Kind // of one of these; empty: any
	Key      string

	CreatedFrom, CreatedTo int64
	UpdatedFrom, UpdatedTo int64
	DueFrom, DueTo         int64

	// What people search by. An index leads to a KeyPrefix alone, and not on every database.
	KeyPrefix                string
	Error                    string   // a part of what a run of the job has ended with; capitals do not matter
	Params, Meta             []string // parts of what stands in these columns; not of long parameters
	AttemptsFrom, AttemptsTo int64    // the end is left out

	After, Before uint64 // these ids are left out themselves
	Descending    bool
	OmitLong      bool // leaves long parameters empty
}

// List reads at most limit rows, in the order of their ids or, if Descending, from the last to the first. Fewer: there
// are no more.
func (s *Store) List(ctx context.Context, f Filter, limit int) ([]Listed, error) {
	args := s.Arguments()
	order := ""
	if f.Descending {
		order = " DESC"
	}
	from, where := s.Tables.Jobs, ""
	if f.Key != "" {
		// Many rows may have the key, so the ids come first, and only the rows of the page are read whole. With ORDER BY id, PostgreSQL
		// might look for the key along the ids.
		from = fmt.Sprintf("(SELECT id AS found FROM %s %s WHERE %s ORDER BY id + 0%s LIMIT %s) AS keyed JOIN %[1]s ON id = found",
			s.Tables.Jobs, s.ByKey, s.matching(&f, args), order, args.Number(int64(limit)))
	} else {
		if f.After > 0 && f.Before > 0 {
			from += " " + s.ByPrimary // the range is for a search that is not to read more rows than it has
		}
		where = " WHERE " + s.matching(&f, args)
	}
	params := store.WholeParams
	if f.OmitLong {
		params = "params"
	}
	rows, err := conn.Read(ctx, s, conn.Each(listedPlaces),
		fmt.Sprintf("SELECT %s, %s, %s, CASE WHEN %s THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), %s "+
			"FROM %s%s "+
			"ORDER BY id%s LIMIT %s",
			s.RowColumns(params, "meta"), fmt.Sprintf(s.Integer, "update_time"), s.typeName(), store.IsUnique, s.NowSecond,
			from, where, order, args.Number(int64(limit))),
		args.List...)
	for i := range rows {
		row := &rows[i]
		if row.Long = store.IsLong(row.Params) || row.HasLong(); row.Long && f.OmitLong {
			row.Params = ""
		}
	}
	return rows, conn.Wrap("list jobs", err)
}

// StillPending reads which of the rows are pending. The others are final, or not there.
func (s *Store) StillPending(ctx context.Context, ids []uint64) ([]uint64, error) {
	args := s.Arguments()
	still, err := conn.Read(ctx, s, conn.Column[uint64],
		fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s", s.Tables.Jobs, s.ByPrimary, args.In(ids), store.Pending.Condition()), args.List...)
	return still, conn.Wrap("look whether jobs have ended", err)
}

// IDs returns the ids of at most limit rows: in no order if there is an index for the filter, else the first of them.
func (s *Store) IDs(ctx context.Context, f Filter, limit int) ([]uint64, error) {
	args, index, order := s.Arguments(), s.ByDue, ""
	switch {
	case f.Key != "", f.KeyPrefix != "" && s.KeysInRow:
		index = s.ByKey
	case !s.HasIndexFor(&f):
		index, order = s.ByPrimary, " ORDER BY id"
	}
	where := s.matching(&f, args)
	ids, err := conn.Read(ctx, s, conn.Column[uint64],
		fmt.Sprintf("SELECT id FROM %s %s WHERE %s%s LIMIT %s", s.Tables.Jobs, index, where, order, args.Number(int64(limit))), args.List...)
	return ids, conn.Wrap("look for jobs", err)
}

// NextIDs reads the ids of at most limit rows, in ascending order, for those who change the rows. Fewer: there are no more.
func (s *Store) NextIDs(ctx context.Context, f Filter, limit int) ([]uint64, error) {
	args, index, order := s.Arguments(), s.ByPrimary, "id"
	if f.Key != "" {
		index, order = s.ByKey, "id + 0" // as in List
	}
	where := s.matching(&f, args)
	ids, err := conn.Read(ctx, s, conn.Column[uint64],
		s.FromPrimary(fmt.Sprintf("SELECT id FROM %s %s WHERE %s ORDER BY %s LIMIT %s", s.Tables.Jobs, index, where, order, args.Number(int64(limit)))),
		args.List...)
	slices.Sort(ids)
	return ids, conn.Wrap("look for jobs to change", err)
}

// HasIndexFor reports whether an index leads to the rows: if the filter has a key, or types and statuses. On PostgreSQL, the due index has
// pending rows only, and the index of keys goes by the collation of the database, so it does not lead to a KeyPrefix.
func (s *Store) HasIndexFor(f *Filter) bool {
	if f.Key != "" || f.KeyPrefix != "" && s.KeysInRow {
		return true
	}
	isFinal := func(status int32) bool { return slices.Contains(store.FinalStatuses, status) }
	return len(f.Types) > 0 && len(f.Statuses) > 0 && !(s.LanesInFull && slices.ContainsFunc(f.Statuses, isFinal))
}

// matching writes the condition that a row matches a filter.
func (s *Store) matching(f *Filter, args *conn.Arguments) string {
	var where []string
	and := func(format string, values ...any) { where = append(where, fmt.Sprintf(format, values...)) }
	if f.After > 0 || len(f.IDs) == 0 {
		and("id > %s", args.ID(f.After))
	}
	if f.Before > 0 {
		and("id < %s", args.ID(f.Before))
	}
	if len(f.IDs) > 0 {
		and("%s", args.In(f.IDs))
	}
	if f.Key != "" {
		and("job_key = %s", args.Value(f.Key))
	}
	s.matchingText(f, args, and)
	if len(f.Types) > 0 {
		and("job_type IN (%s)", conn.Numbers(f.Types))
	}
	if len(f.Statuses) > 0 {
		and("%s", anyStatus(f.Statuses))
	}
	if len(f.Kinds) > 0 {
		var any []string
		for _, k := range f.Kinds {
			any = append(any, s.ofKind(k))
		}
		and("(%s)", strings.Join(any, " OR "))
	}
	for _, r := range []struct {
		what     string
		from, to int64
	}{
		{"create_time", f.CreatedFrom, f.CreatedTo}, {"update_time", f.UpdatedFrom, f.UpdatedTo}, {"attempts", f.AttemptsFrom, f.AttemptsTo},
		{"(CASE WHEN start_time > 0 THEN start_time ELSE create_time END)", f.DueFrom, f.DueTo},
	} {
		if r.from != 0 {
			and("%s >= %s", r.what, args.Number(r.from))
		}
		if r.to != 0 {
			and("%s < %s", r.what, args.Number(r.to))
		}
	}
	return strings.Join(where, " AND ")
}

// matchingText writes the conditions that only people who search have.
func (s *Store) matchingText(f *Filter, args *conn.Arguments, and func(format string, values ...any)) {
	if f.KeyPrefix != "" {
		if s.KeysInRow {
			and("job_key >= %s AND job_key < %s", args.Value(f.KeyPrefix), args.Value(f.KeyPrefix+string(utf8.MaxRune)))
		}
		and("SUBSTR(job_key, 1, %d) = %s", utf8.RuneCountInString(f.KeyPrefix), args.Value(f.KeyPrefix))
	}
	for _, part := range f.Params {
		and("params LIKE %s ESCAPE '!'", args.Value(partOf(part)))
	}
	for _, part := range f.Meta {
		and("meta LIKE %s ESCAPE '!'", args.Value(partOf(part)))
	}
	if f.Error != "" {
		// They are counted because a server may turn EXISTS round, and read the whole log first.
		and("(SELECT COUNT(*) FROM %s AS logged WHERE logged.job_id = %s.id AND LOWER(logged.error) LIKE LOWER(%s) ESCAPE '!') > 0",
			s.Tables.Attempts, s.Tables.Jobs, args.Value(partOf(f.Error)))
	}
}

// partOf is the pattern of texts that have a part.
func partOf(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// ofKind writes the condition that a row is of a kind.
func (s *Store) ofKind(k Kind) string {
	condition := anyStatus(k.Statuses)
	switch k.Mark {
	case Marked:
		condition += " AND term <> 0"
	case Unmarked:
		condition += " AND term = 0"
	}
	start := fmt.Sprintf(s.Integer, "COALESCE(start_time, 0)")
	switch k.Due {
	case DueNow:
		condition += fmt.Sprintf(" AND %s <= %s", start, s.NowSecond)
	case DueLater:
		condition += fmt.Sprintf(" AND %s > %s", start, s.NowSecond)
	}
	return condition
}

func listedPlaces(l *Listed) []any {
	return append(l.Places(), &l.UpdateTime, &l.TypeName, &l.Unique, &l.Progress, &l.Result, &l.Now)
}

// typeName writes the name of the type of a row of jobs.
func (s *Store) typeName() string {
	return fmt.Sprintf("COALESCE((SELECT name FROM %s AS named WHERE named.job_type = %s.job_type), '')", s.Tables.Types, s.Tables.Jobs)
}

// anyStatus writes the condition that the status is one of these; a NULL counts as 0.
func anyStatus(statuses []int32) string {
	condition := fmt.Sprintf("job_status IN (%s)", conn.Numbers(statuses))
	if slices.Contains(statuses, 0) {
		condition = "(" + condition + " OR job_status IS NULL)"
	}
	return condition
}

// Counted is how many rows of a type have a status. [Store.Count] returns a list of them.
type Counted struct {
	JobType, Status int32
	Rows            int64
}

// Count counts rows by type and status along the due index. An empty list means all types, or every status. A NULL status
// counts as 0, but in an entry of its own. If dueBefore is not 0, Count counts only rows that fell or fall due before
// that second of unix time.
//
// Count reads an index entry for each row that it counts, and with dueBefore the row as well. On PostgreSQL, where the
// due index has pending rows only, counting others reads the whole table.
func (s *Store) Count(ctx context.Context, types, statuses []int32, dueBefore int64) ([]Counted, error) {
	where := []string{"id > 0"}
	if len(types) > 0 {
		where = append(where, fmt.Sprintf("job_type IN (%s)", conn.Numbers(types)))
	}
	if len(statuses) > 0 {
		where = append(where, anyStatus(statuses))
	}
	if dueBefore != 0 {
		where = append(where, fmt.Sprintf("%s < %d", s.DueSecond(), dueBefore))
	}
	counts, err := conn.Read(ctx, s, conn.Each(func(c *Counted) []any { return []any{&c.JobType, &c.Status, &c.Rows} }),
		fmt.Sprintf("SELECT job_type, COALESCE(job_status, 0), COUNT(*) FROM %s %s WHERE %s GROUP BY job_type, job_status ORDER BY job_type, job_status",
			s.Tables.Jobs, s.ByDue, strings.Join(where, " AND ")))
	return counts, conn.Wrap("count jobs", err)
}

// AttemptsOf reads the attempts of jobs that are in the log: job by job, in their order.
func (s *Store) AttemptsOf(ctx context.Context, ids []uint64) ([]store.Attempt, error) {
	args := s.Arguments()
	list, err := conn.Read(ctx, s, conn.Each(attemptPlaces),
		fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY job_id, attempt, term",
			store.AttemptColumns, s.Tables.Attempts, args.OneOf("job_id", ids)), args.List...)
	return list, conn.Wrap("read the attempts of jobs", err)
}

func attemptPlaces(a *store.Attempt) []any {
	return []any{&a.JobID, &a.Attempt, &a.Term, &a.Outcome, &a.Error, &a.Started, &a.Finished, &a.Instance}
}

// TypedAttempt is an attempt, and the type of its job.
type TypedAttempt struct {
	store.Attempt
	JobType  int32
	TypeName string
	Gone     bool // the job was deleted, so its type is not known
}

// LastAttempts reads the end of the log. The newest job comes first, and of each job the latest attempt. Fewer than most: the log has no
// more.
func (s *Store) LastAttempts(ctx context.Context, most int) ([]TypedAttempt, error) {
	order := "ORDER BY job_id DESC, attempt DESC, term DESC"
	list, err := conn.Read(ctx, s, conn.Each(func(a *TypedAttempt) []any {
		return append(attemptPlaces(&a.Attempt), &a.JobType, &a.TypeName, &a.Gone)
	}),
		fmt.Sprintf("SELECT logged.%s, COALESCE(job_type, 0), %s, CASE WHEN id IS NULL THEN 1 ELSE 0 END "+
			"FROM (SELECT %s FROM %s %s LIMIT %d) AS logged "+
			"LEFT JOIN %s ON %[7]s.id = logged.job_id "+
			"ORDER BY logged.job_id DESC, logged.attempt DESC, logged.term DESC",
			strings.ReplaceAll(store.AttemptColumns, ", ", ", logged."), s.typeName(), store.AttemptColumns, s.Tables.Attempts, order, most, s.Tables.Jobs))
	return list, conn.Wrap("last attempts", err)
}
