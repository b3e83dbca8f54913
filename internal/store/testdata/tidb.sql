-- What each verb of the store sends to TiDB, when its tables are empty, unless MySQL is sent the same.
-- Written by: go test ./internal/store -run Shown -update

-- AbandonLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND locked_by = ?; -- with "a", "b", "me"

-- AddFlow
INSERT INTO async_job_flow_tab (kind, flow_key, open_key, nodes, created_at, alarms, undo_after, deadline, due_at)
VALUES (?, ?, ?, 2, UNIX_TIMESTAMP(), 1, 60, UNIX_TIMESTAMP() + 3600, UNIX_TIMESTAMP() + 3600); -- with "order", "4711", "4711"
SELECT id
FROM async_job_flow_tab
WHERE kind = ?
  AND open_key = ?
FOR UPDATE; -- with "order", "4711"

-- AddJobsUnlessThere
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key IN (?, ?)
  AND unique_in = ?; -- with "a", "b", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b"
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key IN (?, ?)
  AND unique_in = ?
FOR UPDATE; -- with "a", "b", 7
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddJobsUnlessThere, types
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE (job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 8); -- with "a", "b", "b"
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(1500 AS SIGNED) * 1000 + 999999) DIV 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL), (?, 8, 0, 0, 1700000000, 1700000000, 1, ?, 8, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b", "{}", "b"
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE (job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 8)
FOR UPDATE; -- with "a", "b", "b"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddScheduled
SELECT (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) AS now
FROM async_job_type_tab
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL
  AND NOT EXISTS (SELECT 1
  FROM async_job_tab FORCE INDEX (async_job_key)
  WHERE job_key = ?
    AND unique_in = 7); -- with "cron-1"

-- AddUnlessThere
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ((UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6))) + CAST(CAST(1500 AS SIGNED) AS SIGNED) * 1000 + 999999) DIV 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AnyFlow
SELECT id
FROM (SELECT id
  FROM async_job_flow_tab
  WHERE state IN (0, 3, 4)
  LIMIT 1) AS going
UNION ALL SELECT id
FROM (SELECT id
  FROM async_job_node_tab
  WHERE state = 1
  LIMIT 1) AS ready;

-- AnySchedule
SELECT revision
FROM async_job_schedule_tab
LIMIT 1;

-- BearNodes
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217)
  AND state = 1
ORDER BY id
FOR UPDATE;

-- BearNodes, rows
SELECT id, COALESCE(followers, ''), COALESCE(enders, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217);
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217,393218)
ORDER BY id
FOR UPDATE;
SELECT id, state
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id IN (3)
  AND state IN (0, 4)
ORDER BY id
FOR UPDATE;
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
FOR UPDATE;

-- Beat
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET term = (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) + 2500, running = 2500, layout = 42, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by = ?
  AND running >= 0
  AND layout < 42; -- with "live-1", "me"
SELECT layout
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?
  AND running >= 0
  AND layout = 42; -- with "live-1", "me"

-- BreakLease
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP()), running = -2
WHERE lock_name = ?
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "me"

-- Bury
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET running = -2, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running >= 0
  AND term = 9
  AND term <= (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000); -- with "live-1", "me"

-- BuryDead
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_at = CASE WHEN running >= 0 THEN FROM_UNIXTIME(UNIX_TIMESTAMP()) ELSE locked_at END, running = -3, lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9
  AND (running < 0 OR term <= (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000)); -- with "live-1", "me"
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_at = CASE WHEN running >= 0 THEN FROM_UNIXTIME(UNIX_TIMESTAMP()) ELSE locked_at END, running = -3, lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(lock_until), (UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 30))
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9; -- with "live-1", "me"

-- ClaimOperation
UPDATE async_job_act_tab FORCE INDEX (PRIMARY)
SET worker = ?, touched_at = UNIX_TIMESTAMP()
WHERE id = 3
  AND state = 'open'
  AND (worker IS NULL OR worker = ? OR touched_at NOT BETWEEN UNIX_TIMESTAMP() - 15 AND UNIX_TIMESTAMP() + 15); -- with "me", "me"
SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
FROM async_job_act_tab
WHERE id > 0
  AND id = 3
  AND state IS NOT NULL
  AND state = 'open'
ORDER BY id DESC
LIMIT 1;

-- CloseLease
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET layout = -1028, locked_by = '', lock_until = FROM_UNIXTIME(2147400000)
WHERE lock_name IN (?)
  AND locked_by = ?
  AND layout > 0
  AND layout < 1028; -- with "a", "me"
SELECT term
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?
  AND layout > 0
  AND layout < 1028; -- with "a", "me"

-- CloseLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET layout = -1028, locked_by = '', lock_until = FROM_UNIXTIME(2147400000)
WHERE lock_name IN (?, ?)
  AND (layout > 0
    AND layout < 1028
    AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP() OR layout < 0
    AND layout > -1028); -- with "a", "b"

-- Columns
SELECT table_name AS of_table, column_name AS name
FROM information_schema.columns
WHERE table_schema = DATABASE()
  AND table_name IN ('async_job_tab', 'shedlock_tab');

-- CopyLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, ''), (?, '')
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "rest-a-9", "rest-b-8"
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET locked_by = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE locked_by END, running = CASE lock_name WHEN ? THEN 3 WHEN ? THEN 1 ELSE running END, term = CASE lock_name WHEN ? THEN 9 WHEN ? THEN 8 ELSE term END, layout = CASE lock_name WHEN ? THEN 1 WHEN ? THEN 1028 ELSE layout END, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME(CASE lock_name WHEN ? THEN 1700000000.000000 WHEN ? THEN 1700000001.500000 ELSE 0 END)
WHERE lock_name IN (?, ?)
  AND locked_by = ''; -- with "rest-a-9", "me", "rest-b-8", "you", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8"

-- CountEnds
SELECT n.id AS node, n.job_id, j.job_status, COALESCE(n.followers, '') AS followers, COALESCE(n.enders, '') AS enders, COALESCE(j.result, '') AS result
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id IN (393217,393218)
  AND n.state = 2
  AND (j.job_status = 1 OR n.counted = 0
    AND j.job_status IN (2, 5)
    AND (j.term = 0
      AND (j.changes & 268435456) = 0 OR j.update_time <= UNIX_TIMESTAMP() - 10 OR j.update_time > UNIX_TIMESTAMP() + 60));

-- CountEnds, rows
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393217,393218,393219)
ORDER BY id
FOR UPDATE;
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

-- DeleteFlows
SELECT id, nodes, undo_nodes
FROM async_job_flow_tab
WHERE state IN (1, 2, 5)
  AND ended_at < 1000
  AND created_at < 1000
ORDER BY ended_at, id
LIMIT 100;

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
  LIMIT 1000) AS stray_1;

-- DeleteStrays
SELECT *
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
  LIMIT 1000) AS stray_1;

-- DropLines
SELECT lock_name
FROM async_job_now_tab
WHERE told_at < 1000;

-- DueSchedules
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE next_at <= 1700000000
  AND paused_at IS NULL
ORDER BY next_at
LIMIT 100;

-- EarlierOfGroup
SELECT job_key, COUNT(*) AS earlier
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
GROUP BY job_group; -- with "a", "a"

-- EndedLeases
SELECT lock_name
FROM shedlock_tab
WHERE (lock_name LIKE 'at-%')
  AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP();

-- FireSchedule
INSERT IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?
FOR UPDATE; -- with "cron-nightly@1700000060", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"

-- FirstOfKeys
SELECT job_key, MIN(id + 0) AS first
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
GROUP BY job_group; -- with "a", "b", "c", "d", "a", "b", "c", "d"

-- Fleet
SELECT lock_name, locked_by, term, running, layout, UNIX_TIMESTAMP(lock_until) AS held_until
FROM shedlock_tab
WHERE lock_name LIKE 'job-%' OR lock_name LIKE 'at-%'
UNION ALL SELECT '', CASE WHEN paused_at IS NULL THEN 'type' WHEN paused_until > paused_at
  AND paused_until <= UNIX_TIMESTAMP() THEN 'type whose pause is over' ELSE 'paused type' END, job_type, COALESCE(workers, 0), COALESCE(layout, 0), COALESCE(rate, 0)
