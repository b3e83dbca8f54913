package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlDialect is that of MySQL and MariaDB.
var mysqlDialect = dialect{
	driver:    "mysql",
	lingers:   10 * time.Second, // it gives it up at once; the machine may be slow
	connector: mysqlConnector,
	dsn:       func(address, database string) string { return "root@tcp(" + address + ")/" + database },
	ofWorker: func(dsn, name string) (string, error) {
		return changedMySQL(dsn, func(c *mysql.Config) {
			if c.Params == nil {
				c.Params = map[string]string{}
			}
			c.Params["@pq_worker"] = "'" + name + "'"
		})
	},
	through: func(dsn, address string) (string, error) {
		return changedMySQL(dsn, func(c *mysql.Config) { c.Addr = address })
	},
	address: func(dsn string) (string, error) {
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			return "", err
		}
		return c.Addr, nil
	},
	insert: func(ctx context.Context, tx *sql.Tx, statement string, n int) ([]uint64, error) {
		result, err := tx.ExecContext(ctx, statement)
		if err != nil {
			return nil, err
		}
		first, err := result.LastInsertId()
		ids := make([]uint64, n) // those of one INSERT follow each other
		for i := range ids {
			ids[i] = uint64(first) + uint64(i)
		}
		return ids, err
	},

	version: "SELECT VERSION()",
	audit: []string{
		`CREATE TABLE audit_job (
			seq bigint AUTO_INCREMENT PRIMARY KEY, at bigint NOT NULL, worker varchar(64) NULL, job bigint unsigned NOT NULL, job_type int NOT NULL,
			old_status int NULL, new_status int NULL, old_term bigint NOT NULL, new_term bigint NOT NULL)`,
		`CREATE TABLE audit_lease (
			seq bigint AUTO_INCREMENT PRIMARY KEY, at bigint NOT NULL, worker varchar(64) NULL, name varchar(64) NOT NULL, term bigint NOT NULL)`,
		`CREATE TRIGGER audit_job_update AFTER UPDATE ON async_job_tab FOR EACH ROW
			IF NOT (OLD.job_status <=> NEW.job_status) OR OLD.term <> NEW.term THEN
				INSERT INTO audit_job (at, worker, job, job_type, old_status, new_status, old_term, new_term)
				VALUES (` + microseconds + `, @pq_worker, NEW.id, NEW.job_type, OLD.job_status, NEW.job_status, OLD.term, NEW.term);
			END IF`,
		`CREATE TRIGGER audit_lease_update AFTER UPDATE ON shedlock_tab FOR EACH ROW
			IF OLD.term <> NEW.term AND NEW.locked_by <> '' THEN
				INSERT INTO audit_lease (at, worker, name, term) VALUES (` + microseconds + `, @pq_worker, NEW.lock_name, NEW.term);
			END IF`,
	},
	auditNoJobs: "DROP TRIGGER audit_job_update",
	auditLeaseStatements: []string{
		`CREATE TABLE audit_lease_statement (
			at bigint NOT NULL, worker varchar(64) NOT NULL, connection bigint unsigned NOT NULL, what varchar(8) NOT NULL, leases int NOT NULL,
			PRIMARY KEY (at, connection, what))`,
		`CREATE TRIGGER audit_lease_statement AFTER UPDATE ON shedlock_tab FOR EACH ROW
			IF NEW.lock_name LIKE 'job-%' THEN
				INSERT INTO audit_lease_statement (at, worker, connection, what, leases) VALUES (` + microseconds + `, COALESCE(@pq_worker, ''), CONNECTION_ID(),
					CASE WHEN OLD.term <> NEW.term THEN 'take' WHEN UNIX_TIMESTAMP(NEW.lock_until) <= UNIX_TIMESTAMP() THEN 'release' ELSE 'keep' END, 1)
				ON DUPLICATE KEY UPDATE leases = leases + 1;
			END IF`,
	},
	truncate:    "TRUNCATE TABLE async_job_tab",
	byPrimary:   "FORCE INDEX (PRIMARY)",
	lockTable:   "LOCK TABLES async_job_tab WRITE",
	unlockTable: "UNLOCK TABLES",
	holdWrites:  "FLUSH TABLES WITH READ LOCK",
	session:     "SELECT id FROM information_schema.processlist WHERE host LIKE CONCAT('%:', ?)",
	endSession:  "KILL %d",
	altering:    "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock' AND info LIKE 'ALTER%'",
	marking: "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'Waiting for table metadata lock' " +
		"AND info LIKE '%UPDATE async_job_tab%attempts = attempts + 1%'",
	deadlocks: "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'",
	lastDeadlock: func(db *sql.DB) string {
		var kind, name, status string
		if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
			return err.Error()
		}
		_, status, _ = strings.Cut(status, "LATEST DETECTED DEADLOCK")
		status, _, _ = strings.Cut(status, "\nTRANSACTIONS\n")
		return status
	},
	snapshot: []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"},
	history:  "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'",
	application: []string{
		"CREATE USER application@'%' IDENTIFIED BY 'application'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON trial.* TO application@'%'",
	},
	applicationDSN: func(address, database string) string {
		return "application:application@tcp(" + address + ")/" + database
	},
	readOnly:     []string{"SET GLOBAL read_only = %t"},
	readOnlyCode: "1290",
	isDeadlock:   func(err error) bool { return refusal(err) == errDeadlock },
	isReadOnly:   func(err error) bool { return refusal(err) == 1290 },
	statements:   "SHOW GLOBAL STATUS LIKE 'Questions'",
	stop:         syscall.SIGTERM,
	discard:      syscall.SIGKILL,

	wire: mysqlWire,
	// A deadlock, a lock wait, a changed record under a snapshot, a Galera node that is not ready.
	refusals: []fate{
		answer(1213, "40001", "Deadlock found when trying to get lock; try restarting transaction"),
		answer(1205, "HY000", "Lock wait timeout exceeded; try restarting transaction"),
		answer(1020, "HY000", "Record has changed since last read in table 'async_job_tab'"),
		answer(1047, "08S01", "WSREP has not yet prepared node for application use"),
	},
	refusalCodes: "1213, 1205, 1020, 1047",
}

// tidbDialect has the tables of the audit, and no triggers.
var tidbDialect = func() dialect {
	d := mysqlDialect
	d.unaudited, d.audit = true, d.audit[:2]
	return d
}()

const microseconds = "UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))"

// mysqlConnector says nothing of connections that end.
func mysqlConnector(dsn string) (driver.Connector, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	return mysql.NewConnector(config)
}

func changedMySQL(dsn string, change func(*mysql.Config)) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	change(config)
	return config.FormatDSN(), nil
}

// refusal is the number of the error with which the server refused a statement, 0 if it did not.
func refusal(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}
