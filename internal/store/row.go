package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Row is a job as it stands in async_job_tab; a NULL status or start time reads as 0.
type Row struct {
	ID         uint64
	Params     string
	JobType    int32
	Status     int16
	Lost       int16 // beside Status: a queue has room for many rows
	StartTime  int64 // unix seconds; 0: at once
	CreateTime int64 // unix seconds
	Term       int64 // 0: not marked
	Attempts   int32
	Retries    int32
	Deferred   int32 // of Attempts
	Priority   int32
	MaxRetries int32  // [NotSet]: as the job type says
	Changes    int32  // times it was changed while it waited, or its mark was taken back
	Key        string // the business key; empty: none
	Extra      *Extra // nil: it has none of that
}

// Extra is what few rows have. It is apart, since a queue has room for many rows.
type Extra struct {
	Meta    string // the metadata, as JSON; empty: none
	Group   string // the group of its own; empty: none
	Expires int64  // unix milliseconds from which no run of it starts any more, as its metadata say; 0: none
	Node    uint64 // the node of a flow whose job it is, as its metadata say; 0: none
}

// String shows it where a row is printed.
func (e *Extra) String() string { return fmt.Sprintf("%+v", *e) }

// DueSecond is when the row fell due, in unix seconds.
func (r *Row) DueSecond() int64 {
	if r.StartTime > 0 {
		return r.StartTime
	}
	return r.CreateTime
}

// Version returns the version in which the row was read.
func (r *Row) Version() Version { return Version{r.Term, r.Attempts, r.Changes} }

// Group is what the order and the limits of keys, and shards, go by: the row's own group or, if it has none, its key. Empty: none.
func (r *Row) Group() string {
	if r.Extra != nil && r.Extra.Group != "" {
		return r.Extra.Group
	}
	return r.Key
}

// Metadata reads the row's metadata. Nil: there is none, or it is no JSON object of texts, which only an INSERT by others can have
// written.
func (r *Row) Metadata() map[string]string {
	if r.Extra == nil || r.Extra.Meta == "" {
		return nil // apart from what follows, which allocates: nearly every row
	}
	var meta map[string]string
	if json.Unmarshal([]byte(r.Extra.Meta), &meta) != nil {
		return nil
	}
	for _, name := range ReservedMeta {
		delete(meta, name)
	}
	if len(meta) == 0 {
		return nil
	}
	return meta
}

// NotSet stands for NULL in max_retries.
const NotSet = -2

// rowColumns are the columns of a [Row].
func (s *Store) RowColumns(params, meta string) string {
	columns := s.laneColumns(params, meta, fmt.Sprintf(s.Integer, "start_time"))
	for _, number := range []string{"job_type", "job_status", "priority"} {
		columns += ", " + fmt.Sprintf(s.Integer, number)
	}
	return columns
}

// DueSecond writes the second at which a row falls due.
func (s *Store) DueSecond() string {
	return fmt.Sprintf("(CASE WHEN %[1]s > 0 THEN %[1]s ELSE %[2]s END)",
		fmt.Sprintf(s.Integer, "COALESCE(start_time, 0)"), fmt.Sprintf(s.Integer, "create_time"))
}

// places are where the rowColumns are scanned to. A NULL is turned into its meaning there, not by COALESCE: for the value
// that COALESCE makes, the driver would allocate.
func (r *Row) Places() []any {
	return append(r.lanePlaces(), conn.Whole(&r.JobType), conn.Whole(&r.Status), conn.Whole(&r.Priority))
}

// laneColumns are the columns of a [Row] in which the rows of a lane differ. Every column of a page costs the server, the
// driver and database/sql something for every row, and every comparison costs the server. Most rows are as they were inserted,
// with neither retries of their own nor metadata: then the tally is a single NULL. A row that was neither marked nor changed has
// 0 in the other columns that are tallied.
//
// SQLite keeps whatever was inserted, even text in a column of numbers, and such a row must not make the whole result
// unreadable.
func (s *Store) laneColumns(params, meta, startTime string) string {
	integer := func(column string) string { return fmt.Sprintf(s.Integer, column) }
	var texts []string
	for _, column := range tallied {
		texts = append(texts, integer(column))
	}
	texts = append(texts, integer(fmt.Sprintf("COALESCE(max_retries, %d)", NotSet)))
	return fmt.Sprintf("id, %s AS params, %s, %s, "+
		"CASE WHEN term = 0 AND attempts = 0 AND changes = 0 AND max_retries IS NULL AND meta IS NULL THEN NULL ELSE %s END AS tally, "+
		"job_key, job_group",
		params, startTime, integer("create_time"), s.Commas(texts, meta))
}

func (r *Row) lanePlaces() []any {
	return []any{
		conn.Whole(&r.ID), &r.Params, conn.Whole(&r.StartTime), conn.Whole(&r.CreateTime),
		tally{r}, conn.Text(&r.Key), ownGroup{r},
	}
}

