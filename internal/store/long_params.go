package store

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
)

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
