-- What each verb of the store sends to MariaDB, when its tables are empty.
-- Written by: go test ./internal/store -run Shown -update

-- AbandonLeases
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND locked_by = ?; -- with "a", "b", "me"

-- Abandoned
SELECT id
FROM async_job_tab FORCE INDEX (async_job_due)
WHERE job_type = 7
  AND job_status = 0
  AND priority = 2
  AND start_time = 0
  AND create_time >= 1000
ORDER BY id
LIMIT 1;
SELECT COUNT(*) AS n, COALESCE(MAX(id), 0) AS last
FROM async_job_tab FORCE INDEX (async_job_due)
WHERE job_type = 7
  AND job_status = 0
  AND priority = 2
  AND start_time = 0
  AND id <= 500;

-- Acts
SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
FROM async_job_act_tab
WHERE id > 0
  AND last_job >= 4
  AND first_job <= 4
  AND (jobs = ? OR jobs LIKE ? OR jobs LIKE ? OR jobs LIKE ?)
  AND job_type IN (7)
  AND actor = ?
  AND operation = 3
  AND state IS NULL
  AND id < 9
ORDER BY id DESC
LIMIT 100; -- with "4", "4,%", "%,4", "%,4,%", "mary"

-- AddFlow
INSERT INTO async_job_flow_tab (kind, flow_key, open_key, nodes, created_at, alarms, undo_after, deadline, due_at)
VALUES (?, ?, ?, 2, UNIX_TIMESTAMP(), 1, 60, UNIX_TIMESTAMP() + 3600, UNIX_TIMESTAMP() + 3600); -- with "order", "4711", "4711"
SELECT *
FROM (SELECT id
  FROM async_job_flow_tab
  WHERE kind = ?
    AND open_key = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "order", "4711"

-- AddJob
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)
VALUES (?, ?, 0, ?, ?, ?); -- with "{}", 7, 0, 1700000000, 1700000000

-- AddJob, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, long_params)
VALUES (?, ?, 0, ?, ?, ?, ?); -- with "see long_params", 7, 0, 1700000000, 1700000000, "xxxxxxxxxxxxxxxxxxx…

-- AddJobs
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, 0, 1700000000, 1700000000, 0, NULL, NULL, NULL, NULL, NULL), (?, 7, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?); -- with "{}", "{}", "a", "{\"a\":\"b\"}", "g"

-- AddJobs, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, long_params)
VALUES (?, 7, 0, 0, 1700000000, 1700000000, NULL), (?, 7, 0, 0, 1700000000, 1700000000, ?); -- with "{}", "see long_params", "xxxxxxxxxxxxxxxxxxx…

-- AddJobsUnlessThere
SELECT *
FROM (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key IN (?, ?)
    AND unique_in = ?) AS latest
FOR UPDATE; -- with "a", "b", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b"
SELECT *
FROM (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key IN (?, ?)
    AND unique_in = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "a", "b", 7
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ?) AS latest
FOR UPDATE; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddJobsUnlessThere, types
SELECT *
FROM (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE (job_key = ?
      AND unique_in = 7 OR job_key = ?
      AND unique_in = 7 OR job_key = ?
      AND unique_in = 8)) AS latest
FOR UPDATE; -- with "a", "b", "b"
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL), (?, 8, 0, 0, 1700000000, 1700000000, 1, ?, 8, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b", "{}", "b"
SELECT *
FROM (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE (job_key = ?
      AND unique_in = 7 OR job_key = ?
      AND unique_in = 7 OR job_key = ?
      AND unique_in = 8) LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "a", "b", "b"
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ?) AS latest
FOR UPDATE; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddNodes
INSERT INTO async_job_node_tab (id, kind, name, state, waits, followers, enders, spec, undo_job, job_id, born)
VALUES (393217, 0, ?, 2, 0, ?, NULL, ?, ?, 7, 1000), (393218, 1, ?, 0, 1, NULL, NULL, NULL, NULL, NULL, 0); -- with "pay", "1-3,5", "{\"type\":7,\"params\":\"{}\"}", "{\"type\":7,\"params\":\"{}\"}", ""

-- AddScheduled
SELECT *
FROM (SELECT (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) AS now
  FROM async_job_type_tab
  WHERE job_type = 7
    AND cron_at < 1700000060
    AND paused_at IS NULL
    AND NOT EXISTS (SELECT 1
    FROM async_job_tab FORCE INDEX (async_job_key)
    WHERE job_key = ?
      AND unique_in = 7)) AS latest
FOR UPDATE; -- with "cron-1"

-- AddUnlessThere
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ?) AS latest
FOR UPDATE; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AdvanceOperation
UPDATE async_job_act_tab FORCE INDEX (PRIMARY)
SET reached = 500, touched_at = UNIX_TIMESTAMP()
WHERE id = 3
  AND state = 'open'
  AND worker = ?
  AND reached = 0; -- with "me"

-- AnyFlow
SELECT *
FROM (SELECT id
  FROM (SELECT id
    FROM async_job_flow_tab
    WHERE state IN (0, 3, 4)
    LIMIT 1) AS going
  UNION ALL SELECT id
  FROM (SELECT id
    FROM async_job_node_tab
    WHERE state = 1
    LIMIT 1) AS ready) AS latest
FOR UPDATE;

-- AnySchedule
SELECT *
FROM (SELECT revision
  FROM async_job_schedule_tab
  LIMIT 1) AS latest
FOR UPDATE;

-- AttemptsOf
SELECT job_id, attempt, term, outcome, error, started, finished, instance
FROM async_job_log_tab
WHERE job_id IN (1,2)
ORDER BY job_id, attempt, term;

-- BearNodes
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217)
  AND state = 1
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;

-- BearNodes, rows
SELECT id, COALESCE(followers, ''), COALESCE(enders, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217);
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217,393218)
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT id, state
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id IN (3)
  AND state IN (0, 4)
ORDER BY id LOCK IN SHARE MODE;
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET state = 5
WHERE id IN (393217);
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)
VALUES (?, 7, 0, 0, 1700000000, 1700000000); -- with "{}"

-- BearNow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217)
  AND state = 1
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;

-- Beat
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET term = (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) + 2500, running = 2500, layout = 42, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by = ?
  AND running >= 0
  AND layout < 42; -- with "live-1", "me"
SELECT *
FROM (SELECT layout
  FROM shedlock_tab
  WHERE lock_name = ?
    AND locked_by = ?
    AND running >= 0
    AND layout = 42) AS latest
FOR UPDATE; -- with "live-1", "me"

-- BeginSchedule
INSERT IGNORE INTO async_job_type_tab (job_type)
VALUES (7);
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET cron_at = GREATEST(COALESCE(cron_at, 0), 1700000000), cron_spec = ?
WHERE job_type = 7
  AND (cron_spec IS NULL OR cron_spec <> ? OR cron_at IS NULL); -- with "@hourly", "@hourly"

-- BesideJob
SELECT 1 AS part, COALESCE(name, '') AS name, COALESCE(settings, '') AS state, COALESCE(paused_at, 0), COALESCE(told_at, 0), COALESCE(cron_at, 0), COALESCE(workers, 0), CASE WHEN paused_until > paused_at THEN paused_until ELSE 0 END, COALESCE(rate, 0), CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT actor
    FROM async_job_act_tab AS act
    WHERE act.job_type = kind.job_type
      AND verb = 'pause'
      AND acted_at >= kind.paused_at
    ORDER BY act.id DESC
    LIMIT 1), '') END AS actor, CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT why
    FROM async_job_act_tab AS act
    WHERE act.job_type = kind.job_type
      AND verb = 'pause'
      AND acted_at >= kind.paused_at
    ORDER BY act.id DESC
    LIMIT 1), '') END AS why
FROM async_job_type_tab AS kind
WHERE job_type = 7
UNION ALL SELECT 2, lock_name, state, term, told_at, 0, 0, 0, 0, '', ''
FROM async_job_now_tab
WHERE lock_name = ? OR lock_name LIKE ?
UNION ALL SELECT 3, '', '', job_status, term, attempts, deferred, (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END), 0, '', ''
FROM async_job_tab
WHERE id = 4; -- with "job-7", "job-7/%"

-- BreakLease
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP()), running = -2
WHERE lock_name = ?
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "me"

-- Bury
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET running = -2, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running >= 0
  AND term = 9
  AND term <= (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000); -- with "live-1", "me"

-- BuryDead
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_at = CASE WHEN running >= 0 THEN FROM_UNIXTIME(UNIX_TIMESTAMP()) ELSE locked_at END, running = -3, lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9
  AND (running < 0 OR term <= (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000)); -- with "live-1", "me"
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_at = CASE WHEN running >= 0 THEN FROM_UNIXTIME(UNIX_TIMESTAMP()) ELSE locked_at END, running = -3, lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9; -- with "live-1", "me"

-- Cancel
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET job_status = 5, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- CancelFlow
UPDATE async_job_flow_tab FORCE INDEX (PRIMARY)
SET state = 2, ended_at = UNIX_TIMESTAMP(), open_key = NULL, due_at = NULL
WHERE id = 3
  AND state = 0;