// ownGroup scans job_group, behind the tally. Blanks are none.
type ownGroup struct{ row *Row }

func (g ownGroup) Scan(value any) error {
	if value == nil {
		return nil
	}
	var own string
	if err := conn.Text(&own).Scan(value); err != nil || strings.TrimRight(own, " ") == "" {
		return err
	}
	if g.row.Extra == nil {
		g.row.Extra = &Extra{}
	}
	g.row.Extra.Group = own
	return nil
}

// tallied are the columns in which the library counts. A row is inserted with 0 in each.
var tallied = [...]string{"term", "attempts", "retries", "lost", "changes", "deferred"}

// tally scans the tallied columns, the row's own number of retries, and the metadata behind them. They come as one text, or as
// NULL if the row has none of that.
type tally struct{ row *Row }

func (t tally) Scan(value any) error {
	n := [len(tallied) + 1]int64{len(tallied): NotSet}
	var texts []string
	switch v := value.(type) {
	case string:
		texts = strings.SplitN(v, ",", len(n)+1)
	case []byte:
		texts = strings.SplitN(string(v), ",", len(n)+1)
	}
	if value != nil && len(texts) < len(n) {
		return fmt.Errorf("%d numbers are wanted, not %q", len(n), value)
	}
	r := t.row
	r.Extra = nil
	if len(texts) > len(n) {
		r.Extra, texts = ExtraOf(texts[len(n)]), texts[:len(n)]
	}
	for i, text := range texts {
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	r.Term, r.Attempts, r.Retries, r.Lost, r.Changes, r.Deferred, r.MaxRetries = n[0],
		int32(n[1]), int32(n[2]), int16(n[3]), int32(n[4]), int32(n[5]), int32(n[6])
	return nil
}

// ifWhole scans the parameters of a row that is whole, and NULL for another: a server computes a condition for each place where it is written.
type ifWhole struct{ row *TailRow }

func (w ifWhole) Scan(value any) error {
	w.row.Whole = value != nil
	if text, ok := value.([]byte); ok { // what the drivers of servers send; the code below allocates
		w.row.Params = string(text)
		return nil
	}
	return conn.Text(&w.row.Params).Scan(value)
}

func tailRows(rows *sql.Rows) (list []TailRow, err error) {
	var r TailRow
	places := r.Places()
	places[1] = ifWhole{&r}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// partRow is a row and the number of the SELECT that it came from.
type partRow struct {
	part int
	Row
}

func partRows(rows *sql.Rows) (list []partRow, err error) {
	var r partRow
	places := append([]any{conn.Whole(&r.part)}, r.Places()...)
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func onlyRows(parts []partRow) []Row {
	rows := make([]Row, len(parts))
	for i := range parts {
		rows[i] = parts[i].Row
	}
	return rows
}

// The column params holds 4,096 characters, as the original's does. Longer parameters stand in the column long_params, and params
// says so. Nothing that looks for jobs reads that column: InnoDB would fetch all pages of it from wherever they are, for each row of
// each look, even to tell how long it is; and what a look brings would wait in memory until its turn comes.
const (
	paramsMax = 4096 // characters
	// SeeLongParams stands in params if the parameters stand in long_params. It is no JSON, so no such parameters are added.
	SeeLongParams = "see long_params"
)

func IsLong(params string) bool {
	return len(params) > paramsMax && utf8.RuneCountInString(params) > paramsMax
}

// inColumns returns what the columns params and long_params have of parameters; empty: NULL.
func InColumns(params string) (short, long string) {
	if IsLong(params) {
		return SeeLongParams, params
	}
	return params, ""
}

// wholeParams are the parameters, wherever they stand. If somebody has changed params by hand, they stand there.
const WholeParams = "CASE WHEN params = '" + SeeLongParams + "' THEN COALESCE(long_params, params) ELSE params END"

// HasLong reports whether the row's parameters are too long for the column params, so Params does not have them:
// [Store.LongParams] reads them.
func (r *Row) HasLong() bool { return r.Params == SeeLongParams }

// RunParams are the parameters of a run.
type RunParams struct {
	ID       uint64
	Attempts int32
	Params   string
}

// LongParams reads the whole parameters of those rows that are pending and have the term. They cannot change while the rows are
// marked, see [Store.SetParams]. Fewer than asked: the others are final, gone, or have another term.
func (s *Store) LongParams(ctx context.Context, ids []uint64, term int64) ([]RunParams, error) {
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(p *RunParams) []any { return []any{&p.ID, &p.Attempts, conn.Text(&p.Params)} }),
		s.FromPrimary(fmt.Sprintf(
			"SELECT id, attempts, %s AS params FROM %s %s WHERE %s AND term = %s AND %s",
			WholeParams, s.Tables.Jobs, s.ByPrimary, args.In(ids), args.Number(term), pending)), args.List...)
	return rows, conn.Wrap("read long parameters", err)
}
