-- What each verb of the store sends to SQLite, when its tables are empty.
-- Written by: go test ./internal/store -run Shown -update

-- AbandonLeases
UPDATE shedlock_tab
SET lock_until = datetime(unixepoch(), 'unixepoch')
WHERE lock_name IN (?, ?)
  AND locked_by = ?; -- with "a", "b", "me"

-- Abandoned
SELECT id
FROM async_job_tab INDEXED BY async_job_due
WHERE job_type = 7
  AND job_status = 0
  AND priority = 2
  AND start_time = 0
  AND create_time >= 1000
ORDER BY id
LIMIT 1;
SELECT COUNT(*) AS n, COALESCE(MAX(id), 0) AS last
FROM async_job_tab INDEXED BY async_job_due
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
INSERT OR IGNORE INTO async_job_flow_tab (kind, flow_key, open_key, nodes, created_at, alarms, undo_after, deadline, due_at)
VALUES (?, ?, ?, 2, unixepoch(), 1, 60, unixepoch() + 3600, unixepoch() + 3600); -- with "order", "4711", "4711"
SELECT id
FROM async_job_flow_tab
WHERE kind = ?
  AND open_key = ?; -- with "order", "4711"

-- AddJob
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)
VALUES (?, ?, 0, ?, ?, ?); -- with "{}", 7, 0, 1700000000, 1700000000

-- AddJob, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, long_params)
VALUES (?, ?, 0, ?, ?, ?, ?); -- with "see long_params", 7, 0, 1700000000, 1700000000, "xxxxxxxxxxxxxxxxxxx…

-- AddJobs
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, 0, 1700000000, 1700000000, 0, NULL, NULL, NULL, NULL, NULL), (?, 7, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(1500 AS INTEGER) * 1000 + 999999) / 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?); -- with "{}", "{}", "a", "{\"a\":\"b\"}", "g"

-- AddJobs, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, long_params)
VALUES (?, 7, 0, 0, 1700000000, 1700000000, NULL), (?, 7, 0, 0, 1700000000, 1700000000, ?); -- with "{}", "see long_params", "xxxxxxxxxxxxxxxxxxx…

-- AddJobsUnlessThere
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key IN (?, ?)
  AND unique_in = ?; -- with "a", "b", 7
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(1500 AS INTEGER) * 1000 + 999999) / 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddJobsUnlessThere, types
SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
FROM async_job_tab INDEXED BY async_job_key
WHERE (job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 7 OR job_key = ?
    AND unique_in = 8); -- with "a", "b", "b"
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, 7, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(1500 AS INTEGER) * 1000 + 999999) / 1000000, 1700000000, 1700000000, 0, ?, 7, 3, ?, ?), (?, 7, 0, 0, 1700000000, 1700000000, 1, ?, 7, NULL, NULL, NULL), (?, 8, 0, 0, 1700000000, 1700000000, 1, ?, 8, NULL, NULL, NULL); -- with "{}", "a", "{\"a\":\"b\"}", "g", "{}", "b", "{}", "b"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddNodes
INSERT INTO async_job_node_tab (id, kind, name, state, waits, followers, enders, spec, undo_job, job_id, born)
VALUES (393217, 0, ?, 2, 0, ?, NULL, ?, ?, 7, 1000), (393218, 1, ?, 0, 1, NULL, NULL, NULL, NULL, NULL, 0); -- with "pay", "1-3,5", "{\"type\":7,\"params\":\"{}\"}", "{\"type\":7,\"params\":\"{}\"}", ""

-- AddScheduled
INSERT OR IGNORE INTO async_job_tab (params, long_params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in) SELECT ?, NULLIF(?, ''), 7, 0, 1700000060, unixepoch(), unixepoch(), ?, 7
FROM async_job_type_tab
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL; -- with "{}", "", "cron-1"

-- AddUnlessThere
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND unique_in = ?; -- with "a", 7
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000, ?, ?, 0, ?, 7, 3, ?, ?); -- with "{}", 7, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AdvanceOperation
UPDATE async_job_act_tab NOT INDEXED
SET reached = 500, touched_at = unixepoch()
WHERE id = 3
  AND state = 'open'
  AND worker = ?
  AND reached = 0; -- with "me"

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

-- AttemptsOf
SELECT job_id, attempt, term, outcome, error, started, finished, instance
FROM async_job_log_tab
WHERE job_id IN (1,2)
ORDER BY job_id, attempt, term;

-- BearNodes
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393217 AND 393217
  AND state = 1
ORDER BY id;

-- BearNodes, rows
SELECT id, COALESCE(followers, ''), COALESCE(enders, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393217 AND 393217;
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393217 AND 393218
ORDER BY id;
SELECT id, state
FROM async_job_flow_tab NOT INDEXED
WHERE id BETWEEN 3 AND 3
  AND state IN (0, 4)
ORDER BY id;
UPDATE async_job_node_tab NOT INDEXED
SET state = 5
WHERE id BETWEEN 393217 AND 393217;
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)
VALUES (?, 7, 0, 0, 1700000000, 1700000000); -- with "{}"

-- BearNow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393217 AND 393217
  AND state = 1
ORDER BY id;

-- Beat
UPDATE shedlock_tab
SET term = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 2500, running = 2500, layout = 42, lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
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

-- BeginSchedule
INSERT OR IGNORE INTO async_job_type_tab (job_type)
VALUES (7);
UPDATE async_job_type_tab NOT INDEXED
SET cron_at = MAX(COALESCE(cron_at, 0), 1700000000), cron_spec = ?
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
UNION ALL SELECT 3, '', '', CAST(job_status AS INTEGER), CAST(term AS INTEGER), CAST(attempts AS INTEGER), CAST(deferred AS INTEGER), (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END), 0, '', ''
FROM async_job_tab
WHERE id = 4; -- with "job-7", "job-7/%"

-- BreakLease
UPDATE shedlock_tab
SET lock_until = datetime(unixepoch(), 'unixepoch'), running = -2
WHERE lock_name = ?
  AND locked_by = ?
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "me"

-- Bury
UPDATE shedlock_tab
SET running = -2, locked_at = datetime(unixepoch(), 'unixepoch'), lock_until = datetime(MAX(unixepoch(lock_until), CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 30), 'unixepoch')
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running >= 0
  AND term = 9
  AND term <= CAST(unixepoch('subsec') * 1000 AS INTEGER); -- with "live-1", "me"

-- BuryDead
UPDATE shedlock_tab
SET locked_at = CASE WHEN running >= 0 THEN datetime(unixepoch(), 'unixepoch') ELSE locked_at END, running = -3, lock_until = datetime(MAX(unixepoch(lock_until), CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 30), 'unixepoch')
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9
  AND (running < 0 OR term <= CAST(unixepoch('subsec') * 1000 AS INTEGER)); -- with "live-1", "me"
UPDATE shedlock_tab
SET locked_at = CASE WHEN running >= 0 THEN datetime(unixepoch(), 'unixepoch') ELSE locked_at END, running = -3, lock_until = datetime(MAX(unixepoch(lock_until), CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 30), 'unixepoch')
WHERE lock_name IN (?)
  AND locked_by = ?
  AND running > -3
  AND term = 9; -- with "live-1", "me"

-- Cancel
UPDATE async_job_tab NOT INDEXED
SET job_status = 5, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- CancelFlow
UPDATE async_job_flow_tab NOT INDEXED
SET state = 2, ended_at = unixepoch(), open_key = NULL, due_at = NULL
WHERE id = 3
  AND state = 0;

