package conn

import (
	"context"
	"database/sql"
	"errors"
)

func readText(ctx context.Context, db DB, query string) (string, error) {
	return readOn(ctx, db, func(rows *sql.Rows) (text string, err error) {
		if !rows.Next() {
			return "", errors.Join(errors.New("no row"), rows.Err())
		}
		return text, rows.Scan(&text)
	}, query)
}

// Each returns a function that collects rows, scanning their columns to the places by position: a driver may change the
// names of columns.
func Each[T any](places func(*T) []any) func(*sql.Rows) ([]T, error) {
	return func(rows *sql.Rows) (list []T, err error) {
		for rows.Next() {
			var one T
			if err := rows.Scan(places(&one)...); err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}
}

// Whole scans a column of whole numbers; NULL stands for 0. Without it, database/sql compares the types on both sides by
// reflection for each number of each row, and if they differ, writes the number as text and reads it again.
func Whole[T number](to *T) sql.Scanner { return whole[T]{to} }

type number interface {
	int | int16 | int32 | int64 | uint64
}

type whole[T number] struct{ to *T }

func (w whole[T]) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*w.to = 0
	case int64:
		*w.to = T(v)
	case uint64:
		*w.to = T(v)
	default:
		var other sql.Null[T]
		if err := other.Scan(value); err != nil {
			return err
		}
		*w.to = other.V
	}
	return nil
}

// Text scans a column of text; NULL stands for an empty one.
func Text(to *string) sql.Scanner { return text{to} }

type text struct{ to *string }

func (t text) Scan(value any) error {
	if value == nil { // the usual case; the code below allocates
		*t.to = ""
		return nil
	}
	var other sql.NullString
	err := other.Scan(value)
	*t.to = other.String
	return err
}

// Column collects the values of a single column.
func Column[T any](rows *sql.Rows) ([]T, error) {
	return Each(func(value *T) []any { return []any{value} })(rows)
}
