package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestADayAtTheShell(t *testing.T) {
	sh, _ := newShell(t)
	sh.want("job list", exitOutdated, "pqueue schema migrate")
	sh.want("schema check", exitOutdated, "CREATE TABLE", "pqueue schema migrate")
	sh.want("schema migrate", exitDone, "up to date")
	sh.want("schema check", exitDone, "up to date")

	if out := sh.want(`job add 7 {"order":47} --key order-47 --after 1h --meta tenant=a`, exitDone); out != "1\n" {
		t.Fatalf("the id is %q", out)
	}
	sh.want(`job add 7 {"order":48} --key order-48 --unique pending --priority high`, exitDone, "2")
	sh.want(`job add 7 {"order":49} --key order-48 --unique pending`, exitDone, "job 2 has this key; none was added")
	sh.want("job list", exitDone, "order-47", "order-48", "queued")
	sh.want("job list type:7 key:order-47 -o id", exitDone, "1\n")
	sh.want("job list state:scheduled -o id", exitDone, "1\n")
	sh.want("job list state:queued -o csv", exitDone, "id,type,status,", ",state\n", "2,7,init,", ",queued\n")
	sh.want("job get 1 -o json", exitDone, `"state": "scheduled"`, `"status": "init"`)
	sh.want("job list state:done", exitUsage, "scheduled, queued, running")
	sh.want("job cancel state:queued -y", exitUsage, "status:")
	sh.want("job get 1", exitDone, "order-47", "meta tenant", `{"order":47}`)
	sh.want("job explain 1", exitDone, "job 1 of type 7: scheduled", "for a later time", "pqueue job run-now 1", "No instance has ever run job type 7.", "pqueue host list")
	sh.want("job explain 4711", exitNothing, "There is no such job")
	sh.want("type get 7", exitNothing, "type 7 is not known here")
	sh.want("type pause 7", exitDone, "type 7 is paused")
	sh.want("type get 7", exitDone, "state              paused", "paused since")
	sh.want("type list", exitDone, "paused")
	sh.want("type pause 7 --for 2h", exitDone, "type 7 is paused until 2")
	sh.want("type get 7", exitDone, "paused until       2")
	sh.want("type pause 7", exitDone, "type 7 is paused\n")
	sh.want("type pause 7 --for 1h --why repairs --as mary", exitDone, "type 7 is paused until 2")
	sh.want("type get 7", exitDone, "paused by          mary", "because            repairs")
	sh.want("type get 7 -o json", exitDone, `"paused_by": "mary"`, `"paused_why": "repairs"`)
	sh.want("job explain 1", exitDone, "Job type 7 is paused by mary (repairs).", "until 2")
	sh.want("type pause 7 --until 2099-01-01", exitError, "more than 365 days away")
	sh.want("type pause 7 --until +1d", exitDone, "type 7 is paused until 2")
	sh.want("type list -o json", exitDone, `"paused_until": "2`)
	sh.want("type resume 7", exitDone)
	sh.want("type get 7", exitDone, "nobody runs it")
	sh.want("job set-params 1 {}", exitDone, `{"order":47}`)
	sh.want("job reschedule +2h 1", exitDone, "rescheduled 1 job")
	sh.want("job set-priority urgent type:7 key:order-47", exitDone, "changed 1 job")
	sh.want("job run-now 1", exitDone, "made due 1 job")
	sh.want("job cancel type:7 --dry-run", exitDone, "would cancel 2 jobs", "order-47")
	sh.want("job cancel type:7", exitRefused, "cancel 2 jobs?", "--yes")
	sh.want("job cancel type:7 --limit 1", exitRefused, "2 jobs match, and --limit is 1")
	sh.want("job cancel 1 2 --limit 1", exitRefused, "2 jobs are named, and --limit is 1")
	sh.want("job cancel 1", exitDone, "cancelled 1 job")
	sh.want("job cancel 1", exitNothing, "job 1 is cancelled since", "nothing to cancel")
	sh.want("job set-params 1 {}", exitNothing, "job 1 is cancelled since")
	sh.want(`job set-params 1 --retry {"order":50}`, exitDone, "{}")
	sh.want("job get 1", exitDone, "queued", `{"order":50}`)
	sh.want("job set-params 1 --retry {}", exitNothing)
	sh.want("job cancel 1", exitDone, "cancelled 1 job")
	sh.want("job explain 1", exitDone, "It is cancelled", "pqueue job retry 1")
	sh.want("job explain 1 -o json", exitDone, `"kind": "final"`, `"perhaps": []`)
	sh.want("job explain 1 -o csv", exitDone, "final,")
	sh.want("job cancel type:7 -y", exitDone, "cancelled 1 job")
	sh.want("job cancel 1 2", exitNothing, "cancelled 0 of 2 jobs")
	sh.want("job retry type:7", exitNothing, "no job matches")
	sh.want("job retry type:7 status:cancelled -y", exitDone, "retried 2 jobs")
	sh.want("job cancel 1", exitDone)
	sh.want("job cancel 1 2 3", exitPartly, "cancelled 1 of 3 jobs")
	sh.want("keep run 2099-01-01 --dry-run", exitDone, "would delete", "the first", "ID")
	sh.want("keep run 900d --dry-run", exitNothing, "no job matches")
	sh.want("keep run 0s -y", exitDone, "deleted")
	sh.want("job get 4711", exitNothing, "no such job")
}

