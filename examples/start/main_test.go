package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestTheProgramRunsItsJobAndEndsWithCtrlC(t *testing.T) {
	for _, variable := range []string{"PQ_TEST_MARIADB_DSN", "PQ_TEST_MYSQL_DSN"} {
		name, _, _ := strings.Cut(strings.TrimPrefix(variable, "PQ_TEST_"), "_")
		t.Run(map[string]string{"MARIADB": "MariaDB", "MYSQL": "MySQL"}[name], func(t *testing.T) {
			dsn := os.Getenv(variable)
			if dsn == "" {
				t.Skipf("left out: %s is not set; \"make test\" provides the servers", variable)
			}
			program := filepath.Join(t.TempDir(), "start")
			if said, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			run := exec.CommandContext(t.Context(), program)
			run.Env = append(os.Environ(), "DSN="+freshDatabase(t, dsn))
			stderr, err := run.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for lines, ran := bufio.NewScanner(stderr), false; lines.Scan(); {
				fmt.Fprintln(&said, lines.Text())
				if !ran && strings.HasSuffix(lines.Text(), "run 1: mail to anna@example.com: Order 4711 is paid") {
					ran = true
					run.Process.Signal(os.Interrupt)
				}
			}
			if err := run.Wait(); err != nil || !strings.Contains(said.String(), "Order 4711") {
				t.Errorf("%v\n%s", err, said.String())
			}
		})
	}
}

// freshDatabase makes a database of its own on the server, and drops it after the test.
func freshDatabase(t *testing.T, dsn string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("pq_start_%d", os.Getpid())
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DBName = name
	return config.FormatDSN()
}