-- ClaimOperation
UPDATE async_job_act_tab NOT INDEXED
SET worker = ?, touched_at = unixepoch()
WHERE id = 3
  AND state = 'open'
  AND (worker IS NULL OR worker = ? OR touched_at NOT BETWEEN unixepoch() - 15 AND unixepoch() + 15); -- with "me", "me"
SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
FROM async_job_act_tab
WHERE id > 0
  AND id = 3
  AND state IS NOT NULL
  AND state = 'open'
ORDER BY id DESC
LIMIT 1;

-- ClampPriorities
SELECT *
FROM (SELECT id
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL SELECT *
FROM (SELECT id
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority > 2
    AND id > 0
  LIMIT 250)
UNION ALL SELECT *
FROM (SELECT id
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL SELECT *
FROM (SELECT id
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority > 2
    AND id > 0
  LIMIT 250);

-- CloseLease
UPDATE shedlock_tab
SET layout = -1028, locked_by = '', lock_until = datetime(2147400000, 'unixepoch')
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
UPDATE shedlock_tab
SET layout = -1028, locked_by = '', lock_until = datetime(2147400000, 'unixepoch')
WHERE lock_name IN (?, ?)
  AND (layout > 0
    AND layout < 1028
    AND unixepoch(lock_until) <= unixepoch() OR layout < 0
    AND layout > -1028); -- with "a", "b"

-- Columns
SELECT t.name AS of_table, c.name AS name
FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c
WHERE t.type = 'table'
  AND t.name COLLATE NOCASE IN ('async_job_tab', 'shedlock_tab');

-- CopyLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, ''), (?, '')
ON CONFLICT DO NOTHING; -- with "rest-a-9", "rest-b-8"
UPDATE shedlock_tab
SET locked_by = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE locked_by END, running = CASE lock_name WHEN ? THEN 3 WHEN ? THEN 1 ELSE running END, term = CASE lock_name WHEN ? THEN 9 WHEN ? THEN 8 ELSE term END, layout = CASE lock_name WHEN ? THEN 1 WHEN ? THEN 1028 ELSE layout END, locked_at = datetime(unixepoch(), 'unixepoch'), lock_until = datetime(CASE lock_name WHEN ? THEN 1700000000.000000 WHEN ? THEN 1700000001.500000 ELSE 0 END, 'unixepoch')
WHERE lock_name IN (?, ?)
  AND locked_by = ''; -- with "rest-a-9", "me", "rest-b-8", "you", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8"

-- Count
SELECT job_type, COALESCE(job_status, 0), COUNT(*)
FROM async_job_tab INDEXED BY async_job_due
WHERE id > 0
  AND job_type IN (7)
  AND (job_status IN (0,2) OR job_status IS NULL)
  AND (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END) < 1000
GROUP BY job_type, job_status
ORDER BY job_type, job_status;

-- CountDue
SELECT COUNT(*)
FROM (SELECT *
  FROM (SELECT id
    FROM async_job_tab INDEXED BY async_job_due
    WHERE job_type = 7
      AND job_status IN (0, 3, 4)
      AND id > 0
      AND id <= 500
      AND (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END) < 1000
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT id
    FROM async_job_tab INDEXED BY async_job_due
    WHERE job_type = 7
      AND job_status IS NULL
      AND id > 0
      AND id <= 500
      AND (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END) < 1000
    LIMIT 100) AS part) AS due;

-- CountEnds
SELECT n.id AS node, n.job_id, j.job_status, COALESCE(n.followers, '') AS followers, COALESCE(n.enders, '') AS enders, COALESCE(j.result, '') AS result
FROM async_job_node_tab AS n NOT INDEXED JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id IN (393217,393218)
  AND n.state = 2
  AND (j.job_status = 1 OR n.counted = 0
    AND j.job_status IN (2, 5)
    AND (j.term = 0
      AND (j.changes & 268435456) = 0 OR j.update_time <= unixepoch() - 10 OR j.update_time > unixepoch() + 60));

-- CountEnds, rows
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393217 AND 393219
ORDER BY id;
UPDATE async_job_flow_tab NOT INDEXED
SET state = CASE undo_after WHEN 0 THEN 3 ELSE state END, due_at = CASE WHEN due_at <= unixepoch() + undo_after THEN due_at ELSE unixepoch() + undo_after END
WHERE id BETWEEN 3 AND 3
  AND state = 0
  AND undo_after >= 0;
UPDATE async_job_node_tab NOT INDEXED
SET state = 3
WHERE id BETWEEN 393217 AND 393217;
UPDATE async_job_node_tab NOT INDEXED
SET counted = 2
WHERE id BETWEEN 393218 AND 393218;
UPDATE async_job_node_tab NOT INDEXED
SET result = CASE id WHEN 393217 THEN ? END
WHERE id BETWEEN 393217 AND 393217; -- with "42"
UPDATE async_job_node_tab NOT INDEXED
SET waits = waits - 1
WHERE id BETWEEN 393219 AND 393219;
UPDATE async_job_node_tab NOT INDEXED
SET waits = 0, state = 1
WHERE id BETWEEN 393218 AND 393218;
UPDATE async_job_node_tab NOT INDEXED
SET waits = 0, state = 3
WHERE id BETWEEN 393220 AND 393220;
UPDATE async_job_flow_tab NOT INDEXED
SET state = 1, ended_at = unixepoch(), open_key = NULL, due_at = NULL
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
    FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
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
    FROM async_job_tab INDEXED BY async_job_due
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
    FROM async_job_tab INDEXED BY async_job_due
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
    FROM async_job_tab INDEXED BY async_job_due
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
    FROM async_job_tab INDEXED BY async_job_due
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
    FROM async_job_tab INDEXED BY async_job_due
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
    FROM async_job_tab INDEXED BY async_job_due
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
UPDATE async_job_act_tab NOT INDEXED
SET changed = changed + 400, skipped = skipped + 100, state = ?
WHERE id = 3; -- with "done"

-- DeleteEnded
DELETE
FROM async_job_tab
WHERE id BETWEEN 1 AND 2
  AND job_status IN (1, 2, 5);

-- DeleteFlows
SELECT id, nodes, undo_nodes
FROM async_job_flow_tab
WHERE state IN (1, 2, 5)
  AND ended_at < 1000
  AND created_at < 1000
ORDER BY ended_at, id
LIMIT 100;

-- DeleteFlows, rows
DELETE
FROM async_job_flow_tab
WHERE id = 3
  AND state IN (1, 2, 5)
  AND ended_at < 1000
  AND undo_nodes = 0;

-- DeleteOld
DELETE
FROM async_job_tab
WHERE id BETWEEN 1 AND 2
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

-- DeleteOld, attempts
DELETE
FROM async_job_log_tab
WHERE job_id IN (1,2);

-- DeleteSchedule
DELETE
FROM async_job_schedule_tab
WHERE name = ?; -- with "nightly"

-- DeleteSteps
DELETE
FROM async_job_step_tab
WHERE job_id IN (1,2);

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

-- DropEnded
DELETE
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND unixepoch(lock_until) <= unixepoch(); -- with "a", "b"

-- DropLease
DELETE
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?; -- with "a", "me"

-- DropLines
SELECT lock_name
FROM async_job_now_tab
WHERE told_at < 1000;

-- DropRestRuns
DELETE
FROM async_job_now_tab
WHERE lock_name IN (?, ?); -- with "rest-7-64", "rest-7-64+1"

-- DropStats
DELETE
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at < 1000;

-- DropTenures
DELETE
FROM async_job_lease_log_tab
WHERE ended_at < 1000;

-- DueSchedules
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE next_at <= 1700000000
  AND paused_at IS NULL
ORDER BY next_at
LIMIT 100;

-- EachStat
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type IN (7,8)
  AND begins_at >= 1000
  AND begins_at < 2000;

-- EarlierOfGroup
SELECT job_key, COUNT(*) AS earlier
FROM async_job_tab INDEXED BY async_job_key
WHERE job_type = 7
  AND job_key IN (?)
  AND NULLIF(RTRIM(job_group), '') IS NULL
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND id + 0 < 9
GROUP BY job_key
UNION ALL SELECT job_group, COUNT(*) AS earlier
FROM async_job_tab INDEXED BY async_job_group
WHERE job_type = 7
  AND job_group IN (?)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND id + 0 < 9
GROUP BY job_group; -- with "a", "a"

-- EndPauses
UPDATE async_job_type_tab NOT INDEXED
SET paused_at = NULL, paused_until = NULL
WHERE job_type IN (7,8)
  AND paused_until > paused_at
  AND paused_until <= unixepoch();

-- EndWait
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- EndedLeases
SELECT lock_name
FROM shedlock_tab
WHERE (lock_name LIKE 'at-%')
  AND unixepoch(lock_until) <= unixepoch();

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
FROM (SELECT 1 AS part, lock_name AS subject, CAST(term AS INTEGER) AS numbered, holder AS who, CAST(taken_at AS INTEGER) AS happened, CAST(COALESCE(ended_at, 0) AS INTEGER) AS until_at, COALESCE(how, '') AS how, CAST(NULL AS INTEGER) AS job_type, '' AS why, 0 AS changed
  FROM async_job_lease_log_tab
  WHERE lock_name LIKE 'job-%'
    AND (ended_at IS NULL OR ended_at >= 1000000)
  ORDER BY taken_at DESC
  LIMIT 2000) AS tenures
UNION ALL SELECT *
FROM (SELECT 2 AS part, verb AS subject, CAST(id AS INTEGER) AS numbered, actor AS who, CAST(acted_at AS INTEGER) * 1000 AS happened, 0 AS until_at, COALESCE(state, '') AS how, job_type, COALESCE(why, '') AS why, changed
  FROM async_job_act_tab
  WHERE operation IS NULL
  ORDER BY id DESC
  LIMIT 20) AS acts
UNION ALL SELECT *
FROM (SELECT 3 AS part, verb AS subject, CAST(id AS INTEGER) AS numbered, actor AS who, CAST(acted_at AS INTEGER) * 1000 AS happened, 0 AS until_at, COALESCE(detail, '') AS how, job_type, COALESCE(why, '') AS why, 0 AS changed
  FROM async_job_act_tab
  WHERE job_type >= -2147483648
    AND verb IN ('deploy', 'mute', 'unmute')
    AND acted_at >= unixepoch() - 7776000
  ORDER BY acted_at DESC, id DESC
  LIMIT 1000) AS marks
UNION ALL SELECT 0, '', 0, '', CAST(unixepoch() AS INTEGER) * 1000, 0, '', CAST(NULL AS INTEGER), '', 0;

-- ExpireTenures
UPDATE async_job_lease_log_tab
SET ended_at = CASE lock_name WHEN ? THEN CAST(? AS INTEGER) WHEN ? THEN CAST(? AS INTEGER) END, how = 'expired'
WHERE how IS NULL
  AND (lock_name = ?
    AND term < ? OR lock_name = ?
    AND term < ?); -- with "job-7", 1000, "job-8/1", 2000, "job-7", 3, "job-8/1", 4

-- FindOld
SELECT id, job_type, job_status, CAST(create_time AS INTEGER), CAST(update_time AS INTEGER)
FROM async_job_tab NOT INDEXED
WHERE id > 3
ORDER BY id
LIMIT 101;

-- FinishThrough
UPDATE async_job_tab NOT INDEXED
SET job_status = 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- FireSchedule
INSERT OR IGNORE INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"
SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND unique_in = ?; -- with "cron-nightly@1700000060", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES (?, ?, 0, ?, ?, ?, 0, ?, 7, NULL, NULL, ?); -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"

-- FirstOfKeys
SELECT job_key, MIN(id + 0) AS first
FROM async_job_tab INDEXED BY async_job_key
WHERE job_type = 7
  AND job_key IN (?, ?, ?, ?)
  AND NULLIF(RTRIM(job_group), '') IS NULL
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND id + 0 >= 3
  AND (id > 5 OR (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END) >= 1000)
GROUP BY job_key
UNION ALL SELECT job_group, MIN(id + 0) AS first
FROM async_job_tab INDEXED BY async_job_group
WHERE job_type = 7
  AND job_group IN (?, ?, ?, ?)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND id + 0 >= 3
  AND (id > 5 OR (CASE WHEN CAST(COALESCE(start_time, 0) AS INTEGER) > 0 THEN CAST(COALESCE(start_time, 0) AS INTEGER) ELSE CAST(create_time AS INTEGER) END) >= 1000)
GROUP BY job_group; -- with "a", "b", "c", "d", "a", "b", "c", "d"

-- FirstRows
SELECT id, job_type, job_status, CAST(create_time AS INTEGER), CAST(update_time AS INTEGER)
FROM async_job_tab NOT INDEXED
WHERE id > 0
ORDER BY id
LIMIT 500;

-- Fleet
SELECT lock_name, locked_by, term, running, layout, unixepoch(lock_until) AS held_until
FROM shedlock_tab
WHERE lock_name LIKE 'job-%' OR lock_name LIKE 'at-%'
UNION ALL SELECT '', CASE WHEN paused_at IS NULL THEN 'type' WHEN paused_until > paused_at
  AND paused_until <= unixepoch() THEN 'type whose pause is over' ELSE 'paused type' END, job_type, COALESCE(workers, 0), COALESCE(layout, 0), COALESCE(rate, 0)
FROM async_job_type_tab
WHERE job_type IN (SELECT job_type
  FROM async_job_type_tab INDEXED BY async_job_type_paused
  WHERE paused_at IS NOT NULL
  UNION ALL SELECT job_type
  FROM async_job_type_tab INDEXED BY async_job_type_layout
  WHERE layout IS NOT NULL
  UNION ALL SELECT job_type
  FROM async_job_type_tab INDEXED BY async_job_type_workers
  WHERE workers IS NOT NULL
  UNION ALL SELECT job_type
  FROM async_job_type_tab INDEXED BY async_job_type_rate
  WHERE rate IS NOT NULL)
UNION ALL SELECT '', 'now', 0, 0, 0, CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT '', 'now, of leases', 0, 0, 0, unixepoch();

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
WHERE id BETWEEN 1 AND 2
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
  FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
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
FROM async_job_node_tab AS n NOT INDEXED JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE (n.id >= 131072
    AND n.id < 262144 OR n.id >= 262144
    AND n.id < 393216)
GROUP BY f.id, f.state;

-- ForgetSteps
DELETE
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND kind < 16;

-- ForgetStray
DELETE
FROM async_job_step_tab
WHERE job_id = 1
  AND created <> 1000;

-- FreeLeases
UPDATE shedlock_tab
SET lock_until = datetime(unixepoch(), 'unixepoch')
WHERE lock_name IN (?, ?)
  AND locked_by IN (?, ?)
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "b", "me", "you"

-- GivenUpJobs
SELECT id
FROM async_job_tab INDEXED BY async_job_due
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
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND unique_in = ?; -- with "cron-1", 7

-- HaveWork
SELECT job_type, ((SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status IS NULL
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 0
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 3
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 4
    LIMIT 1) IS NOT NULL) AS has_work
FROM async_job_type_tab AS known
WHERE job_type IN (7,8);

-- HaveWork, of all
SELECT job_type, 1 = 1 AS has_work
FROM async_job_type_tab AS known
WHERE ((SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status IS NULL
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 0
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 3
    LIMIT 1) IS NOT NULL OR (SELECT 1
    FROM async_job_tab AS work INDEXED BY async_job_due
    WHERE work.job_type = known.job_type
      AND work.job_status = 4
    LIMIT 1) IS NOT NULL);

-- Holdings
SELECT lock_name, unixepoch(lock_until) <= unixepoch() AS free, locked_by, term, running, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now_micros, unixepoch(locked_at) AS held_since, unixepoch(lock_until) AS held_until
FROM shedlock_tab
WHERE lock_name LIKE 'job-%'
  AND layout > 0 OR (lock_name LIKE 'at-%')
  AND unixepoch(lock_until) > unixepoch()
ORDER BY lock_name;

-- IDs
SELECT id
FROM async_job_tab INDEXED BY async_job_due
WHERE id > 0
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
LIMIT 100;
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id > 0
  AND job_status IN (2)
ORDER BY id
LIMIT 100;
SELECT id
FROM async_job_tab INDEXED BY async_job_key
WHERE id > 0
  AND job_key = ?
LIMIT 100; -- with "order 4711"

-- InOneTransaction
DELETE
FROM shedlock_tab
WHERE lock_name IN (?)
  AND unixepoch(lock_until) <= unixepoch(); -- with "at-000000000000"

-- InState
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term <> 0;

-- Indexes
SELECT tbl_name AS of_table, name
FROM sqlite_master
WHERE type = 'index'
  AND tbl_name COLLATE NOCASE IN ('async_job_tab', 'shedlock_tab');

-- JobsOfKey
SELECT id
FROM async_job_tab INDEXED BY async_job_key
WHERE job_key = ?
  AND job_type = ?
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "a", 7

-- KeepLeases
UPDATE shedlock_tab
SET lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "b", "me"
SELECT lock_name, unixepoch(lock_until) AS held_until, CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now_millis
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "b", "me"

-- KeepLeases and numbers
UPDATE shedlock_tab
SET running = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? ELSE running END, lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND unixepoch(lock_until) > unixepoch(); -- with "a", 2, "b", 3, "a", "b", "me"
SELECT lock_name, unixepoch(lock_until) AS held_until, CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now_millis
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by IN (?)
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "b", "me"

-- KeepLogs
INSERT OR IGNORE INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 16, ?, 1000, 12, 8, 5, NULL, ?); -- with "12/8", "\"a line\""
DELETE
FROM async_job_step_tab
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
SELECT COALESCE(MAX(id), 0) AS last
FROM async_job_tab
WHERE id > 0;