FROM async_job_type_tab
WHERE layout IS NOT NULL OR paused_at IS NOT NULL OR workers IS NOT NULL OR rate IS NOT NULL
UNION ALL SELECT '', 'now', 0, 0, 0, (UNIX_TIMESTAMP() * 1000000 + MICROSECOND(NOW(6)))
UNION ALL SELECT '', 'now, of leases', 0, 0, 0, UNIX_TIMESTAMP();

-- FreeLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND locked_by IN (?, ?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me", "you"

-- GivenUpJobs
SELECT id
FROM async_job_tab FORCE INDEX (async_job_due)
WHERE job_type = 7
  AND job_status IN (2, 5)
  AND update_time >= 1
  AND update_time < 2
  AND id > 3
ORDER BY id
LIMIT 100;

-- HasScheduled
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND unique_in = ?; -- with "cron-1", 7

-- HaveWork
SELECT job_type, ((SELECT 1
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
WHERE job_type IN (7,8);

-- HaveWork, of all
SELECT job_type, 1 = 1 AS has_work
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
    LIMIT 1) IS NOT NULL);

-- InState
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term <> 0
FOR UPDATE;

-- Indexes
SELECT DISTINCT table_name AS of_table, index_name AS name
FROM information_schema.statistics
WHERE table_schema = DATABASE()
  AND table_name IN ('async_job_tab', 'shedlock_tab');

-- JobsOfKey
SELECT id
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE job_key = ?
  AND job_type = ?
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "a", 7

-- KeepLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me"
SELECT lock_name, UNIX_TIMESTAMP(lock_until) AS held_until, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) AS now_millis
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me"

-- KeepLeases and numbers
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET running = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE running END, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", 2, "b", 3, "a", "b", "me"
SELECT lock_name, UNIX_TIMESTAMP(lock_until) AS held_until, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) AS now_millis
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me"

-- LastID
SELECT COALESCE(MAX(id), 0) AS last
FROM async_job_tab
WHERE id > 0;

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
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_name = ?, lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "dormant-7", "job-7", "me"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?)
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "job-7", "me"

-- Layout
SELECT layout
FROM async_job_type_tab
WHERE job_type = 7
  AND layout IS NOT NULL;

-- LiveJobs
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id > 393217
  AND id <= 393218
  AND state IN (2, 1, 2)
ORDER BY id
LIMIT 1000;

-- LiveJobs, held
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393216,393217,393218)
  AND id > 393215
  AND state IN (0, 1, 2)
ORDER BY id
LIMIT 1000
FOR UPDATE;

-- LongParams
SELECT id, attempts, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Look
SELECT id
FROM async_job_tab
WHERE id = 0;

-- LookAtNodes
SELECT 0 AS part, id, 1 AS jobs
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
  LIMIT 100) AS due;

-- Mark
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET term = 9, attempts = attempts + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND SYSDATE(6) NOT BETWEEN NOW(6) + INTERVAL 1800000000500000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6)) MICROSECOND AND NOW(6) + INTERVAL 1 DAY
  AND term = 0
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Mark Lost
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET lost = CASE WHEN lost < 127 THEN lost + 1 ELSE lost END, term = 9, attempts = attempts + 1, update_time = UNIX_TIMESTAMP()
WHERE id IN (1,2)
  AND SYSDATE(6) NOT BETWEEN NOW(6) + INTERVAL 1800000000500000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6)) MICROSECOND AND NOW(6) + INTERVAL 1 DAY
  AND term = 8
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- MarkedRows
SELECT id, attempts, lost
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- MoveLease
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET term = ?, layout = ?, locked_by = ?, running = ?, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by IN ('', ?); -- with 9, 1028, "me", 3, "a", "me"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?)
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "me"

-- NameTypes
SELECT job_type, name
FROM async_job_type_tab
WHERE job_type IN (7,8)
  AND name IS NOT NULL;
INSERT INTO async_job_type_tab (job_type, name)
VALUES (7, ?), (8, ?)
ON DUPLICATE KEY UPDATE job_type = job_type; -- with "mail", "export"
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_type_tab FORCE INDEX (PRIMARY)
SET name = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END
WHERE job_type IN (7,8)
  AND name IS NULL; -- with "mail", "export"

