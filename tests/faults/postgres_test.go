package faults

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

var postgresDialect = dialect{
	driver:    "pgx",
	lingers:   25 * time.Second, // for 15 it tries to tell a server that is silent that nobody waits any more
	connector: postgresConnector,
	dsn:       postgresDSN,
	ofWorker: func(dsn, name string) (string, error) {
		return changedPostgres(dsn, func(u *url.URL) {
			query := u.Query()
			query.Set("application_name", name)
			u.RawQuery = query.Encode()
		})
	},
	through: func(dsn, address string) (string, error) {
		return changedPostgres(dsn, func(u *url.URL) { u.Host = address })
	},
	address: func(dsn string) (string, error) {
		u, err := url.Parse(dsn)
		if err != nil {
			return "", err
		}
		return u.Host, nil
	},
	insert: func(ctx context.Context, tx *sql.Tx, statement string, n int) (ids []uint64, err error) {
		rows, err := tx.QueryContext(ctx, statement+" RETURNING id")
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var id uint64
			if err := rows.Scan(&id); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, rows.Err()
	},

	version: "SHOW server_version",
	audit: []string{
		`CREATE FUNCTION unix_timestamp() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT FLOOR(EXTRACT(EPOCH FROM statement_timestamp()))::bigint'`,
		`CREATE FUNCTION unix_timestamp(timestamptz) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT FLOOR(EXTRACT(EPOCH FROM $1))::bigint'`,
		`CREATE FUNCTION from_unixtime(bigint) RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT to_timestamp($1)'`,
		`CREATE FUNCTION audit_now() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT (EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::bigint'`,
		`CREATE FUNCTION audit_worker() RETURNS text LANGUAGE sql STABLE AS $$SELECT NULLIF(current_setting('application_name'), '')$$`,
		`CREATE TABLE audit_job (
			seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, worker varchar(64) NULL, job bigint NOT NULL, job_type int NOT NULL,
			old_status int NULL, new_status int NULL, old_term bigint NOT NULL, new_term bigint NOT NULL)`,
		`CREATE TABLE audit_lease (
			seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, worker varchar(64) NULL, name varchar(64) NOT NULL, term bigint NOT NULL)`,
		`CREATE FUNCTION audit_job_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO audit_job (at, worker, job, job_type, old_status, new_status, old_term, new_term)
			VALUES (audit_now(), audit_worker(), NEW.id, NEW.job_type, OLD.job_status, NEW.job_status, OLD.term, NEW.term);
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER audit_job_update AFTER UPDATE ON async_job_tab FOR EACH ROW
			WHEN (OLD.job_status IS DISTINCT FROM NEW.job_status OR OLD.term <> NEW.term) EXECUTE FUNCTION audit_job_update()`,
		`CREATE FUNCTION audit_lease_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO audit_lease (at, worker, name, term) VALUES (audit_now(), audit_worker(), NEW.lock_name, NEW.term);
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER audit_lease_update AFTER UPDATE ON shedlock_tab FOR EACH ROW
			WHEN (OLD.term <> NEW.term AND NEW.locked_by <> '') EXECUTE FUNCTION audit_lease_update()`,
	},
	auditNoJobs: "DROP TRIGGER audit_job_update ON async_job_tab",
	auditLeaseStatements: []string{
		`CREATE TABLE audit_lease_statement (
			at bigint NOT NULL, worker varchar(64) NOT NULL, connection bigint NOT NULL, what varchar(8) NOT NULL, leases int NOT NULL,
			PRIMARY KEY (at, connection, what))`,
		`CREATE FUNCTION audit_lease_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO audit_lease_statement (at, worker, connection, what, leases) VALUES (audit_now(), COALESCE(audit_worker(), ''), pg_backend_pid(),
				CASE WHEN OLD.term <> NEW.term THEN 'take' WHEN NEW.lock_until <= clock_timestamp() THEN 'release' ELSE 'keep' END, 1)
			ON CONFLICT (at, connection, what) DO UPDATE SET leases = audit_lease_statement.leases + 1;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER audit_lease_statement AFTER UPDATE ON shedlock_tab FOR EACH ROW WHEN (NEW.lock_name LIKE 'job-%') EXECUTE FUNCTION audit_lease_statement()`,
	},
	truncate:    "TRUNCATE TABLE async_job_tab RESTART IDENTITY",
	idsGoOn:     "SELECT setval(pg_get_serial_sequence('async_job_tab', 'id'), (SELECT MAX(id) FROM async_job_tab))",
	lockTable:   "BEGIN; LOCK TABLE async_job_tab IN ACCESS EXCLUSIVE MODE",
	unlockTable: "ROLLBACK",
	holdWrites:  "BEGIN; LOCK TABLE shedlock_tab, async_job_tab IN SHARE MODE",
	session:     "SELECT pid FROM pg_stat_activity WHERE client_port = ?",
	endSession:  "SELECT pg_terminate_backend(%d)",
	altering:    "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'ALTER%'",
	marking: "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' " +
		"AND query LIKE '%UPDATE async_job_tab%attempts = attempts + 1%'",
	deadlocks:      "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
	lastDeadlock:   func(*sql.DB) string { return "see the server's log" },
	snapshot:       []string{"START TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT COUNT(*) FROM async_job_tab"},
	history:        "SELECT COALESCE(MAX(age(backend_xmin)), 0) FROM pg_stat_activity WHERE datname = current_database()",
	applicationDSN: postgresDSN, // it stops root too
	readOnly:       []string{"ALTER SYSTEM SET default_transaction_read_only = %t", "SELECT %t, pg_reload_conf()"},
	readOnlyCode:   "25006",
	isDeadlock: func(err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && refused.Code == "40P01"
	},
	isReadOnly: func(err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && refused.Code == "25006"
	},
	statements: "SELECT 'transactions', xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()",
	stop:       syscall.SIGINT,
	discard:    syscall.SIGQUIT, // killed, it would leave memory behind that others may run out of

	wire: postgresWire,
	// A deadlock, a lock wait, a record that changed since its snapshot, a statement that took too long.
	refusals: []fate{
		refuse("40P01", "deadlock detected"),
		refuse("55P03", "canceling statement due to lock timeout"),
		refuse("40001", "could not serialize access due to concurrent update"),
		refuse("57014", "canceling statement due to statement timeout"),
	},
	refusalCodes: "40P01, 55P03, 40001, 57014",
}

func postgresDSN(address, database string) string {
	return "postgres://root@" + address + "/" + cmp.Or(database, "postgres") + "?sslmode=disable"
}

func postgresConnector(dsn string) (driver.Connector, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	return stdlib.GetConnector(*config), nil
}

func changedPostgres(dsn string, change func(*url.URL)) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	change(u)
	return u.String(), nil
}