-- LayDown
DELETE
FROM shedlock_tab
WHERE lock_name = ?
  AND EXISTS (SELECT *
  FROM (SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name = ?
      AND locked_by = ?) AS awake); -- with "dormant-7", "job-7", "me"
UPDATE shedlock_tab
SET lock_name = ?, lock_until = datetime(unixepoch(), 'unixepoch')
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "dormant-7", "job-7", "me"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?)
  AND locked_by = ?
  AND unixepoch(lock_until) > unixepoch(); -- with "job-7", "me"

-- Layout
SELECT layout
FROM async_job_type_tab
WHERE job_type = 7
  AND layout IS NOT NULL;

-- Lines
SELECT lock_name, term, told_at, state
FROM async_job_now_tab
ORDER BY lock_name;

-- List
SELECT id, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER), CAST(update_time AS INTEGER), COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), unixepoch()
FROM (SELECT id AS found
  FROM async_job_tab INDEXED BY async_job_key
  WHERE id < 9
    AND id BETWEEN 1 AND 2
    AND job_key = ?
    AND job_type IN (7)
    AND (job_status IN (0) OR job_status IS NULL)
    AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < 9
  ORDER BY id + 0
  LIMIT 10) AS keyed JOIN async_job_tab ON id = found
ORDER BY id
LIMIT 10; -- with "a"