-- NextIDs
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id > 3
  AND id < 9
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
ORDER BY id
LIMIT 100;
SELECT id
FROM async_job_tab FORCE INDEX (async_job_key)
WHERE id > 3
  AND id < 9
  AND job_key = ?
ORDER BY id + 0
LIMIT 100; -- with "order 4711"

-- NoteRunning
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET running = ?, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name = ?
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with 3, "a", "me"

-- OpenLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET layout = 1028, term = GREATEST(term, 9), lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name IN (?, ?)
  AND layout = -1028; -- with "a", "b"

-- Operations
SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
FROM async_job_act_tab
WHERE id > 0
  AND id = 3
  AND state IS NOT NULL
  AND state = 'open'
ORDER BY id DESC
LIMIT 100;

-- Paused
SELECT job_type
FROM async_job_type_tab
WHERE paused_at IS NOT NULL;

-- Progress
SELECT COALESCE(progress, '')
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id = ?; -- with 1

-- RecordStep
INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value) SELECT id, 0, ?, create_time, 2, 9, 1700000000000, NULL, ?
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
FOR UPDATE; -- with "charge", "\"x\""

-- ReleaseLease
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_until = FROM_UNIXTIME(GREATEST(UNIX_TIMESTAMP(), LEAST(UNIX_TIMESTAMP(), UNIX_TIMESTAMP(locked_at)) + 61))
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "a", "me"
SELECT CASE WHEN UNIX_TIMESTAMP(lock_until) > GREATEST(UNIX_TIMESTAMP(), LEAST(UNIX_TIMESTAMP(), UNIX_TIMESTAMP(locked_at)) + 61) THEN 1 ELSE 0 END AS held
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?; -- with "a", "me"

-- RestRuns
SELECT lock_name, state
FROM async_job_now_tab
WHERE lock_name IN (?, ?); -- with "rest-7-64", "rest-7/1-65"

-- Restore
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (4,5)
ORDER BY id
LIMIT 2;
INSERT IGNORE INTO async_job_tab (id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, job_key, job_group, priority, max_retries, meta, progress, result, changes, unique_in)
VALUES (4, ?, NULL, 7, 1, 0, 1000, 1001, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL), (5, ?, ?, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, 3, ?, ?, ?, 0, NULL); -- with "{}", "see long_params", "xxxxxxxxxxxxxxxxxxx…, "a", "b", "{}", "half", "done"

-- Rise
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, '')
ON DUPLICATE KEY UPDATE lock_name = lock_name; -- with "live-1"
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET term = (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000) + 2500, running = 2500, layout = 41, lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10), locked_by = ?, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP())
WHERE lock_name = ?
  AND layout < 41; -- with "me", "live-1"
SELECT layout
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?
  AND running >= 0
  AND layout = 41; -- with "live-1", "me"

-- RollUp
SELECT begins_at
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at >= 1000
  AND begins_at < 7200
  AND seconds < 3600
ORDER BY begins_at
LIMIT 1;

-- RunningOfKeys
SELECT job_key, COUNT(*) AS running
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
GROUP BY job_group; -- with "a", "b", "c", "a", "b", "c"

-- Schedule
SELECT cron_at IS NOT NULL
  AND cron_spec IS NOT NULL AS known, COALESCE(cron_at, 0) AS reached, COALESCE(cron_spec, '') AS spec, paused_at IS NOT NULL AS paused
FROM async_job_type_tab
WHERE job_type = 7;

-- SchedulesAhead
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE reached_at > 1700000000
ORDER BY name
LIMIT 100;

-- SeeLeases
SELECT lock_name, UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP() AS free, locked_by, term, running, UNIX_TIMESTAMP(lock_until) AS held_until, UNIX_TIMESTAMP() AS now
FROM shedlock_tab
WHERE lock_name IN (?, ?); -- with "a", "b"

