package persistent_queue_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The database suite is a module of its own (tests), so that no driver reaches the go.mod of a user. A plain
// "go test ./..." runs its short tests on SQLite from here, and -v tells what that left out; "make check" leaves it to
// "make test", which runs all of it on every database.
func TestTheDatabaseSuiteOnSQLite(t *testing.T) {
	if os.Getenv("PQ_TEST_ALL") != "" {
		t.Skip("left out here: this run has the suite itself, on every database")
	}
	if testing.Short() {
		t.Skip("left out: it takes two minutes; \"make test\" runs the suite on every database, SQLite among them")
	}
	if workspace, err := exec.Command("go", "env", "GOWORK").Output(); err != nil || !strings.HasSuffix(strings.TrimSpace(string(workspace)), "go.work") {
		t.Skip("left out: the suite needs the workspace of the repository (go.work)")
	}
	suite := exec.Command("go", "test", "-short", "-count=1", "-parallel", "8", "-v", "./tests/...")
	suite.Env = append(os.Environ(), "PQ_TEST_MARIADB_DSN=", "PQ_TEST_MYSQL_DSN=", "PQ_TEST_POSTGRES_DSN=")
	output, err := suite.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	leftOut := map[string]int{}
	for line := range strings.Lines(string(output)) {
		if _, reason, ok := strings.Cut(strings.TrimSpace(line), "left out: "); ok {
			leftOut[reason]++
		} else if strings.HasPrefix(line, "ok") {
			t.Log(strings.TrimSpace(line))
		}
	}
	for reason, tests := range leftOut {
		t.Logf("%d tests left out: %s", tests, reason)
	}
}
