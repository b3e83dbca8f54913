package main

import (
	"database/sql"
	"os"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// This is what MariaDB has inherited from MySQL.

const (
	mysqlDSN      = "root@tcp(127.0.0.1:{port})/"
	mysqlInDocker = "root:" + dockerSecret + "@tcp({address})/"
)

func openMySQL(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// mysqlServer has what the server's first start and its later ones share.
func mysqlServer(i installation) []string {
	// The servers take --no-defaults as the first option only.
	return slices.Concat(i.command, []string{"--no-defaults", "--datadir={data}"}, mysqlAsRoot(), i.options)
}

var mysqlServing = []string{"--bind-address=127.0.0.1", "--port={port}", "--socket={socket}", "--pid-file={pid}", maxConnections}

// mysqlAsRoot is what a server asks of one who starts it as root. It stays root: changing the user would undo
// setEndWithParent.
func mysqlAsRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}
