package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// drivers are the values of --driver.
var drivers = []string{"mysql", "pgx", "sqlite"}

// database is an open handle, with its jobs.
type database struct {
	*sql.DB
	jobs *queue_job.Jobs
}

// open opens the database and its jobs. The tables may be missing: the first verb that needs them says so.
func (a *app) open(ctx context.Context) (*database, error) {
	db, err := a.handle(ctx)
	if err != nil {
		return nil, err
	}
	options := []queue_job.OpenOption{queue_job.WithTablePrefix(a.prefix), queue_job.WithCron(cron.Parse)}
	if a.codec != nil {
		options = append(options, queue_job.WithCodec(a.codec))
	}
	var jobs *queue_job.Jobs
	err = a.within(ctx, func(ctx context.Context) (err error) {
		jobs, err = queue_job.OpenContext(ctx, db, options...)
		return err
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return &database{db, jobs}, nil
}

// with opens the database for as long as an act takes.
func (a *app) with(ctx context.Context, act func(*database) error) error {
	db, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return act(db)
}

// handle opens the database, and sees that it answers.
func (a *app) handle(ctx context.Context) (*sql.DB, error) {
	driver, dsn, err := a.address()
	if err != nil {
		return nil, err
	}
	if file := fileOf(driver, dsn); isOther(file) {
		return nil, exitf(exitUsage, "%s is no database of SQLite", file)
	}
	makePrivate(driver, dsn)
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	if err := a.within(ctx, db.PingContext); err != nil {
		db.Close()
		if file := fileOf(driver, dsn); file != "" {
			if _, none := os.Stat(file); errors.Is(none, fs.ErrNotExist) {
				return nil, exitf(exitUnreachable,
					"there is no file %s; pqueue serve makes it, and so does pqueue schema migrate, if its folder is there and may be written to", file)
			}
		}
		return nil, &exit{exitUnreachable, fmt.Errorf("the database does not answer: %w", err)}
	}
	return db, nil
}

// makePrivate makes the file of a database that SQLite would make, for its owner alone: it has bodies and headers of tasks. What SQLite makes
// beside it gets the same mode. A file that is there stays as it is, and what goes wrong here, SQLite says better.
func makePrivate(driver, dsn string) {
	file := fileOf(driver, dsn)
	_, query, _ := strings.Cut(dsn, "?")
	if values, err := url.ParseQuery(query); err != nil || file == "" || values.Get("mode") != "rwc" {
		return
	}
	if made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		_ = made.Close()
	}
}

// isOther reports whether a file has something else than a database of SQLite. An empty file may become one.
func isOther(file string) bool {
	const begins = "SQLite format 3\x00"
	from, err := os.Open(file)
	if err != nil {
		return false // SQLite says why
	}
	defer from.Close()
	first := make([]byte, len(begins))
	n, err := io.ReadFull(from, first)
	return n > 0 && string(first[:n]) != begins && (err == nil || errors.Is(err, io.ErrUnexpectedEOF))
}

// fileOf is the file of a database of SQLite; empty: it has none, or is another database.
func fileOf(driver, dsn string) string {
	name, isURL := strings.CutPrefix(dsn, "file:")
	if driver != "sqlite" || !isURL {
		return ""
	}
	name, _, _ = strings.Cut(name, "?")
	file, err := url.PathUnescape(name)
	if err != nil {
		return ""
	}
	return filepath.FromSlash(file)
}

// makeTables makes the tables that are missing and, for SQLite, the file.
func (a *app) makeTables(ctx context.Context) error {
	a.makesFile = true
	db, err := a.handle(ctx)
	if err != nil {
		return err
	}
	return errors.Join(a.within(ctx, func(ctx context.Context) error { return schema.Migrate(ctx, db, a.schemaOptions()...) }), db.Close())
}

// ownFile is the database of pqueue serve if none is named. It is made if it is not there.
const ownFile = "sqlite://pqueue.db?mode=rwc&_pragma=journal_mode(WAL)"

func (a *app) useOwnFile() {
	if cmp.Or(a.dsn, a.dsnFile, os.Getenv("PQUEUE_DSN"), os.Getenv("PQUEUE_DSN_FILE")) == "" {
		a.dsn, a.driver = ownFile, ""
	}
}

// address returns the driver and its DSN, from the flags or the environment.
func (a *app) address() (driver, dsn string, err error) {
	dsn, file := a.dsn, a.dsnFile
	if dsn == "" && file == "" {
		dsn, file = os.Getenv("PQUEUE_DSN"), os.Getenv("PQUEUE_DSN_FILE")
	}
	if dsn == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", exitf(exitUsage, "--dsn-file, or PQUEUE_DSN_FILE: %w", err)
		}
		dsn = strings.TrimSpace(string(text))
	}
	switch {
	case dsn == "":
		return "", "", exitf(exitUsage,
			"no database is named: set PQUEUE_DSN, or --dsn, to mysql://user:password@host:3306/database, postgres://… or sqlite://file")
	case a.driver == "":
		driver, dsn, err = fromURL(dsn)
	case slices.Contains(drivers, a.driver):
		driver = a.driver
	default:
		err = fmt.Errorf("--driver %s: it is mysql, pgx or sqlite", a.driver)
	}
	if err != nil {
		return "", "", &exit{exitUsage, err}
	}
	if a.makesFile && driver == "sqlite" {
		dsn = strings.Replace(dsn, "?mode=rw&", "?mode=rwc&", 1)
	}
	return driver, dsn, nil
}

