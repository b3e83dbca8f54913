// Package sqlite is a driver of SQLite for database/sql, registered under no name. Two drivers in pure Go take the name
// "sqlite": modernc.org/sqlite, and github.com/glebarez/go-sqlite, which GORM uses. A program that imports both panics
// before main, so a package for the tests of others must import neither. This driver uses the same library, and takes
// values as they do: times are text, and text in a column of type date, datetime or timestamp is a time.
package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Open returns a pool of connections to a file, which is created if it is not there. Each connection first runs the
// pragmas. A transaction is the only writer from its beginning (BEGIN IMMEDIATE), unless it is read-only.
func Open(file string, pragmas ...string) *sql.DB { return sql.OpenDB(&connector{file, pragmas}) }

type connector struct {
	file    string
	pragmas []string
}

var patch = sync.OnceFunc(lib.PatchIssue199)

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	patch()
	opened := &conn{tls: libc.NewTLS()}
	name, err := libc.CString(c.file)
	if err == nil {
		rc := lib.Xsqlite3_open_v2(opened.tls, name, opened.out(), lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE|lib.SQLITE_OPEN_FULLMUTEX, 0)
		opened.db = opened.got[0]
		libc.Xfree(opened.tls, name)
		err = opened.errorOf(rc)
	}
	if err == nil {
		err = opened.errorOf(lib.Xsqlite3_extended_result_codes(opened.tls, opened.db, 1))
	}
	for _, pragma := range c.pragmas {
		if err == nil {
			_, err = opened.ExecContext(ctx, "PRAGMA "+pragma, nil)
		}
	}
	if err != nil {
		opened.Close()
		return nil, fmt.Errorf("open %s: %w", c.file, err)
	}
	return opened, nil
}

func (c *connector) Driver() driver.Driver { return c }

// Open makes the connector a driver. It opens the connector's file, whatever the name.
func (c *connector) Open(string) (driver.Conn, error) { return c.Connect(context.Background()) }

// conn is a connection. Nobody but database/sql uses it, one call at a time.
type conn struct {
	tls *libc.TLS
	db  uintptr
	got [2]uintptr // where the library writes what it returns by pointer
}

func (c *conn) out() uintptr  { return uintptr(unsafe.Pointer(&c.got[0])) }
func (c *conn) rest() uintptr { return uintptr(unsafe.Pointer(&c.got[1])) }

// Error is an error of the library.
type Error struct {
	text string
	code int32
}

func (e *Error) Error() string { return e.text }

// Code is the extended result code.
func (e *Error) Code() int { return int(e.code) }

func (c *conn) errorOf(rc int32) error {
	if rc == lib.SQLITE_OK {
		return nil
	}
	text := libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if message := libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)); message != text {
			text += ": " + message
		}
	}
	text += fmt.Sprintf(" (%d)", rc)
	if rc&0xff == lib.SQLITE_BUSY {
		text += " (SQLITE_BUSY)"
	}
	return &Error{text, rc}
}

func (c *conn) Close() error {
	var err error
	if c.db != 0 {
		err = c.errorOf(lib.Xsqlite3_close_v2(c.tls, c.db))
		c.db = 0
	}
	if c.tls != nil {
		c.tls.Close()
		c.tls = nil
	}
	return err
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	err := c.each(query, func(uintptr, bool) (keep bool, err error) { return false, nil })
	return &stmt{c, query}, err
}

func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	begin := "BEGIN IMMEDIATE"
	if options.ReadOnly {
		begin = "BEGIN"
	}
	_, err := c.ExecContext(ctx, begin, nil)
	return tx{c}, err
}

type tx struct{ *conn }

func (t tx) Commit() error {
	_, err := t.ExecContext(context.Background(), "COMMIT", nil)
	if err != nil && lib.Xsqlite3_get_autocommit(t.tls, t.db) == 0 {
		err = errors.Join(err, t.Rollback()) // to database/sql, the transaction is over
	}
	return err
}

func (t tx) Rollback() error {
	if lib.Xsqlite3_get_autocommit(t.tls, t.db) != 0 {
		return nil // an error has rolled back already
	}
	_, err := t.ExecContext(context.Background(), "ROLLBACK", nil)
	return err
}

// stmt is a statement's text. It is compiled for each run, which costs nothing that matters in a test.
type stmt struct {
	*conn
	query string
}

func (s *stmt) Close() error  { return nil }
func (s *stmt) NumInput() int { return -1 }

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

func named(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, value := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return list
}