-- ClaimOperation
UPDATE async_job_act_tab FORCE INDEX (PRIMARY)
SET worker = ?, touched_at = UNIX_TIMESTAMP()
WHERE id = 3
  AND state = 'open'
  AND (worker IS NULL OR worker = ? OR touched_at NOT BETWEEN UNIX_TIMESTAMP() - 15 AND UNIX_TIMESTAMP() + 15); -- with "me", "me"
SELECT *
FROM (SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
  FROM async_job_act_tab
  WHERE id > 0
    AND id = 3
    AND state IS NOT NULL
    AND state = 'open'
  ORDER BY id DESC
  LIMIT 1) AS latest
FOR UPDATE;

-- ClampPriorities
(SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority > 2
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority > 2
    AND id > 0
  LIMIT 250);

-- CloseLease
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET layout = -1028, locked_by = '', lock_until = FROM_UNIXTIME(2147400000)
WHERE lock_name IN (?)
  AND locked_by = ?
  AND layout > 0
  AND layout < 1028; -- with "a", "me"
SELECT *
FROM (SELECT term
  FROM shedlock_tab
  WHERE lock_name = ?
    AND locked_by = ?
    AND layout > 0
    AND layout < 1028) AS latest
FOR UPDATE; -- with "a", "me"

-- CloseLeases
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET layout = -1028, locked_by = '', lock_until = FROM_UNIXTIME(2147400000)
WHERE lock_name IN (?, ?)
  AND (layout > 0
    AND layout < 1028
    AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP() OR layout < 0
    AND layout > -1028); -- with "a", "b"

-- Columns
SELECT *
FROM (SELECT table_name AS of_table, column_name AS name
  FROM information_schema.columns
  WHERE table_schema = DATABASE()
    AND table_name IN ('async_job_tab', 'shedlock_tab')) AS latest
FOR UPDATE;

-- CopyLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, ''), (?, '')
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "rest-a-9", "rest-b-8"
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_by = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE locked_by END, running = CASE lock_name WHEN ? THEN 3 WHEN ? THEN 1 ELSE running END, term = CASE lock_name WHEN ? THEN 9 WHEN ? THEN 8 ELSE term END, layout = CASE lock_name WHEN ? THEN 1 WHEN ? THEN 1028 ELSE layout END, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME(CASE lock_name WHEN ? THEN 1700000000.000000 WHEN ? THEN 1700000001.500000 ELSE 0 END)
WHERE lock_name IN (?, ?)
  AND locked_by = ''; -- with "rest-a-9", "me", "rest-b-8", "you", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8"

-- Count
SELECT job_type, COALESCE(job_status, 0), COUNT(*)
FROM async_job_tab FORCE INDEX (async_job_due)
WHERE id > 0
  AND job_type IN (7)
  AND (job_status IN (0,2) OR job_status IS NULL)
  AND (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) < 1000
GROUP BY job_type, job_status
ORDER BY job_type, job_status;

-- CountDue
SELECT COUNT(*)
FROM (SELECT *
  FROM (SELECT id
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type = 7
      AND job_status IN (0, 3, 4)
      AND id > 0
      AND id <= 500
      AND (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) < 1000
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT id
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type = 7
      AND job_status IS NULL
      AND id > 0
      AND id <= 500
      AND (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) < 1000
    LIMIT 100) AS part) AS due;

-- CountEnds
SELECT *
FROM (SELECT n.id AS node, n.job_id, j.job_status, COALESCE(n.followers, '') AS followers, COALESCE(n.enders, '') AS enders, COALESCE(j.result, '') AS result
  FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE n.id IN (393217,393218)
    AND n.state = 2
    AND (j.job_status = 1 OR n.counted = 0
      AND j.job_status IN (2, 5)
      AND (j.term = 0
        AND (j.changes & 268435456) = 0 OR j.update_time <= UNIX_TIMESTAMP() - 10 OR j.update_time > UNIX_TIMESTAMP() + 60))) AS latest
FOR UPDATE;

-- CountEnds, rows
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217,393218,393219)
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
UPDATE async_job_flow_tab FORCE INDEX (PRIMARY)
SET state = CASE undo_after WHEN 0 THEN 3 ELSE state END, due_at = CASE WHEN due_at <= UNIX_TIMESTAMP() + undo_after THEN due_at ELSE UNIX_TIMESTAMP() + undo_after END
WHERE id IN (3)
  AND state = 0
  AND undo_after >= 0;
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET state = 3
WHERE id IN (393217);
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET counted = 2
WHERE id IN (393218);
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET result = CASE id WHEN 393217 THEN ? END
WHERE id IN (393217); -- with "42"
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET waits = waits - 1
WHERE id IN (393219);
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET waits = 0, state = 1
WHERE id IN (393218);
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET waits = 0, state = 3
WHERE id IN (393220);
UPDATE async_job_flow_tab FORCE INDEX (PRIMARY)
SET state = 1, ended_at = UNIX_TIMESTAMP(), open_key = NULL, due_at = NULL
WHERE id = 3
  AND state = 0;

-- CountFlows
SELECT kind, COUNT(*), SUM(CASE WHEN stuck = 1 THEN 1 ELSE 0 END), SUM(CASE WHEN state <> 0
    AND stuck = 0 THEN 1 ELSE 0 END)
FROM (SELECT f.kind, f.state, CASE WHEN m.flow IS NULL
    AND f.state <> 3
    AND NOT (f.state = 0
      AND EXISTS (SELECT 1
      FROM async_job_node_tab AS n
      WHERE n.id >= f.id * 131072
        AND n.id < (f.id + 1) * 131072
        AND n.state = 0
        AND n.kind = 3
        AND n.waits = 1
        AND n.counted = 0)) THEN 1 ELSE 0 END AS stuck
  FROM async_job_flow_tab AS f LEFT JOIN (SELECT DISTINCT f.id AS flow
    FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id DIV 131072 LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
      AND j.create_time = n.born
    WHERE n.state IN (1, 2)
      AND (f.state = 0
        AND n.kind IN (0, 3) OR f.state = 4
        AND n.kind IN (4, 5))
      AND (n.state = 1 OR n.state = 2
        AND j.id IS NOT NULL
        AND (COALESCE(j.job_status, 0) NOT IN (2, 5) OR n.counted = 0
          AND (n.enders IS NOT NULL OR f.state = 0
            AND f.undo_after = 0)) OR n.state = 0
        AND n.kind = 3
        AND n.waits = 1
        AND n.counted = 0)) AS m ON m.flow = f.id
  WHERE f.state IN (0,3,4)
    AND f.ended_at IS NULL) AS stands
GROUP BY kind
ORDER BY kind;

-- CountLate
SELECT part, job_type, COUNT(*)
FROM (SELECT *
  FROM (SELECT 0 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IN (0, 3, 4)
      AND priority IN (2,1,0,-1)
      AND start_time > 0
      AND start_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT 1 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IN (0, 3, 4)
      AND priority IN (2,1,0,-1)
      AND start_time = 0
      AND create_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT 2 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IN (0, 3, 4)
      AND priority IN (2,1,0,-1)
      AND start_time IS NULL
      AND create_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT 3 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IS NULL
      AND priority IN (2,1,0,-1)
      AND start_time > 0
      AND start_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT 4 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IS NULL
      AND priority IN (2,1,0,-1)
      AND start_time = 0
      AND create_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT 5 AS part, job_type
    FROM async_job_tab FORCE INDEX (async_job_due)
    WHERE job_type IN (7,8)
      AND job_status IS NULL
      AND priority IN (2,1,0,-1)
      AND start_time IS NULL
      AND create_time < 1000
      AND (term = 0 OR NOT (job_type = 7
          AND term IN (41,40) OR job_type = 8
          AND term IN (3)))
    LIMIT 100) AS part) AS late
GROUP BY part, job_type;

-- CountOperation
UPDATE async_job_act_tab FORCE INDEX (PRIMARY)
SET changed = changed + 400, skipped = skipped + 100, state = ?
WHERE id = 3; -- with "done"

-- DeleteEnded
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_tab AS doomed FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND job_status IN (1, 2, 5);

-- DeleteFlows
SELECT *
FROM (SELECT id, nodes, undo_nodes
  FROM async_job_flow_tab
  WHERE state IN (1, 2, 5)
    AND ended_at < 1000
    AND created_at < 1000
  ORDER BY ended_at, id
  LIMIT 100) AS latest
FOR UPDATE;

-- DeleteFlows, rows
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_flow_tab AS doomed FORCE INDEX (PRIMARY)
WHERE id = 3
  AND state IN (1, 2, 5)
  AND ended_at < 1000
  AND undo_nodes = 0;

-- DeleteOld
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_tab AS doomed FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (job_status IN (2)
    AND update_time < 900
    AND create_time < 900 OR job_status IN (1,5)
    AND update_time < 1000
    AND create_time < 1000);