func TestASignalAtTheShell(t *testing.T) {
	sh, db := newShell(t)
	sh.want("schema migrate", exitDone)
	sh.want("job signal 1 approval", exitNothing, "no such job")
	sh.want("job add 7 {} --after 1h", exitDone, "1")
	sh.want("job signal 1 approval yes", exitUsage, "no JSON", `'"yes"'`)
	sh.want(`job signal 1 approval {"by":"ann"} --as ann --why she-said-yes`, exitDone, `job 1 has the signal "approval"`)
	sh.want(`job signal 1 approval {"by":"bob"}`, exitNothing, "the first one counts")
	sh.want("job get 1", exitDone, "approval", `{"by":"ann"}`)
	sh.want("job signal 1 paid", exitDone, `"paid"`)
	sh.want("job get 1 -o json", exitDone, `"value": null`, `"signal": true`)
	if _, err := db.Exec("UPDATE async_job_step_tab SET ended_at = 5, until_at = 5, step_value = NULL WHERE name = 'paid'"); err != nil {
		t.Fatal(err)
	}
	sh.want("job signal 1 paid", exitNothing, "its time is over")
	sh.want("audit list", exitDone, "ann", "signal", "she-said-yes")
	sh.want("job cancel 1", exitDone)
	sh.want("job signal 1 another", exitNothing, "job 1 is cancelled since", "nothing to signal")
	sh.want(`job add 7 "pq:codec:key-1:QUJD" --after 1h`, exitDone, "2")
	sh.want("job signal 2 approval", exitRefused, `encrypted, 3 bytes, key "key-1"`)
}

func TestParametersThatAreEncryptedAreShownAsThatAndNobodyWritesOverThem(t *testing.T) {
	sh, _ := newShell(t)
	sh.want("schema migrate", exitDone)
	sh.want(`job add 7 "pq:codec:key-1:QUJD" --after 1h`, exitDone, "1")
	sh.want("job set-params 1 {}", exitRefused, `encrypted, 3 bytes, key "key-1"`)
	sh.want("job get 1", exitDone, `encrypted, 3 bytes, key "key-1"`)
	sh.want("job list", exitDone, "encrypted, 3 bytes")
	sh.want("job cancel 1", exitDone)
	sh.want("job set-params 1 --retry {}", exitRefused, `encrypted, 3 bytes, key "key-1"`)
	sh.want("job get 1 -o json", exitDone, "pq:codec:key-1:QUJD")
}

