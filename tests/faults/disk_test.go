package faults

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// diskOfMySQL is why PostgreSQL keeps its space: what is to meet the end is a file of InnoDB.
const diskOfMySQL = "the tests fill up a file of InnoDB"

// mayFillUp are the options of a server whose disk is to be full at a time. They keep the logs small: what must be
// written would otherwise meet the limit too, and the server would die of it.
var mayFillUp = []string{"--skip-log-bin", "--loose-innodb-log-file-size=16M"}

const (
	ballastType   = -1       // the job type of rows that only take space; they are final
	fullTableSize = 48 << 20 // more than any other file of the server needs
	errTableFull  = 1114     // of the server, in place of a row
)

// fillDisk makes a database's job table meet the end of the disk: its file cannot grow any more, and has no free page. An
// INSERT into it fails with error 1114 once the pages are full that its row belongs in, those of each index among them, and
// so does an UPDATE that needs a page for an index; an UPDATE in place goes through, and so do writes to other tables, as on
// a disk that has some blocks left.
func (s *server) fillDisk(database string) {
	s.Helper()
	if !slices.Contains(s.command, mayFillUp[0]) {
		s.Fatal("a server whose disk is to be full needs the options mayFillUp")
	}
	db := dbtest.Open(s.T, "mysql", s.dsn(database))
	file := filepath.Join(s.data(), database, "async_job_tab.ibd")
	for fileSize(s.T, file) < fullTableSize {
		if err := addBallast(db, 500, 4000); err != nil {
			s.Fatal(err)
		}
	}
	err := limitFiles(s.process, uint64(fileSize(s.T, file)))
	if errors.Is(err, errors.ErrUnsupported) {
		s.Skip("left out: only Linux limits the files of a process that runs")
	}
	if err != nil {
		s.Fatal(err)
	}
	for _, rest := range []struct{ rows, size int }{{100, 4000}, {1, 4000}, {1, 0}} {
		for err = nil; err == nil; err = addBallast(db, rest.rows, rest.size) {
		}
		if refusal(err) != errTableFull {
			s.Fatal(err)
		}
	}
}

// freeDisk gives the server its space back.
func (s *server) freeDisk(database string) {
	s.Helper()
	if err := limitFiles(s.process, noLimit); err != nil {
		s.Fatal(err)
	}
	db := dbtest.Open(s.T, "mysql", s.dsn(database))
	if _, err := db.Exec("DELETE FROM async_job_tab WHERE job_type = ?", ballastType); err != nil {
		s.Fatal(err)
	}
}

func addBallast(db *sql.DB, rows, size int) error {
	_, err := db.Exec("INSERT INTO async_job_tab (params, job_type, job_status, create_time, update_time) VALUES " +
		strings.TrimSuffix(strings.Repeat(fmt.Sprintf("(REPEAT('-', %d), %d, 1, UNIX_TIMESTAMP(), UNIX_TIMESTAMP()),", size, ballastType), rows), ","))
	return err
}

func fileSize(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestAServerMayRunOutOfSpace(t *testing.T) {
	t.Parallel()
	eachOwnMySQL(t, diskOfMySQL, func(s *server) {
		if _, err := dbtest.Open(s.T, "mysql", s.dsn("")).Exec("CREATE DATABASE jobs"); err != nil {
			s.Fatal(err)
		}
		db := dbtest.Open(s.T, "mysql", s.dsn("jobs"))
		if err := schema.Migrate(s.Context(), db); err != nil {
			s.Fatal(err)
		}
		expect := func(want uint16, statement string) {
			s.Helper()
			_, err := db.Exec(statement)
			if got := refusal(err); got != want || err != nil && got == 0 {
				s.Errorf("%.60s: %v, want error %d", statement, err, want)
			}
		}
		const rows = 2000
		const insert = "INSERT INTO async_job_tab (job_type, job_status, create_time, update_time) VALUES (1, 0, 1, 1)"
		const inPlace = "UPDATE async_job_tab SET term = term + 1 WHERE job_type = 1 LIMIT 1000"
		const moving = "UPDATE async_job_tab SET job_status = 1 WHERE job_type = 1 AND job_status = 0 LIMIT 1000"
		const elsewhere = "INSERT INTO async_job_log_tab VALUES (1, 1, 1, '', '', 0, 0, '')"
		expect(0, insert+strings.Repeat(", (1, 0, 1, 1)", rows-1))
		accepted := rows
		meetTheEnd := func() {
			s.Helper()
			const perPage = 1000
			for range perPage {
				if _, err := db.Exec(insert); err != nil {
					if refusal(err) != errTableFull {
						s.Error(err)
					}
					return
				}
				accepted++
			}
			s.Errorf("the full table took %d rows", perPage)
		}

		s.fillDisk("jobs")
		meetTheEnd()
		expect(0, inPlace)
		expect(errTableFull, moving)
		expect(0, elsewhere)
		s.freeDisk("jobs")
		expect(0, insert)
		accepted++
		expect(0, moving)
		s.fillDisk("jobs")
		meetTheEnd()

		s.kill()
		s.start()
		s.freeDisk("jobs")
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM async_job_tab").Scan(&n); err != nil || n != accepted {
			s.Errorf("%d rows, %v; want what was accepted, %d", n, err, accepted)
		}
	}, mayFillUp...)
}
