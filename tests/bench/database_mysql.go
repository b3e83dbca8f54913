package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

var (
	mariaDB = mysqlDialect("MariaDB", "PQ_TEST_MARIADB_DSN", "mariadb")
	mySQL   = mysqlDialect("MySQL", "PQ_TEST_MYSQL_DSN", "mysqld")
)

func mysqlDialect(name, variable, program string) dialect {
	return dialect{
		name: name, variable: variable, driver: "mysql",
		within:    withinMySQL,
		open:      func(dsn string, _ *atomic.Int64) (*sql.DB, error) { return sql.Open("mysql", dsn) },
		questions: "SHOW GLOBAL STATUS LIKE 'Questions'",
		version:   "SELECT VERSION()",
		pid: func(ctx context.Context, d *database) (int, error) {
			var file string
			if err := d.ask(ctx, "SELECT @@GLOBAL.pid_file", &file); err != nil {
				return 0, err
			}
			return pidIn(file, program)
		},
		snapshot:  []string{"START TRANSACTION WITH CONSISTENT SNAPSHOT"},
		byDue:     "FORCE INDEX (async_job_due)",
		byPrimary: "FORCE INDEX (PRIMARY)",
		// The optimizer takes a range alone for many rows, and a list of a thousand ids takes long to parse.
		idIn: func(ids []uint64) string {
			last := len(ids) - 1
			return fmt.Sprintf("(id IN (%d) OR id BETWEEN %d AND %d)", ids[last], ids[0], ids[max(0, last-1)])
		},
	}
}

func withinMySQL(dsn, database string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.DBName = database
	return config.FormatDSN(), nil
}