-- SetProgress
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET progress = ?, update_time = UNIX_TIMESTAMP()
WHERE id IN (1)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "half way"
SELECT id, attempts, lost
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1)
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- SetResult
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET result = ?, update_time = UNIX_TIMESTAMP()
WHERE id IN (1)
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "done"
SELECT id, attempts, lost
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1)
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Sickness

-- Signal
UPDATE async_job_tab FORCE INDEX (PRIMARY)
SET changes = changes + 1, update_time = GREATEST(update_time, UNIX_TIMESTAMP())
WHERE id IN (1)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1)
  AND job_status IN (1, 2, 5)
FOR UPDATE;

-- Standings
SELECT id, COALESCE(job_status, 0) AS status, term, attempts, changes
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2);

-- StepsAndLogsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created)
FOR UPDATE;

-- StepsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created)
FOR UPDATE;

-- StepsOfRun
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = 1
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created);

-- TakeLeases
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET term = GREATEST(term + 1, (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(6)) DIV 1000)), locked_by = ?, running = 0, locked_at = FROM_UNIXTIME(UNIX_TIMESTAMP()), lock_until = FROM_UNIXTIME((UNIX_TIMESTAMP() + (MICROSECOND(NOW(6)) >= 500000)) + 10)
WHERE lock_name IN (?, ?)
  AND UNIX_TIMESTAMP(lock_until) <= UNIX_TIMESTAMP()
  AND layout = 1
  AND running <> -2; -- with "me", "a", "b"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by = ?
  AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP(); -- with "a", "b", "me"

-- TendFlow, rows
SELECT id
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id = 3
  AND state = 3
  AND COALESCE(undo_after, -1) = 0
FOR UPDATE;
SELECT COUNT(*) AS stood, COALESCE(SUM(CASE WHEN j.job_status IN (2, 5)
      AND j.update_time <= UNIX_TIMESTAMP() - 0 THEN 1 ELSE 0 END), 0) AS over_now, COALESCE(MIN(CASE WHEN j.job_status IN (2, 5) THEN j.update_time END), 0) AS since
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.state = 2
  AND n.kind = 0
  AND n.counted <> 0;
SELECT n.id, n.job_id, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END AS status, COALESCE(j.term, 0) AS term, CASE WHEN j.id IS NULL OR (j.term = 0
    AND (j.changes & 268435456) = 0 OR j.update_time <= UNIX_TIMESTAMP() - 10 OR j.update_time > UNIX_TIMESTAMP() + 60) THEN 1 ELSE 0 END AS over_now
FROM async_job_node_tab AS n FORCE INDEX (PRIMARY) LEFT JOIN async_job_tab AS j FORCE INDEX (PRIMARY) ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.state = 2
  AND n.kind = 0
ORDER BY n.id;
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab FORCE INDEX (PRIMARY)
WHERE id IN (393216,393217,393218)
ORDER BY id
FOR UPDATE;
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (7)
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE;
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (7)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE;
SELECT id
FROM async_job_flow_tab FORCE INDEX (PRIMARY)
WHERE id IN (3)
ORDER BY id
FOR UPDATE;
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
ORDER BY id
FOR UPDATE;

-- Unlocked
SELECT id
FROM async_job_tab FORCE INDEX (PRIMARY)
WHERE id IN (1,2)
FOR UPDATE;

-- Wake
UPDATE shedlock_tab FORCE INDEX (PRIMARY)
SET lock_name = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? END
WHERE lock_name IN (?, ?); -- with "dormant-7", "job-7", "dormant-8", "job-8", "dormant-7", "dormant-8"

-- WriteSettings
SELECT job_type, COALESCE(settings, '') AS settings, COALESCE(told_at, 0) AS told_at
FROM async_job_type_tab
WHERE job_type IN (7,8);
/*M!
SET STATEMENT sql_safe_updates=0 FOR */ UPDATE /*+ SET_VAR(sql_safe_updates=0) */ async_job_type_tab FORCE INDEX (PRIMARY)
SET settings = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END, told_at = UNIX_TIMESTAMP()
WHERE job_type IN (7,8)
  AND COALESCE(told_at, 0) = CASE job_type WHEN 7 THEN 0 WHEN 8 THEN 0 END; -- with "{}", "{}"

-- WrittenAhead
SELECT id
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
LIMIT 100;