// fromURL makes a driver's DSN of a URL. Errors do not repeat the URL, which may have a password.
func fromURL(text string) (driver, dsn string, err error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return "", "", fmt.Errorf("the DSN is no URL; begin it with mysql://, postgres:// or sqlite://, or name its --driver")
	}
	switch scheme {
	case "mysql", "mariadb":
		dsn, err = mysqlDSN(text)
		return "mysql", dsn, err
	case "postgres", "postgresql":
		return "pgx", text, nil
	case "sqlite", "file":
		file, query, _ := strings.Cut(rest, "?")
		if file == "" {
			return "", "", fmt.Errorf("sqlite:// names no file")
		}
		options := "_pragma=busy_timeout(5000)&_txlock=immediate"
		if !strings.Contains(query, "mode=") {
			options = "mode=rw&" + options // a file that is not there is not made
		}
		if query != "" {
			options += "&" + query
		}
		return "sqlite", "file:" + (&url.URL{Path: filepath.ToSlash(file)}).EscapedPath() + "?" + options, nil
	}
	return "", "", fmt.Errorf("%s:// is no database that pqueue knows; it is mysql://, postgres:// or sqlite://", scheme)
}

func mysqlDSN(text string) (string, error) {
	at, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("the DSN is no URL: write @ : / ? # %% in a password as %%40 %%3A %%2F %%3F %%23 %%25")
	}
	name := strings.TrimPrefix(at.Path, "/")
	if name == "" {
		return "", fmt.Errorf("the DSN names no database: mysql://user:password@host:3306/database")
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.DBName = at.User.Username(), "tcp", name
	cfg.InterpolateParams = true // a statement with arguments goes to the server once, and is not prepared first
	cfg.Passwd, _ = at.User.Password()
	cfg.Addr = at.Host
	if at.Port() == "" {
		cfg.Addr += ":3306"
	}
	dsn := cfg.FormatDSN()
	if at.RawQuery != "" {
		joint := "?"
		if strings.Contains(dsn, "?") {
			joint = "&"
		}
		dsn += joint + at.RawQuery
	}
	_, err = mysql.ParseDSN(dsn)
	return dsn, err
}

// serverOf returns the addresses of the database's server; none for a file, and for a socket of this machine.
func serverOf(ctx context.Context, driver, dsn string) (at []netip.AddrPort, err error) {
	var hosts []string // with ports
	switch driver {
	case "mysql":
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		if cfg.Net == "tcp" {
			hosts = append(hosts, cfg.Addr)
		}
	case "pgx":
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, hostWithPort(cfg.Host, cfg.Port))
		for _, other := range cfg.Fallbacks {
			hosts = append(hosts, hostWithPort(other.Host, other.Port))
		}
	}
	for _, hostPort := range hosts {
		host, port, err := net.SplitHostPort(hostPort)
		if err != nil || strings.HasPrefix(host, "/") {
			continue // a socket
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("the database's port %q: %w", port, err)
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, fmt.Errorf("the database's host: %w", err)
		}
		for _, addr := range addrs {
			at = append(at, netip.AddrPortFrom(addr.Unmap(), uint16(number)))
		}
	}
	return at, nil
}

func hostWithPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// schemaOptions tells package schema the prefix of the tables' names.
func (a *app) schemaOptions() []schema.Option {
	if a.prefix == "" {
		return nil
	}
	return []schema.Option{schema.WithTablePrefix(a.prefix)}
}
