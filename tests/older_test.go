package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// tooNew is what MySQL 5.7 does not understand, and what only one of MySQL and MariaDB does.
var tooNew = regexp.MustCompile(`(?i)\bSKIP\s+LOCKED\b|\bNOWAIT\b|\bFOR\s+SHARE\b|\bOVER\s*\(|\bWITH\b|\bJSON\w*|->|\bRETURNING\b|\bLATERAL\b|\bEXCEPT\b|\bINTERSECT\b|` +
	`\bFULL\s+OUTER\b|\)\s*AS\s+new\b|\bVALUES\s+ROW\b|\bREGEXP_\w+|\b(COLUMN|INDEX|KEY)\s+IF\b|\bRENAME\s+COLUMN\b|\bCHECK\b|\bDEFAULT\s*\(|\bINVISIBLE\b|_0900_|_uca1400_`)

// sentBy is how to know the statement that a verb of the store sends.
var sentBy = map[string]*regexp.Regexp{
	"Abandoned":          regexp.MustCompile(`^SELECT COUNT\(\*\) AS n, .* AS last FROM async_job_tab`),
	"AddJob":             regexp.MustCompile(`^INSERT INTO async_job_tab`),
	"AddJobs":            regexp.MustCompile(`^INSERT INTO async_job_tab .* VALUES \(.*\), \(`),
	"AddUnlessThere":     regexp.MustCompile(`^INSERT IGNORE INTO async_job_tab .* VALUES`),
	"AddJobsUnlessThere": regexp.MustCompile(`^SELECT \* FROM \(SELECT job_key, id, CASE WHEN .* FROM async_job_tab .* WHERE job_key IN`),
	"ReplaceWaiting":     regexp.MustCompile(`^UPDATE async_job_tab .* SET params = CASE id WHEN`),
	"AddScheduled":       regexp.MustCompile(`^INSERT INTO async_job_tab .* SELECT .* FROM DUAL WHERE`),
	"LastAttempts":       regexp.MustCompile(`^SELECT logged\.job_id, .* FROM async_job_log_tab ORDER BY job_id DESC`),
	"Errors":             regexp.MustCompile(`^SELECT job_type, begins_at, lock_name, term, state FROM async_job_stat_tab .* LIKE`),
	"AttemptsOf":         regexp.MustCompile(`^SELECT .* FROM async_job_log_tab WHERE job_id`),
	"BeginSchedule":      regexp.MustCompile(`^UPDATE async_job_type_tab .*SET cron_at = GREATEST`),
	"Cancel":             regexp.MustCompile(`^UPDATE async_job_tab .* SET job_status = \?, update_time = .* WHERE id IN \(\?\) AND \(COALESCE`),
	"Columns":            regexp.MustCompile(`^SELECT \* FROM \(SELECT .* FROM information_schema\.columns`),
	"Count":              regexp.MustCompile(`^SELECT job_type, .*COUNT\(\*\).* FROM async_job_tab`),
	"DeleteOld":          regexp.MustCompile(`DELETE .* doomed FROM async_job_tab AS doomed`),
	"DeleteStrays":       regexp.MustCompile(`^SELECT \* FROM \(SELECT \* FROM \(SELECT DISTINCT job_id, \? AS is_step FROM async_job_log_tab`),
	"Restore":            regexp.MustCompile(`^INSERT IGNORE INTO async_job_tab \(id, params, long_params`),
	"Settle Died":        regexp.MustCompile(`^UPDATE async_job_tab .* SET lost = lost \+ \?, term = \?, job_status = \?`),
	"Settle":             regexp.MustCompile(`^UPDATE async_job_tab .* SET job_status = \?, update_time`),
	"RecordStep":         regexp.MustCompile(`^INSERT INTO async_job_step_tab .* SELECT id, .* LOCK IN SHARE MODE$`),
	"RecordStepThrough":  regexp.MustCompile(`^UPDATE async_job_tab .* SET steps = `),
	"StepsOf":            regexp.MustCompile(`^SELECT job_id, kind, .* FROM async_job_step_tab WHERE`),
	"StepsOfRun":         regexp.MustCompile(`^SELECT \* FROM \(SELECT job_id, kind, .* FROM async_job_step_tab WHERE`),
	"StepsAndLogsOf":     regexp.MustCompile(`^SELECT job_id, kind, .* FROM async_job_step_tab WHERE job_id (=|IN) \S+ AND EXISTS`),
	"LogsOf":             regexp.MustCompile(`^SELECT job_id, kind, .* FROM async_job_step_tab WHERE job_id = \? AND kind = `),
	"KeepLogs":           regexp.MustCompile(`DELETE .* FROM async_job_step_tab .*WHERE job_id = \? AND kind = \? AND attempt <= `),
	"RestoreSteps":       regexp.MustCompile(`^INSERT IGNORE INTO async_job_step_tab .* VALUES`),
	"Signal":             regexp.MustCompile(`^INSERT (IGNORE )?INTO async_job_step_tab .* SELECT id, \?, .* async_job_tab .* WHERE id = \?$`),
	"EndWait":            regexp.MustCompile(`^UPDATE async_job_step_tab .* SET step_value = `),
	"ForgetSteps":        regexp.MustCompile(`DELETE .* FROM async_job_step_tab .*WHERE job_id IN \(\S+\) AND kind < `),
	"DeleteSteps":        regexp.MustCompile(`DELETE .* FROM async_job_step_tab .*WHERE job_id IN \(\S+\)$`),
	"ForgetStray":        regexp.MustCompile(`DELETE .* FROM async_job_step_tab .*WHERE job_id = \? AND created <> `),
	"FinishThrough":      regexp.MustCompile(`^UPDATE async_job_tab .* SET job_status = \?, update_time`),
	"EarlierOfGroup":     regexp.MustCompile(`^SELECT \* FROM \(SELECT job_key, COUNT\(\*\) AS earlier FROM async_job_tab`),
	"FirstOfKeys":        regexp.MustCompile(`^SELECT \* FROM \(SELECT job_key, MIN\(id \+ \?\) AS first FROM async_job_tab`),
	"Fleet":              regexp.MustCompile(`^SELECT \* FROM \(SELECT lock_name, locked_by, term, running, layout, .* AS held_until FROM shedlock_tab .* UNION ALL SELECT .* FROM async_job_type_tab`),
	"Layout":             regexp.MustCompile(`^SELECT \* FROM \(SELECT layout FROM async_job_type_tab`),
	"SetLayout":          regexp.MustCompile(`^UPDATE async_job_type_tab .*SET layout = `),
	"MakeClosed":         regexp.MustCompile(`^INSERT INTO shedlock_tab \(lock_name, locked_by, layout, lock_until\)`),
	"CloseLeases":        regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET layout = .* AND layout < \? AND .* OR layout < `),
	"CloseLease":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET layout = .* WHERE (lock_name IN .* AND )?locked_by = \? AND layout > `),
	"OpenLeases":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET layout = \?, term = GREATEST`),
	"MoveLease":          regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET term = \?, layout = \?, locked_by = \?, running = `),
	"NoteRunning":        regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET running = \?, lock_until`),
	"Holdings":           regexp.MustCompile(`^SELECT lock_name, .* AS held_until FROM shedlock_tab`),
	"DropLease":          regexp.MustCompile(`DELETE .* FROM shedlock_tab WHERE lock_name = `),
	"EndedLeases":        regexp.MustCompile(`^SELECT \* FROM \(SELECT lock_name FROM shedlock_tab WHERE \(lock_name LIKE`),
	"LayDown":            regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_name = \?, lock_until`),
	"Wake":               regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_name = CASE lock_name`),
	"HaveWork":           regexp.MustCompile(`^SELECT \* FROM \(SELECT job_type, .* AS has_work FROM async_job_type_tab AS known`),
	"DropEnded":          regexp.MustCompile(`DELETE .* FROM shedlock_tab WHERE lock_name IN`),
	"RunningOfKeys":      regexp.MustCompile(`^SELECT \* FROM \(SELECT job_key, COUNT\(\*\) AS running FROM async_job_tab`),
	"WriteRestRuns":      regexp.MustCompile(`^INSERT INTO async_job_now_tab`),
	"RestRuns":           regexp.MustCompile(`^SELECT \* FROM \(SELECT lock_name, state FROM async_job_now_tab`),
	"DropRestRuns":       regexp.MustCompile(`DELETE .* FROM async_job_now_tab WHERE lock_name IN`),
	"GivenUpJobs":        regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab .* AND job_status IN .* AND update_time >= `),
	"InState":            regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab .* WHERE id IN \(\?\) AND .*\) AS latest FOR UPDATE$`),
	"Indexes":            regexp.MustCompile(`^SELECT \* FROM \(SELECT .* FROM information_schema\.statistics`),
	"JobsOfKey":          regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab .* WHERE job_key = `),
	"KeepLeases":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET .*lock_until = .* locked_by IN`),
	"List":               regexp.MustCompile(`^SELECT id, CASE WHEN params .* FROM async_job_tab .* ORDER BY .* LIMIT`),
	"StillPending":       regexp.MustCompile(`^SELECT id FROM async_job_tab .* WHERE id IN \(\?\) AND \(COALESCE`),
	"LongParams":         regexp.MustCompile(`^SELECT \* FROM \(SELECT id, attempts, CASE WHEN params`),
	"LogAttempts":        regexp.MustCompile(`^INSERT IGNORE INTO async_job_log_tab`),
	"MakeLeases":         regexp.MustCompile(`^INSERT INTO shedlock_tab`),
	"Mark":               regexp.MustCompile(`^(/\*M!.*\*/ )?UPDATE async_job_tab .* SET .*attempts = attempts \+ \?`),
	"Unlocked":           regexp.MustCompile(`^SELECT id FROM async_job_tab .* FOR UPDATE /\*!`),
	"MarkedRows":         regexp.MustCompile(`^SELECT \* FROM \(SELECT id, attempts, lost FROM async_job_tab`),
	"Newest":             regexp.MustCompile(`^SELECT \(SELECT .*MAX\(id\).* FROM async_job_tab WHERE`),
	"WrittenAhead":       regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab .* WHERE job_type IN \(.*start_time \+ \? >= update_time`),
	"MendFlowsAhead":     regexp.MustCompile(`UPDATE .*async_job_flow_tab .*SET due_at = CASE WHEN undo_after`),
	"MendAhead":          regexp.MustCompile(`^UPDATE async_job_tab .* SET start_time = start_time \+ `),
	"HasScheduled":       regexp.MustCompile(`^SELECT \* FROM \(SELECT id, CASE WHEN .* AS stage FROM async_job_tab .* WHERE job_key = .* AND unique_in = `),
	"NoteScheduled":      regexp.MustCompile(`^UPDATE async_job_type_tab .*SET cron_at = \? WHERE`),
	"MendSchedule":       regexp.MustCompile(`^UPDATE async_job_type_tab .*SET cron_at = \? WHERE job_type = \? AND cron_at = \? AND cron_at >`),
	"PutSchedule":        regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET reached_at = CASE WHEN spec`),
	"AddFlow":            regexp.MustCompile(`^INSERT INTO async_job_flow_tab`),
	"AddNodes":           regexp.MustCompile(`^INSERT INTO async_job_node_tab`),
	"Flows":              regexp.MustCompile(`^SELECT id, kind, .* FROM async_job_flow_tab `),
	"FlowsStand":         regexp.MustCompile(`^SELECT f\.id AS flow, f\.state, SUM\(.* GROUP BY`),
	"CountFlows":         regexp.MustCompile(`^SELECT kind, COUNT\(\*\), SUM\(`),
	"NodeInFlow":         regexp.MustCompile(`^SELECT n\.id AS node, n\.name, .* JOIN async_job_flow_tab AS f`),
	"NodesOf":            regexp.MustCompile(`^SELECT n\.id, n\.name, .* COALESCE\(NULL, .* FROM async_job_node_tab`),
	"NodesNamed":         regexp.MustCompile(`^SELECT n\.id, n\.name, .* COALESCE\(n\.spec, .* FROM async_job_node_tab .* n\.name = `),
	"AnyFlow":            regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM \(SELECT id FROM async_job_flow_tab WHERE state IN \(.*\) LIMIT`),
	"LookAtNodes":        regexp.MustCompile(`^SELECT \* FROM \(SELECT \? AS part, id, \? AS jobs FROM`),
	"CountEnds":          regexp.MustCompile(`^SELECT \* FROM \(SELECT n\.id AS node, n\.job_id`),
	"BearNodes":          regexp.MustCompile(`^SELECT id, COALESCE\(job_id, .* AND state = \? ORDER BY id FOR UPDATE`),
	"BearNow":            regexp.MustCompile(`^SELECT id, COALESCE\(job_id, .* AND state = \? ORDER BY id FOR UPDATE`),
	"RefuseNode":         regexp.MustCompile(`^UPDATE async_job_node_tab .*SET state = \?, problem = `),
	"TendFlow":           regexp.MustCompile(`^SELECT \* FROM \(SELECT n\.id, n\.job_id, CASE WHEN j\.id IS NULL`),
	"SignalNode":         regexp.MustCompile(`^UPDATE async_job_node_tab .*SET state = CASE waits WHEN`),
	"StopFlow":           regexp.MustCompile(`^UPDATE async_job_flow_tab .*SET state = \?, undo_after = COALESCE`),
	"Undone":             regexp.MustCompile(`^SELECT id, COALESCE\(meta, .* FROM async_job_tab .* WHERE id IN`),
	"CancelFlow":         regexp.MustCompile(`^UPDATE async_job_flow_tab .*SET state = \?, ended_at = UNIX_TIMESTAMP`),
	"DeleteFlows":        regexp.MustCompile(`^SELECT \* FROM \(SELECT id, nodes, undo_nodes FROM async_job_flow_tab`),
	"LiveJobs":           regexp.MustCompile(`^SELECT \* FROM \(SELECT id, CASE state WHEN`),
	"TheirJobs":          regexp.MustCompile(`^SELECT \* FROM \(SELECT id, create_time FROM async_job_tab`),
	"ReopenFlow":         regexp.MustCompile(`^SELECT id, COALESCE\(job_id, .* OR kind = \?\) ORDER BY id FOR UPDATE$`),
	"AnySchedule":        regexp.MustCompile(`^SELECT \* FROM \(SELECT revision FROM async_job_schedule_tab`),
	"DueSchedules":       regexp.MustCompile(`^SELECT \* FROM \(SELECT name, .* FROM async_job_schedule_tab WHERE next_at <= `),
	"SchedulesAhead":     regexp.MustCompile(`^SELECT \* FROM \(SELECT name, .* FROM async_job_schedule_tab WHERE reached_at > `),
	"Timetable":          regexp.MustCompile(`^SELECT timed\.name, .* FROM async_job_schedule_tab AS timed LEFT JOIN async_job_tab AS job`),
	"Schedules":          regexp.MustCompile(`^SELECT name, .* FROM async_job_schedule_tab .* ORDER BY name`),
	"FireSchedule":       regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET reached_at = \?, next_at = .* last_job = `),
	"NoteFired":          regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET reached_at = \?, next_at = .* last_job = `),
	"PassSchedule":       regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET reached_at = \?, next_at = \S+ WHERE`),
	"MendScheduleRow":    regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET reached_at = \?, next_at = \? WHERE .* AND reached_at > `),
	"PauseSchedule":      regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET paused_at = U`),
	"ResumeSchedule":     regexp.MustCompile(`^UPDATE async_job_schedule_tab .*SET paused_at = NULL`),
	"DeleteSchedule":     regexp.MustCompile(`DELETE .* FROM async_job_schedule_tab WHERE name`),
	"Page":               regexp.MustCompile(`^\(SELECT .* FROM async_job_tab .* AND start_time = \? AND id > .*UNION ALL`),
	"Pause":              regexp.MustCompile(`^INSERT IGNORE INTO async_job_type_tab .*paused_at`),
	"PauseUntil":         regexp.MustCompile(`^UPDATE async_job_type_tab .*SET paused_at = CASE`),
	"EndPauses":          regexp.MustCompile(`UPDATE .* async_job_type_tab .*SET paused_at = NULL, paused_until = NULL WHERE job_type IN`),
	"Paused":             regexp.MustCompile(`^SELECT \* FROM \(SELECT job_type FROM async_job_type_tab +WHERE paused_at`),
	"CountDue":           regexp.MustCompile(`^SELECT COUNT\(\*\) FROM \(SELECT \* FROM \(SELECT id FROM async_job_tab .* LIMIT \?\) AS part`),
	"Look":               regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab WHERE id = \?\)`),
	"OtherTypes":         regexp.MustCompile(`SELECT job_type FROM async_job_tab .* ORDER BY job_type LIMIT \?`),
	"TypeLeases":         regexp.MustCompile(`^SELECT lock_name, .* AS lately FROM shedlock_tab`),
	"PausedTypes":        regexp.MustCompile(`^SELECT job_type, paused_at FROM async_job_type_tab`),
	"Settle Again":       regexp.MustCompile(`^UPDATE async_job_tab .* SET job_status = \?, start_time = `),
	"AbandonLeases":      regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_until = .* WHERE lock_name IN .* AND locked_by = \?`),
	"ReleaseLease":       regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_until = .* WHERE (lock_name IN .* AND )?locked_by = \?`),
	"Rise":               regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET term = .*, running = .*, layout = .*, locked_by = \?, locked_at`),
	"Beat":               regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET term = .*, running = .* AND locked_by = \? AND running >= \?`),
	"Bury":               regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET running = -\?, locked_at = .* AND term <= `),
	"BuryDead":           regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET locked_at = CASE WHEN running >= .* AND running > -\?`),
	"CopyLeases":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET locked_by = CASE lock_name`),
	"FreeLeases":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_until = .* locked_by IN \(\?\) AND UNIX_TIMESTAMP\(lock_until\) > `),
	"BreakLease":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET lock_until = .*, running = -\? WHERE`),
	"Reschedule":         regexp.MustCompile(`^UPDATE async_job_tab .* SET start_time = .*, changes = changes`),
	"Resume":             regexp.MustCompile(`^UPDATE async_job_type_tab .*SET paused_at = NULL, paused_until = NULL WHERE job_type = `),
	"SetLimits":          regexp.MustCompile(`^UPDATE async_job_type_tab .*SET workers = `),
	"Retry":              regexp.MustCompile(`^UPDATE async_job_tab .* SET job_status = \?, start_time = .*, retries = \?`),
	"RetryWith":          regexp.MustCompile(`^UPDATE async_job_tab .* SET params = .*, job_status = \?, start_time = .*, retries = \?`),
	"Schedule":           regexp.MustCompile(`^SELECT \* FROM \(SELECT cron_at IS NOT NULL .* FROM async_job_type_tab`),
	"SeeLeases":          regexp.MustCompile(`^SELECT \* FROM \(SELECT lock_name, .* AS free, locked_by, term, .* FROM shedlock_tab`),
	"Sickness":           regexp.MustCompile(`^\(SELECT CASE trx_mysql_thread_id`),
	"SetParams":          regexp.MustCompile(`^UPDATE async_job_tab .* SET params = `),
	"SetPriority":        regexp.MustCompile(`^UPDATE async_job_tab .* SET priority = \?, changes`),
	"Progress":           regexp.MustCompile(`^SELECT (\* FROM \(SELECT )?COALESCE\(progress, `),
	"SetProgress":        regexp.MustCompile(`^UPDATE async_job_tab .* SET progress = `),
	"SetResult":          regexp.MustCompile(`^UPDATE async_job_tab .* SET result = `),
	"FindOld":            regexp.MustCompile(`^SELECT id, job_type, job_status, .*create_time.* FROM async_job_tab .* LIMIT \?$`),
	"FirstRows":          regexp.MustCompile(`^SELECT id, job_type, job_status, .*create_time.* FROM async_job_tab .* LIMIT \?$`),
	"Span":               regexp.MustCompile(`^SELECT COALESCE\(MIN\(id\), \?\), COALESCE\(MAX\(id\), \?\) FROM async_job_tab`),
	"Standings":          regexp.MustCompile(`^SELECT \* FROM \(SELECT id, COALESCE\(job_status, \?\) AS status, term, attempts, changes FROM async_job_tab`),
	"SweepAll":           regexp.MustCompile(`^\(SELECT .* FROM async_job_tab .* job_status IN \(\?\) AND priority IN \([^)]*\) AND start_time <= .*UNION ALL`),
	"Tail":               regexp.MustCompile(`^SELECT id, CASE .* FROM async_job_tab .* ORDER BY id LIMIT`),
	"TakeLeases":         regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET term = \(?GREATEST`),
	"ClampPriorities":    regexp.MustCompile(`SELECT id FROM async_job_tab .* priority < -\? .* priority > \? `),
	"TypeNames":          regexp.MustCompile(`^SELECT job_type, name FROM async_job_type_tab`),
	"KnownTypes":         regexp.MustCompile(`^SELECT job_type, COALESCE\(name`),
	"WriteSettings":      regexp.MustCompile(`UPDATE .* async_job_type_tab .*SET settings = CASE`),
	"WriteLines":         regexp.MustCompile(`^INSERT INTO async_job_now_tab .* ON DUPLICATE KEY UPDATE`),
	"LastID":             regexp.MustCompile(`^SELECT \* FROM \(SELECT COALESCE\(MAX\(id\), \?\) AS last FROM async_job_tab`),
	"NextIDs":            regexp.MustCompile(`^SELECT \* FROM \(SELECT id FROM async_job_tab .* ORDER BY id LIMIT \?\) AS latest FOR UPDATE$`),
	"IDs":                regexp.MustCompile(`^SELECT id FROM async_job_tab .* LIMIT \?$`),
	"CountLate":          regexp.MustCompile(`^SELECT part, job_type, COUNT`),
	"PastOfJob":          regexp.MustCompile(`^SELECT kind AS part, name, .* UNION ALL .* FROM async_job_act_tab`),
	"BesideJob":          regexp.MustCompile(`^SELECT \? AS part, COALESCE\(name`),
	"Lines":              regexp.MustCompile(`^SELECT lock_name, term, told_at, state FROM async_job_now_tab`),
	"WriteStats":         regexp.MustCompile(`^INSERT INTO async_job_stat_tab .* ON DUPLICATE KEY UPDATE`),
	"EachStat":           regexp.MustCompile(`^SELECT job_type, begins_at, lock_name, .* FROM async_job_stat_tab WHERE job_type IN`),
	"Events":             regexp.MustCompile(`^SELECT \* FROM \(SELECT \S+ AS part, lock_name AS subject, .* FROM async_job_lease_log_tab .* UNION ALL .* FROM async_job_act_tab`),
	"Stats":              regexp.MustCompile(`^SELECT job_type, begins_at, lock_name, .* FROM async_job_stat_tab .* ORDER BY begins_at`),
	"RollUp":             regexp.MustCompile(`^SELECT job_type, begins_at, lock_name, .* FROM async_job_stat_tab .* FOR UPDATE$`),
	"DropStats":          regexp.MustCompile(`DELETE .* doomed FROM async_job_stat_tab AS doomed .* AND begins_at < \?$`),
	"TypesKnown":         regexp.MustCompile(`^SELECT job_type FROM async_job_type_tab ORDER BY job_type`),
	"WriteTenures":       regexp.MustCompile(`^INSERT INTO async_job_lease_log_tab .* ON DUPLICATE KEY UPDATE`),
	"ExpireTenures":      regexp.MustCompile(`UPDATE .* async_job_lease_log_tab SET ended_at = CASE lock_name`),
	"Tenures":            regexp.MustCompile(`^SELECT lock_name, term, holder, taken_at, ended_at, .* FROM async_job_lease_log_tab`),
	"DropTenures":        regexp.MustCompile(`DELETE .* FROM async_job_lease_log_tab WHERE ended_at < \?$`),
	"DropLines":          regexp.MustCompile(`^SELECT \* FROM \(SELECT lock_name FROM async_job_now_tab`),
	"NoteAct":            regexp.MustCompile(`^INSERT INTO async_job_act_tab`),
	"Acts":               regexp.MustCompile(`^SELECT id, acted_at`),
	"Operations":         regexp.MustCompile(`^SELECT \* FROM \(SELECT id, acted_at`),
	"InOneTransaction":   regexp.MustCompile(`^(BEGIN|START TRANSACTION)`),
	"LockState":          regexp.MustCompile(`^SELECT id FROM async_job_tab .* ORDER BY id FOR UPDATE$`),
	"LockMatching":       regexp.MustCompile(`^SELECT id FROM async_job_tab .* AND job_type IN \(\?\) .* ORDER BY id FOR UPDATE$`),
	"ClaimOperation":     regexp.MustCompile(`^UPDATE async_job_act_tab .*SET worker`),
	"AdvanceOperation":   regexp.MustCompile(`^UPDATE async_job_act_tab .*SET reached`),
	"CountOperation":     regexp.MustCompile(`^UPDATE async_job_act_tab .*SET changed`),
	"SetOperation":       regexp.MustCompile(`^UPDATE async_job_act_tab .*SET state`),
	"DeleteEnded":        regexp.MustCompile(`DELETE .* doomed FROM async_job_tab .* job_status IN \(\?\)$`),
	"RenameType":         regexp.MustCompile(`^UPDATE async_job_type_tab .*SET name = \? WHERE job_type = \? AND name = \?`),
	"NameTypes":          regexp.MustCompile(`UPDATE .* async_job_type_tab .*SET name = CASE`),
	"Settle NotStarted":  regexp.MustCompile(`^UPDATE async_job_tab .* SET term = \?, attempts = attempts - \?`),
	// What a verb sends besides, and what the schema sends.
	"old attempts":    regexp.MustCompile(`DELETE .* doomed FROM async_job_log_tab AS doomed`),
	"a wild priority": regexp.MustCompile(`^UPDATE async_job_tab .* SET priority = CASE .* WHERE id IN`),
	"a new name":      regexp.MustCompile(`^INSERT INTO async_job_type_tab \(job_type, name\)`),
	"what runs":       regexp.MustCompile(`UPDATE (.* )?shedlock_tab .* SET running = CASE lock_name`),
	"a new table":     regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS async_job_log_tab`),
	"a new column":    regexp.MustCompile(`^ALTER TABLE async_job_tab ADD COLUMN`),
	"a new index":     regexp.MustCompile(`^ALTER TABLE async_job_tab ADD KEY`),
}

// sentLog notes the statements that really go to a server.
type sentLog struct {
	mu   sync.Mutex
	sent map[string]bool
}

var values = regexp.MustCompile(`'[^']*'|\b\d+(, ?\d+)*\b`)

// note forgets the values, in which anything may stand.
func (r *sentLog) note(_ context.Context, _ mysqlConn, query string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[values.ReplaceAllString(query, "?")] = true
	return nil
}

func (r *sentLog) statements() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.sent))
}

// missing are the verbs whose statements were not sent.
func (r *sentLog) missing() (verbs []string) {
	statements := r.statements()
	for verb, statement := range sentBy {
		if !slices.ContainsFunc(statements, statement.MatchString) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func TestEveryVerbOfTheStoreIsLookedForInWhatIsSent(t *testing.T) {
	verbs := reflect.TypeFor[*record.Store]()
	for i := range verbs.NumMethod() {
		m := verbs.Method(i)
		takesContext := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if takesContext && sentBy[m.Name] == nil {
			t.Errorf("%s sends statements, and is not in the list", m.Name)
		}
	}
}

// forLater is what an older server reads over.
var forLater = regexp.MustCompile(`/\*M?!\?.*?\*/`)

// No server that old runs here: words that it does not know are all that is looked for.
func TestNothingThatIsSentIsTooNewForMySQL57(t *testing.T) {
	t.Parallel()
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB has a dialect of its own, of which no MySQL hears")
		}
		r := &sentLog{sent: map[string]bool{}}
		pool := openOverheard(t, d.DSN, r.note)
		createOriginal(t, d)
		insertAsTheOriginal(t, d, 1)
		if err := schema.Migrate(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		comeUponTheDead(t, d)
		addRows(t, d.DB, 1, func(int) row { return row{priority: 9} })
		loseALock(t, d, pool)
		useEveryVerb(t, pool)
		backlog, deadline := 0, time.Now().Add(patience)
		for len(r.missing()) > 0 && time.Now().Before(deadline) {
			workForAWhile(t, d, pool, backlog)
			backlog = (backlog + 1000) % 6000
		}
		if missing := r.missing(); len(missing) > 0 {
			t.Errorf("of %s nothing was sent: this proves nothing", strings.Join(missing, ", "))
		}
		for _, statement := range r.statements() {
			if found := tooNew.FindString(forLater.ReplaceAllString(statement, "")); found != "" {
				t.Errorf("MySQL 5.7 does not know %q: %s", found, statement)
			}
		}
		t.Logf("%d different statements", len(r.statements()))
	})
}

// comeUponTheDead leaves jobs as they are when a holder has died: once, and once too often; one that a later holder has,
// and an old one that nobody wanted.
func comeUponTheDead(t *testing.T, d dbtest.Database) {
	t.Helper()
	execute(t, d.DB, "UPDATE async_job_tab SET term = 1 WHERE id = 1")
	execute(t, d.DB, "UPDATE async_job_tab SET term = 1, lost = 2 WHERE id = 2")
	execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = %d WHERE id = 3", int64(1)<<60))
	execute(t, d.DB, "INSERT INTO async_job_tab (job_type, job_status, create_time, update_time) VALUES (1, 0, 1, 1)")
}

func loseALock(t *testing.T, d dbtest.Database, pool *sql.DB) {
	t.Helper()
	l := newLock(t, pool, shedlock.Config{LockSecond: 8, MinLockSecond: 1})
	wantTryLock(t, l, true)
	unlock(t, l)
	execute(t, d.DB, expire)
	wantTryLock(t, l, true)
	execute(t, d.DB, "DELETE FROM shedlock_tab")
	wantLost(t, l, 8*time.Second)
}

// useFlows sends every statement about flows.
func useFlows(t *testing.T, jobs *queue_job.Jobs, st *record.Store, pool *sql.DB, jobType int32) {
	t.Helper()
	ctx, f := t.Context(), queue_job.NewFlow("kind", queue_job.FlowKey("k"))
	job := queue_job.AddModelJob{JobType: jobType}
	f.Job("a", job)
	f.Job("b", job).After("a")
	f.Job("c", job).AfterEnd("a")
	added, err := jobs.AddFlow(ctx, pool, f)
	if err == nil {
		_, err = jobs.AddFlow(ctx, pool, f)
	}
	var info *queue_job.FlowInfo
	if err == nil {
		info, err = jobs.Flow(ctx, pool, added.Id)
	}
	if err != nil {
		t.Fatal(err)
	}
	execute(t, pool, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1, result = '42' WHERE id = %d", info.Jobs[0].JobId))
	first := store.NodeID(added.Id, 0)
	_, err = st.NodesNamed(ctx, nil, []uint64{first}, "a")
	if err == nil {
		_, err = st.AnyFlow(ctx)
	}
	for _, filter := range []queue_job.FlowFilter{{}, {Stuck: true}, {States: []queue_job.FlowState{queue_job.FlowOpen}, Key: "k"}} {
		if err == nil {
			_, err = jobs.Flows(ctx, pool, filter)
		}
	}
	if err == nil {
		_, err = st.CountFlows(ctx)
	}
	if err == nil {
		_, _, err = st.NodeInFlow(ctx, first)
	}
	if err == nil {
		_, err = st.LookAtNodes(ctx, 0, 10)
	}
	if err == nil {
		_, err = st.CountEnds(ctx, []uint64{first}, true, 0)
	}
	if err == nil {
		_, err = st.BearNodes(ctx, []uint64{first + 1})
	}
	if err == nil {
		err = st.RefuseNode(ctx, first+2, "not today")
	}
	if err == nil {
		_, err = jobs.CancelFlow(ctx, pool, added.Id)
	}
	if err == nil {
		_, err = jobs.RetryFlow(ctx, pool, added.Id)
	}
	if err == nil {
		_, err = jobs.CancelFlow(ctx, pool, added.Id)
	}
	if err == nil {
		_, err = jobs.DeleteFlows(ctx, pool, time.Now().Add(time.Hour), 10)
	}
	if err != nil {
		t.Error(err)
	}
}

// useUndo sends every statement about a flow that is undone.
func useUndo(t *testing.T, jobs *queue_job.Jobs, st *record.Store, pool *sql.DB, jobType int32) {
	t.Helper()
	ctx, f := t.Context(), queue_job.NewFlow("undone", queue_job.FlowDeadline(time.Hour))
	job := queue_job.AddModelJob{JobType: jobType}
	f.OnFailure(queue_job.UndoAfter(time.Hour))
	for _, name := range []string{"a", "b", "fails", "waits"} {
		f.Job(name, job).Undo(job)
	}
	f.Job("join", job).After("a", "b")
	f.Job("tell", job).OnFailure()
	f.Await("approved").After("b")
	added, err := jobs.AddFlow(ctx, pool, f)
	if err != nil {
		t.Fatal(err)
	}
	info := theFlow(t, jobs, pool, added.Id)
	failing := jobOfFlow(t, info, "fails").JobId
	execute(t, pool, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2 WHERE id = %d", failing))
	if err = jobs.SignalFlow(ctx, pool, added.Id, "approved", "yes"); err == nil {
		_, err = st.CountEnds(ctx, nodesOf(t, st, added.Id), true, 0)
	}
	if err == nil {
		execute(t, pool, fmt.Sprintf("UPDATE async_job_flow_tab SET due_at = 1 WHERE id = %d", added.Id))
		_, err = st.TendFlow(ctx, added.Id)
	}
	if err == nil {
		_, err = jobs.UndoFlow(ctx, pool, added.Id)
	}
	for range 2 {
		if err == nil {
			_, err = st.TendFlow(ctx, added.Id)
		}
	}
	if err == nil {
		_, err = jobs.Retry(ctx, pool, queue_job.ID(failing))
	}
	if err == nil {
		_, err = jobs.UndoFlow(ctx, pool, addFlow(t, jobs, pool, f))
	}
	if err != nil {
		t.Error(err)
	}
}

// lookAtSickness looks again while the statement of a test beside this one has a character that MySQL cannot list.
func lookAtSickness(ctx context.Context, st *record.Store) (err error) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(dbtest.Pace(time.Since(began))) {
		if err = st.Sickness(ctx).Err; err == nil || !strings.Contains(err.Error(), "character of four bytes") {
			break
		}
	}
	return err
}

// useEveryVerb adds and steers jobs of a type that nobody runs.
func useEveryVerb(t *testing.T, pool *sql.DB) {
	t.Helper()
	const jobType = 7
	jobs, ctx := open(t, pool), t.Context()
	job := queue_job.AddModelJob{JobType: jobType, Key: "a"}
	unique := queue_job.AddModelJob{JobType: jobType, Key: "b", Unique: queue_job.UniqueWhilePending}
	added, err := jobs.AddMany(ctx, pool, []queue_job.AddModelJob{job, job, unique, unique})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		some := []queue_job.AddModelJob{unique.With(queue_job.UniqueKey("c", queue_job.UniqueWhilePending), queue_job.ReplaceWaiting()), unique.With(queue_job.UniqueKey("d", queue_job.UniqueForever))}
		if _, err := jobs.AddMany(ctx, pool, some); err != nil {
			t.Fatal(err)
		}
	}
	id, key := queue_job.ID(added[0].Id), queue_job.Key(jobType, "a")
	execute(t, pool, fmt.Sprintf("UPDATE async_job_tab SET term = 1 WHERE id = %d", added[1].Id)) // in flight
	later := time.Now().Add(time.Hour)
	st, err := record.Open(ctx, pool, "")
	if err != nil {
		t.Fatal(err)
	}
	ignoring, ignoringTwo := func(_ any, err error) error { return err }, func(_, _ any, err error) error { return err }
	if err := st.MakeLeases(ctx, []string{"rest-7-1"}); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, "INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance) VALUES (1, 99, 1, 'lost', '', 1, 2, 'test')")
	execute(t, pool, "UPDATE async_job_tab SET job_status = 1 WHERE id = 1")
	again := queue_job.ID(added[2].Id)
	changed(t, 1)(jobs.Cancel(ctx, pool, again))
	if r, err := jobs.RetryWith(ctx, pool, again, "other"); err != nil || r.Jobs != 1 {
		t.Fatal(r, err)
	}
	signalled := addOne(t, jobs, pool, ofType(jobType)).Id
	step := store.Step{JobID: 2, Name: "charge", Attempt: 1, Term: 1}
	_, _, errSpan := st.Span(ctx)
	_, errFleet := st.Fleet(ctx, []string{"job-", "at-"})
	for verb, err := range map[string]error{
		"Fleet":           errFleet,
		"Span":            errSpan,
		"RecordStep":      errors.Join(ignoring(st.RecordStep(ctx, step)), ignoring(st.RecordStepThrough(ctx, pool, step)), st.RestoreSteps(ctx, []store.Step{step})),
		"StepsOf":         errors.Join(ignoring(jobs.Steps(ctx, pool, 2)), ignoring(st.StepsOfRun(ctx, nil, 2))),
		"Signal":          errors.Join(ignoring(st.Signal(ctx, store.Step{JobID: signalled, Name: "answer", Value: "1"})), ignoring(st.Signal(ctx, store.Step{JobID: signalled, Name: "answer", Value: "1"}))),
		"EndWait":         ignoring(st.EndWait(ctx, step)),
		"ForgetSteps":     errors.Join(st.ForgetStray(ctx, 2, 1), st.ForgetSteps(ctx, []uint64{99}), st.DeleteSteps(ctx, []uint64{99})),
		"KeepLogs":        st.KeepLogs(ctx, []store.Step{{JobID: 2, Kind: store.StepLog, Name: "12/1", Attempt: 12, Term: 1, Value: `"a"`}}, 10),
		"LogsOf":          errors.Join(ignoring(jobs.RunLogs(ctx, pool, 2)), ignoring(st.StepsAndLogsOf(ctx, []uint64{2}))),
		"FirstRows":       ignoring(st.FirstRows(ctx, 9)),
		"Delete":          ignoring(jobs.Delete(ctx, pool, queue_job.DeleteRange{Before: later})),
		"Restore":         ignoring(jobs.Restore(ctx, pool, []queue_job.Archived{{JobInfo: queue_job.JobInfo{Id: 1, Status: queue_job.JobStatusSuccess, Created: later, Due: later, Updated: later}}})),
		"Layout":          ignoring(st.Layout(ctx, jobType)),
		"SetLayout":       ignoring(st.SetLayout(ctx, 99, 0, 1026)),
		"MakeClosed":      st.MakeClosed(ctx, []string{"job-99", "job-99/0"}, 1026),
		"CloseLeases":     st.CloseLeases(ctx, []string{"job-99", "job-99/0"}, 1026),
		"CloseLease":      st.CloseLease(ctx, "job-99", "me", 1026),
		"OpenLeases":      st.OpenLeases(ctx, []string{"job-99/0"}, 1026, 9),
		"Reschedule":      ignoring(jobs.Reschedule(ctx, pool, id, later)),
		"SetParams":       ignoring(jobs.SetParams(ctx, pool, id, "other")),
		"SetPriority":     ignoring(jobs.SetPriority(ctx, pool, id, queue_job.PriorityHigh)),
		"Pause":           ignoring(jobs.Pause(ctx, pool, jobType)),
		"PauseUntil":      ignoring(jobs.PauseUntil(ctx, pool, jobType, later)),
		"WrittenAhead":    ignoring(st.WrittenAhead(ctx, []int32{jobType}, 0, 9)),
		"MendAhead":       ignoring(st.MendAhead(ctx, []uint64{1}, 0)),
		"MendFlowsAhead":  ignoring(st.MendFlowsAhead(ctx)),
		"EndPauses":       ignoring(st.EndPauses(ctx, []int32{jobType})),
		"all paused":      ignoring(jobs.Paused(ctx, pool)),
		"Paused":          ignoring(st.Paused(ctx)),
		"Resume":          ignoring(jobs.Resume(ctx, pool, jobType)),
		"SetLimits":       ignoring(jobs.SetLimits(ctx, pool, jobType, queue_job.Limits{Workers: 1})),
		"Get":             ignoring(jobs.Get(ctx, pool, id)),
		"LongParams":      ignoring(st.LongParams(ctx, []uint64{1}, 9)),
		"List":            ignoring(jobs.List(ctx, pool, queue_job.Filter{DueTo: later})),
		"MoveLease":       st.MoveLease(ctx, "rest-7-1", "me", 1, 1, 10, 3),
		"what runs":       ignoring(st.KeepLeases(ctx, []string{"rest-7-1"}, []string{"me"}, 10, map[string]int{"rest-7-1": 2})),
		"Leases":          ignoring(jobs.Leases(ctx, pool)),
		"Types":           ignoring(jobs.Types(ctx, pool)),
		"Lines":           ignoring(jobs.Lines(ctx, pool)),
		"IDs":             ignoring(st.IDs(ctx, record.Filter{Types: []int32{jobType}, Statuses: []int32{0, 2}}, 9)),
		"StillPending":    ignoring(st.StillPending(ctx, []uint64{1})),
		"Sickness":        lookAtSickness(ctx, st),
		"CountLate":       ignoringTwo(st.CountLate(ctx, []int32{jobType}, later.Unix(), 9, map[int32][]int64{jobType: {1}})),
		"PastOfJob":       ignoring(st.PastOfJob(ctx, record.OfPast{ID: 1, Created: 1000, Lease: "job-7", Term: 1, Acts: 50})),
		"BesideJob":       ignoring(st.BesideJob(ctx, 1, jobType, "job-7")),
		"WriteStats":      st.WriteStats(ctx, []record.Stat{{JobType: jobType, Begin: 60, Seconds: 60, Lease: "job-7", Term: 1}}),
		"EachStat":        st.EachStat(ctx, []int32{jobType}, 0, 1000, func(*record.Stat) {}),
		"Events":          ignoring(st.Events(ctx, 0, 100, 100)),
		"Stats":           ignoring(operate.History(ctx, jobs, pool, jobType, later.Add(-24*time.Hour), later, time.Hour)),
		"TypesKnown":      ignoring(st.TypesKnown(ctx)),
		"WriteTenures":    st.WriteTenures(ctx, []record.Tenure{{Lease: "job-7", Term: 1, Owner: "me", Taken: 1000}}),
		"ExpireTenures":   st.ExpireTenures(ctx, []record.Tenure{{Lease: "job-7", Term: 2, Taken: 2000}}),
		"Tenures":         ignoring(operate.LeaseHistory(ctx, jobs, pool, operate.TenureFilter{JobTypes: []int32{jobType}})),
		"burials":         ignoring(st.Tenures(ctx, record.TenureFilter{Buried: []string{"000000000000"}, Before: 1000, Most: 9})),
		"DropTenures":     st.DropTenures(ctx, 1000),
		"Instances":       ignoring(jobs.Instances(ctx, pool)),
		"HandOver":        handOverOf(t, st, jobs, pool),
		"Drain":           jobs.Drain(ctx, pool, "aaaaaaaaaaaa", time.Hour), // beside the two of HandOver
		"Undrain":         ignoring(jobs.Undrain(ctx, pool, "aaaaaaaaaaaa")),
		"Break":           jobs.Break(ctx, pool, "job-8"),
		"NoteRunning":     st.NoteRunning(ctx, "rest-7-1", "me", 10, 2),
		"DropLease":       st.DropLease(ctx, "rest-7-1", "me"),
		"RenameType":      ignoring(st.RenameType(ctx, jobType, "letter", "mail")),
		"MendSchedule":    st.MendSchedule(ctx, jobType, 1<<40, 1),
		"Unlocked":        ignoring(st.Unlocked(ctx, []uint64{added[0].Id})),
		"EndedLeases":     ignoring(st.EndedLeases(ctx, []string{"at-"})),
		"DropEnded":       st.DropEnded(ctx, []string{"at-000000000000"}),
		"Rise":            st.Rise(ctx, "live-000000000000", "me", 2, 2500, 10),
		"Beat":            ignoring(st.Beat(ctx, "live-000000000000", "me", 3, 2500, 10)),
		"Bury":            ignoring(st.Bury(ctx, "live-000000000000", "me", 1, 10)),
		"BuryDead":        ignoring(st.BuryDead(ctx, "live-000000000000", "me", 1, 10, false)),
		"PutSchedule":     ignoring(nil, st.PutSchedule(ctx, &record.Schedule{Name: "nightly", Spec: "@daily", JobType: jobType, CatchUp: 1})),
		"AnySchedule":     ignoring(st.AnySchedule(ctx)),
		"DueSchedules":    ignoring(st.DueSchedules(ctx, 1, 9)),
		"SchedulesAhead":  ignoring(st.SchedulesAhead(ctx, 1, 9)),
		"Timetable":       ignoring(st.Timetable(ctx, 9)),
		"FireSchedule":    ignoring(st.FireSchedule(ctx, &record.Schedule{Name: "nightly", JobType: jobType}, 1, 2, 1)),
		"PassSchedule":    st.PassSchedule(ctx, &record.Schedule{Name: "nightly"}, 1, 2),
		"MendScheduleRow": st.MendScheduleRow(ctx, &record.Schedule{Name: "nightly"}, 1),
		"PauseSchedule":   ignoring(jobs.PauseSchedule(ctx, pool, "nightly")),
		"ResumeSchedule":  ignoring(jobs.ResumeSchedule(ctx, pool, "nightly")),
		"Schedules":       ignoring(jobs.Schedules(ctx, pool, queue_job.ScheduleFilter{})),
		"DeleteSchedule":  ignoring(jobs.DeleteSchedule(ctx, pool, "nightly")),
		"CopyLeases": st.CopyLeases(ctx, []store.Copy{
			{Seen: store.Seen{Name: "job-7", Owner: "me", Term: 1, Layout: 1, Until: later.UnixMicro()}, Rest: "rest-7-1"},
		}),
		"FreeLeases":     st.FreeLeases(ctx, []string{"job-7"}, []string{"me"}),
		"LayDown":        st.LayDown(ctx, "job-70", "me"),
		"Wake":           st.Wake(ctx, []string{"job-70"}),
		"HaveWork":       ignoring(st.HaveWork(ctx, []int32{jobType})),
		"RunningOfKeys":  ignoring(st.RunningOfKeys(ctx, jobType, []string{"a", "b"}, []int64{1, 2})),
		"EarlierOfGroup": ignoring(st.EarlierOfGroup(ctx, jobType, "a", 9)),
		"WriteRestRuns":  st.WriteRestRuns(ctx, "rest-7-1", 2, 1, store.Runs{Jobs: []uint64{1}, Keys: []string{"a", "b"}}),
		"RestRuns":       ignoring(st.RestRuns(ctx, []string{"rest-7-1"})),
		"DropRestRuns":   st.DropRestRuns(ctx, "rest-7-1", 2),
		"AbandonLeases":  st.AbandonLeases(ctx, []string{"job-7"}, "me"),
		"CountDue":       ignoring(st.CountDue(ctx, jobType, later.Unix(), 100, 100)),
		"OtherTypes":     ignoring(st.OtherTypes(ctx, []int32{jobType}, 100)),
		"Counts":         ignoring(jobs.Counts(ctx, pool, queue_job.CountFilter{})),
		"LastAttempts":   ignoring(st.LastAttempts(ctx, 100)),
		"Errors":         ignoring(st.Errors(ctx, []int32{jobType}, 0, 100)),
		"Attempts":       ignoring(jobs.Attempts(ctx, pool, added[0].Id)),
	} {
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	useFlows(t, jobs, st, pool, jobType)
	useUndo(t, jobs, st, pool, jobType)
	operateOnAll(t, jobs, pool, jobType)
	if err := errors.Join(ignoringTwo(st.RollUp(ctx, jobType, 0, later.Unix(), 3600)), st.DropStats(ctx, jobType, later.Unix())); err != nil {
		t.Error(err)
	}
	if _, err := jobs.SetParams(ctx, pool, key, "other"); !errors.Is(err, queue_job.ErrInFlight) {
		t.Error(err)
	}
	if _, err := jobs.Cancel(ctx, pool, key); err != nil {
		t.Error(err)
	}
	if _, err := jobs.Retry(ctx, pool, key); err != nil {
		t.Error(err)
	}
	if _, err := jobs.Cancel(ctx, pool, key); err != nil {
		t.Error(err)
	}
	if _, err := jobs.RetryAll(ctx, pool, queue_job.RetryRange{JobType: jobType, Cancelled: true}); err != nil {
		t.Error(err)
	}
}

// operateOnAll sends what an operation on many jobs sends, and looks at what was noted of it.
func operateOnAll(t *testing.T, jobs *queue_job.Jobs, pool *sql.DB, jobType int32) {
	t.Helper()
	ctx := queue_job.WithActor(t.Context(), "mary", "a test")
	ended, err := jobs.Add(ctx, pool, queue_job.AddModelJob{JobType: jobType})
	if err == nil {
		_, err = jobs.Add(ctx, pool, queue_job.AddModelJob{JobType: jobType}) // the newest is never deleted
	}
	if err != nil {
		t.Fatal(err)
	}
	execute(t, pool, fmt.Sprintf("UPDATE async_job_tab SET job_status = 5 WHERE id = %d", ended))
	for _, verb := range []operate.Verb{operate.SetPriority, operate.Delete} {
		id, err := operate.Begin(ctx, jobs, pool, operate.Change{Verb: verb, Filter: queue_job.Filter{JobTypes: []int32{jobType}}})
		for _, set := range []func(context.Context, *queue_job.Jobs, queue_job.Executor, uint64) (bool, error){operate.Stop, operate.Resume} {
			if err == nil {
				_, err = set(ctx, jobs, pool, id)
			}
		}
		if err == nil {
			err = operate.CarryOut(ctx, jobs, pool, id, func(operate.Operation) {})
		}
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if acts, err := operate.Acts(ctx, jobs, pool, operate.ActFilter{Actor: "mary"}); err != nil || len(acts) < 6 {
		t.Errorf("%d acts, %v", len(acts), err)
	}
}

// handOverOf hands a lease over from one instance to another, neither of which is there.
func handOverOf(t *testing.T, st *record.Store, jobs *queue_job.Jobs, pool *sql.DB) error {
	t.Helper()
	for name, owner := range map[string]string{"job-8": "test@a/1#aaaaaaaaaaaa.1", "at-aaaaaaaaaaaa": "test@a/1#aaaaaaaaaaaa.2", "at-bbbbbbbbbbbb": "test@b/1#bbbbbbbbbbbb.1"} {
		if err := st.MakeLeases(t.Context(), []string{name}); err != nil {
			return err
		}
		if _, err := st.TakeLeases(t.Context(), []string{name}, owner, 1, 60, false); err != nil {
			return err
		}
	}
	return jobs.HandOver(t.Context(), pool, "job-8")
}

// workForAWhile runs jobs, with all that can come of them, for longer than it takes to sweep and to renew a lease. It stops
// while there is a backlog. Nothing is amiss if the lease, which is renewed each second, is lost.
func workForAWhile(t *testing.T, d dbtest.Database, pool *sql.DB, backlog int) {
	t.Helper()
	add(t, d.DB, backlog, 0)
	r := start(t, pool, queue_job.Config{
		LockSecond: 3, FirstPullDay: 7, NeedRetry: true, MaxRetries: 1, WorkerPoolCapacity: 2, QueueMaxSize: 200, LoadLimit: 100, OrderedByKey: true, Schedule: cron.MustParse("@every 1s"),
		HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			time.Sleep(2 * time.Millisecond)
			switch {
			case job.Id%100 == 2:
				return completeWithProgress(ctx, pool, job)
			case job.Id%100 == 0:
				return errors.New("no luck")
			case job.Id%100 == 1 && job.Attempt == 1:
				job.Status = queue_job.JobStatusContinue
			}
			return nil
		},
	})
	addAsync(t, pool, queue_job.AddModelJob{JobType: 1})
	addKeyed(t, d.DB, 1, "a")
	tx := begin(t, pool)
	if _, err := open(t, pool).Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1}); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	sleep(t.Context(), 1200*time.Millisecond)
	stop(t, r)
}

// completeWithProgress reads and writes all that a handler can.
func completeWithProgress(ctx context.Context, pool *sql.DB, job *queue_job.Job) error {
	_, err := job.Progress(ctx)
	if err := errors.Join(err, job.SetProgress(ctx, "half way"), job.SetResult(ctx, "done")); err != nil {
		return err
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
