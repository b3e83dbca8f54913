package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
)

// What is said of the database is held against what the server has told, and each sentence names the remedy.
func TestNoWordOnTheDatabaseContradictsItsEvidence(t *testing.T) {
	session := func(seconds int64) record.Sign {
		return record.Sign{Kind: record.SignSession, ID: "41", User: "report", Place: "10.0.0.7", Seconds: seconds, State: "active", Statement: "SELECT *\n FROM orders WHERE name = 'O''Brien' AND id > 4711"}
	}
	idle := func(statement string) record.Sign {
		s := session(95)
		s.State, s.Statement = "idle", statement
		return s
	}
	history := func(n int64) record.Sign { return record.Sign{Kind: record.SignHistory, Amount: n} }
	dead := func(n, live int64) record.Sign {
		return record.Sign{Kind: record.SignDead, Amount: n, More: live, Seconds: -1}
	}
	off := dead(100_000, 20)
	off.State = "off"
	slot := func(state string, age, wal int64) record.Sign {
		return record.Sign{Kind: record.SignSlot, ID: "debezium", State: state, Amount: age, More: wal}
	}
	of := func(signs ...record.Sign) *record.Sickness {
		return &record.Sickness{Signs: signs, Table: "async_job_tab"}
	}
	since := "so what has changed since then cannot be cleaned up: "
	for what, c := range map[string]struct {
		of           *record.Sickness
		says, remedy string // beginnings; empty: nothing is said
	}{
		"nothing is asked":               {nil, "", ""},
		"a well InnoDB":                  {of(history(9999), session(95)), "", ""},
		"a well PostgreSQL":              {of(dead(9999, 50_000), session(95), slot("active", 9999, walKeptBusy-1)), "", ""},
		"a report that has begun":        {of(history(400_000), session(29)), "", ""},
		"a report on InnoDB":             {of(history(10_000), session(30)), "warning old snapshot: Session 41 (report@10.0.0.7) has kept a transaction open for 30s, " + since + "InnoDB has not purged 10000 transactions (history list length). It runs: SELECT * FROM orders WHERE name = ? AND id > ?", "End its transaction; if its program does not: KILL 41."},
		"a session that does nothing":    {of(history(10_000), idle("")), "warning old snapshot: Session 41 (report@10.0.0.7) has kept a transaction open for 1m 35s, " + since + "InnoDB has not purged 10000 transactions (history list length). It runs nothing at the moment.", "End"},
		"a report on PostgreSQL":         {of(session(30), dead(50_000, 20)), "warning old snapshot: Session 41 (report@10.0.0.7) has kept a transaction open for 30s, " + since + "table async_job_tab has 50000 dead rows. It runs: SELECT", "End its transaction; if its program does not: SELECT pg_terminate_backend(41)."},
		"idle in a transaction":          {of(idle("SELECT 1"), dead(50_000, 20)), "warning old snapshot: Session 41 (report@10.0.0.7) has kept a transaction open for 1m 35s, " + since + "table async_job_tab has 50000 dead rows. It runs nothing at the moment; its last statement: SELECT ?", "End"},
		"a statement that is not shown":  {of(idle(hiddenStatement), dead(50_000, 20)), "warning old snapshot: Session 41 (report@10.0.0.7) has kept a transaction open for 1m 35s, " + since + "table async_job_tab has 50000 dead rows.", "End"},
		"a prepared one":                 {of(record.Sign{Kind: record.SignPrepared, ID: "it's", User: "shop", Seconds: 95}, dead(50_000, 20)), "warning old snapshot: The prepared transaction it's of shop has been open for 1m 35s", "End it: COMMIT PREPARED 'it''s', or ROLLBACK PREPARED 'it''s'."},
		"a prepared one without session": {of(record.Sign{Kind: record.SignPrepared, ID: "0", Seconds: 95}, history(10_000)), "warning old snapshot: A prepared transaction has been open for 1m 35s", "Find it by XA RECOVER"},
		"a slot that nobody reads":       {of(slot("", 10_000, 0), dead(50_000, 20)), "warning old snapshot: The replication slot debezium, which nobody reads, keeps what was there 10000 transactions ago", "Start who reads it, or drop it: SELECT pg_drop_replication_slot('debezium')."},
		"WAL that nobody reads":          {of(slot("", 0, 1536<<20), dead(0, 20)), "warning replication slot: The replication slot debezium, which nobody reads, keeps 1.5 GiB of WAL on the server's disk.", "Start who reads it"},
		"WAL that is read":               {of(slot("active", 0, walKeptBusy), dead(0, 20)), "warning replication slot: The replication slot debezium, which somebody reads, keeps 10.0 GiB", "See to who reads it"},
		"a standby":                      {of(record.Sign{Kind: record.SignStandby, ID: "7", User: "rep", Place: "10.0.0.8", Amount: 10_000}, dead(50_000, 20)), "warning old snapshot: A standby (rep@10.0.0.8) needs what was there 10000 transactions ago", "End the query"},
		"a purge that is behind":         {of(history(1_000_000)), "warning dead rows: InnoDB has not purged 1000000 transactions (history list length), and no transaction has been open for long: the purge does not keep up.", "See to the server's disk"},
		"many live rows":                 {of(dead(100_000, 249_751)), "", ""},
		"a vacuum that does not come":    {of(dead(100_001, 249_750)), "warning dead rows: Table async_job_tab has 100001 dead rows, beside 249750 live ones, and nobody keeps them; the table was never vacuumed.", "VACUUM async_job_tab; and let"},
		"a vacuum that is off":           {of(off), "warning dead rows: Table async_job_tab has 100000 dead rows, beside 20 live ones, and nobody keeps them; autovacuum is off.", "VACUUM async_job_tab; and turn autovacuum on."},
		"rights that are missing":        {&record.Sickness{Lacks: "PROCESS"}, "note not seen: Who keeps the database from cleaning up is not known, or not all of it: the user needs PROCESS", "Grant it that: GRANT PROCESS ON *.* TO …."},
		"an error":                       {&record.Sickness{Err: errors.New("gone")}, "note not seen: What keeps the database from cleaning up is not known: gone.", ""},
	} {
		h := &Health{}
		h.judgeSickness(c.of)
		said, remedy := "", ""
		for _, f := range h.Findings {
			said += fmt.Sprintf("%v %s: %s", f.Severity, f.Kind, f.Text)
			remedy += f.Remedy
		}
		if (said == "") != (c.says == "") || !strings.HasPrefix(said, c.says) || !strings.HasPrefix(remedy, c.remedy) || len(h.Findings) > 1 {
			t.Errorf("%s: %q, %q, want %q, %q", what, said, remedy, c.says, c.remedy)
		}
	}
}

func TestNoValueOfAStatementIsShown(t *testing.T) {
	for statement, want := range map[string]string{
		`SELECT a FROM t1 WHERE b = 'it\'s' AND c = 1.5e3`: " It runs: SELECT a FROM t1 WHERE b = ? AND c = ?",
		`INSERT INTO t VALUES ("secret", 'cut o`:           " It runs: INSERT INTO t VALUES (?, ?",
		`SELECT $x$secret$x$, /* secret */ 0x5ec7`:         " It runs: SELECT ?",
		`SELECT /* secret */ 0x5ec7, E'sec\'ret'`:          " It runs: SELECT ? ?, E?",
	} {
		if got := statementText(&record.Sign{State: "active", Statement: statement}); got != want {
			t.Errorf("%s: %q, want %q", statement, got, want)
		}
	}
}