-- List, states
SELECT id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER), CAST(update_time AS INTEGER), COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), unixepoch()
FROM async_job_tab
WHERE id > 0
  AND id < 9
  AND job_type IN (7)
  AND ((job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND CAST(COALESCE(start_time, 0) AS INTEGER) <= unixepoch() OR (job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND CAST(COALESCE(start_time, 0) AS INTEGER) > unixepoch() OR (job_status IN (0,3,4) OR job_status IS NULL)
    AND term <> 0 OR job_status IN (1))
ORDER BY id
LIMIT 10;

-- LiveJobs
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab NOT INDEXED
WHERE id > 393217
  AND id <= 393218
  AND state IN (2, 1, 2)
ORDER BY id
LIMIT 1000;

-- LiveJobs, held
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393216 AND 393218
  AND id > 393215
  AND state IN (0, 1, 2)
ORDER BY id
LIMIT 1000;

-- LockMatching
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND job_key = ?
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
  AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id; -- with "a"

-- LockState
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id;

-- LogAttempts
INSERT OR IGNORE INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance)
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
SELECT id, attempts, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
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
  LIMIT 1000) AS n JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE (j.job_status = 1 OR n.counted = 0
    AND j.job_status IN (2, 5)
    AND (j.term = 0
      AND (j.changes & 268435456) = 0 OR j.update_time <= unixepoch() - 10 OR j.update_time > unixepoch() + 60))
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
    AND (due_at <= unixepoch() OR state = 3
      AND due_at > unixepoch() + 60)
  ORDER BY due_at
  LIMIT 100) AS due;

-- MakeClosed
INSERT INTO shedlock_tab (lock_name, locked_by, layout, lock_until)
VALUES (?, '', -1028, datetime(2147400000, 'unixepoch')), (?, '', -1028, datetime(2147400000, 'unixepoch'))
ON CONFLICT DO NOTHING; -- with "a", "b"

-- MakeLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, ''), (?, '')
ON CONFLICT DO NOTHING; -- with "a", "b"

-- Mark
UPDATE async_job_tab NOT INDEXED
SET term = 9, attempts = attempts + 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND CAST(unixepoch('subsec') * 1000 AS INTEGER) <= 1800000000500
  AND term = 0
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND CAST(create_time AS INTEGER) <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Mark Lost
UPDATE async_job_tab NOT INDEXED
SET lost = CASE WHEN lost < 127 THEN lost + 1 ELSE lost END, term = 9, attempts = attempts + 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND CAST(unixepoch('subsec') * 1000 AS INTEGER) <= 1800000000500
  AND term = 8
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND CAST(create_time AS INTEGER) <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- MarkedRows
SELECT id, attempts, lost
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- MendAhead
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
ORDER BY id;
UPDATE async_job_step_tab NOT INDEXED
SET until_at = until_at - 1000 * (SELECT update_time - unixepoch()
  FROM async_job_tab NOT INDEXED
  WHERE id = job_id)
WHERE job_id IN (1,2)
  AND kind IN (1, 2)
  AND EXISTS (SELECT 1
  FROM async_job_tab NOT INDEXED
  WHERE id = job_id
    AND create_time = created
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND start_time + 60 >= update_time
    AND start_time > unixepoch() + 2
    AND update_time > unixepoch() + 2
    AND update_time > 1700000002
    AND (term = 0
      AND attempts > 0
      AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
      AND start_time <= update_time + 1)
    AND until_at + 60000 >= start_time * 1000
    AND (kind = 1
      AND ended_at > (CAST(unixepoch('subsec') * 1000000 AS INTEGER) / 1000) OR ended_at = 0
      AND attempt = attempts));
