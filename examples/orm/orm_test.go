// Package orm runs the programs of this folder, one for each ORM, and looks at what they leave.
package orm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/create-info/persistent-queue/examples/orm/internal/dbtest"
)

var orms = []string{"bun", "ent", "gorm", "sqlc", "sqlx", "xorm"}

const onPgx = "sqlcpgx" // and so on PostgreSQL alone

var programs string // the folder of what was built

// TestMain builds the programs, without the race detector: they are in the cache if the module was built.
func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) (exitCode int) {
	folder, err := os.MkdirTemp("", "orm-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	programs = folder
	said, err := exec.Command("go", "build", "-buildvcs=false", "-o", folder+string(filepath.Separator), "./...").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, said)
		return 1
	}
	return m.Run()
}

func TestAJobComesAndGoesWithTheTransactionOfItsORM(t *testing.T) {
	for _, orm := range append(orms, onPgx) {
		t.Run(orm, func(t *testing.T) {
			each := dbtest.Each
			if orm == onPgx {
				each = dbtest.PostgreSQL
			}
			each(t, func(t *testing.T, driver, dsn string) {
				run(t, orm, "-driver", driver, "-dsn", dsn)

				db := dbtest.Open(t, driver, dsn)
				var orders int
				var order, customer string
				err := db.QueryRow("SELECT count(*), min(id), min(customer) FROM orders").Scan(&orders, &order, &customer)
				if err != nil {
					t.Fatal(err)
				}
				if orders != 1 || customer != "Ann" {
					t.Errorf("%d orders, the first is %s's; only Ann's was paid", orders, customer)
				}
				var jobs, status int
				var params string
				err = db.QueryRow("SELECT count(*), min(params), min(job_status) FROM async_job_tab").Scan(&jobs, &params, &status)
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprintf(`{"order":%q}`, order); jobs != 1 || params != want || status != 1 {
					t.Errorf("%d jobs, the first is %s in status %d; wanted one, %s in status 1", jobs, params, status, want)
				}
			})
		})
	}
}

func TestWithoutFlagsAProgramLeavesNothing(t *testing.T) {
	for _, orm := range orms {
		t.Run(orm, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			run(t, orm)
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary folder: %v, %v", left, err)
			}
		})
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, filepath.Join(programs, program), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