SELECT *
FROM (SELECT *
  FROM (SELECT DISTINCT job_id, 0 AS is_step
    FROM async_job_log_tab
    WHERE job_id > 3
      AND job_id <= 500
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_0
  UNION ALL SELECT *
  FROM (SELECT DISTINCT job_id, 1 AS is_step
    FROM async_job_step_tab
    WHERE job_id > 3
      AND job_id <= 500
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_1) AS latest
FOR UPDATE;

-- DeleteOld, attempts
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_log_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_id IN (1,2);

-- DeleteSchedule
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM async_job_schedule_tab
WHERE name = ?; -- with "nightly"

-- DeleteSteps
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_step_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_id IN (1,2);

-- DeleteStrays
SELECT *
FROM (SELECT *
  FROM (SELECT DISTINCT job_id, 0 AS is_step
    FROM async_job_log_tab
    WHERE job_id > 3
      AND job_id <= 500
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_0
  UNION ALL SELECT *
  FROM (SELECT DISTINCT job_id, 1 AS is_step
    FROM async_job_step_tab
    WHERE job_id > 3
      AND job_id <= 500
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_1) AS latest
FOR UPDATE;

-- DropEnded
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP(); -- with "a", "b"

-- DropLease
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?; -- with "a", "me"

-- DropLines
SELECT *
FROM (SELECT lock_name
  FROM async_job_now_tab
  WHERE told_at < 1000) AS latest
FOR UPDATE;

-- DropRestRuns
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM async_job_now_tab
WHERE lock_name IN (?, ?); -- with "rest-7-64", "rest-7-64+1"

-- DropStats
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_stat_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_type = 7
  AND begins_at < 1000;

-- DropTenures
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM async_job_lease_log_tab
WHERE ended_at < 1000;

-- DueSchedules
SELECT *
FROM (SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
  FROM async_job_schedule_tab
  WHERE next_at <= 1700000000
    AND paused_at IS NULL
  ORDER BY next_at
  LIMIT 100 /*!80001
  FOR UPDATE SKIP LOCKED */ /*M!100600
  FOR UPDATE SKIP LOCKED */) AS latest
FOR UPDATE;

-- EachStat
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type IN (7,8)
  AND begins_at >= 1000
  AND begins_at < 2000;

-- EarlierOfGroup
SELECT *
FROM (SELECT job_key, COUNT(*) AS earlier
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_type = 7
    AND job_key IN (?)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 < 9
  GROUP BY job_key
  UNION ALL SELECT job_group, COUNT(*) AS earlier
  FROM async_job_tab FORCE INDEX (async_job_group)
  WHERE job_type = 7
    AND job_group IN (?)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 < 9
  GROUP BY job_group) AS latest
FOR UPDATE; -- with "a", "a"

-- EndPauses
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_type_tab FORCE INDEX (PRIMARY)
SET paused_at = NULL, paused_until = NULL
WHERE job_type IN (7,8)
  AND paused_until > paused_at
  AND paused_until <= UNIX_TIMESTAMP();

-- EndWait
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
FOR UPDATE;

-- EndedLeases
SELECT *
FROM (SELECT lock_name
  FROM shedlock_tab
  WHERE (lock_name LIKE 'at-%')
    AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP()) AS latest
FOR UPDATE;

-- Errors
SELECT job_type, begins_at, lock_name, term, state
FROM async_job_stat_tab
WHERE job_type IN (7,8)
  AND begins_at >= 1000
  AND state LIKE '%"errors":%'
ORDER BY begins_at DESC
LIMIT 500;

-- Events
SELECT *
FROM (SELECT 1 AS part, lock_name AS subject, CAST(term AS SIGNED) AS numbered, holder AS who, CAST(taken_at AS SIGNED) AS happened, CAST(COALESCE(ended_at, 0) AS SIGNED) AS until_at, COALESCE(how, '') AS how, CAST(NULL AS SIGNED) AS job_type, '' AS why, 0 AS changed
  FROM async_job_lease_log_tab
  WHERE lock_name LIKE 'job-%'
    AND (ended_at IS NULL OR ended_at >= 1000000)
  ORDER BY taken_at DESC
  LIMIT 2000) AS tenures
UNION ALL SELECT *
FROM (SELECT 2 AS part, verb AS subject, CAST(id AS SIGNED) AS numbered, actor AS who, CAST(acted_at AS SIGNED) * 1000 AS happened, 0 AS until_at, COALESCE(state, '') AS how, job_type, COALESCE(why, '') AS why, changed
  FROM async_job_act_tab
  WHERE operation IS NULL
  ORDER BY id DESC
  LIMIT 20) AS acts
UNION ALL SELECT *
FROM (SELECT 3 AS part, verb AS subject, CAST(id AS SIGNED) AS numbered, actor AS who, CAST(acted_at AS SIGNED) * 1000 AS happened, 0 AS until_at, COALESCE(detail, '') AS how, job_type, COALESCE(why, '') AS why, 0 AS changed
  FROM async_job_act_tab
  WHERE job_type >= -2147483648
    AND verb IN ('deploy', 'mute', 'unmute')
    AND acted_at >= UNIX_TIMESTAMP() - 7776000
  ORDER BY acted_at DESC, id DESC
  LIMIT 1000) AS marks
UNION ALL SELECT 0, '', 0, '', CAST(UNIX_TIMESTAMP() AS SIGNED) * 1000, 0, '', CAST(NULL AS SIGNED), '', 0;

-- ExpireTenures
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_lease_log_tab
SET ended_at = CASE lock_name WHEN ? THEN CAST(? AS SIGNED) WHEN ? THEN CAST(? AS SIGNED) END, how = 'expired'
WHERE how IS NULL
  AND (lock_name = ?
    AND term < ? OR lock_name = ?
    AND term < ?); -- with "job-7", 1000, "job-8/1", 2000, "job-7", 3, "job-8/1", 4

-- FindOld
SELECT id, job_type, job_status, create_time, update_time
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id > 3
ORDER BY id
LIMIT 101;

-- FinishThrough
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET job_status = 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- FireSchedule
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ? LOCK IN SHARE MODE) AS latest
FOR UPDATE; -- with "cron-nightly@1700000060", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"

-- FirstOfKeys
SELECT *
FROM (SELECT job_key, MIN(id + 0) AS first
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_type = 7
    AND job_key IN (?, ?, ?, ?)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 >= 3
    AND (id > 5 OR (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) >= 1000)
  GROUP BY job_key
  UNION ALL SELECT job_group, MIN(id + 0) AS first
  FROM async_job_tab FORCE INDEX (async_job_group)
  WHERE job_type = 7
    AND job_group IN (?, ?, ?, ?)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 >= 3
    AND (id > 5 OR (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) >= 1000)
  GROUP BY job_group) AS latest
FOR UPDATE; -- with "a", "b", "c", "d", "a", "b", "c", "d"

-- FirstRows
SELECT id, job_type, job_status, create_time, update_time
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id > 0
ORDER BY id
LIMIT 500;

-- Fleet
SELECT *
FROM (SELECT lock_name, locked_by, term, running, layout, UNIX_TIMESTAMP(lock_until) AS held_until
  FROM shedlock_tab
  WHERE lock_name LIKE 'job-%' OR lock_name LIKE 'at-%'
  UNION ALL SELECT '', CASE WHEN paused_at IS NULL THEN 'type' WHEN paused_until > paused_at
    AND paused_until <= UNIX_TIMESTAMP() THEN 'type whose pause is over' ELSE 'paused type' END, job_type, COALESCE(workers, 0), COALESCE(layout, 0), COALESCE(rate, 0)
  FROM async_job_type_tab
  WHERE layout IS NOT NULL OR paused_at IS NOT NULL OR workers IS NOT NULL OR rate IS NOT NULL
  UNION ALL SELECT '', 'now', 0, 0, 0, (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))
  UNION ALL SELECT '', 'now, of leases', 0, 0, 0, UNIX_TIMESTAMP()) AS latest
FOR UPDATE;

-- Flows
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id < 9
  AND kind = ?
  AND flow_key = ?
  AND state IN (1,2)
ORDER BY id DESC
LIMIT 100; -- with "order", "4711"

-- Flows, by id
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id IN (1,2)
ORDER BY id DESC
LIMIT 100;

-- Flows, open
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE state = 0
  AND ended_at IS NULL
ORDER BY id DESC
LIMIT 100;

-- Flows, stuck
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab LEFT JOIN (SELECT DISTINCT f.id AS flow
  FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id DIV 131072 LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE n.state IN (1, 2)
    AND (f.state = 0
      AND n.kind IN (0, 3) OR f.state = 4
      AND n.kind IN (4, 5))
    AND (n.state = 1 OR n.state = 2
      AND j.id IS NOT NULL
      AND (COALESCE(j.job_status, 0) NOT IN (2, 5) OR n.counted = 0
        AND (n.enders IS NOT NULL OR f.state = 0
          AND f.undo_after = 0)) OR n.state = 0
      AND n.kind = 3
      AND n.waits = 1
      AND n.counted = 0)) AS moving ON flow = id
WHERE state IN (0,4)
  AND ended_at IS NULL
  AND flow IS NULL
  AND NOT (async_job_flow_tab.state = 0
    AND EXISTS (SELECT 1
    FROM async_job_node_tab AS n
    WHERE n.id >= async_job_flow_tab.id * 131072
      AND n.id < (async_job_flow_tab.id + 1) * 131072
      AND n.state = 0
      AND n.kind = 3
      AND n.waits = 1
      AND n.counted = 0))
ORDER BY id DESC
LIMIT 100;

-- FlowsStand
SELECT f.id AS flow, f.state, SUM(CASE WHEN n.kind IN (0, 3)
    AND (n.state = 3 OR n.state = 2
      AND j.job_status = 1) THEN 1 ELSE 0 END), SUM(CASE WHEN (f.state = 0
      AND n.kind IN (0, 3) OR f.state = 4
      AND n.kind IN (4, 5))
    AND (n.state = 1 OR n.state = 2
      AND j.id IS NOT NULL
      AND (COALESCE(j.job_status, 0) NOT IN (2, 5) OR n.counted = 0
        AND (n.enders IS NOT NULL OR f.state = 0
          AND f.undo_after = 0)) OR n.state = 0
      AND n.kind = 3
      AND n.waits = 1
      AND n.counted = 0) THEN 1 ELSE 0 END)
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) JOIN async_job_flow_tab AS f ON f.id = n.id DIV 131072 LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE (n.id >= 131072
    AND n.id < 262144 OR n.id >= 262144
    AND n.id < 393216)
GROUP BY f.id, f.state;

-- ForgetSteps
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_step_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_id IN (1,2)
  AND kind < 16;

-- ForgetStray
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_step_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_id = 1
  AND created <> 1000;

-- FreeLeases
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND locked_by IN (?, ?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me", "you"

-- GivenUpJobs
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type = 7
    AND job_status IN (2, 5)
    AND update_time >= 1
    AND update_time < 2
    AND id > 3
  ORDER BY id
  LIMIT 100) AS latest
FOR UPDATE;

-- HasScheduled
SELECT *
FROM (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = ?) AS latest
FOR UPDATE; -- with "cron-1", 7

-- HaveWork
SELECT *
FROM (SELECT job_type, ((SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status IS NULL
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 0
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 3
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 4
      LIMIT 1) IS NOT NULL) AS has_work
  FROM async_job_type_tab AS known
  WHERE job_type IN (7,8)) AS latest
FOR UPDATE;

-- HaveWork, of all
SELECT *
FROM (SELECT job_type, 1 = 1 AS has_work
  FROM async_job_type_tab AS known
  WHERE ((SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status IS NULL
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 0
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 3
      LIMIT 1) IS NOT NULL OR (SELECT 1
      FROM async_job_tab AS work FORCE INDEX (async_job_due)
      WHERE work.job_type = known.job_type
        AND work.job_status = 4
      LIMIT 1) IS NOT NULL)) AS latest
FOR UPDATE;

-- Holdings
SELECT lock_name, UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP() AS free, locked_by, term, running, (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) AS now_micros, UNIX_TIMESTAMP(locked_at) AS held_since, UNIX_TIMESTAMP(lock_until) AS held_until
FROM shedlock_tab
WHERE lock_name LIKE 'job-%'
  AND layout > 0 OR (lock_name LIKE 'at-%')
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()
ORDER BY lock_name;

-- IDs
SELECT id
FROM async_job_tab FORCE INDEX (async_job_due)
WHERE id > 0
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
LIMIT 100;
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id > 0
  AND job_status IN (2)
ORDER BY id
LIMIT 100;
SELECT id
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE id > 0
  AND job_key = ?
LIMIT 100; -- with "order 4711"

-- InOneTransaction
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM shedlock_tab
WHERE lock_name IN (?)
  AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP(); -- with "at-000000000000"

-- InState
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1,2)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term <> 0 LOCK IN SHARE MODE) AS latest
FOR UPDATE;