UPDATE async_job_tab NOT INDEXED
SET start_time = start_time + unixepoch() - update_time, changes = changes + CASE WHEN term = 0 THEN 1 ELSE 0 END, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND start_time + 60 >= update_time
  AND start_time > unixepoch() + 2
  AND update_time > unixepoch() + 2
  AND update_time > 1700000002
  AND (term = 0
    AND attempts > 0
    AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
    AND start_time <= update_time + 1);

-- MendFlowsAhead
UPDATE async_job_flow_tab
SET due_at = CASE WHEN undo_after >= 0
  AND due_at > unixepoch() + undo_after + 60
  AND (deadline IS NULL OR due_at < deadline) THEN unixepoch() + undo_after WHEN created_at > unixepoch() + 60 THEN due_at - created_at + unixepoch() ELSE due_at END, deadline = CASE WHEN created_at > unixepoch() + 60 THEN deadline - created_at + unixepoch() ELSE deadline END, created_at = CASE WHEN created_at > unixepoch() + 60 THEN unixepoch() ELSE created_at END
WHERE state IN (0, 3)
  AND (undo_after >= 0
    AND due_at > unixepoch() + undo_after + 60
    AND (deadline IS NULL OR due_at < deadline) OR created_at > unixepoch() + 60);

-- MendSchedule
UPDATE async_job_type_tab NOT INDEXED
SET cron_at = 1700000000
WHERE job_type = 7
  AND cron_at = 1700000060
  AND cron_at > unixepoch();

-- MendScheduleRow
UPDATE async_job_schedule_tab NOT INDEXED
SET reached_at = 1600000000, next_at = 0
WHERE name = ?
  AND reached_at = 1700000000
  AND reached_at > unixepoch(); -- with "nightly"

-- MoveLease
UPDATE shedlock_tab
SET term = ?, layout = ?, locked_by = ?, running = ?, locked_at = datetime(unixepoch(), 'unixepoch'), lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
WHERE lock_name = ?
  AND locked_by IN ('', ?); -- with 9, 1028, "me", 3, "a", "me"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?)
  AND locked_by = ?
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "me"

-- NameTypes
SELECT job_type, name
FROM async_job_type_tab
WHERE job_type IN (7,8)
  AND name IS NOT NULL;
INSERT INTO async_job_type_tab (job_type, name)
VALUES (7, ?), (8, ?)
ON CONFLICT DO NOTHING; -- with "mail", "export"
UPDATE async_job_type_tab NOT INDEXED
SET name = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END
WHERE job_type IN (7,8)
  AND name IS NULL; -- with "mail", "export"

-- Newest
SELECT (SELECT COALESCE(MAX(id), 0)
  FROM async_job_tab
  WHERE id > 0) AS newest, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now;

-- NextIDs
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id > 3
  AND id < 9
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
ORDER BY id
LIMIT 100;
SELECT id
FROM async_job_tab INDEXED BY async_job_key
WHERE id > 3
  AND id < 9
  AND job_key = ?
ORDER BY id + 0
LIMIT 100; -- with "order 4711"

-- NodeInFlow
SELECT n.id AS node, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.job_id, 0), n.born, n.kind AS node_kind, f.id, f.kind, COALESCE(f.flow_key, ''), f.state, f.nodes, f.created_at, COALESCE(f.ended_at, 0)
FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = 3
WHERE n.id = 393217;

-- NodesNamed
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.spec, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > unixepoch() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n NOT INDEXED LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND (n.id IN (393217) OR n.name = ?)
ORDER BY n.id; -- with "pay"

-- NodesOf
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > unixepoch() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n NOT INDEXED LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
ORDER BY n.id;

-- NoteAct
INSERT INTO async_job_act_tab (acted_at, actor, verb, why, job_type, jobs, first_job, last_job, detail, operation, state, last_id, changed)
VALUES (unixepoch(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?); -- with "mary", "cancel", "a mistake", (*int32)(nil), "4,5", 4, 5, "{}", 3, <nil>, 0, 2

-- NoteFired
UPDATE async_job_schedule_tab NOT INDEXED
SET reached_at = 1700000060, next_at = 1700000120, last_at = 1700000060, last_job = 5
WHERE name = ?
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- NoteRunning
UPDATE shedlock_tab
SET running = ?, lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
WHERE lock_name = ?
  AND locked_by = ?
  AND unixepoch(lock_until) > unixepoch(); -- with 3, "a", "me"

-- NoteScheduled
UPDATE async_job_type_tab NOT INDEXED
SET cron_at = 1700000060
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL;

-- OpenLeases
UPDATE shedlock_tab
SET layout = 1028, term = MAX(term, 9), lock_until = datetime(unixepoch(), 'unixepoch')
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

-- OtherTypes
SELECT *
FROM (SELECT job_type
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type >= -2147483648
    AND job_type <= -9
  ORDER BY job_type
  LIMIT 1)
UNION ALL SELECT *
FROM (SELECT job_type
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type >= -7
    AND job_type <= 6
  ORDER BY job_type
  LIMIT 1)
UNION ALL SELECT *
FROM (SELECT job_type
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type >= 9
    AND job_type <= 2147483647
  ORDER BY job_type
  LIMIT 1);

-- Page
SELECT *
FROM (SELECT 0 AS part, id, params AS params, 0, CAST(create_time AS INTEGER), CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type = 7
    AND job_status = 0
    AND priority = 2
    AND start_time = 0
    AND id > 0
    AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
      AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> '')
  ORDER BY id
  LIMIT 100)
UNION ALL SELECT *
FROM (SELECT *
  FROM (SELECT 1 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
      AND attempts = 0
      AND changes = 0
      AND max_retries IS NULL
      AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group
    FROM async_job_tab INDEXED BY async_job_due
    WHERE job_type = 7
      AND job_status = 0
      AND priority = 2
      AND start_time = 0
      AND id > 0
      AND start_time <= unixepoch() + 3
      AND id > 0
      AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
        AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> '')
    ORDER BY start_time, id
    LIMIT 100)
  UNION ALL SELECT *
  FROM (SELECT 1 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
      AND attempts = 0
      AND changes = 0
      AND max_retries IS NULL
      AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group
    FROM async_job_tab INDEXED BY async_job_due
    WHERE job_type = 7
      AND job_status = 0
      AND priority = 2
      AND start_time > 0
      AND start_time <= unixepoch() + 3
      AND id > 0
      AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
        AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> '')
    ORDER BY start_time, id
    LIMIT 100)
  LIMIT 100);

-- PassSchedule
UPDATE async_job_schedule_tab NOT INDEXED
SET reached_at = 1700000060, next_at = NULL
WHERE name = ?
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- PastOfJob
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS INTEGER) AS attempt, CAST(term AS INTEGER) AS numbered, CAST(ended_at AS INTEGER) AS happened, CAST(COALESCE(until_at, 0) AS INTEGER) AS until_at
FROM async_job_step_tab
WHERE job_id = 4
  AND created = 1000
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS INTEGER) AS attempt, CAST(id AS INTEGER) AS numbered, CAST(acted_at AS INTEGER) AS happened, CAST(COALESCE(operation, 0) AS INTEGER) AS until_at
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
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS INTEGER) AS happened, 0 AS until_at
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
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS INTEGER) AS attempt, CAST(term AS INTEGER) AS numbered, CAST(ended_at AS INTEGER) AS happened, CAST(COALESCE(until_at, 0) AS INTEGER) AS until_at
FROM async_job_step_tab
WHERE job_id = 4
  AND created = 1000
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS INTEGER) AS attempt, CAST(id AS INTEGER) AS numbered, CAST(acted_at AS INTEGER) AS happened, CAST(COALESCE(operation, 0) AS INTEGER) AS until_at
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
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS INTEGER) AS happened, 0 AS until_at
  FROM async_job_act_tab
  WHERE id <= (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
  ORDER BY id DESC
  LIMIT 1) AS earlier; -- with "4", "4,%", "%,4", "%,4,%"

