package mortal

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// rows are rows that are being read. What the driver cannot tell of their columns is told as package sql does without.
type rows struct {
	*conn
	base driver.Rows
}

// opened notes rows as open. The caller is in alive.
func (c *conn) opened(base driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	r := &rows{c, base}
	c.rows[r] = struct{}{}
	return r, nil
}

func (r *rows) Columns() (names []string) {
	r.alive(func() error { names = r.base.Columns(); return nil })
	return names
}

func (r *rows) Next(into []driver.Value) error {
	return r.alive(func() error { return r.base.Next(into) })
}

func (r *rows) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone { // it has closed them
		return nil
	}
	delete(r.conn.rows, r)
	return r.base.Close()
}

func (r *rows) HasNextResultSet() (has bool) {
	r.alive(func() error {
		base, ok := r.base.(driver.RowsNextResultSet)
		has = ok && base.HasNextResultSet()
		return nil
	})
	return has
}

func (r *rows) NextResultSet() error {
	return r.alive(func() error {
		if base, ok := r.base.(driver.RowsNextResultSet); ok {
			return base.NextResultSet()
		}
		return io.EOF
	})
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if base, ok := r.base.(driver.RowsColumnTypeScanType); ok {
		return base.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if base, ok := r.base.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return base.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if base, has := r.base.(driver.RowsColumnTypeLength); has {
		return base.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if base, has := r.base.(driver.RowsColumnTypeNullable); has {
		return base.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if base, has := r.base.(driver.RowsColumnTypePrecisionScale); has {
		return base.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