-- Indexes
SELECT *
FROM (SELECT DISTINCT table_name AS of_table, index_name AS name
  FROM information_schema.statistics
  WHERE table_schema = DATABASE()
    AND table_name IN ('async_job_tab', 'shedlock_tab')) AS latest
FOR UPDATE;

-- JobsOfKey
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND job_type = ?
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) AS latest
FOR UPDATE; -- with "a", 7

-- KeepLeases
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me"
SELECT *
FROM (SELECT lock_name, UNIX_TIMESTAMP(lock_until) AS held_until, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) AS now_millis
  FROM shedlock_tab
  WHERE lock_name IN (?, ?)
    AND locked_by IN (?)
    AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()) AS latest
FOR UPDATE; -- with "a", "b", "me"

-- KeepLeases and numbers
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET running = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE running END, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", 2, "b", 3, "a", "b", "me"
SELECT *
FROM (SELECT lock_name, UNIX_TIMESTAMP(lock_until) AS held_until, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) AS now_millis
  FROM shedlock_tab
  WHERE lock_name IN (?, ?)
    AND locked_by IN (?)
    AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()) AS latest
FOR UPDATE; -- with "a", "b", "me"

-- KeepLogs
INSERT IGNORE INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 16, ?, 1000, 12, 8, 5, NULL, ?); -- with "12/8", "\"a line\""
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_step_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_id = 1
  AND kind = 16
  AND attempt <= 2;

-- KnownTypes
SELECT job_type, COALESCE(name, ''), COALESCE(paused_at, 0), COALESCE(settings, ''), COALESCE(told_at, 0), COALESCE(cron_at, 0), COALESCE(layout, 0), COALESCE(workers, 0), COALESCE(rate, 0), CASE WHEN paused_until > paused_at THEN paused_until ELSE 0 END, CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT actor
    FROM async_job_act_tab AS act
    WHERE act.job_type = kind.job_type
      AND verb = 'pause'
      AND acted_at >= kind.paused_at
    ORDER BY act.id DESC
    LIMIT 1), '') END, CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT why
    FROM async_job_act_tab AS act
    WHERE act.job_type = kind.job_type
      AND verb = 'pause'
      AND acted_at >= kind.paused_at
    ORDER BY act.id DESC
    LIMIT 1), '') END
FROM async_job_type_tab AS kind
ORDER BY job_type;

-- LastAttempts
SELECT logged.job_id, logged.attempt, logged.term, logged.outcome, logged.error, logged.started, logged.finished, logged.instance, COALESCE(job_type, 0), COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN id IS NULL THEN 1 ELSE 0 END
FROM (SELECT job_id, attempt, term, outcome, error, started, finished, instance
  FROM async_job_log_tab
  ORDER BY job_id DESC, attempt DESC, term DESC
  LIMIT 500) AS logged LEFT JOIN async_job_tab ON async_job_tab.id = logged.job_id
ORDER BY logged.job_id DESC, logged.attempt DESC, logged.term DESC;

-- LastID
SELECT *
FROM (SELECT COALESCE(MAX(id), 0) AS last
  FROM async_job_tab
  WHERE id > 0) AS latest
FOR UPDATE;

-- LayDown
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */
FROM shedlock_tab
WHERE lock_name = ?
  AND EXISTS (SELECT *
  FROM (SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name = ?
      AND locked_by = ?) AS awake); -- with "dormant-7", "job-7", "me"
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_name = ?, lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "dormant-7", "job-7", "me"
SELECT *
FROM (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN (?)
    AND locked_by = ?
    AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()) AS latest
FOR UPDATE; -- with "job-7", "me"

-- Layout
SELECT *
FROM (SELECT layout
  FROM async_job_type_tab
  WHERE job_type = 7
    AND layout IS NOT NULL) AS latest
FOR UPDATE;

-- Lines
SELECT lock_name, term, told_at, state
FROM async_job_now_tab
ORDER BY lock_name;

-- List
SELECT id, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params, start_time, create_time, CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority, update_time, COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), UNIX_TIMESTAMP()
FROM (SELECT id AS found
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE id < 9
    AND id IN (1,2)
    AND job_key = ?
    AND job_type IN (7)
    AND (job_status IN (0) OR job_status IS NULL)
    AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < 9
  ORDER BY id + 0
  LIMIT 10) AS keyed JOIN async_job_tab ON id = found
ORDER BY id
LIMIT 10; -- with "a"

-- List, states
SELECT id, params AS params, start_time, create_time, CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority, update_time, COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), UNIX_TIMESTAMP()
FROM async_job_tab
WHERE id > 0
  AND id < 9
  AND job_type IN (7)
  AND ((job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND COALESCE(start_time, 0) <= UNIX_TIMESTAMP() OR (job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND COALESCE(start_time, 0) > UNIX_TIMESTAMP() OR (job_status IN (0,3,4) OR job_status IS NULL)
    AND term <> 0 OR job_status IN (1))
ORDER BY id
LIMIT 10;

-- LiveJobs
SELECT *
FROM (SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
  FROM async_job_node_tab FORCE INDEX (PRIMARY)
  WHERE id > 393217
    AND id <= 393218
    AND state IN (2, 1, 2)
  ORDER BY id
  LIMIT 1000) AS latest
FOR UPDATE;

-- LiveJobs, held
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393216,393217,393218)
  AND id > 393215
  AND state IN (0, 1, 2)
ORDER BY id
LIMIT 1000 LOCK IN SHARE MODE;

-- LockMatching
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND job_key = ?
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
  AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE; -- with "a"

-- LockState
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE;

-- LogAttempts
INSERT IGNORE INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance)
VALUES (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?); -- with 0, 0, 0, "", "", 0, 0, "", 0, 0, 0, "", "", 0, 0, "", 0, 0, 0, "", "", 0, 0, ""

-- LogsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = 1
  AND kind = 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created);

-- LongParams
SELECT *
FROM (SELECT id, attempts, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1,2)
    AND term = 9
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) AS latest
FOR UPDATE;

-- Look
SELECT *
FROM (SELECT id
  FROM async_job_tab
  WHERE id = 0) AS latest
FOR UPDATE;