-- Pause
INSERT OR IGNORE INTO async_job_type_tab (job_type, paused_at)
VALUES (7, unixepoch());
UPDATE async_job_type_tab NOT INDEXED
SET paused_at = COALESCE(paused_at, unixepoch()), paused_until = NULL
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_until IS NOT NULL);

-- PauseSchedule
UPDATE async_job_schedule_tab NOT INDEXED
SET paused_at = unixepoch(), revision = revision + 1
WHERE name = ?
  AND paused_at IS NULL; -- with "nightly"

-- PauseUntil
INSERT OR IGNORE INTO async_job_type_tab (job_type, paused_at, paused_until)
VALUES (7, CASE WHEN unixepoch() < 1700000000 THEN unixepoch() ELSE 1699999999 END, 1700000000);
UPDATE async_job_type_tab NOT INDEXED
SET paused_at = CASE WHEN paused_at < 1700000000 THEN paused_at WHEN unixepoch() < 1700000000 THEN unixepoch() ELSE 1699999999 END, paused_until = 1700000000
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_at >= 1700000000 OR paused_until IS NULL OR paused_until <> 1700000000);

-- Paused
SELECT job_type
FROM async_job_type_tab INDEXED BY async_job_type_paused
WHERE paused_at IS NOT NULL;

-- PausedTypes
SELECT job_type, paused_at
FROM async_job_type_tab INDEXED BY async_job_type_paused
WHERE paused_at IS NOT NULL
ORDER BY job_type;

-- Progress
SELECT COALESCE(progress, '')
FROM async_job_tab NOT INDEXED
WHERE id = ?; -- with 1

-- PutSchedule
UPDATE async_job_schedule_tab NOT INDEXED
SET reached_at = CASE WHEN spec = ? THEN reached_at ELSE MAX(reached_at, unixepoch()) END, next_at = CASE WHEN spec = ? THEN next_at ELSE 0 END, spec = ?, job_type = 7, params = ?, settings = ?, catch_up = 1, revision = revision + 1, put_at = unixepoch()
WHERE name = ?; -- with "0 3 * * *", "0 3 * * *", "0 3 * * *", "{}", "{}", "nightly"
INSERT OR IGNORE INTO async_job_schedule_tab (name, spec, job_type, params, settings, catch_up, reached_at, next_at, put_at)
VALUES (?, ?, 7, ?, ?, 1, unixepoch(), 0, unixepoch()); -- with "nightly", "0 3 * * *", "{}", "{}"

-- RecordStep
INSERT OR IGNORE INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value) SELECT id, 0, ?, create_time, 2, 9, 1700000000000, NULL, ?
FROM async_job_tab NOT INDEXED
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "charge", "\"x\""

-- RecordStepThrough
UPDATE async_job_tab NOT INDEXED
SET steps = COALESCE(steps, 0) + 1
WHERE id = 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- RefuseNode
UPDATE async_job_node_tab NOT INDEXED
SET state = 4, problem = ?
WHERE id = 393217
  AND state = 1; -- with "not this type"

-- ReleaseLease
UPDATE shedlock_tab
SET lock_until = datetime(MAX(unixepoch(), MIN(unixepoch(), unixepoch(locked_at)) + 61), 'unixepoch')
WHERE lock_name IN (?)
  AND locked_by = ?; -- with "a", "me"
SELECT CASE WHEN unixepoch(lock_until) > MAX(unixepoch(), MIN(unixepoch(), unixepoch(locked_at)) + 61) THEN 1 ELSE 0 END AS held
FROM shedlock_tab
WHERE lock_name = ?
  AND locked_by = ?; -- with "a", "me"

-- RenameType
UPDATE async_job_type_tab NOT INDEXED
SET name = ?
WHERE job_type = 7
  AND name = ?; -- with "letter", "mail"

-- ReopenFlow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393216 AND 393218
  AND (state IN (1, 2, 4, 5) OR kind = 1)
ORDER BY id;

-- ReplaceWaiting
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id;

-- ReplaceWaiting, rows
UPDATE async_job_tab NOT INDEXED
SET params = CASE id WHEN 1 THEN ? WHEN 2 THEN ? END, long_params = NULL, start_time = CASE id WHEN 1 THEN (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(CAST(1500 AS INTEGER) AS INTEGER) * 1000 + 999999) / 1000000 WHEN 2 THEN unixepoch() END, priority = CASE id WHEN 1 THEN 0 WHEN 2 THEN 1 END, max_retries = NULLIF(CASE id WHEN 1 THEN 3 WHEN 2 THEN -2 END, -2), meta = CASE id WHEN 1 THEN ? WHEN 2 THEN NULL END, job_status = 0, retries = 0, lost = 0, changes = changes + 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with "{}", "{}", "{\"a\":\"b\"}"

-- Reschedule
UPDATE async_job_tab NOT INDEXED
SET start_time = MAX(1700000000, unixepoch()), changes = changes + 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0;

-- RestRuns
SELECT lock_name, state
FROM async_job_now_tab
WHERE lock_name IN (?, ?); -- with "rest-7-64", "rest-7/1-65"

-- Restore
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 4 AND 5
ORDER BY id
LIMIT 2;
INSERT OR IGNORE INTO async_job_tab (id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, job_key, job_group, priority, max_retries, meta, progress, result, changes, unique_in)
VALUES (4, ?, NULL, 7, 1, 0, 1000, 1001, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL), (5, ?, ?, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, 3, ?, ?, ?, 0, NULL); -- with "{}", "see long_params", "xxxxxxxxxxxxxxxxxxx…, "a", "b", "{}", "half", "done"

-- RestoreSteps
INSERT OR IGNORE INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 0, ?, 1000, 2, 9, 1700000000000, NULL, ?), (2, 1, ?, 1000, 1, 8, 5, 9, NULL); -- with "charge", "\"x\"", "until"

-- Resume
UPDATE async_job_type_tab NOT INDEXED
SET paused_at = NULL, paused_until = NULL
WHERE job_type = 7
  AND paused_at IS NOT NULL;

-- ResumeSchedule
UPDATE async_job_schedule_tab NOT INDEXED
SET paused_at = NULL, reached_at = MAX(reached_at, unixepoch()), next_at = 0, revision = revision + 1
WHERE name = ?
  AND paused_at IS NOT NULL; -- with "nightly"

-- Retry
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND job_status IN (2, 5)
ORDER BY id;

-- RetryWith
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND job_status IN (2, 5)
ORDER BY id;

-- Rise
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES (?, '')
ON CONFLICT DO NOTHING; -- with "live-1"
UPDATE shedlock_tab
SET term = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 2500, running = 2500, layout = 41, lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch'), locked_by = ?, locked_at = datetime(unixepoch(), 'unixepoch')
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

-- RollUp, rows
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at >= 3600
  AND begins_at < 7200;