// each compiles the statements of a text one after the other and hands them over; last means that no other follows. A
// statement that is not kept is finalized.
func (c *conn) each(query string, do func(compiled uintptr, last bool) (keep bool, err error)) error {
	text, err := libc.CString(query)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, text)
	compile := func(from uintptr) (compiled, behind uintptr, err error) {
		for end := text + uintptr(len(query)); from < end; from = behind { // a comment is no statement
			rc := lib.Xsqlite3_prepare_v2(c.tls, c.db, from, -1, c.out(), c.rest())
			compiled, behind = c.got[0], c.got[1]
			if rc != lib.SQLITE_OK || compiled != 0 {
				return compiled, behind, c.errorOf(rc)
			}
			if behind <= from {
				break
			}
		}
		return 0, from, nil
	}
	compiled, behind, err := compile(text)
	for err == nil && compiled != 0 {
		last := strings.Trim(query[behind-text:], "; \t\r\n") == ""
		if !last { // a comment, perhaps; a statement that does not compile may need what this one makes
			next, _, errNext := compile(behind)
			last = next == 0 && errNext == nil
			lib.Xsqlite3_finalize(c.tls, next)
		}
		var keep bool
		keep, err = do(compiled, last)
		if !keep {
			if rc := lib.Xsqlite3_finalize(c.tls, compiled); err == nil {
				err = c.errorOf(rc)
			}
		}
		if err == nil {
			compiled, behind, err = compile(behind)
		}
	}
	return err
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer c.interruptible(ctx)()
	err := c.each(query, func(compiled uintptr, _ bool) (bool, error) {
		err := c.bind(compiled, args)
		for more := true; more && err == nil; {
			more, err = c.step(compiled)
		}
		return false, err
	})
	if err != nil {
		return nil, c.causeOf(ctx, err)
	}
	return result{lib.Xsqlite3_last_insert_rowid(c.tls, c.db), int64(lib.Xsqlite3_changes(c.tls, c.db))}, nil
}

type result struct{ id, rows int64 }

func (r result) LastInsertId() (int64, error) { return r.id, nil }
func (r result) RowsAffected() (int64, error) { return r.rows, nil }

// QueryContext returns the rows of the last statement. It has read the first row already. So an error is known at once,
// and a statement that is no SELECT has run even if nobody asks for rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer c.interruptible(ctx)()
	r := &rows{conn: c, ctx: ctx}
	err := c.each(query, func(compiled uintptr, last bool) (bool, error) {
		err := c.bind(compiled, args)
		more := false
		if err == nil {
			more, err = c.step(compiled)
		}
		if last && err == nil {
			r.compiled, r.ahead, r.over = compiled, more, !more
			return true, nil
		}
		for more && err == nil {
			more, err = c.step(compiled)
		}
		return false, err
	})
	if err != nil {
		r.Close()
		return nil, c.causeOf(ctx, err)
	}
	r.describe()
	return r, nil
}

// interruptible makes the end of the context interrupt what runs, until done is called.
func (c *conn) interruptible(ctx context.Context) (done func()) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		lib.Xsqlite3_interrupt(c.tls, c.db)
	})
	return func() {
		if !stop() {
			<-interrupted
		}
	}
}

func (c *conn) causeOf(ctx context.Context, err error) error {
	var said *Error
	if errors.As(err, &said) && said.code&0xff == lib.SQLITE_INTERRUPT && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *conn) step(compiled uintptr) (row bool, err error) {
	switch rc := lib.Xsqlite3_step(c.tls, compiled); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		return false, c.errorOf(rc)
	}
}

// timeFormats are the formats in which a time may stand in a column. The first is the format that is written; SQLite
// itself knows it too.
var timeFormats = []string{
	"2006-01-02 15:04:05.999999999-07:00", "2006-01-02T15:04:05.999999999-07:00", "2006-01-02 15:04:05.999999999 -0700 MST",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02",
}