-- LookAtNodes
SELECT *
FROM (SELECT 0 AS part, id, 1 AS jobs
  FROM (SELECT id
    FROM async_job_node_tab
    WHERE state = 1
    ORDER BY id
    LIMIT 500) AS ready
  UNION ALL SELECT 1, n.id, 1
  FROM (SELECT id, job_id, born, counted
    FROM async_job_node_tab
    WHERE state = 2
      AND job_id > 5
    ORDER BY job_id
    LIMIT 1000) AS n JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE (j.job_status = 1 OR n.counted = 0
      AND j.job_status IN (2, 5)
      AND (j.term = 0
        AND (j.changes & 268435456) = 0 OR j.update_time <= UNIX_TIMESTAMP() - 10 OR j.update_time > UNIX_TIMESTAMP() + 60))
  UNION ALL SELECT 2, COALESCE(MAX(job_id), 0), COUNT(*)
  FROM (SELECT job_id
    FROM async_job_node_tab
    WHERE state = 2
      AND job_id > 5
    ORDER BY job_id
    LIMIT 1000) AS page
  UNION ALL SELECT 3, id, 1
  FROM (SELECT id
    FROM async_job_flow_tab
    WHERE state IN (0, 3)
      AND (due_at <= UNIX_TIMESTAMP() OR state = 3
        AND due_at > UNIX_TIMESTAMP() + 60)
    ORDER BY due_at
    LIMIT 100) AS due) AS latest
FOR UPDATE;

-- MakeClosed
INSERT INTO shedlock_tab (lock_name, locked_by, layout, lock_until)
VALUES (?, '', -1028, FROM_UNIXTIME(2147400000)), (?, '', -1028, FROM_UNIXTIME(2147400000))
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "a", "b"

-- MakeLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, ''), (?, '')
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "a", "b"

-- Mark
/*M!100600
SET STATEMENT innodb_lock_wait_timeout=0 FOR */ UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET term = 9, attempts = attempts + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND IF(SYSDATE(6) BETWEEN NOW(6) + INTERVAL (1800000000500000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6))) MICROSECOND AND NOW(6) + INTERVAL 1 DAY, id + 18446744073709551615 = 0, 1)
  AND term = 0
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Mark Lost
/*M!100600
SET STATEMENT innodb_lock_wait_timeout=0 FOR */ UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET lost = CASE WHEN lost < 127 THEN lost + 1 ELSE lost END, term = 9, attempts = attempts + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND IF(SYSDATE(6) BETWEEN NOW(6) + INTERVAL (1800000000500000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6))) MICROSECOND AND NOW(6) + INTERVAL 1 DAY, id + 18446744073709551615 = 0, 1)
  AND term = 8
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- MarkedRows
SELECT *
FROM (SELECT id, attempts, lost
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1,2)
    AND term = 9
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) AS latest
FOR UPDATE;

-- MendAhead
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
ORDER BY id
FOR UPDATE;
UPDATE async_job_step_tab FORCE INDEX (PRIMARY)
SET until_at = until_at - 1000 * (SELECT update_time - UNIX_TIMESTAMP()
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id = job_id)
WHERE job_id IN (1,2)
  AND kind IN (1, 2)
  AND EXISTS (SELECT 1
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id = job_id
    AND create_time = created
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND start_time + 60 >= update_time
    AND start_time > UNIX_TIMESTAMP() + 2
    AND update_time > UNIX_TIMESTAMP() + 2
    AND update_time > 1700000002
    AND (term = 0
      AND attempts > 0
      AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
      AND start_time <= update_time + 1)
    AND until_at + 60000 >= start_time * 1000
    AND (kind = 1
      AND ended_at > ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) DIV 1000) OR ended_at = 0
      AND attempt = attempts));
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET start_time = start_time + UNIX_TIMESTAMP() - update_time, changes = changes + CASE WHEN term = 0 THEN 1 ELSE 0 END, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND start_time + 60 >= update_time
  AND start_time > UNIX_TIMESTAMP() + 2
  AND update_time > UNIX_TIMESTAMP() + 2
  AND update_time > 1700000002
  AND (term = 0
    AND attempts > 0
    AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
    AND start_time <= update_time + 1);

-- MendFlowsAhead
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_flow_tab
SET due_at = CASE WHEN undo_after >= 0
  AND due_at > UNIX_TIMESTAMP() + undo_after + 60
  AND (deadline IS NULL OR due_at < deadline) THEN UNIX_TIMESTAMP() + undo_after WHEN created_at > UNIX_TIMESTAMP() + 60 THEN due_at - created_at + UNIX_TIMESTAMP() ELSE due_at END, deadline = CASE WHEN created_at > UNIX_TIMESTAMP() + 60 THEN deadline - created_at + UNIX_TIMESTAMP() ELSE deadline END, created_at = CASE WHEN created_at > UNIX_TIMESTAMP() + 60 THEN UNIX_TIMESTAMP() ELSE created_at END
WHERE state IN (0, 3)
  AND (undo_after >= 0
    AND due_at > UNIX_TIMESTAMP() + undo_after + 60
    AND (deadline IS NULL OR due_at < deadline) OR created_at > UNIX_TIMESTAMP() + 60);

-- MendSchedule
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET cron_at = 1700000000
WHERE job_type = 7
  AND cron_at = 1700000060
  AND cron_at > UNIX_TIMESTAMP();

-- MendScheduleRow
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET reached_at = 1600000000, next_at = 0
WHERE name = ?
  AND reached_at = 1700000000
  AND reached_at > UNIX_TIMESTAMP(); -- with "nightly"

-- MoveLease
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET term = ?, layout = ?, locked_by = ?, running = ?, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by IN ('', ?); -- with 9, 1028, "me", 3, "a", "me"
SELECT *
FROM (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN (?)
    AND locked_by = ?
    AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()) AS latest
FOR UPDATE; -- with "a", "me"

-- NameTypes
SELECT *
FROM (SELECT job_type, name
  FROM async_job_type_tab
  WHERE job_type IN (7,8)
    AND name IS NOT NULL) AS latest
FOR UPDATE;
INSERT INTO async_job_type_tab (job_type, name)
VALUES (7, ?), (8, ?)
ON DUPLICATE KEY UPDATE job_type = job_type; -- with "mail", "export"
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_type_tab FORCE INDEX (PRIMARY)
SET name = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END
WHERE job_type IN (7,8)
  AND name IS NULL; -- with "mail", "export"

-- Newest
SELECT (SELECT COALESCE(MAX(id), 0)
  FROM async_job_tab
  WHERE id > 0) AS newest, (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) AS now;

-- NextIDs
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id > 3
    AND id < 9
    AND job_type IN (7)
    AND (job_status IN (0,4) OR job_status IS NULL)
  ORDER BY id
  LIMIT 100) AS latest
FOR UPDATE;
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE id > 3
    AND id < 9
    AND job_key = ?
  ORDER BY id + 0
  LIMIT 100) AS latest
FOR UPDATE; -- with "order 4711"

-- NodeInFlow
SELECT n.id AS node, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.job_id, 0), n.born, n.kind AS node_kind, f.id, f.kind, COALESCE(f.flow_key, ''), f.state, f.nodes, f.created_at, COALESCE(f.ended_at, 0)
FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = 3
WHERE n.id = 393217;

-- NodesNamed
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.spec, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > UNIX_TIMESTAMP() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND (n.id IN (393217) OR n.name = ?)
ORDER BY n.id; -- with "pay"

-- NodesOf
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > UNIX_TIMESTAMP() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
ORDER BY n.id;

-- NoteAct
INSERT INTO async_job_act_tab (acted_at, actor, verb, why, job_type, jobs, first_job, last_job, detail, operation, state, last_id, changed)
VALUES (UNIX_TIMESTAMP(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?); -- with "mary", "cancel", "a mistake", (*int32)(nil), "4,5", 4, 5, "{}", 3, <nil>, 0, 2

-- NoteFired
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET reached_at = 1700000060, next_at = 1700000120, last_at = 1700000060, last_job = 5
WHERE name = ?
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- NoteRunning
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET running = ?, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with 3, "a", "me"

-- NoteScheduled
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET cron_at = 1700000060
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL;

-- OpenLeases
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET layout = 1028, term = GREATEST(term, 9), lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND layout = -1028; -- with "a", "b"

-- Operations
SELECT *
FROM (SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
  FROM async_job_act_tab
  WHERE id > 0
    AND id = 3
    AND state IS NOT NULL
    AND state = 'open'
  ORDER BY id DESC
  LIMIT 100) AS latest
FOR UPDATE;

-- OtherTypes
(SELECT job_type
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type >= -2147483648
    AND job_type <= -9
  ORDER BY job_type
  LIMIT 1)
UNION ALL (SELECT job_type
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type >= -7
    AND job_type <= 6
  ORDER BY job_type
  LIMIT 1)
UNION ALL (SELECT job_type
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type >= 9
    AND job_type <= 2147483647
  ORDER BY job_type
  LIMIT 1);

-- Page
(SELECT 0 AS part, id, params AS params, 0, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type = 7
    AND job_status = 0
    AND priority = 2
    AND start_time = 0
    AND id > 0
    AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
      AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> ''
      AND CRC32(TRIM(TRAILING ' '
        FROM COALESCE(NULLIF(RTRIM(job_group), ''), job_key))) % 4 = 2)
  ORDER BY id
  LIMIT 100)