DELETE
FROM async_job_stat_tab
WHERE job_type = 7
  AND begins_at >= 3600
  AND begins_at < 7200;
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_type, begins_at, lock_name, term) DO UPDATE
SET counted = excluded.counted, state = excluded.state
WHERE async_job_stat_tab.counted < excluded.counted; -- with 7, 3600, "", 0, 3600, 0, "{}"

-- RunningOfKeys
SELECT job_key, COUNT(*) AS running
FROM async_job_tab INDEXED BY async_job_key
WHERE job_type = 7
  AND job_key IN (?, ?, ?)
  AND NULLIF(RTRIM(job_group), '') IS NULL
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term IN (8, 9)
GROUP BY job_key
UNION ALL SELECT job_group, COUNT(*) AS running
FROM async_job_tab INDEXED BY async_job_group
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
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE reached_at > 1700000000
ORDER BY name
LIMIT 100;

-- SeeLeases
SELECT lock_name, unixepoch(lock_until) <= unixepoch() AS free, locked_by, term, running, unixepoch(lock_until) AS held_until, unixepoch() AS now
FROM shedlock_tab
WHERE lock_name IN (?, ?); -- with "a", "b"

-- SetLayout
INSERT OR IGNORE INTO async_job_type_tab (job_type)
VALUES (7);
UPDATE async_job_type_tab NOT INDEXED
SET layout = 2052
WHERE job_type = 7
  AND COALESCE(layout, 0) = 1026;

-- SetLimits
INSERT OR IGNORE INTO async_job_type_tab (job_type, workers, rate)
VALUES (7, NULLIF(3, 0), NULLIF(2.5, 0));
UPDATE async_job_type_tab NOT INDEXED
SET workers = NULLIF(3, 0), rate = NULLIF(2.5, 0)
WHERE job_type = 7
  AND (COALESCE(workers, 0) <> 3 OR COALESCE(rate, 0) <> 2.5);

-- SetOperation
UPDATE async_job_act_tab NOT INDEXED
SET state = ?, worker = NULL
WHERE id = 3
  AND state = ?; -- with "stopped", "open"

-- SetParams
UPDATE async_job_tab NOT INDEXED
SET params = ?, long_params = NULL, changes = changes + 1, update_time = MAX(update_time, unixepoch())
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with "{}"

-- SetPriority
UPDATE async_job_tab NOT INDEXED
SET priority = 2, changes = changes + 1, update_time = MAX(update_time, unixepoch())
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- SetProgress
UPDATE async_job_tab NOT INDEXED
SET progress = ?, update_time = unixepoch()
WHERE id BETWEEN 1 AND 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "half way"
SELECT id, attempts, lost
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 1
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- SetResult
UPDATE async_job_tab NOT INDEXED
SET result = ?, update_time = unixepoch()
WHERE id BETWEEN 1 AND 1
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "done"
SELECT id, attempts, lost
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 1
  AND term = 9
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle
UPDATE async_job_tab NOT INDEXED
SET job_status = 1, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Again
UPDATE async_job_tab NOT INDEXED
SET job_status = 3, start_time = (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(1500 AS INTEGER) * 1000 + 999999) / 1000000, retries = retries + 1, deferred = deferred + 1, term = 0, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Awaiting
UPDATE async_job_tab NOT INDEXED
SET job_status = 3, start_time = CASE WHEN changes = 4 THEN (CAST(unixepoch('subsec') * 1000000 AS INTEGER) + CAST(1500 AS INTEGER) * 1000 + 999999) / 1000000 ELSE unixepoch() END, retries = retries + 0, deferred = deferred + 0, term = 0, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Died
UPDATE async_job_tab NOT INDEXED
SET lost = lost + 1, term = 9, job_status = 2, update_time = unixepoch()
WHERE id BETWEEN 1 AND 2
  AND term = 8
  AND term <> 0
  AND term < 9
  AND attempts = 3
  AND lost >= 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle NotStarted
UPDATE async_job_tab NOT INDEXED
SET term = 0, attempts = attempts - 1, changes = changes + 1, start_time = CASE WHEN start_time > unixepoch() + 60 THEN unixepoch() ELSE start_time END, update_time = MAX(update_time, unixepoch())
WHERE id BETWEEN 1 AND 2
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND changes = 1;

-- Sickness

-- Signal
UPDATE async_job_tab NOT INDEXED
SET changes = changes + 1, update_time = MAX(update_time, unixepoch())
WHERE id BETWEEN 1 AND 1
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 1
  AND job_status IN (1, 2, 5);

-- SignalNode
SELECT n.id, f.state
FROM async_job_flow_tab AS f NOT INDEXED JOIN async_job_node_tab AS n NOT INDEXED ON f.id = 3
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.name = ?
  AND n.kind = 3; -- with "approved"

-- SignalNode, rows
UPDATE async_job_node_tab NOT INDEXED
SET state = CASE waits WHEN 1 THEN 1 ELSE state END, waits = waits - 1, counted = 1, result = ?
WHERE id = 393217
  AND counted = 0
  AND state = 0; -- with "yes"

-- Span
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0)
FROM async_job_tab
WHERE id > 0;

-- Standings
SELECT id, COALESCE(job_status, 0) AS status, term, attempts, changes
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2;

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
    AND create_time = created);

-- StepsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id IN (1,2)
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created);

-- StepsOfRun
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = 1
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created);

-- StillPending
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- StopFlow
UPDATE async_job_flow_tab NOT INDEXED
SET state = 3, undo_after = COALESCE(undo_after, 0), ended_at = NULL, due_at = unixepoch()
WHERE id = 3
  AND (state IN (0, 1, 2) OR state = 3
    AND undo_after IS NULL);

-- SweepAll
SELECT *
FROM (SELECT 0 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER)
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7,-8)
    AND job_status IN (0,3,4)
    AND priority IN (2,1,0,-1)
    AND start_time <= unixepoch() + 3
    AND id > 0
  LIMIT 100)
UNION ALL SELECT *
FROM (SELECT 1 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER)
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7,-8)
    AND job_status IN (0,3,4)
    AND priority IN (2,1,0,-1)
    AND start_time IS NULL
    AND id > 0
  LIMIT 100)
UNION ALL SELECT *
FROM (SELECT 2 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER)
  FROM async_job_tab INDEXED BY async_job_due
  WHERE job_type IN (7,-8)
    AND job_status IS NULL
    AND priority IN (2,1,0,-1)
    AND start_time <= unixepoch() + 3
    AND id > 0
  LIMIT 100)
UNION ALL SELECT *
FROM (SELECT 3 AS part, id, params AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER)
  FROM async_job_tab INDEXED BY async_job_due
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
  AND (start_time <= unixepoch() + 3 OR start_time IS NULL) THEN params END AS params, CAST(start_time AS INTEGER), CAST(create_time AS INTEGER), CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CAST(term AS INTEGER) || ',' || CAST(attempts AS INTEGER) || ',' || CAST(retries AS INTEGER) || ',' || CAST(lost AS INTEGER) || ',' || CAST(changes AS INTEGER) || ',' || CAST(deferred AS INTEGER) || ',' || CAST(COALESCE(max_retries, -2) AS INTEGER) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, CAST(job_type AS INTEGER), CAST(job_status AS INTEGER), CAST(priority AS INTEGER)
FROM async_job_tab NOT INDEXED
WHERE id >= 1
  AND (id >= 5 OR id BETWEEN 1 AND 2)
ORDER BY id
LIMIT 100;

-- Tail Taken
SELECT id, CAST(job_type AS INTEGER), COALESCE(NULLIF(RTRIM(job_group), ''), job_key), CAST(create_time AS INTEGER)
FROM async_job_tab NOT INDEXED
WHERE id >= 1
  AND (id >= 5 OR id BETWEEN 1 AND 2)
