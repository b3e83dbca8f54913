package schema

import (
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/conn"
)

// contract are the tables with their columns and, behind the bar, their indexes. The first columns are the columns of
// tables that existed before, in their order.
const contract = `
async_job_tab: id params job_type job_status start_time create_time update_time term attempts retries lost job_key unique_in priority max_retries changes progress result deferred meta job_group steps long_params | async_job_due async_job_key async_job_group
shedlock_tab: lock_name lock_until locked_at locked_by term running layout |
async_job_log_tab: job_id attempt term outcome error started finished instance |
async_job_type_tab: job_type paused_at cron_at cron_spec layout name settings told_at workers rate paused_until | async_job_type_paused async_job_type_layout async_job_type_workers async_job_type_rate
async_job_now_tab: lock_name term told_at state |
async_job_stat_tab: job_type begins_at lock_name term seconds counted state |
async_job_lease_log_tab: lock_name term holder taken_at ended_at how | async_job_ended
async_job_act_tab: id acted_at actor verb why job_type jobs first_job last_job detail operation state reached last_id changed skipped worker touched_at | async_job_act_job async_job_act_state async_job_act_type
async_job_step_tab: job_id kind name created attempt term ended_at until_at step_value |
async_job_schedule_tab: name spec job_type params settings catch_up revision paused_at reached_at next_at last_at last_job put_at | async_job_schedule_next
async_job_flow_tab: id kind flow_key open_key state nodes created_at ended_at alarms undo_nodes undo_after deadline due_at | async_job_flow_open async_job_flow_state async_job_flow_key async_job_flow_due
async_job_node_tab: id name state waits followers enders spec job_id born counted result problem kind undo_job | async_job_node_state
`

func tablesOf(t *testing.T, file string) []*table {
	t.Helper()
	text, err := files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return tables(string(text))
}

func TestEveryFileHasTheContractsTablesColumnsAndIndexes(t *testing.T) {
	for _, file := range []string{"mysql.sql", "postgres.sql", "sqlite.sql"} {
		got := "\n"
		for _, table := range tablesOf(t, file) {
			got += strings.TrimSpace(table.name+": "+strings.Join(names(table.columns), " ")+" | "+strings.Join(names(table.indexes), " ")) + "\n"
		}
		if got != contract {
			t.Errorf("%s has%swant%s", file, got, contract)
		}
	}
}

func TestNoLineOfAFileIsPassedOver(t *testing.T) {
	for _, file := range []string{"mysql.sql", "postgres.sql", "sqlite.sql"} {
		for _, table := range tablesOf(t, file) {
			lines := 0
			for line := range strings.Lines(table.create) {
				if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  PRIMARY KEY") {
					lines++
				}
			}
			inside := len(table.columns)
			if strings.Contains(table.create, "\n  KEY ") {
				inside += len(table.indexes)
			}
			if lines != inside {
				t.Errorf("%s: %s has %d lines, and %d were read", file, table.name, lines, inside)
			}
		}
	}
}

func TestWhatAnOlderTableLacksIsReadOffTheFilesLine(t *testing.T) {
	for file, want := range map[string]string{
		"mysql.sql":    "ALTER TABLE async_job_tab ADD KEY async_job_due (job_type, job_status, priority, start_time, id)",
		"postgres.sql": "CREATE INDEX IF NOT EXISTS async_job_due ON async_job_tab (job_type, job_status, priority, start_time, id)\n  WHERE job_status IN (0, 3, 4) OR job_status IS NULL",
		"sqlite.sql":   "CREATE INDEX IF NOT EXISTS async_job_due ON async_job_tab (job_type, job_status, priority, start_time, id)",
	} {
		jobs := tablesOf(t, file)[0]
		if got := absent(jobs.indexes, []string{"PRIMARY", "async_job_key", "async_job_group"}); len(got) != 1 || got[0].add != want {
			t.Errorf("%s: %v", file, got)
		}
		missing := absent(jobs.columns, []string{"ID", "Params", "job_type", "job_status", "start_time", "create_time", "update_time", "term", "attempts", "lost", "job_key", "unique_in", "priority", "max_retries", "changes", "progress", "result", "deferred", "meta", "job_group", "steps", "long_params"})
		if len(missing) != 1 || missing[0].name != "retries" || !strings.HasPrefix(missing[0].add, "ALTER TABLE async_job_tab ADD COLUMN retries     int NOT NULL DEFAULT 0") {
			t.Errorf("%s: %v", file, missing)
		}
	}
}

func TestAddedColumnsHaveADefaultSoThatPlainInsertsGoOnWorking(t *testing.T) {
	original := map[string]bool{}
	for _, name := range strings.Fields("id params job_type job_status start_time create_time update_time lock_name lock_until locked_at locked_by") {
		original[name] = true
	}
	for _, file := range []string{"mysql.sql", "postgres.sql", "sqlite.sql"} {
		for _, table := range tablesOf(t, file)[:2] {
			for _, column := range table.columns {
				if !original[column.name] && !strings.Contains(column.add, " DEFAULT ") {
					t.Errorf("%s: %s", file, column.add)
				}
			}
		}
	}
}

func TestAPrefixStandsBeforeEveryNameAndTheIndexHasNoSchema(t *testing.T) {
	for _, c := range []struct{ prefix, table, index string }{
		{"shop_", "shop_async_job_tab", "shop_async_job_due"},
		{"Jobs.", "Jobs.async_job_tab", "async_job_due"},
		{"jobs.Shop_", "jobs.Shop_async_job_tab", "Shop_async_job_due"},
	} {
		for _, file := range []string{"mysql.sql", "postgres.sql", "sqlite.sql"} {
			text, err := files.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			jobs := tables(conn.WithPrefix(string(text), c.prefix))[0]
			if jobs.name != c.table || !strings.HasPrefix(jobs.create, "CREATE TABLE IF NOT EXISTS "+c.table+" (") || jobs.indexes[0].name != c.index {
				t.Errorf("%s with %q: %s, %s, %s", file, c.prefix, jobs.name, jobs.indexes[0].name, jobs.create[:60])
			}
			if missing := absent(jobs.indexes, []string{strings.ToLower(c.index), strings.ToLower(jobs.indexes[1].name), strings.ToLower(jobs.indexes[2].name)}); len(missing) > 0 {
				t.Errorf("%s with %q: an index that the database writes in lower case is missed", file, c.prefix)
			}
		}
	}
}