UNION ALL (SELECT 1 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type = 7
    AND job_status = 0
    AND priority = 2
    AND (start_time = 0
      AND id > 0 OR start_time > 0)
    AND start_time <= UNIX_TIMESTAMP() + 3
    AND id > 0
    AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
      AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> ''
      AND CRC32(TRIM(TRAILING ' '
        FROM COALESCE(NULLIF(RTRIM(job_group), ''), job_key))) % 4 = 2)
  ORDER BY start_time, id
  LIMIT 100);

-- PassSchedule
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET reached_at = 1700000060, next_at = NULL
WHERE name = ?
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- PastOfJob
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS SIGNED) AS attempt, CAST(term AS SIGNED) AS numbered, CAST(ended_at AS SIGNED) AS happened, CAST(COALESCE(until_at, 0) AS SIGNED) AS until_at
FROM async_job_step_tab
WHERE job_id = 4
  AND created = 1000
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS SIGNED) AS attempt, CAST(id AS SIGNED) AS numbered, CAST(acted_at AS SIGNED) AS happened, CAST(COALESCE(operation, 0) AS SIGNED) AS until_at
  FROM async_job_act_tab
  WHERE id > (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
    AND state IS NULL
    AND acted_at >= 1000
    AND last_job >= 4
    AND first_job <= 4
    AND (jobs = ? OR jobs LIKE ? OR jobs LIKE ? OR jobs LIKE ?)
  ORDER BY id DESC
  LIMIT 50) AS acts
UNION ALL SELECT *
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS SIGNED) AS happened, 0 AS until_at
  FROM async_job_act_tab
  WHERE id <= (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
  ORDER BY id DESC
  LIMIT 1) AS earlier
UNION ALL SELECT 103, lock_name, '', holder, '', 0, term, taken_at, COALESCE(ended_at, 0)
FROM async_job_lease_log_tab
WHERE (lock_name = ? OR lock_name LIKE ?)
  AND term = 3; -- with "4", "4,%", "%,4", "%,4,%", "job-7", "job-7/%"

-- PastOfJob, without a term
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS SIGNED) AS attempt, CAST(term AS SIGNED) AS numbered, CAST(ended_at AS SIGNED) AS happened, CAST(COALESCE(until_at, 0) AS SIGNED) AS until_at
FROM async_job_step_tab
WHERE job_id = 4
  AND created = 1000
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS SIGNED) AS attempt, CAST(id AS SIGNED) AS numbered, CAST(acted_at AS SIGNED) AS happened, CAST(COALESCE(operation, 0) AS SIGNED) AS until_at
  FROM async_job_act_tab
  WHERE id > (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
    AND state IS NULL
    AND acted_at >= 1000
    AND last_job >= 4
    AND first_job <= 4
    AND (jobs = ? OR jobs LIKE ? OR jobs LIKE ? OR jobs LIKE ?)
  ORDER BY id DESC
  LIMIT 50) AS acts
UNION ALL SELECT *
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS SIGNED) AS happened, 0 AS until_at
  FROM async_job_act_tab
  WHERE id <= (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
  ORDER BY id DESC
  LIMIT 1) AS earlier; -- with "4", "4,%", "%,4", "%,4,%"

-- Pause
INSERT IGNORE INTO async_job_type_tab (job_type, paused_at)
VALUES (7, UNIX_TIMESTAMP());
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET paused_at = COALESCE(paused_at, UNIX_TIMESTAMP()), paused_until = NULL
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_until IS NOT NULL);

-- PauseSchedule
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET paused_at = UNIX_TIMESTAMP(), revision = revision + 1
WHERE name = ?
  AND paused_at IS NULL; -- with "nightly"

-- PauseUntil
INSERT IGNORE INTO async_job_type_tab (job_type, paused_at, paused_until)
VALUES (7, CASE WHEN UNIX_TIMESTAMP() < 1700000000 THEN UNIX_TIMESTAMP() ELSE 1699999999 END, 1700000000);
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET paused_at = CASE WHEN paused_at < 1700000000 THEN paused_at WHEN UNIX_TIMESTAMP() < 1700000000 THEN UNIX_TIMESTAMP() ELSE 1699999999 END, paused_until = 1700000000
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_at >= 1700000000 OR paused_until IS NULL OR paused_until <> 1700000000);

-- Paused
SELECT *
FROM (SELECT job_type
  FROM async_job_type_tab
  WHERE paused_at IS NOT NULL) AS latest
FOR UPDATE;

-- PausedTypes
SELECT job_type, paused_at
FROM async_job_type_tab
WHERE paused_at IS NOT NULL
ORDER BY job_type;

-- Progress
SELECT *
FROM (SELECT COALESCE(progress, '')
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id = ?) AS latest
FOR UPDATE; -- with 1

-- PutSchedule
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET reached_at = CASE WHEN spec = ? THEN reached_at ELSE GREATEST(reached_at, UNIX_TIMESTAMP()) END, next_at = CASE WHEN spec = ? THEN next_at ELSE 0 END, spec = ?, job_type = 7, params = ?, settings = ?, catch_up = 1, revision = revision + 1, put_at = UNIX_TIMESTAMP()
WHERE name = ?; -- with "0 3 * * *", "0 3 * * *", "0 3 * * *", "{}", "{}", "nightly"
INSERT IGNORE INTO async_job_schedule_tab (name, spec, job_type, params, settings, catch_up, reached_at, next_at, put_at)
VALUES (?, ?, 7, ?, ?, 1, UNIX_TIMESTAMP(), 0, UNIX_TIMESTAMP()); -- with "nightly", "0 3 * * *", "{}", "{}"

-- RecordStep
INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value) SELECT id, 0, ?, create_time, 2, 9, 1700000000000, NULL, ?
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) LOCK IN SHARE MODE; -- with "charge", "\"x\""

-- RecordStepThrough
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET steps = COALESCE(steps, 0) + 1
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- RefuseNode
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET state = 4, problem = ?
WHERE id = 393217
  AND state = 1; -- with "not this type"

-- ReleaseLease
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(), LEAST(UNIX_TIMESTAMP(), UNIX_TIMESTAMP(locked_at)) + 61))
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "a", "me"
SELECT *
FROM (SELECT CASE WHEN UNIX_TIMESTAMP(lock_until) > GREATEST(UNIX_TIMESTAMP(), LEAST(UNIX_TIMESTAMP(), UNIX_TIMESTAMP(locked_at)) + 61) THEN 1 ELSE 0 END AS held
  FROM shedlock_tab
  WHERE lock_name = ?
    AND locked_by = ?) AS latest
FOR UPDATE; -- with "a", "me"

-- RenameType
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET name = ?
WHERE job_type = 7
  AND name = ?; -- with "letter", "mail"

-- ReopenFlow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393216,393217,393218)
  AND (state IN (1, 2, 4, 5) OR kind = 1)
ORDER BY id
FOR UPDATE;

-- ReplaceWaiting
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE;

-- ReplaceWaiting, rows
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET params = CASE id WHEN 1 THEN ? WHEN 2 THEN ? END, long_params = NULL, start_time = CASE id WHEN 1 THEN ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000 WHEN 2 THEN UNIX_TIMESTAMP() END, priority = CASE id WHEN 1 THEN 0 WHEN 2 THEN 1 END, max_retries = NULLIF(CASE id WHEN 1 THEN 3 WHEN 2 THEN -2 END, -2), meta = CASE id WHEN 1 THEN ? WHEN 2 THEN NULL END, job_status = 0, retries = 0, lost = 0, changes = changes + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with "{}", "{}", "{\"a\":\"b\"}"

-- Reschedule
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET start_time = GREATEST(1700000000, UNIX_TIMESTAMP()), changes = changes + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0;

-- RestRuns
SELECT *
FROM (SELECT lock_name, state
  FROM async_job_now_tab
  WHERE lock_name IN (?, ?)) AS latest
FOR UPDATE; -- with "rest-7-64", "rest-7/1-65"

-- Restore
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (4,5)
  ORDER BY id
  LIMIT 2) AS latest
FOR UPDATE;
INSERT IGNORE INTO async_job_tab (id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, job_key, job_group, priority, max_retries, meta, progress, result, changes, unique_in)
VALUES (4, ?, NULL, 7, 1, 0, 1000, 1001, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL), (5, ?, ?, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, 3, ?, ?, ?, 0, NULL); -- with "{}", "see long_params", "xxxxxxxxxxxxxxxxxxx…, "a", "b", "{}", "half", "done"

-- RestoreSteps
INSERT IGNORE INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 0, ?, 1000, 2, 9, 1700000000000, NULL, ?), (2, 1, ?, 1000, 1, 8, 5, 9, NULL); -- with "charge", "\"x\"", "until"

-- Resume
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET paused_at = NULL, paused_until = NULL
WHERE job_type = 7
  AND paused_at IS NOT NULL;

-- ResumeSchedule
UPDATE async_job_schedule_tab FORCE INDEX (PRIMARY)
SET paused_at = NULL, reached_at = GREATEST(reached_at, UNIX_TIMESTAMP()), next_at = 0, revision = revision + 1
WHERE name = ?
  AND paused_at IS NOT NULL; -- with "nightly"

-- Retry
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE;