ORDER BY id
LIMIT 100;

-- TakeLeases
UPDATE shedlock_tab
SET term = MAX(term + 1, CAST(unixepoch('subsec') * 1000 AS INTEGER)), locked_by = ?, running = 0, locked_at = datetime(unixepoch(), 'unixepoch'), lock_until = datetime(CAST(unixepoch('subsec') + 0.5 AS INTEGER) + 10, 'unixepoch')
WHERE lock_name IN (?, ?)
  AND unixepoch(lock_until) <= unixepoch()
  AND layout = 1
  AND running <> -2; -- with "me", "a", "b"
SELECT lock_name, term
FROM shedlock_tab
WHERE lock_name IN (?, ?)
  AND locked_by = ?
  AND unixepoch(lock_until) > unixepoch(); -- with "a", "b", "me"

-- TendFlow
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id BETWEEN 3 AND 3
ORDER BY id DESC
LIMIT 1;

-- TendFlow, rows
SELECT id
FROM async_job_flow_tab NOT INDEXED
WHERE id = 3
  AND state = 3
  AND COALESCE(undo_after, -1) = 0;
SELECT COUNT(*) AS stood, COALESCE(SUM(CASE WHEN j.job_status IN (2, 5)
      AND j.update_time <= unixepoch() - 0 THEN 1 ELSE 0 END), 0) AS over_now, COALESCE(MIN(CASE WHEN j.job_status IN (2, 5) THEN j.update_time END), 0) AS since
FROM async_job_node_tab AS n NOT INDEXED JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.state = 2
  AND n.kind = 0
  AND n.counted <> 0;
SELECT n.id, n.job_id, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END AS status, COALESCE(j.term, 0) AS term, CASE WHEN j.id IS NULL OR (j.term = 0
    AND (j.changes & 268435456) = 0 OR j.update_time <= unixepoch() - 10 OR j.update_time > unixepoch() + 60) THEN 1 ELSE 0 END AS over_now
FROM async_job_node_tab AS n NOT INDEXED LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.state = 2
  AND n.kind = 0
ORDER BY n.id;
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab NOT INDEXED
WHERE id BETWEEN 393216 AND 393218
ORDER BY id;
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 7 AND 7
  AND job_status IN (2, 5)
ORDER BY id;
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 7 AND 7
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id;
SELECT id
FROM async_job_flow_tab NOT INDEXED
WHERE id BETWEEN 3 AND 3
ORDER BY id;
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > unixepoch() THEN 1 ELSE 0 END
FROM async_job_node_tab AS n NOT INDEXED LEFT JOIN async_job_tab AS j NOT INDEXED ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= 393216
  AND n.id < 524288
ORDER BY n.id;
SELECT n.name, n.undo_job
FROM async_job_node_tab AS n NOT INDEXED
WHERE n.id >= 393216
  AND n.id < 524288
  AND n.kind = 0
  AND n.name IN (?); -- with "pay"
SELECT id, state, nodes
FROM async_job_flow_tab NOT INDEXED
WHERE id BETWEEN 3 AND 3
ORDER BY id;

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
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 7 AND 7
ORDER BY id;

-- Timetable
SELECT timed.name, timed.job_type, timed.put_at, timed.reached_at, timed.next_at, COALESCE(timed.last_at, 0) AS last_at, COALESCE(timed.last_job, 0) AS last_job, COALESCE(job.job_status, -1) AS last_status, COALESCE((SELECT locked_by
    FROM shedlock_tab
    WHERE lock_name = 'run-schedules'), '') AS keeper, COALESCE((SELECT unixepoch(lock_until)
    FROM shedlock_tab
    WHERE lock_name = 'run-schedules'), 0) AS kept_until, unixepoch() AS now
FROM async_job_schedule_tab AS timed LEFT JOIN async_job_tab AS job ON job.id = timed.last_job
WHERE timed.next_at >= 0
  AND timed.paused_at IS NULL
ORDER BY timed.next_at
LIMIT 1000;

-- TypeLeases
SELECT lock_name, unixepoch(lock_until) AS held_until, unixepoch(lock_until) > unixepoch() - 3600 AS lately
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
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2;

-- Unlocked
SELECT id
FROM async_job_tab NOT INDEXED
WHERE id BETWEEN 1 AND 2;

-- Wake
UPDATE shedlock_tab
SET lock_name = CASE lock_name WHEN ? THEN ? WHEN ? THEN ? END
WHERE lock_name IN (?, ?); -- with "dormant-7", "job-7", "dormant-8", "job-8", "dormant-7", "dormant-8"

-- WriteLines
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES (?, ?, unixepoch(), ?), (?, ?, unixepoch(), ?)
ON CONFLICT (lock_name) DO UPDATE
SET term = excluded.term, told_at = excluded.told_at, state = excluded.state
WHERE async_job_now_tab.term <= excluded.term; -- with "job-7", 3, "{\"workers\":0}", "job-8/1", 4, "{\"running\":2,\"workers\":0}"

-- WriteRestRuns
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES (?, ?, unixepoch(), ?), (?, ?, unixepoch(), ?)
ON CONFLICT (lock_name) DO UPDATE
SET term = excluded.term, told_at = excluded.told_at, state = excluded.state
WHERE async_job_now_tab.term <= excluded.term; -- with "rest-7-64", 1, "{\"rows\":2,\"keys\":\"5AwpLA\",\"jobs\":\"AAAABg\"}", "rest-7-64+1", 1, "{\"rows\":2,\"keys\":\"5wwt5eQMKSw\",\"jobs\":\"AAAABQ\"}"

-- WriteSettings
SELECT job_type, COALESCE(settings, '') AS settings, COALESCE(told_at, 0) AS told_at
FROM async_job_type_tab
WHERE job_type IN (7,8);
UPDATE async_job_type_tab NOT INDEXED
SET settings = CASE job_type WHEN 7 THEN ? WHEN 8 THEN ? END, told_at = unixepoch()
WHERE job_type IN (7,8)
  AND COALESCE(told_at, 0) = CASE job_type WHEN 7 THEN 0 WHEN 8 THEN 0 END; -- with "{}", "{}"

-- WriteStats
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_type, begins_at, lock_name, term) DO UPDATE
SET counted = excluded.counted, state = excluded.state
WHERE async_job_stat_tab.counted < excluded.counted; -- with 7, 60, "job-7", 3, 60, 5, "{\"runs\":{\"success\":2},\"delay\":[1,2],\"took\":[0,2]}", 8, 60, "job-8/1", 4, 60, 0, "{}"

-- WriteTenures
INSERT INTO async_job_lease_log_tab (lock_name, term, holder, taken_at, ended_at, how)
VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?)
ON CONFLICT (lock_name, term) DO UPDATE
SET ended_at = excluded.ended_at, how = excluded.how
WHERE excluded.how IS NOT NULL
  AND (async_job_lease_log_tab.how IS NULL OR async_job_lease_log_tab.how = 'expired'); -- with "job-7", 3, "me", 1000, <nil>, <nil>, "job-8/1", 4, "me", 1000, 2000, "released"

-- WrittenAhead
SELECT id
FROM async_job_tab INDEXED BY async_job_due
WHERE job_type IN (7,8)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND start_time + 60 >= update_time
  AND start_time > unixepoch() + 2
  AND update_time > unixepoch() + 2
  AND update_time > 1700000002
  AND (term = 0
    AND attempts > 0
    AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
    AND start_time <= update_time + 1)
LIMIT 100;