func TestWhatRunsHaveLoggedAtTheShell(t *testing.T) {
	sh, db := newShell(t)
	sh.want("schema migrate", exitDone)
	sh.want("job log 1", exitNothing, "no such job")
	sh.want("job add 7 {}", exitDone, "1")
	sh.want("job log 1", exitDone, "nothing is kept")
	for attempt, value := range []string{`"a\nb \u001b[31m"`, `"pq:codec:key-1:QUJD"`} {
		_, err := db.Exec("INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, step_value) "+
			"SELECT id, 16, ?, create_time, ?, 9, 1764460800000 + ?, ? FROM async_job_tab", fmt.Sprint("log ", attempt), attempt+1, attempt, value)
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := sh.want("job log 1", exitDone, "run 1, ended 2025-11-30 00:00:00:\na\nb \\x1b[31m\n\nrun 2, ended", `encrypted, 3 bytes, key "key-1"`); strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	if out := sh.want("job log 1 --run 2 -o json", exitDone, `"attempt": 2`, "pq:codec:key-1:QUJD"); strings.Contains(out, `"attempt": 1`) {
		t.Error(out)
	}
	sh.want("job get 1", exitDone)
}

func TestSchedulesThatAreRowsAtTheShell(t *testing.T) {
	sh, _ := newShell(t)
	sh.want("schema migrate", exitDone, "up to date")
	sh.want("schedule next nightly", exitNothing, "there is no schedule nightly")
	sh.want("schedule run nightly", exitNothing, "no such schedule")
	sh.want("schedule put nightly 30 7", exitError, "five")
	sh.want(`schedule put t1/hourly @hourly 7 {"order":47} --no-overlap --catch-up 0`, exitDone, "schedule t1/hourly is written")
	sh.want("schedule put t2/daily @daily 8", exitDone)
	sh.want("schedule list", exitDone, "NAME", "t1/hourly", "t2/daily", "@daily", "runs")
	sh.want("schedule list t2/ -o id", exitDone, "t2/daily\n")
	sh.want("schedule list t1/ -o json", exitDone, `"no_overlap": true`, `"catch_up": 0`, `"params": "{\"order\":47}"`, `"last_job": null`)
	sh.want("schedule next t1/hourly --times 2", exitDone, "TIME", ":00:00")
	sh.want("schedule pause t1/hourly", exitDone, "is paused")
	sh.want("schedule pause t1/hourly", exitNothing, "was paused already")
	sh.want("schedule list", exitDone, "paused")
	sh.want("schedule resume t1/hourly", exitDone, "goes on")
	sh.want("schedule run t1/hourly", exitDone, "1\n")
	sh.want("job get 1", exitDone, "cron-t1/hourly@now", `{"order":47}`)
	sh.want("schedule backfill t1/hourly ..2h", exitUsage, "say from when on")
	sh.want("schedule backfill t1/hourly 5h.. --every 1m", exitDone, "added 5 jobs of schedule t1/hourly")
	sh.want("schedule backfill t1/hourly 5h..", exitDone, "added 0 jobs")
	sh.want("audit list", exitDone, "put schedule", "backfill schedule", "run schedule")
	sh.want("schedule delete t1/hourly", exitDone, "is deleted")
	sh.want("schedule delete t1/hourly", exitNothing, "there is no schedule")
}

func TestWhatIsWrittenWrongIsSaidBeforeAnythingIsAsked(t *testing.T) {
	sh := &shell{T: t, dsn: "mysql://nobody@127.0.0.1:1/none"}
	for line, part := range map[string]string{
		"job list typ:7":                                "there are queue, state, status, key",
		"job list status:done":                          `no status "done"`,
		"job list type:7 type:8":                        "type:a,b",
		"job list created:2h":                           "write 2h.. for what came after it",
		"job list since:yesterday":                      `"yesterday" is no moment`,
		"job list updated:2h.. since:2h":                "use one of them",
		"job list due:..1970-01-01T00:00:00Z":           "leave it out for no limit",
		"job list since:0001-01-01T00:00:00Z":           "lies in the year 1,",
		"job delete updated:..65535d --yes":             `updated:..65535d: "65535d" lies in the year`,
		"job list no route":                             "two words alone",
		"job list error:no --oldest":                    "from the newest job down",
		"job retry error:refused":                       "pqueue job list alone",
		"job cancel key:order-*":                        "cannot choose jobs to change",
		"job list --output xml":                         "table, json, jsonl, csv or id",
		"job list --limt 7":                             "unknown flag: --limt",
		"job cancel":                                    "say which jobs",
		"job cancel 7 eight":                            `"eight" is no id`,
		"job reschedule 2h 7":                           "write +2h",
		"job set-priority highest 7":                    "low, normal, high and urgent",
		"job add 7 {} --unique always":                  "pending or forever",
		"job get":                                       "accepts 1 arg(s)",
		"job get seven":                                 `"seven" is no id`,
		"jobs":                                          "unknown command",
		"type pause":                                    "accepts 1 arg(s)",
		"type pause 7 --for soon":                       "write 30m, 2h or 7d",
		"type pause 7 --for -2h":                        "write 30m, 2h or 7d",
		"type pause 7 --until 2020-01-01":               "has passed",
		"type pause 7 --until 2h":                       "write +2h",
		"type pause 7 --for 1h --until +2h":             "not both",
		"type set 7":                                    "--workers, --rate or both",
		"type set 7 --workers 0":                        "pqueue type pause",
		"type set 7 --rate -1":                          "--rate -1: it is to be 0 or more",
		"type set 7 --rate 2000000":                     "use 0.0001 to 1000000",
		"type set-shards 7 two":                         "no number of shards",
		"keep run tomorrow":                             "is no moment",
		"schema print oracle":                           "oracle",
		"top --every 1ms":                               "100ms or more",
		"serve --listen :8080":                          "set a password with --password-file",
		"serve --listen 0.0.0.0:0":                      "listen on 127.0.0.1",
		"serve --password-file /dev/null":               "is empty",
		"serve --password-file testdata/short-password": "needs 12 at least",
		"job list --driver oracle":                      "mysql, pgx or sqlite",
		"job list type:7 status:failed,finished":        "there are init",
	} {
		if code, _, said := sh.run(strings.Fields(line)...); code != exitUsage || !strings.Contains(said, part) {
			t.Errorf("pqueue %s: exit code %d, %q; want %d, and %q", line, code, said, exitUsage, part)
		}
	}
}

func TestADatabaseThatIsAway(t *testing.T) {
	for dsn, says := range map[string]string{
		"mysql://app:secret@127.0.0.1:1/shop":    "the database does not answer",
		"postgres://app:secret@127.0.0.1:1/shop": "the database does not answer",
		"sqlite:///nowhere/jobs.db":              "there is no file /nowhere/jobs.db",
	} {
		sh := &shell{T: t, dsn: dsn}
		code, _, said := sh.run("job", "list", "--timeout", "5s")
		if code != exitUnreachable || strings.Contains(said, "secret") {
			t.Errorf("%s: exit code %d, %s", dsn, code, said)
		}
		if code, out, _ := sh.run("check", "--nagios"); code != critical || !strings.HasPrefix(out, "PQUEUE CRITICAL - "+says) {
			t.Errorf("%s: exit code %d, %s", dsn, code, out)
		}
	}
}

func TestNoDatabaseIsNamed(t *testing.T) {
	t.Setenv("PQUEUE_DSN", "")
	sh := &shell{T: t}
	sh.want("job list", exitUsage, "set PQUEUE_DSN")
	t.Setenv("PQUEUE_DSN_FILE", "/nowhere")
	sh.want("job list", exitUsage, "PQUEUE_DSN_FILE")
}

func TestADatabaseIsNamedByAFileOfItsOwn(t *testing.T) {
	sh, _, _ := newTables(t)
	sh.want("job add 7 {}", exitDone)
	here := filepath.Join(t.TempDir(), "here")
	if err := os.WriteFile(here, []byte(sh.dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dsn := sh.dsn
	sh.dsn = ""
	t.Setenv("PQUEUE_DSN", "")
	t.Setenv("PQUEUE_DSN_FILE", here)
	sh.want("job list -o id", exitDone, "1")
	t.Setenv("PQUEUE_DSN_FILE", "/nowhere")
	sh.want("job list -o id --dsn-file "+here, exitDone, "1")
	t.Setenv("PQUEUE_DSN", dsn)
	sh.want("job list -o id", exitDone, "1")
	t.Setenv("PQUEUE_DSN", "sqlite:///no/such/file")
	sh.want("job list -o id --dsn-file "+here, exitDone, "1")
	sh.want("job list -o id --dsn-file /nowhere --dsn "+dsn, exitDone, "1")
}

func TestURLsAreTheDriversDSNs(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://app:a%40b%2F@db.example/shop":        "mysql app:a@b/@tcp(db.example:3306)/shop?interpolateParams=true",
		"mysql://app@db/shop?interpolateParams=false": "mysql app@tcp(db:3306)/shop?interpolateParams=true&interpolateParams=false",
		"mysql://app@[::1]:3307/shop?tls=skip-verify": "mysql app@tcp([::1]:3307)/shop?interpolateParams=true&tls=skip-verify",
		"postgres://app@db/shop?sslmode=disable":      "pgx postgres://app@db/shop?sslmode=disable",
		"sqlite:///var/lib/a b.db":                    "sqlite file:/var/lib/a%20b.db?mode=rw&_pragma=busy_timeout(5000)&_txlock=immediate",
		"sqlite://jobs.db?_pragma=query_only(1)":      "sqlite file:jobs.db?mode=rw&_pragma=busy_timeout(5000)&_txlock=immediate&_pragma=query_only(1)",
	} {
		driver, dsn, err := fromURL(url)
		if got := driver + " " + dsn; err != nil || got != want {
			t.Errorf("%s\nis   %s, %v\nwant %s", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"app:secret@tcp(db)/shop": "--driver", "oracle://db/shop": "no database that pqueue knows", "mysql://db": "names no database",
		"mysql://app:se%zz@db/shop": "%40", "sqlite://": "no file",
	} {
		if _, _, err := fromURL(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// "make test" provides the servers.
func TestServersAreReachedByTheirURLs(t *testing.T) {
	for _, server := range []struct{ name, variable, driver string }{
		{"MariaDB", "PQ_TEST_MARIADB_DSN", "mysql"}, {"MySQL", "PQ_TEST_MYSQL_DSN", "mysql"}, {"PostgreSQL", "PQ_TEST_POSTGRES_DSN", "pgx"},
	} {
		t.Run(server.name, func(t *testing.T) {
			dsn := os.Getenv(server.variable)
			if dsn == "" {
				t.Skipf("left out: %s is not set; \"make test\" provides the server", server.variable)
			}
			sh := &shell{T: t, dsn: ownDatabase(t, server.driver, dsn)}
			sh.want("job list", exitOutdated)
			sh.want("schema migrate", exitDone)
			sh.want(`job add 7 {"a":1} --key k`, exitDone)
			sh.want("job cancel type:7 key:k", exitDone, "cancelled 1 job")
			sh.want("job list status:cancelled since:1h", exitDone, `{"a":1}`)
			sh.want("type list --count", exitDone, "nobody runs it")
			sh.want("check --late 0s", exitDone, "OK")
			sh.want("job add 7", exitDone)
			await(t, "the job is late", func() bool {
				code, out, _ := sh.run("check", "--late", "0s")
				return code == exitError && strings.Contains(out, "Nobody runs it, and 1 job fell due")
			})
		})
	}
}

// ownDatabase makes a database on a server, until the test ends, and returns its URL.
func ownDatabase(t *testing.T, driver, dsn string) (url string) {
	t.Helper()
	admin, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("pq_cli_%d", os.Getpid())
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
		admin.Close()
	})
	if driver == "mysql" {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return (&neturl.URL{Scheme: "mysql", User: neturl.UserPassword(cfg.User, cfg.Passwd), Host: cfg.Addr, Path: name}).String()
	}
	at, err := neturl.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = name
	return at.String()
}

func TestListsInEachForm(t *testing.T) {
	sh, db, jobs := newTables(t)
	for _, j := range []queue_job.AddModelJob{
		{JobType: 7, JobParams: "a,\"b\"", Key: "k1"},
		{JobType: 8, JobParams: strings.Repeat("x", 100)},
	} {
		if _, err := jobs.Add(t.Context(), db, j); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("UPDATE async_job_tab SET result = '\x1b[31mred\r\n' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	sh.want("job list", exitDone, "ID  TYPE", "…")
	sh.want("job list -o csv --no-headers --oldest", exitDone, `"""a,\""b\"""""`)
	if out := sh.want("job list -o id", exitDone); out != "2\n1\n" {
		t.Errorf("%q", out)
	}
	if out := sh.want("job get 1", exitDone, `\x1b[31mred\r\n`); strings.Contains(out, "\x1b") {
		t.Errorf("a result moves the cursor: %q", out)
	}
	var whole struct {
		Schema int
		Jobs   []job
	}
	if err := json.Unmarshal([]byte(sh.want("job list -o json", exitDone)), &whole); err != nil || whole.Schema != 1 || len(whole.Jobs) != 2 || whole.Jobs[1].Id != "1" || whole.Jobs[0].Params != fmt.Sprintf("%q", strings.Repeat("x", 100)) {
		t.Errorf("%v: %+v", err, whole)
	}
	if lines := strings.Split(strings.TrimSpace(sh.want("job list -o jsonl -n 1", exitDone)), "\n"); len(lines) != 1 || !json.Valid([]byte(lines[0])) {
		t.Error(lines)
	}
	if out := sh.want("job list type:9 -o json", exitDone); !strings.Contains(out, `"jobs": []`) {
		t.Errorf("no job is %s", out)
	}
}

func TestTypesLeasesAndHostsOfARunner(t *testing.T) {
	sh, db, jobs := newTables(t)
	started, goOn := make(chan struct{}), make(chan struct{})
	start(t, db, queue_job.Config{JobType: 7, ServiceName: "billing", NeedRetry: true, MaxRetries: 3, RetryTiming: queue_job.Waits(5*time.Second, time.Minute), HandleJobFunc: func(context.Context, *queue_job.Job) error {
		close(started)
		<-goOn
		return nil
	}})
	await(t, "the type is held, and has its name", func() bool {
		out := sh.want("type list -o json", exitDone)
		return strings.Contains(out, `"state": "runs"`) && strings.Contains(out, `"name": "billing"`)
	})
	id, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	sh.want("job list type:billing", exitDone, "7 billing", "running")
	sh.want(fmt.Sprintf("job set-params %d {}", id), exitError, "in flight")
	sh.want(fmt.Sprint("job explain ", id), exitDone, "of type 7 billing: running", "its handler runs, or is about to", fmt.Sprint("pqueue job cancel ", id))
	await(t, "the settings are told", func() bool { return strings.Contains(sh.want("type get 7", exitDone), "WorkerPoolCapacity  100\n") })
	sh.want("type get billing", exitDone, "5s, 1m0s, and so on", "settings since", "held by")
	sh.want("type get billing -o json", exitDone, `"WorkerPoolCapacity": "100"`)
	sh.want("type get billing", exitDone, "success 30d, cancelled no limit, failed no limit")
	sh.want("type get billing -o json", exitDone, `"success": 2592000`)
	sh.want("keep status", exitDone, "1 at most", "No job has outlived its time", "SUCCESS", "billing  30d")
	sh.want("keep status -o json", exitDone, `"rows_at_most": 1`, `"success": 2592000`, `"overdue_seconds": 0`)
	sh.want("keep status -o id", exitDone, "7\n")
	await(t, "the holder tells what waits", func() bool {
		return strings.Contains(sh.want("type get 7", exitDone), "waiting in memory  ")
	})
	sh.want("type get 7 -o json", exitDone, `"workers": 100`, `"more_in_table": false`)
	await(t, "the handler is seen", func() bool { return strings.Contains(sh.want("top", exitDone), "1 handler running") })
	sh.want("host list", exitDone, "billing", "there")
	sh.want("lease list -o json", exitDone, `"lease": "job-7"`)
	t.Setenv("PQUEUE_DSN", sh.dsn)
	for line, want := range map[string]string{"type pause": "7\tbilling\n", "lease yield": "job-7\tbilling\n"} {
		var out strings.Builder
		args := append([]string{"__complete"}, append(strings.Fields(line), "")...)
		if code := Run(t.Context(), args, Streams{strings.NewReader(""), &out, io.Discard}); code != exitDone || !strings.HasPrefix(out.String(), want) {
			t.Errorf("pqueue %s <Tab>: exit code %d, %q", line, code, out.String())
		}
	}
	sh.want("type pause billing", exitDone, "type 7 is paused")
	sh.want("type pause 7", exitDone, "type 7 was paused already")
	sh.want("type list -o json", exitDone, `"state": "paused"`)
	sh.want("type resume billing", exitDone, "type 7 goes on")
	sh.want("type set billing --workers 2", exitDone, "type 7 has these limits: 2 at a time from now on")
	sh.want("type set 7 --rate 2.5", exitDone, "type 7 has these limits: 2 at a time, 2.5 starts a second from now on")
	sh.want("type set 7 --rate 2.5", exitDone, "already")
	sh.want("type get 7", exitDone, "limits set", "2 at a time, 2.5 starts a second")
	sh.want("type get 7 -o json", exitDone, `"rate": 2.5`)
	sh.want("type unset 7 --workers", exitDone, "type 7 has these limits: 2.5 starts a second from now on")
	sh.want("type set 7 --workers 1000", exitDone, "its configuration allows 100 at a time anyway")
	sh.want("type unset 7", exitDone, "type 7 has the limits of its configuration from now on")
	sh.want("type pause shipping", exitNothing, `no job type is called "shipping"`)
	sh.want("type list --count", exitDone, "NOT DONE")
	sh.want("type rename billing invoices", exitDone, `type 7 was "billing", and is now "invoices"`)
	sh.want("type get invoices", exitDone, "invoices")
	sh.want("type rename 7 billing", exitDone, `type 7 was "invoices", and is now "billing"`)
	close(goOn)
	sh.want(fmt.Sprint("job watch ", id), exitDone, "completed")
	sh.want("check", exitDone, "OK")
	await(t, "it is told who has the lease now", func() bool {
		return strings.Contains(sh.want("lease history billing -o json", exitDone), `"over": false`)
	})
	sh.want("lease history", exitDone, "job-7")
	sh.want("lease history billing -o json", exitDone, `"lease": "job-7"`, `"how": ""`, `"over": false`)
	sh.want("lease history --last never", exitUsage, "as in 90m or 7d")
	sh.want("lease history --limit 0", exitUsage, "1 or more")
	sh.want("type history billing", exitDone, "STARTED", "DELAY P99")
	sh.want("type history 7 --step 90s", exitUsage, "whole minutes")
	sh.want("type history 7 --last 3y", exitUsage, "as in 90m or 7d")
	sh.want("type history 7 --last 90d --step 1m", exitError, "use 10000 at most")
	sh.want("lease yield job-8", exitNothing, "there is no lease")
	sh.want("lease yield job-7", exitError, "no other instance")
	instances, err := jobs.Instances(t.Context(), db)
	if err != nil || len(instances) != 1 {
		t.Fatal(instances, err)
	}
	var out strings.Builder
	if Run(t.Context(), []string{"__complete", "host", "drain", ""}, Streams{strings.NewReader(""), &out, io.Discard}); !strings.HasPrefix(out.String(), instances[0].Id+"\tbilling on ") {
		t.Errorf("pqueue host drain <Tab>: %q", out.String())
	}
	sh.want("host drain 0123456789ab", exitNothing, "there is no instance")
	sh.want("host drain "+instances[0].Id, exitError, "no other instance")
	sh.want("host undrain "+instances[0].Id, exitNothing, "is not drained")
	sh.want("host bury "+instances[0].Id, exitRefused, "runs twice at the same time")
	sh.want("host bury 0123456789ab --yes", exitError, "no such instance")
	sh.want("host bury "+instances[0].Id+" --yes", exitError, "the table does not say whether it lives") // on SQLite
	sh.want("lease break job-8 --yes", exitNothing, "there is no lease")
	sh.want("lease break job-7", exitRefused, "may run twice")
	sh.want("lease break job-7 --yes", exitDone, "job-7 is taken from billing@")
	sh.want("type set-shards 7 2", exitDone, "2 shards")
}

func TestTheLastErrorsAreGrouped(t *testing.T) {
	sh, db, jobs := newTables(t)
	sh.want("job errors -o json", exitDone, `"errors": []`)
	start(t, db, queue_job.Config{JobType: 7, ServiceName: "billing", HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		return queue_job.Fail(fmt.Errorf("order %s is gone", job.JobParams))
	}})
	for order := range 3 {
		if _, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, JobParams: order}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "three runs have failed", func() bool { return strings.Contains(sh.want("job errors -o json", exitDone), `"failed": 3`) })
	sh.want("job errors", exitDone, "7 billing", "is gone")
	if out := sh.want("job errors -o id", exitDone); len(strings.Fields(out)) != 1 { // of the job that was the last to fail
		t.Errorf("one group has the ids %q", out)
	}
	sh.want("job errors --runs 2", exitDone, "these are the runs that did not succeed since ", "as those who run the jobs have counted them")
	sh.want("job errors --runs 0", exitUsage, "1 or more")
}

func TestACheckFindsWhatIsLateAndWhatWasForgotten(t *testing.T) {
	sh, db, jobs := newTables(t)
	sh.want("check --nagios", fine, "PQUEUE OK - all jobs run as they should | types=0 instances=0 findings=0")
	if _, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, StartTime: uint32(time.Now().Add(-2 * time.Minute).Unix())}); err != nil {
		t.Fatal(err)
	}
	sh.want("check", exitError, "CRITICAL  type 7: Nobody runs it, and 1 job fell due more than 1m0s ago. Start an instance")
	sh.want("check --nagios", critical, "PQUEUE CRITICAL - type 7")
	sh.want("check --late 5m", exitDone, "OK")
	if _, err := jobs.Pause(t.Context(), db, 7); err != nil {
		t.Fatal(err)
	}
	sh.want("check --nagios", warning, "PQUEUE WARNING - No instance is there.")
	if _, err := db.Exec("UPDATE async_job_type_tab SET paused_at = paused_at - 7200"); err != nil {
		t.Fatal(err)
	}
	sh.want("check --nagios", warning, "PQUEUE WARNING - No instance is there.", "WARNING: type 7: It has been paused for 2h 0m. ", "(pqueue type resume 7)")
}

func TestManyJobsAreChangedInAnOperationThatCtrlCStops(t *testing.T) {
	sh, db, jobs := newTables(t)
	list := make([]queue_job.AddModelJob, 1500)
	for i := range list {
		list[i] = queue_job.AddModelJob{JobType: 7}
	}
	if _, err := jobs.AddMany(t.Context(), db, list); err != nil {
		t.Fatal(err)
	}
	sh.want("job cancel type:7", exitRefused, "1500 jobs match, and --limit is 1000")
	ctx, cancel := context.WithCancel(t.Context())
	var said interrupter
	said.cancel = cancel
	code := Run(ctx, []string{"job", "cancel", "type:7", "--limit", "0", "-y", "--rate", "500", "--as", "mary", "--why", "a mistake", "--dsn", sh.dsn}, Streams{strings.NewReader(""), &said, &said})
	if code != exitInterrupted || !strings.Contains(said.text.String(), "interrupted: cancelled 1000 jobs; pqueue op resume 1 goes on") {
		t.Errorf("exit code %d, %s", code, said.text.String())
	}
	sh.want("op list", exitDone, "stopped", "type:7 status:pending", "1000", "67%", "mary", "a mistake")
	sh.want("op run 1", exitPartly, "was stopped")
	sh.want("op resume 1 --as joe", exitDone, "operation 1 goes on")
	sh.want("op resume 1", exitDone, "operation 1 was not stopped")
	sh.want("op run 1", exitDone, "changed 1500 jobs")
	sh.want("op get 1", exitDone, "done", "100%", "mary")
	sh.want("op stop 1", exitDone, "operation 1 was not open")
	sh.want("op get 2", exitNothing, "there is no operation 2")
	sh.want("job list status:cancelled --limit 0 -o id", exitDone, "1500\n")
	sh.want("audit list", exitDone, "mary", "500 jobs", "joe", "resume operation", "a mistake")
	sh.want("audit list --job 1200 -o json", exitDone, `"1200"`, `"operation": "1"`, `"actor": "mary"`)
	sh.want("type pause 7 --as ann", exitDone)
	sh.want("audit list --actor ann", exitDone, "pause", "type 7")
	sh.want("audit list --type 7,8", exitDone, "pause", "ann")
	if out := sh.want("audit list --type 8", exitDone); strings.Contains(out, "pause") {
		t.Errorf("acts about another type: %s", out)
	}
	sh.want("deploy mark v1.4 --as ci --why faster", exitDone, "v1.4 is deployed")
	sh.want("deploy mark "+strings.Repeat("v", 65), exitUsage, "a name has 1 to 64 characters")
	sh.want("audit list --actor ci -o csv", exitDone, `ci,deploy,,"{""after"":""v1.4""}",faster`)
	sh.want("audit list --type nobody", exitNothing, `no job type is called "nobody"`)
}

// interrupter is Ctrl-C as soon as something was said.
type interrupter struct {
	text   strings.Builder
	cancel func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	i.cancel()
	return i.text.Write(p)
}

func TestMomentsAndRanges(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"2h": now.Add(-2 * time.Hour), "7d": now.Add(-7 * 24 * time.Hour), "2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local),
		"2026-11-24T10:30": time.Date(2026, 11, 24, 10, 30, 0, 0, time.Local), "2026-11-24T10:30:00Z": time.Date(2026, 11, 24, 10, 30, 0, 0, time.UTC), "": {},
	} {
		if m, err := momentOf(text); err != nil || !m.By(now).Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, m, err, want)
		}
	}
	q, err := query.ParseArguments([]string{"type:7,billing", "status:pending,failed", "due:..5m", "created:2d..1d"}, time.Local)
	if err != nil {
		t.Fatal(err)
	}
	q.SetNow(now)
	f := q.Filter
	if !slices.Equal(f.JobTypes, []int32{7}) || !slices.Equal(q.Names, []string{"billing"}) || len(f.Statuses) != len(queue_job.PendingStatuses())+1 ||
		!f.DueFrom.IsZero() || !f.DueTo.Equal(now.Add(-5*time.Minute)) || !f.CreatedFrom.Equal(now.AddDate(0, 0, -2)) || !f.CreatedTo.Equal(now.AddDate(0, 0, -1)) {
		t.Errorf("%+v, %v", f, q.Names)
	}
}

func TestATimeFromNowOnIsAnyThatARowCanHave(t *testing.T) {
	sh, _, _ := newTables(t)
	sh.want("job add 7 {} --at +3651d", exitDone, "1")
	sh.want("job add 7 {} --at +-5m", exitDone, "2")
	sh.want("job list due:-8760h.. -o id", exitDone, "1")
	sh.want("job list due:..4m -o id", exitDone, "2")
	sh.want("job add 7 {} --at +60000d", exitUsage, "between 1970 and 2106")
	sh.want("job add 7 {} --at 1969-01-01", exitUsage, "between 1970 and 2106")
	sh.want("job add 7 {} --at +2h --after 1h", exitUsage, "use one of them")
	sh.want("type pause 7 --for 365d", exitDone, "is paused until")
	sh.want("type pause 7 --for 366d", exitError, "365 days")
}