func (c *conn) bind(compiled uintptr, args []driver.NamedValue) error {
	for i := range lib.Xsqlite3_bind_parameter_count(c.tls, compiled) {
		i++
		name := libc.GoString(lib.Xsqlite3_bind_parameter_name(c.tls, compiled, i))
		arg, err := argument(args, int(i), name)
		if err != nil {
			return err
		}
		var rc int32
		switch value := arg.(type) {
		case nil:
			rc = lib.Xsqlite3_bind_null(c.tls, compiled, i)
		case int64:
			rc = lib.Xsqlite3_bind_int64(c.tls, compiled, i, value)
		case bool:
			var one int64
			if value {
				one = 1
			}
			rc = lib.Xsqlite3_bind_int64(c.tls, compiled, i, one)
		case float64:
			rc = lib.Xsqlite3_bind_double(c.tls, compiled, i, value)
		case string:
			rc, err = c.bindBytes(compiled, i, value, lib.Xsqlite3_bind_text)
		case time.Time:
			rc, err = c.bindBytes(compiled, i, value.Format(timeFormats[0]), lib.Xsqlite3_bind_text)
		case []byte:
			if value == nil {
				rc = lib.Xsqlite3_bind_null(c.tls, compiled, i)
			} else {
				rc, err = c.bindBytes(compiled, i, string(value), lib.Xsqlite3_bind_blob)
			}
		default:
			err = fmt.Errorf("argument %d is a %T", i, arg)
		}
		if err == nil {
			err = c.errorOf(rc)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) bindBytes(
	compiled uintptr, i int32, value string, bind func(*libc.TLS, uintptr, int32, uintptr, int32, uintptr) int32,
) (rc int32, err error) {
	const copied = ^uintptr(0) // SQLITE_TRANSIENT
	text, err := libc.CString(value)
	if err != nil {
		return 0, err
	}
	defer libc.Xfree(c.tls, text)
	return bind(c.tls, compiled, i, text, int32(len(value)), copied), nil
}

// argument is the value that a parameter stands for, by its name or its number.
func argument(args []driver.NamedValue, i int, name string) (driver.Value, error) {
	for _, arg := range args {
		if arg.Name != "" && len(name) > 1 && arg.Name == name[1:] || arg.Name == "" && arg.Ordinal == i {
			return arg.Value, nil
		}
	}
	return nil, fmt.Errorf("parameter %d %s has no argument: there are %d", i, name, len(args))
}

// rows are the rows of a compiled statement.
type rows struct {
	*conn
	ctx         context.Context
	compiled    uintptr // 0: there was no statement
	ahead, over bool    // a row was read that nobody has seen; there are no more
	names       []string
	types       []string // as they were declared, in capitals
}

func (r *rows) describe() {
	if r.compiled == 0 {
		r.over = true
		return
	}
	for i := range lib.Xsqlite3_column_count(r.tls, r.compiled) {
		r.names = append(r.names, libc.GoString(lib.Xsqlite3_column_name(r.tls, r.compiled, i)))
		r.types = append(r.types, strings.ToUpper(libc.GoString(lib.Xsqlite3_column_decltype(r.tls, r.compiled, i))))
	}
}

func (r *rows) Columns() []string                       { return r.names }
func (r *rows) ColumnTypeDatabaseTypeName(i int) string { return r.types[i] }

func (r *rows) Close() error {
	if r.compiled == 0 {
		return nil
	}
	lib.Xsqlite3_finalize(r.tls, r.compiled) // step has returned the same error
	r.compiled = 0
	return nil
}

func (r *rows) Next(into []driver.Value) error {
	if !r.ahead && !r.over {
		defer r.interruptible(r.ctx)()
		more, err := r.step(r.compiled)
		if err != nil {
			return r.causeOf(r.ctx, err)
		}
		r.over = !more
	}
	r.ahead = false
	if r.over {
		return io.EOF
	}
	for i := range into {
		into[i] = r.value(i)
	}
	return nil
}

func (r *rows) value(i int) driver.Value {
	column := int32(i)
	switch lib.Xsqlite3_column_type(r.tls, r.compiled, column) {
	case lib.SQLITE_INTEGER:
		return lib.Xsqlite3_column_int64(r.tls, r.compiled, column)
	case lib.SQLITE_FLOAT:
		return lib.Xsqlite3_column_double(r.tls, r.compiled, column)
	case lib.SQLITE_TEXT:
		text := string(r.bytes(lib.Xsqlite3_column_text(r.tls, r.compiled, column), column))
		switch r.types[i] {
		case "DATE", "DATETIME", "TIMESTAMP":
			return timeOr(text)
		}
		return text
	case lib.SQLITE_BLOB:
		return r.bytes(lib.Xsqlite3_column_blob(r.tls, r.compiled, column), column)
	default:
		return nil
	}
}

func (r *rows) bytes(from uintptr, column int32) []byte {
	n := int(lib.Xsqlite3_column_bytes(r.tls, r.compiled, column))
	if from == 0 || n == 0 {
		return []byte{}
	}
	return bytes.Clone(libc.GoBytes(from, n))
}

// timeOr returns the time in a text, or else the text.
func timeOr(text string) driver.Value {
	said, _, _ := strings.Cut(text, " m=") // which Go prints behind a time with a monotonic clock
	for _, format := range timeFormats {
		if t, err := time.Parse(format, strings.TrimSuffix(said, "Z")); err == nil {
			return t
		}
	}
	return text
}
