package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"testing"

	"github.com/create-info/persistent-queue/internal/conn"
)

func thousandIDs(step uint64) []uint64 {
	ids := make([]uint64, 1000)
	for i := range ids {
		ids[i] = 1_000_000 + uint64(i)*step
	}
	return ids
}

func BenchmarkAMarkOfARunOfIDs(b *testing.B)     { benchmarkMark(b, thousandIDs(1)) }
func BenchmarkAMarkOfScatteredIDs(b *testing.B)  { benchmarkMark(b, thousandIDs(3)) }
func BenchmarkReadingAThousandRows(b *testing.B) { benchmarkRows(b, 1000) }
func BenchmarkReadingAPageOfOneRow(b *testing.B) { benchmarkRows(b, 1) }

func benchmarkMark(b *testing.B, ids []uint64) {
	s := &Store{conn.On(deaf{}, conn.MariaDB, "")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Mark(b.Context(), ids, 1_700_000_000, Version{}, 9, 1_800_000_000_500); err != nil {
			b.Fatal(err)
		}
	}
}

// deaf is a handle that does nothing.
type deaf struct{ conn.DB }

func (deaf) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.RowsAffected(1000), nil
}

func benchmarkRows(b *testing.B, n int) {
	db := sql.OpenDB(rowsOnly{n})
	defer db.Close()
	b.ReportAllocs()
	for b.Loop() {
		rows, err := db.QueryContext(b.Context(), "SELECT")
		if err != nil {
			b.Fatal(err)
		}
		pages, err := lanePages(7, []Place{{}}, n)(rows)
		if err != nil || len(pages[0]) != n {
			b.Fatal(len(pages[0]), err)
		}
		rows.Close()
	}
}

// rowsOnly is a driver that answers every query with n rows, as go-sql-driver/mysql reads them from the wire.
type rowsOnly struct{ n int }

func (d rowsOnly) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d rowsOnly) Driver() driver.Driver                        { return nil }
func (d rowsOnly) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (d rowsOnly) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }
func (d rowsOnly) Close() error                                 { return nil }

func (d rowsOnly) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &sameRows{left: d.n, params: []byte(`{"order":4711}`)}, nil
}

type sameRows struct {
	left   int
	params []byte
}

func (*sameRows) Columns() []string { return make([]string, 8) }
func (*sameRows) Close() error      { return nil }

func (r *sameRows) Next(row []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	for i := range row {
		row[i] = int64(0)
	}
	row[1], row[2], row[4] = uint64(1_000_000), r.params, int64(1_700_000_000)
	row[5], row[6], row[7] = nil, nil, nil // the row is as it was inserted, and has neither key nor group
	return nil
}
