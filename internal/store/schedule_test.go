package store

import (
	"errors"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/create-info/persistent-queue/internal/conn"
)

// On MySQL and MariaDB, looking and adding are two statements.
func TestAScheduledJobIsAddedSoonAfterTheLookOrNotAtAll(t *testing.T) {
	duplicate := errors.New("Error 1062 (23000): Duplicate entry 'cron-60-7' for key 'async_job_key'")
	there := func(m sqlmock.Sqlmock) {
		m.ExpectQuery("SELECT id, .* job_key = ").WillReturnRows(sqlmock.NewRows([]string{"id", "pending"}).AddRow(1, 1))
	}
	for name, c := range map[string]struct {
		added  int64
		err    error
		after  func(sqlmock.Sqlmock)
		want   bool
		failed bool
	}{
		"in time":             {added: 1, want: true},
		"too late":            {added: 0, failed: true},
		"somebody was faster": {err: duplicate, after: there},
		"something else is in the way": {err: duplicate, failed: true, after: func(m sqlmock.Sqlmock) {
			m.ExpectQuery("SELECT id, ").WillReturnRows(sqlmock.NewRows([]string{"id", "pending"}))
		}},
		"whether it is there is not known": {err: duplicate, failed: true, after: func(m sqlmock.Sqlmock) { m.ExpectQuery("SELECT id, ").WillReturnError(errors.New("gone away")) }},
	} {
		t.Run(name, func(t *testing.T) {
			db, mock, err := sqlmock.New()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			mock.ExpectQuery("AS now FROM async_job_type_tab WHERE job_type = 7 AND cron_at < 60 AND paused_at IS NULL").WillReturnRows(sqlmock.NewRows([]string{"now"}).AddRow("1700000000250000"))
			insert := mock.ExpectExec(`INSERT INTO async_job_tab .* FROM DUAL WHERE .* < 1700000001250000`)
			if c.err != nil {
				insert.WillReturnError(c.err)
			} else {
				insert.WillReturnResult(sqlmock.NewResult(1, c.added))
			}
			if c.after != nil {
				c.after(mock)
			}
			added, err := (&Store{conn.On(db, conn.MySQL, "")}).AddScheduled(t.Context(), 7, 60, "cron-60", "{}")
			if added != c.want || (err != nil) != c.failed {
				t.Errorf("added %v, %v", added, err)
			}
			if err := mock.ExpectationsWereMet(); err != nil {
				t.Error(err)
			}
		})
	}
}
