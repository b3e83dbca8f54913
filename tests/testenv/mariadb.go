package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

var mariaDB = database{
	name:           "MariaDB",
	variable:       "PQ_TEST_MARIADB_DSN",
	recipeVariable: "PQ_TEST_MARIADB_SERVER",
	dsn:            mysqlDSN,
	image:          "mariadb:10.11",
	inDocker:       containerRecipe{"3306/tcp", map[string]string{"MARIADB_ROOT_PASSWORD": dockerSecret}, []string{maxConnections}, mysqlInDocker},
	remedy:         "install MariaDB (Debian, Ubuntu: apt-get install mariadb-server; macOS: brew install mariadb)",

	says:       askSQL(openMySQL),
	programs:   []string{"mariadbd", "mysqld"},
	commands:   mariadbCommands,
	stopSignal: syscall.SIGTERM,
	fromApt:    installMariaDB,
}

// mariadbCommands: the server cannot make its data directory; a script that comes with it does the work.
func mariadbCommands(i installation) (initData, serve []string, err error) {
	scripts := programs([]string{"mariadb-install-db", "mysql_install_db"}, nil)
	if len(scripts) == 0 {
		return nil, nil, errors.New("no mariadb-install-db, which belongs to the server")
	}
	// A server that starts removes all temporary tables from its folder for them. Others are at work in the usual one,
	// among them those by which the script makes a data directory.
	const ownTemporary = "--tmpdir={data}"
	// A root without a password, who may come by TCP.
	initData = append([]string{scripts[0], "--no-defaults", "--datadir={data}", "--auth-root-authentication-method=normal",
		"--skip-test-db", ownTemporary}, mysqlAsRoot()...)
	return initData, slices.Concat(mysqlServer(i), mysqlServing, []string{ownTemporary}), nil
}

// installMariaDB installs it into the machine, where every later run finds it. It takes the core packages, which hold
// the server and nothing that would start it with the machine; the clients' has a program that the server's script for
// the data directory calls.
func installMariaDB(ctx context.Context, d database) (installation, error) {
	if os.Geteuid() != 0 {
		return installation{}, notHere{errors.New("only root can install")}
	}
	say("MariaDB: installing it with apt-get")
	var system apt
	// A third party's broken source fails the update and matters only if the installation fails too.
	updateErr := system.update(ctx)
	var packages []string
	for _, prefix := range []string{"mariadb-server-core", "mariadb-client-core"} {
		name, err := system.newest(ctx, prefix)
		if err != nil {
			return installation{}, errors.Join(err, updateErr)
		}
		packages = append(packages, name)
	}
	// --no-remove: MySQL's packages conflict with MariaDB's, and the machine may need the ones it has.
	if err := system.install(ctx, "MariaDB", append([]string{"--no-remove"}, packages...)...); err != nil {
		return installation{}, errors.Join(err, updateErr)
	}
	i, err := findInstallation(ctx, d)
	i.how = "private server, installed with apt-get install " + strings.Join(packages, " ")
	return i, err
}