-- RetryWith
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE;

-- Rise
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, '')
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "live-1"
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET term = (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) + 2500, running = 2500, layout = 41, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10), locked_by = ?, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name = ?
  AND layout < 41; -- with "me", "live-1"
SELECT *
FROM (SELECT layout
  FROM shedlock_tab
  WHERE lock_name = ?
    AND locked_by = ?
    AND running >= 0
    AND layout = 41) AS latest
FOR UPDATE; -- with "live-1", "me"

-- RollUp
SELECT *
FROM (SELECT begins_at
  FROM async_job_stat_tab
  WHERE job_type = 7
    AND begins_at >= 1000
    AND begins_at < 7200
    AND seconds < 3600
  ORDER BY begins_at
  LIMIT 1) AS latest
FOR UPDATE;

-- RollUp, rows
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at >= 3600
  AND begins_at < 7200
FOR UPDATE;
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ DELETE /*+ SET_VAR(sql_safe_updates=0) */ doomed
FROM async_job_stat_tab AS doomed FORCE INDEX (PRIMARY)
WHERE job_type = 7
  AND begins_at >= 3600
  AND begins_at < 7200;
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE state = IF(counted <
  VALUES(counted),
  VALUES(state), state), counted = GREATEST(counted,
  VALUES(counted)); -- with 7, 3600, "", 0, 3600, 0, "{}"

-- RunningOfKeys
SELECT *
FROM (SELECT job_key, COUNT(*) AS running
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_type = 7
    AND job_key IN (?, ?, ?)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term IN (8, 9)
  GROUP BY job_key
  UNION ALL SELECT job_group, COUNT(*) AS running
  FROM async_job_tab FORCE INDEX (async_job_group)
  WHERE job_type = 7
    AND job_group IN (?, ?, ?)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term IN (8, 9)
  GROUP BY job_group) AS latest
FOR UPDATE; -- with "a", "b", "c", "a", "b", "c"

-- Schedule
SELECT *
FROM (SELECT cron_at IS NOT NULL
    AND cron_spec IS NOT NULL AS known, COALESCE(cron_at, 0) AS reached, COALESCE(cron_spec, '') AS spec, paused_at IS NOT NULL AS paused
  FROM async_job_type_tab
  WHERE job_type = 7) AS latest
FOR UPDATE;

-- Schedules
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE name <> ''
  AND name = ?
  AND SUBSTR(name, 1, 1) = ?
  AND name > ?
ORDER BY name
LIMIT 100; -- with "nightly", "n", "a"

-- SchedulesAhead
SELECT *
FROM (SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
  FROM async_job_schedule_tab
  WHERE reached_at > 1700000000
  ORDER BY name
  LIMIT 100) AS latest
FOR UPDATE;

-- SeeLeases
SELECT *
FROM (SELECT lock_name, UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP() AS free, locked_by, term, running, UNIX_TIMESTAMP(lock_until) AS held_until, UNIX_TIMESTAMP() AS now
  FROM shedlock_tab
  WHERE lock_name IN (?, ?)) AS latest
FOR UPDATE; -- with "a", "b"

-- SetLayout
INSERT IGNORE INTO async_job_type_tab (job_type)
VALUES (7);
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET layout = 2052
WHERE job_type = 7
  AND COALESCE(layout, 0) = 1026;

-- SetLimits
INSERT IGNORE INTO async_job_type_tab (job_type, workers, rate)
VALUES (7, NULLIF(3, 0), NULLIF(2.5, 0));
UPDATE async_job_type_tab FORCE INDEX (PRIMARY)
SET workers = NULLIF(3, 0), rate = NULLIF(2.5, 0)
WHERE job_type = 7
  AND (COALESCE(workers, 0) <> 3 OR COALESCE(rate, 0) <> 2.5);

-- SetOperation
UPDATE async_job_act_tab FORCE INDEX (PRIMARY)
SET state = ?, worker = NULL
WHERE id = 3
  AND state = ?; -- with "stopped", "open"

-- SetParams
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET params = ?, long_params = NULL, changes = changes + 1, update_time = GREATEST(update_time, UNIX_TIMESTAMP())
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with "{}"

-- SetPriority
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET priority = 2, changes = changes + 1, update_time = GREATEST(update_time, UNIX_TIMESTAMP())
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- SetProgress
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET progress = ?, update_time = UNIX_TIMESTAMP()
WHERE id IN (1)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "half way"
SELECT *
FROM (SELECT id, attempts, lost
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1)
    AND term = 9
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) AS latest
FOR UPDATE;

-- SetResult
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET result = ?, update_time = UNIX_TIMESTAMP()
WHERE id IN (1)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "done"
SELECT *
FROM (SELECT id, attempts, lost
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1)
    AND term = 9
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) AS latest
FOR UPDATE;

-- Settle
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET job_status = 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Again
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET job_status = 3, start_time = ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, retries = retries + 1, deferred = deferred + 1, term = 0, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Awaiting
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET job_status = 3, start_time = CASE WHEN changes = 4 THEN ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000 ELSE UNIX_TIMESTAMP() END, retries = retries + 0, deferred = deferred + 0, term = 0, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Died
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET lost = lost + 1, term = 9, job_status = 2, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND term = 8
  AND term <> 0
  AND term < 9
  AND attempts = 3
  AND lost >= 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle NotStarted
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET term = 0, attempts = attempts - 1, changes = changes + 1, start_time = CASE WHEN start_time > UNIX_TIMESTAMP() + 60 THEN UNIX_TIMESTAMP() ELSE start_time END, update_time = GREATEST(update_time, UNIX_TIMESTAMP())
WHERE id IN (1,2)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND changes = 1;

-- Sickness
(SELECT CASE trx_mysql_thread_id WHEN 0 THEN 'prepared' ELSE 'session' END AS kind, CAST(trx_mysql_thread_id AS CHAR) AS id, COALESCE(user, '') AS who, COALESCE(host, '') AS place, CASE trx_isolation_level WHEN 'READ COMMITTED' THEN COALESCE(time, 0) ELSE TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) END AS seconds, CASE WHEN trx_query IS NULL THEN 'idle' ELSE 'active' END AS state, COALESCE(LEFT(trx_query, 300), '') AS statement, 0 AS amount, 0 AS more
  FROM information_schema.innodb_trx LEFT JOIN information_schema.processlist AS sessions ON sessions.id = trx_mysql_thread_id
  WHERE trx_mysql_thread_id <> CONNECTION_ID()
    AND trx_isolation_level <> 'READ UNCOMMITTED'
    AND (trx_isolation_level <> 'READ COMMITTED' OR trx_query IS NOT NULL)
  ORDER BY seconds DESC
  LIMIT 3)
UNION ALL (SELECT 'history', '', '', '', 0, '', '', count, 0
  FROM information_schema.innodb_metrics
  WHERE name = 'trx_rseg_history_len');

-- Signal
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET changes = changes + 1, update_time = GREATEST(update_time, UNIX_TIMESTAMP())
WHERE id IN (1)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1)
    AND job_status IN (1, 2, 5) LOCK IN SHARE MODE) AS latest
FOR UPDATE;

-- SignalNode
SELECT n.id, f.state
FROM async_job_flow_tab AS f FORCE INDEX (PRIMARY) JOIN async_job_node_tab AS n FORCE INDEX (PRIMARY) ON f.id = 3
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.name = ?
  AND n.kind = 3; -- with "approved"

-- SignalNode, rows
UPDATE async_job_node_tab FORCE INDEX (PRIMARY)
SET state = CASE waits WHEN 1 THEN 1 ELSE state END, waits = waits - 1, counted = 1, result = ?
WHERE id = 393217
  AND counted = 0
  AND state = 0; -- with "yes"

-- Span
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0)
FROM async_job_tab
WHERE id > 0;

-- Standings
SELECT *
FROM (SELECT id, COALESCE(job_status, 0) AS status, term, attempts, changes
  FROM async_job_tab FORCE INDEX (PRIMARY)
  WHERE id IN (1,2)) AS latest
FOR UPDATE;

-- Stats
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at >= 1000
  AND begins_at < 2000
ORDER BY begins_at, lock_name, term;

-- StepsAndLogsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created) LOCK IN SHARE MODE;

-- StepsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created) LOCK IN SHARE MODE;

-- StepsOfRun
SELECT *
FROM (SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
  FROM async_job_step_tab
  WHERE job_id = 1
    AND kind < 16
    AND EXISTS (SELECT 1
    FROM async_job_tab
    WHERE id = job_id
      AND create_time = created)) AS latest
FOR UPDATE;

-- StillPending
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- StopFlow
UPDATE async_job_flow_tab FORCE INDEX (PRIMARY)
SET state = 3, undo_after = COALESCE(undo_after, 0), ended_at = NULL, due_at = UNIX_TIMESTAMP()
WHERE id = 3
  AND (state IN (0, 1, 2) OR state = 3
    AND undo_after IS NULL);

-- SweepAll
(SELECT 0 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7,-8)
    AND job_status IN (0,3,4)
    AND priority IN (2,1,0,-1)
    AND start_time <= UNIX_TIMESTAMP() + 3
    AND id > 0
  LIMIT 100)
UNION ALL (SELECT 1 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7,-8)
    AND job_status IN (0,3,4)
    AND priority IN (2,1,0,-1)
    AND start_time IS NULL
    AND id > 0
  LIMIT 100)
UNION ALL (SELECT 2 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7,-8)
    AND job_status IS NULL
    AND priority IN (2,1,0,-1)
    AND start_time <= UNIX_TIMESTAMP() + 3
    AND id > 0
  LIMIT 100)
UNION ALL (SELECT 3 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7,-8)
    AND job_status IS NULL
    AND priority IN (2,1,0,-1)
    AND start_time IS NULL
    AND id > 0
  LIMIT 100);

-- Tail
SELECT id, CASE WHEN (1 = 0 OR job_type IN (7) OR job_type IN (8)
    AND priority >= 1)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND (start_time <= UNIX_TIMESTAMP() + 3 OR start_time IS NULL) THEN params END AS params, start_time, create_time, CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CONCAT_WS(',', term, attempts, retries, lost, changes, deferred, COALESCE(max_retries, -2), meta) END AS tally, job_key, job_group, job_type, job_status, priority
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id >= 1
  AND (id >= 5 OR id BETWEEN 1 AND 2)
ORDER BY id
LIMIT 100;

-- Tail Taken
SELECT id, job_type, COALESCE(NULLIF(RTRIM(job_group), ''), job_key), create_time
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id >= 1
  AND (id >= 5 OR id BETWEEN 1 AND 2)
ORDER BY id
LIMIT 100;

-- TakeLeases
/*M!
SET STATEMENT time_zone='+00:00' *//*M!100600 , innodb_lock_wait_timeout=0 *//*M! FOR */ UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET term = GREATEST(term + 1, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000)), locked_by = ?, running = 0, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP()
  AND layout = 1
  AND running <> -2; -- with "me", "a", "b"
SELECT *
FROM (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN (?, ?)
    AND locked_by = ?
    AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP()) AS latest
FOR UPDATE; -- with "a", "b", "me"

-- TendFlow
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id IN (3)
ORDER BY id DESC
LIMIT 1;

-- TendFlow, rows
SELECT id
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id = 3
  AND state = 3
  AND COALESCE(undo_after, -1) = 0
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT COUNT(*) AS stood, COALESCE(SUM(CASE WHEN j.job_status IN (2, 5)
      AND j.update_time <= UNIX_TIMESTAMP() - 0 THEN 1 ELSE 0 END), 0) AS over_now, COALESCE(MIN(CASE WHEN j.job_status IN (2, 5) THEN j.update_time END), 0) AS since
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.state = 2
  AND n.kind = 0
  AND n.counted <> 0;
SELECT *
FROM (SELECT n.id, n.job_id, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END AS status, COALESCE(j.term, 0) AS term, CASE WHEN j.id IS NULL OR (j.term = 0
      AND (j.changes & 268435456) = 0 OR j.update_time <= UNIX_TIMESTAMP() - 10 OR j.update_time > UNIX_TIMESTAMP() + 60) THEN 1 ELSE 0 END AS over_now
  FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE n.id >= 393216
    AND n.id < 524288
    AND n.state = 2
    AND n.kind = 0
  ORDER BY n.id) AS latest
FOR UPDATE;
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393216,393217,393218)
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (7)
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (7)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT id
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id IN (3)
ORDER BY id
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > UNIX_TIMESTAMP() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
ORDER BY n.id;
SELECT n.name, n.undo_job
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY)
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.kind = 0
  AND n.name IN (?); -- with "pay"
SELECT id, state, nodes
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id IN (3)
ORDER BY id LOCK IN SHARE MODE;

-- Tenures
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < 2000
  AND (ended_at IS NULL OR ended_at >= 1000)
  AND lock_name LIKE 'job-%'
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100;

-- Tenures of
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < 2000
  AND (ended_at IS NULL OR ended_at >= 1000)
  AND (lock_name = ? OR lock_name LIKE ?)
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100; -- with "job-7", "job-7/%"

-- Tenures of the buried
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < 2000
  AND (ended_at IS NULL OR ended_at >= 1000)
  AND lock_name IN (?, ?)
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100; -- with "live-0123456789ab", "live-ba9876543210"

-- TheirJobs
SELECT id, create_time
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (7)
ORDER BY id
FOR UPDATE;

-- Timetable
SELECT timed.name, timed.job_type, timed.put_at, timed.reached_at, timed.next_at, COALESCE(timed.last_at, 0) AS last_at, COALESCE(timed.last_job, 0) AS last_job, COALESCE(job.job_status, -1) AS last_status, COALESCE((SELECT locked_by
    FROM shedlock_tab
    WHERE lock_name = 'run-schedules'), '') AS keeper, COALESCE((SELECT UNIX_TIMESTAMP(lock_until)
    FROM shedlock_tab
    WHERE lock_name = 'run-schedules'), 0) AS kept_until, UNIX_TIMESTAMP() AS now
FROM async_job_schedule_tab AS timed LEFT JOIN async_job_tab AS job ON job.id = timed.last_job
WHERE timed.next_at >= 0
  AND timed.paused_at IS NULL
ORDER BY timed.next_at
LIMIT 1000;

-- TypeLeases
SELECT lock_name, UNIX_TIMESTAMP(lock_until) AS held_until, UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP() - 3600 AS lately
FROM shedlock_tab
WHERE (lock_name LIKE 'job-%' OR lock_name LIKE 'dormant-%')
  AND layout > 0;

-- TypeNames
SELECT job_type, name
FROM async_job_type_tab
WHERE job_type IN (7,8)
  AND name IS NOT NULL;

-- TypesKnown
SELECT job_type
FROM async_job_type_tab
ORDER BY job_type;

-- Undone
SELECT id, COALESCE(meta, '')
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2);

-- Unlocked
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;

-- Wake
/*M!
SET STATEMENT time_zone='+00:00' FOR */ UPDATE /*+ SET_VAR(time_zone='+00:00') */ shedlock_tab FORCE INDEX (PRIMARY)
SET lock_name = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? END
WHERE lock_name IN (?, ?); -- with "dormant-7", "job-7", "dormant-8", "job-8", "dormant-7", "dormant-8"

-- WriteLines
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES (?, ?, UNIX_TIMESTAMP(), ?), (?, ?, UNIX_TIMESTAMP(), ?)
ON DUPLICATE KEY UPDATE told_at = IF(term <=
  VALUES(term),
  VALUES(told_at), told_at), state = IF(term <=
  VALUES(term),
  VALUES(state), state), term = GREATEST(term,
  VALUES(term)); -- with "job-7", 3, "{\"workers\":0}", "job-8/1", 4, "{\"running\":2,\"workers\":0}"

-- WriteRestRuns
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES (?, ?, UNIX_TIMESTAMP(), ?), (?, ?, UNIX_TIMESTAMP(), ?)
ON DUPLICATE KEY UPDATE told_at = IF(term <=
  VALUES(term),
  VALUES(told_at), told_at), state = IF(term <=
  VALUES(term),
  VALUES(state), state), term = GREATEST(term,
  VALUES(term)); -- with "rest-7-64", 1, "{\"rows\":2,\"keys\":\"5AwpLA\",\"jobs\":\"AAAABg\"}", "rest-7-64+1", 1, "{\"rows\":2,\"keys\":\"5wwt5eQMKSw\",\"jobs\":\"AAAABQ\"}"

-- WriteSettings
SELECT *
FROM (SELECT job_type, COALESCE(settings, '') AS settings, COALESCE(told_at, 0) AS told_at
  FROM async_job_type_tab
  WHERE job_type IN (7,8)) AS latest
FOR UPDATE;
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_type_tab FORCE INDEX (PRIMARY)
SET settings = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END, told_at = UNIX_TIMESTAMP()
WHERE job_type IN (7,8)
  AND COALESCE(told_at, 0) = CASE job_type WHEN 7 THEN 0 WHEN 8 THEN 0 END; -- with "{}", "{}"

-- WriteStats
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE state = IF(counted <
  VALUES(counted),
  VALUES(state), state), counted = GREATEST(counted,
  VALUES(counted)); -- with 7, 60, "job-7", 3, 60, 5, "{\"runs\":{\"success\":2},\"delay\":[1,2],\"took\":[0,2]}", 8, 60, "job-8/1", 4, 60, 0, "{}"

-- WriteTenures
INSERT INTO async_job_lease_log_tab (lock_name, term, holder, taken_at, ended_at, how)
VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE ended_at = IF(VALUES(how) IS NOT NULL
    AND (how IS NULL OR how = 'expired'),
  VALUES(ended_at), ended_at), how = IF(VALUES(how) IS NOT NULL
    AND (how IS NULL OR how = 'expired'),
  VALUES(how), how); -- with "job-7", 3, "me", 1000, <nil>, <nil>, "job-8/1", 4, "me", 1000, 2000, "released"

-- WrittenAhead
SELECT *
FROM (SELECT id
  FROM async_job_tab FORCE INDEX (async_job_due)
  WHERE job_type IN (7,8)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND start_time + 60 >= update_time
    AND start_time > UNIX_TIMESTAMP() + 2
    AND update_time > UNIX_TIMESTAMP() + 2
    AND update_time > 1700000002
    AND (term = 0
      AND attempts > 0
      AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
      AND start_time <= update_time + 1)
  LIMIT 100) AS latest
FOR UPDATE;
