-- What each verb of the store sends to PostgreSQL, when its tables are empty.
-- Written by: go test ./internal/store -run Shown -update

-- AbandonLeases
UPDATE shedlock_tab
SET lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()))
WHERE lock_name IN ($1, $2)
  AND locked_by = $3; -- with "a", "b", "me"

-- Abandoned
SELECT id
FROM async_job_tab
WHERE job_type = 7
  AND job_status = 0
  AND priority = 2
  AND start_time BETWEEN 0 AND 0
  AND create_time >= 1000
ORDER BY job_status, start_time, id
LIMIT 1;
SELECT COUNT(*) AS n, COALESCE(MAX(id), 0) AS last
FROM async_job_tab
WHERE job_type = 7
  AND job_status = 0
  AND priority = 2
  AND start_time BETWEEN 0 AND 0
  AND id <= 500;

-- Acts
SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
FROM async_job_act_tab
WHERE id > 0
  AND last_job >= $1
  AND first_job <= $2
  AND (jobs = $3 OR jobs LIKE $4 OR jobs LIKE $5 OR jobs LIKE $6)
  AND job_type IN (7)
  AND actor = $7
  AND operation = $8
  AND state IS NULL
  AND id < $9
ORDER BY id DESC
LIMIT $10; -- with 4, 4, "4", "4,%", "%,4", "%,4,%", "mary", 3, 9, 100

-- AddFlow
INSERT INTO async_job_flow_tab (kind, flow_key, open_key, nodes, created_at, alarms, undo_after, deadline, due_at)
VALUES ($1, $2, $3, $4, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $5, $6, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + $7, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + $8)
ON CONFLICT DO NOTHING
RETURNING id; -- with "order", "4711", "4711", 2, 1, 60, 3600, 3600
WITH latest AS (SELECT id
  FROM async_job_flow_tab
  WHERE kind = $1
    AND open_key = $2) SELECT *
FROM latest
FOR UPDATE; -- with "order", "4711"

-- AddJob
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)
VALUES ($1, $2, 0, $3, $4, $5)
RETURNING id; -- with "{}", 7, 0, 1700000000, 1700000000

-- AddJob, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, long_params)
VALUES ($1, $2, 0, $3, $4, $5, $6)
RETURNING id; -- with "see long_params", 7, 0, 1700000000, 1700000000, "xxxxxxxxxxxxxxxxxxx…

-- AddJobs
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(delay AS bigint) * 1000 + 999999) / 1000000 END, made, made, priority, NULLIF(key, ''), NULL, NULLIF(most, -2), NULLIF(meta, ''), NULLIF(grouping, '')
FROM (SELECT CAST($1 AS bigint) AS made) AS moment, unnest(CAST($2 AS text[]), CAST($3 AS int[]), CAST($4 AS bigint[]), CAST($5 AS bigint[]), CAST($6 AS smallint[]), CAST($7 AS text[]), CAST($8 AS int[]), CAST($9 AS text[]), CAST($10 AS text[])) WITH ORDINALITY AS job (params, type, start, delay, priority, key, most, meta, grouping, n)
ORDER BY n
RETURNING id; -- with 1700000000, "{\"{}\",\"{}\"}", "{7,7}", "{0,0}", "{0,1500}", "{0,0}", "{\"\",\"a\"}", "{-2,3}", "{\"\",\"{\\\"a\\\":\\\"b\\\"}\"}", "{\"\",\"g\"}"

-- AddJobs, long
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group, long_params) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(delay AS bigint) * 1000 + 999999) / 1000000 END, made, made, priority, NULLIF(key, ''), NULL, NULLIF(most, -2), NULLIF(meta, ''), NULLIF(grouping, ''), NULLIF(long, '')
FROM (SELECT CAST($1 AS bigint) AS made) AS moment, unnest(CAST($2 AS text[]), CAST($3 AS int[]), CAST($4 AS bigint[]), CAST($5 AS bigint[]), CAST($6 AS smallint[]), CAST($7 AS text[]), CAST($8 AS int[]), CAST($9 AS text[]), CAST($10 AS text[]), CAST($11 AS text[])) WITH ORDINALITY AS job (params, type, start, delay, priority, key, most, meta, grouping, long, n)
ORDER BY n
RETURNING id; -- with 1700000000, "{\"{}\",\"see long_params\"}", "{7,7}", "{0,0}", "{0,0}", "{0,0}", "{\"\",\"\"}", "{-2,-2}", "{\"\",\"\"}", "{\"\",\"\"}", "{\"\",\"xxxxxxxxxxx…

-- AddJobsUnlessThere
WITH latest AS (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key IN ($1, $2)
    AND unique_in = $3) SELECT *
FROM latest
FOR UPDATE; -- with "a", "b", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(delay AS bigint) * 1000 + 999999) / 1000000 END, made, made, priority, NULLIF(key, ''), type, NULLIF(most, -2), NULLIF(meta, ''), NULLIF(grouping, '')
FROM (SELECT CAST($1 AS bigint) AS made) AS moment, unnest(CAST($2 AS text[]), CAST($3 AS int[]), CAST($4 AS bigint[]), CAST($5 AS bigint[]), CAST($6 AS smallint[]), CAST($7 AS text[]), CAST($8 AS int[]), CAST($9 AS text[]), CAST($10 AS text[])) WITH ORDINALITY AS job (params, type, start, delay, priority, key, most, meta, grouping, n)
ORDER BY n
ON CONFLICT DO NOTHING
RETURNING id; -- with 1700000000, "{\"{}\",\"{}\"}", "{7,7}", "{0,0}", "{1500,0}", "{0,1}", "{\"a\",\"b\"}", "{3,-2}", "{\"{\\\"a\\\":\\\"b\\\"}\",\"\"}", "{\"g\",\"\"}"
WITH latest AS (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key = $1
    AND unique_in = $2) SELECT *
FROM latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
ON CONFLICT DO NOTHING
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddJobsUnlessThere, types
WITH latest AS (SELECT job_key, id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage, unique_in
  FROM async_job_tab
  WHERE (job_key = $1
      AND unique_in = $2 OR job_key = $3
      AND unique_in = $4 OR job_key = $5
      AND unique_in = $6 OR job_key = $7
      AND unique_in = $8)) SELECT *
FROM latest
FOR UPDATE; -- with "a", 7, "b", 7, "b", 8, "b", 8
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(delay AS bigint) * 1000 + 999999) / 1000000 END, made, made, priority, NULLIF(key, ''), type, NULLIF(most, -2), NULLIF(meta, ''), NULLIF(grouping, '')
FROM (SELECT CAST($1 AS bigint) AS made) AS moment, unnest(CAST($2 AS text[]), CAST($3 AS int[]), CAST($4 AS bigint[]), CAST($5 AS bigint[]), CAST($6 AS smallint[]), CAST($7 AS text[]), CAST($8 AS int[]), CAST($9 AS text[]), CAST($10 AS text[])) WITH ORDINALITY AS job (params, type, start, delay, priority, key, most, meta, grouping, n)
ORDER BY n
ON CONFLICT DO NOTHING
RETURNING id; -- with 1700000000, "{\"{}\",\"{}\",\"{}\"}", "{7,7,8}", "{0,0,0}", "{1500,0,0}", "{0,1,1}", "{\"a\",\"b\",\"b\"}", "{3,-2,-2}", "{\"{\\\"a\\\":\\\"b\\\"}\",\"\",\"\"}", "{\"g\",\"\",\"\"}"
WITH latest AS (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key = $1
    AND unique_in = $2) SELECT *
FROM latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
ON CONFLICT DO NOTHING
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AddNodes
INSERT INTO async_job_node_tab (id, kind, name, state, waits, followers, enders, spec, undo_job, job_id, born)
VALUES ($1, 0, $2, 2, $3, $4, NULL, $5, $6, $7, $8), ($9, 1, $10, 0, $11, NULL, NULL, NULL, NULL, NULL, $12); -- with 60001, "pay", 0, "1-3,5", "{\"type\":7,\"params\":\"{}\"}", "{\"type\":7,\"params\":\"{}\"}", 7, 1000, 60002, "", 1, 0

-- AddScheduled
INSERT INTO async_job_tab (params, long_params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in) SELECT $1, NULLIF($2, ''), 7, 0, 1700000060, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $3, 7
FROM async_job_type_tab
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL
ON CONFLICT DO NOTHING; -- with "{}", "", "cron-1"

-- AddUnlessThere
WITH latest AS (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key = $1
    AND unique_in = $2) SELECT *
FROM latest
FOR UPDATE; -- with "a", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
ON CONFLICT DO NOTHING
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($3 AS bigint) AS bigint) * 1000 + 999999) / 1000000, $4, $5, 0, $6, 7, 3, $7, $8)
RETURNING id; -- with "{}", 7, 1500, 1700000000, 1700000000, "a", "{\"a\":\"b\"}", "g"

-- AdvanceOperation
UPDATE async_job_act_tab
SET reached = 500, touched_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
WHERE id = 3
  AND state = 'open'
  AND worker = $1
  AND reached = 0; -- with "me"

-- AnyFlow
WITH latest AS (SELECT id
  FROM (SELECT id
    FROM async_job_flow_tab
    WHERE state IN (0, 3, 4)
    LIMIT 1) AS going
  UNION ALL SELECT id
  FROM (SELECT id
    FROM async_job_node_tab
    WHERE state = 1
    LIMIT 1) AS ready) SELECT *
FROM latest
FOR UPDATE;

-- AnySchedule
WITH latest AS (SELECT revision
  FROM async_job_schedule_tab
  LIMIT 1) SELECT *
FROM latest
FOR UPDATE;

-- AttemptsOf
SELECT job_id, attempt, term, outcome, error, started, finished, instance
FROM async_job_log_tab
WHERE job_id = ANY(CAST($1 AS bigint[]))
ORDER BY job_id, attempt, term; -- with "{1,2}"

-- BearNodes
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND state = 1
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{393217}"

-- BearNodes, rows
SELECT id, COALESCE(followers, ''), COALESCE(enders, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393217}"
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{393217,393218}"
SELECT id, state
FROM async_job_flow_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND state IN (0, 4)
ORDER BY id FOR SHARE; -- with "{3}"
UPDATE async_job_node_tab
SET state = 5
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393217}"
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group) SELECT params, type, 0, CASE WHEN delay = 0 THEN start ELSE (1700000000000000 + CAST(delay AS bigint) * 1000 + 999999) / 1000000 END, made, made, priority, NULLIF(key, ''), NULL, NULLIF(most, -2), NULLIF(meta, ''), NULLIF(grouping, '')
FROM (SELECT CAST($1 AS bigint) AS made) AS moment, unnest(CAST($2 AS text[]), CAST($3 AS int[]), CAST($4 AS bigint[]), CAST($5 AS bigint[]), CAST($6 AS smallint[]), CAST($7 AS text[]), CAST($8 AS int[]), CAST($9 AS text[]), CAST($10 AS text[])) WITH ORDINALITY AS job (params, type, start, delay, priority, key, most, meta, grouping, n)
ORDER BY n
RETURNING id; -- with 1700000000, "{\"{}\"}", "{7}", "{0}", "{0}", "{0}", "{\"\"}", "{-2}", "{\"\"}", "{\"\"}"

-- BearNow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(spec, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND state = 1
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{393217}"

-- Beat
UPDATE shedlock_tab
SET term = CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint) + 2500, running = 2500, layout = 42, lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = $1
  AND locked_by = $2
  AND running >= 0
  AND layout < 42; -- with "live-1", "me"
WITH latest AS (SELECT layout
  FROM shedlock_tab
  WHERE lock_name = $1
    AND locked_by = $2
    AND running >= 0
    AND layout = 42) SELECT *
FROM latest
FOR UPDATE; -- with "live-1", "me"

-- BeginSchedule
INSERT INTO async_job_type_tab (job_type)
VALUES (7)
ON CONFLICT DO NOTHING;
UPDATE async_job_type_tab
SET cron_at = GREATEST(COALESCE(cron_at, 0), 1700000000), cron_spec = $1
WHERE job_type = 7
  AND (cron_spec IS NULL OR cron_spec <> $2 OR cron_at IS NULL); -- with "@hourly", "@hourly"

-- BesideJob
SELECT 1 AS part, COALESCE(name, '') AS name, COALESCE(settings, '') AS state, COALESCE(paused_at, 0), COALESCE(told_at, 0), COALESCE(cron_at, 0), COALESCE(workers, 0), CASE WHEN paused_until > paused_at THEN paused_until ELSE 0 END, CAST(COALESCE(rate, 0) AS numeric), CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT actor
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
WHERE job_type = $1
UNION ALL SELECT 2, lock_name, state, term, told_at, 0, 0, 0, 0, '', ''
FROM async_job_now_tab
WHERE lock_name = $2 OR lock_name LIKE $3
UNION ALL SELECT 3, '', '', job_status, term, attempts, deferred, (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END), 0, '', ''
FROM async_job_tab
WHERE id = $4; -- with 7, "job-7", "job-7/%", 4

-- BreakLease
UPDATE shedlock_tab
SET lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())), running = -2
WHERE lock_name = $1
  AND locked_by = $2
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()); -- with "a", "me"

-- Bury
UPDATE shedlock_tab
SET running = -2, locked_at = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())), lock_until = to_timestamp(GREATEST(EXTRACT(EPOCH FROM lock_until), EXTRACT(EPOCH FROM clock_timestamp()) + 30))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $2
  AND running >= 0
  AND term = 9
  AND term <= CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint); -- with "live-1", "me"

-- BuryDead
UPDATE shedlock_tab
SET locked_at = CASE WHEN running >= 0 THEN to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())) ELSE locked_at END, running = -3, lock_until = to_timestamp(GREATEST(EXTRACT(EPOCH FROM lock_until), EXTRACT(EPOCH FROM clock_timestamp()) + 30))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $2
  AND running > -3
  AND term = 9
  AND (running < 0 OR term <= CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint)); -- with "live-1", "me"
UPDATE shedlock_tab
SET locked_at = CASE WHEN running >= 0 THEN to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())) ELSE locked_at END, running = -3, lock_until = to_timestamp(GREATEST(EXTRACT(EPOCH FROM lock_until), EXTRACT(EPOCH FROM clock_timestamp()) + 30))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $2
  AND running > -3
  AND term = 9; -- with "live-1", "me"

-- Cancel
UPDATE async_job_tab
SET job_status = 5, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "{1,2}"

-- CancelFlow
UPDATE async_job_flow_tab
SET state = 2, ended_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), open_key = NULL, due_at = NULL
WHERE id = $1
  AND state = 0; -- with 3

-- ClaimOperation
UPDATE async_job_act_tab
SET worker = $1, touched_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
WHERE id = 3
  AND state = 'open'
  AND (worker IS NULL OR worker = $2 OR touched_at NOT BETWEEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - 15 AND CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 15); -- with "me", "me"
WITH latest AS (SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
  FROM async_job_act_tab
  WHERE id > 0
    AND id = $1
    AND state IS NOT NULL
    AND state = 'open'
  ORDER BY id DESC
  LIMIT $2) SELECT *
FROM latest
FOR UPDATE; -- with 3, 1

-- ClampPriorities
(SELECT id
  FROM async_job_tab
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab
  WHERE job_type IN (7)
    AND job_status IN (0, 3, 4)
    AND priority > 2
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority < -1
    AND id > 0
  LIMIT 250)
UNION ALL (SELECT id
  FROM async_job_tab
  WHERE job_type IN (7)
    AND job_status IS NULL
    AND priority > 2
    AND id > 0
  LIMIT 250);

-- CloseLease
UPDATE shedlock_tab
SET layout = -1028, locked_by = '', lock_until = to_timestamp(2147400000)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $2
  AND layout > 0
  AND layout < 1028; -- with "a", "me"
WITH latest AS (SELECT term
  FROM shedlock_tab
  WHERE lock_name = $1
    AND locked_by = $2
    AND layout > 0
    AND layout < 1028) SELECT *
FROM latest
FOR UPDATE; -- with "a", "me"

-- CloseLeases
UPDATE shedlock_tab
SET layout = -1028, locked_by = '', lock_until = to_timestamp(2147400000)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1, $2)
    FOR UPDATE SKIP LOCKED))
  AND (layout > 0
    AND layout < 1028
    AND EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp()) OR layout < 0
    AND layout > -1028); -- with "a", "b"

-- Columns
WITH latest AS (SELECT relname AS of_table, attname AS name
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  WHERE attrelid IN (to_regclass('async_job_tab'), to_regclass('shedlock_tab'))
    AND attnum > 0
    AND NOT attisdropped) SELECT *
FROM latest
FOR UPDATE;

-- CopyLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES ($1, ''), ($2, '')
ON CONFLICT DO NOTHING; -- with "rest-a-9", "rest-b-8"
UPDATE shedlock_tab
SET locked_by = CASE lock_name WHEN $1 THEN $2 WHEN $3 THEN $4 ELSE locked_by END, running = CASE lock_name WHEN $5 THEN 3 WHEN $6 THEN 1 ELSE running END, term = CASE lock_name WHEN $7 THEN 9 WHEN $8 THEN 8 ELSE term END, layout = CASE lock_name WHEN $9 THEN 1 WHEN $10 THEN 1028 ELSE layout END, locked_at = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())), lock_until = to_timestamp(CASE lock_name WHEN $11 THEN 1700000000.000000 WHEN $12 THEN 1700000001.500000 ELSE 0 END)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($13, $14)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = ''; -- with "rest-a-9", "me", "rest-b-8", "you", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8", "rest-a-9", "rest-b-8"

-- Count
SELECT job_type, COALESCE(job_status, 0), COUNT(*)
FROM async_job_tab
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
    FROM async_job_tab
    WHERE job_type = 7
      AND job_status IN (0, 3, 4)
      AND id > 0
      AND id <= 500
      AND (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) < 1000
    ORDER BY job_status, priority, start_time, id
    LIMIT 100) AS part
  UNION ALL SELECT *
  FROM (SELECT id
    FROM async_job_tab
    WHERE job_type = 7
      AND job_status IS NULL
      AND id > 0
      AND id <= 500
      AND (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) < 1000
    ORDER BY job_status, priority, start_time, id
    LIMIT 100) AS part) AS due;

-- CountEnds
WITH latest AS (SELECT n.id AS node, n.job_id, j.job_status, COALESCE(n.followers, '') AS followers, COALESCE(n.enders, '') AS enders, COALESCE(j.result, '') AS result
  FROM async_job_node_tab AS n  JOIN async_job_tab AS j  ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE n.id = ANY(CAST($1 AS bigint[]))
    AND n.state = 2
    AND (j.job_status = 1 OR n.counted = 0
      AND j.job_status IN (2, 5)
      AND (j.term = 0
        AND (j.changes & 268435456) = 0 OR j.update_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - 10 OR j.update_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60))) SELECT *
FROM latest
FOR UPDATE; -- with "{393217,393218}"

-- CountEnds, rows
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{393217,393218,393219}"
UPDATE async_job_flow_tab
SET state = CASE undo_after WHEN 0 THEN 3 ELSE state END, due_at = CASE WHEN due_at <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + undo_after THEN due_at ELSE CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + undo_after END
WHERE id = ANY(CAST($1 AS bigint[]))
  AND state = 0
  AND undo_after >= 0; -- with "{3}"
UPDATE async_job_node_tab
SET state = 3
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393217}"
UPDATE async_job_node_tab
SET counted = 2
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393218}"
UPDATE async_job_node_tab
SET result = CASE id WHEN $1 THEN $2 END
WHERE id = ANY(CAST($3 AS bigint[])); -- with 60001, "42", "{393217}"
UPDATE async_job_node_tab
SET waits = waits - 1
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393219}"
UPDATE async_job_node_tab
SET waits = 0, state = 1
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393218}"
UPDATE async_job_node_tab
SET waits = 0, state = 3
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{393220}"
UPDATE async_job_flow_tab
SET state = 1, ended_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), open_key = NULL, due_at = NULL
WHERE id = $1
  AND state = 0; -- with 3

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
    FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
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
    FROM async_job_tab
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
    FROM async_job_tab
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
    FROM async_job_tab
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
    FROM async_job_tab
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
    FROM async_job_tab
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
    FROM async_job_tab
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
UPDATE async_job_act_tab
SET changed = changed + 400, skipped = skipped + 100, state = $1
WHERE id = 3; -- with "done"

-- DeleteEnded
DELETE
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND job_status IN (1, 2, 5); -- with "{1,2}"

-- DeleteFlows
WITH latest AS (SELECT id, nodes, undo_nodes
  FROM async_job_flow_tab
  WHERE state IN (1, 2, 5)
    AND ended_at < $1
    AND created_at < $2
  ORDER BY ended_at, id
  LIMIT $3) SELECT *
FROM latest
FOR UPDATE; -- with 1000, 1000, 100

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
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (job_status IN (2)
    AND update_time < $2
    AND create_time < $3 OR job_status IN (1,5)
    AND update_time < $4
    AND create_time < $5); -- with "{1,2}", 900, 900, 1000, 1000
WITH latest AS (SELECT *
  FROM (SELECT DISTINCT job_id, 0 AS is_step
    FROM async_job_log_tab
    WHERE job_id > $1
      AND job_id <= $2
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_0
  UNION ALL SELECT *
  FROM (SELECT DISTINCT job_id, 1 AS is_step
    FROM async_job_step_tab
    WHERE job_id > $3
      AND job_id <= $4
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_1) SELECT *
FROM latest
FOR UPDATE; -- with 3, 1f4, 3, 1f4

-- DeleteOld, attempts
DELETE
FROM async_job_log_tab
WHERE job_id IN (1,2);

-- DeleteSchedule
DELETE
FROM async_job_schedule_tab
WHERE name = $1; -- with "nightly"

-- DeleteSteps
DELETE
FROM async_job_step_tab
WHERE job_id IN (1,2);

-- DeleteStrays
WITH latest AS (SELECT *
  FROM (SELECT DISTINCT job_id, 0 AS is_step
    FROM async_job_log_tab
    WHERE job_id > $1
      AND job_id <= $2
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_0
  UNION ALL SELECT *
  FROM (SELECT DISTINCT job_id, 1 AS is_step
    FROM async_job_step_tab
    WHERE job_id > $3
      AND job_id <= $4
      AND NOT EXISTS (SELECT 1
      FROM async_job_tab
      WHERE id = job_id)
    LIMIT 1000) AS stray_1) SELECT *
FROM latest
FOR UPDATE; -- with 3, 1f4, 3, 1f4

-- DropEnded
DELETE
FROM shedlock_tab
WHERE lock_name IN ($1, $2)
  AND EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp()); -- with "a", "b"

-- DropLease
DELETE
FROM shedlock_tab
WHERE lock_name = $1
  AND locked_by = $2; -- with "a", "me"

-- DropLines
WITH latest AS (SELECT lock_name
  FROM async_job_now_tab
  WHERE told_at < 1000) SELECT *
FROM latest
FOR UPDATE;

-- DropRestRuns
DELETE
FROM async_job_now_tab
WHERE lock_name IN ($1, $2); -- with "rest-7-64", "rest-7-64+1"

-- DropStats
DELETE
FROM async_job_stat_tab
WHERE job_type = $1
  AND begins_at < $2; -- with 7, 1000

-- DropTenures
DELETE
FROM async_job_lease_log_tab
WHERE ended_at < $1; -- with 1000

-- DueSchedules
WITH latest AS (SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
  FROM async_job_schedule_tab
  WHERE next_at <= $1
    AND paused_at IS NULL
  ORDER BY next_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED) SELECT *
FROM latest
FOR UPDATE; -- with 1700000000, 100

-- EachStat
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type IN (7,8)
  AND begins_at >= $1
  AND begins_at < $2; -- with 1000, 2000

-- EarlierOfGroup
WITH latest AS (SELECT job_key, COUNT(*) AS earlier
  FROM async_job_tab
  WHERE job_type = $1
    AND job_key IN ($2)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 < $3
  GROUP BY job_key
  UNION ALL SELECT job_group, COUNT(*) AS earlier
  FROM async_job_tab
  WHERE job_type = $4
    AND job_group IN ($5)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 < $6
  GROUP BY job_group) SELECT *
FROM latest
FOR UPDATE; -- with 7, "a", 9, 7, "a", 9

-- EndPauses
UPDATE async_job_type_tab
SET paused_at = NULL, paused_until = NULL
WHERE job_type = ANY(ARRAY(SELECT job_type
    FROM async_job_type_tab
    WHERE job_type IN (7,8)
    ORDER BY job_type
    FOR UPDATE))
  AND paused_until > paused_at
  AND paused_until <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint);

-- EndWait
SELECT id
FROM async_job_tab
WHERE id = $1
  AND term = $2
  AND attempts = $3
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
FOR UPDATE; -- with 1, 9, 2

-- EndedLeases
WITH latest AS (SELECT lock_name
  FROM shedlock_tab
  WHERE (lock_name LIKE 'at-%')
    AND EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE;

-- Errors
SELECT job_type, begins_at, lock_name, term, state
FROM async_job_stat_tab
WHERE job_type IN (7,8)
  AND begins_at >= $1
  AND state LIKE '%"errors":%'
ORDER BY begins_at DESC
LIMIT $2; -- with 1000, 500

-- Events
SELECT *
FROM (SELECT 1 AS part, lock_name AS subject, CAST(term AS bigint) AS numbered, holder AS who, CAST(taken_at AS bigint) AS happened, CAST(COALESCE(ended_at, 0) AS bigint) AS until_at, COALESCE(how, '') AS how, CAST(NULL AS bigint) AS job_type, '' AS why, 0 AS changed
  FROM async_job_lease_log_tab
  WHERE lock_name LIKE 'job-%'
    AND (ended_at IS NULL OR ended_at >= $1)
  ORDER BY taken_at DESC
  LIMIT 2000) AS tenures
UNION ALL SELECT *
FROM (SELECT 2 AS part, verb AS subject, CAST(id AS bigint) AS numbered, actor AS who, CAST(acted_at AS bigint) * 1000 AS happened, 0 AS until_at, COALESCE(state, '') AS how, job_type, COALESCE(why, '') AS why, changed
  FROM async_job_act_tab
  WHERE operation IS NULL
  ORDER BY id DESC
  LIMIT 20) AS acts
UNION ALL SELECT *
FROM (SELECT 3 AS part, verb AS subject, CAST(id AS bigint) AS numbered, actor AS who, CAST(acted_at AS bigint) * 1000 AS happened, 0 AS until_at, COALESCE(detail, '') AS how, job_type, COALESCE(why, '') AS why, 0 AS changed
  FROM async_job_act_tab
  WHERE job_type >= -2147483648
    AND verb IN ('deploy', 'mute', 'unmute')
    AND acted_at >= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - 7776000
  ORDER BY acted_at DESC, id DESC
  LIMIT 1000) AS marks
UNION ALL SELECT 0, '', 0, '', CAST(CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) AS bigint) * 1000, 0, '', CAST(NULL AS bigint), '', 0; -- with 1000000

-- ExpireTenures
UPDATE async_job_lease_log_tab
SET ended_at = CASE lock_name WHEN $1 THEN CAST($2 AS bigint) WHEN $3 THEN CAST($4 AS bigint) END, how = 'expired'
WHERE how IS NULL
  AND (lock_name = $5
    AND term < $6 OR lock_name = $7
    AND term < $8); -- with "job-7", 1000, "job-8/1", 2000, "job-7", 3, "job-8/1", 4

-- FindOld
SELECT id, job_type, job_status, create_time, update_time
FROM async_job_tab
WHERE id > $1
ORDER BY id
LIMIT $2; -- with 3, 101

-- FinishThrough
UPDATE async_job_tab
SET job_status = 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- FireSchedule
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, $3, $4, $5, 0, $6, 7, NULL, NULL, $7)
ON CONFLICT DO NOTHING
RETURNING id; -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"
WITH latest AS (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key = $1
    AND unique_in = $2) SELECT *
FROM latest
FOR UPDATE; -- with "cron-nightly@1700000060", 7
INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, job_key, unique_in, max_retries, meta, job_group)
VALUES ($1, $2, 0, $3, $4, $5, 0, $6, 7, NULL, NULL, $7)
RETURNING id; -- with "{}", 7, 6553f13c, 1700000058, 1700000058, "cron-nightly@1700000060", "nightly"

-- FirstOfKeys
WITH latest AS (SELECT job_key, MIN(id + 0) AS first
  FROM async_job_tab
  WHERE job_type = $1
    AND job_key IN ($2, $3, $4, $5)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 >= $6
    AND (id > $7 OR (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) >= $8)
  GROUP BY job_key
  UNION ALL SELECT job_group, MIN(id + 0) AS first
  FROM async_job_tab
  WHERE job_type = $9
    AND job_group IN ($10, $11, $12, $13)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND id + 0 >= $14
    AND (id > $15 OR (CASE WHEN COALESCE(start_time, 0) > 0 THEN COALESCE(start_time, 0) ELSE create_time END) >= $16)
  GROUP BY job_group) SELECT *
FROM latest
FOR UPDATE; -- with 7, "a", "b", "c", "d", 3, 5, 1000, 7, "a", "b", "c", "d", 3, 5, 1000

-- FirstRows
SELECT id, job_type, job_status, create_time, update_time
FROM async_job_tab
WHERE id > $1
ORDER BY id
LIMIT $2; -- with 0, 500

-- Fleet
WITH latest AS (SELECT lock_name, locked_by, term, running, layout, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until
  FROM shedlock_tab
  WHERE lock_name LIKE 'job-%' OR lock_name LIKE 'at-%'
  UNION ALL SELECT '', CASE WHEN paused_at IS NULL THEN 'type' WHEN paused_until > paused_at
    AND paused_until <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) THEN 'type whose pause is over' ELSE 'paused type' END, job_type, COALESCE(workers, 0), COALESCE(layout, 0), CAST(COALESCE(rate, 0) AS numeric)
  FROM async_job_type_tab
  WHERE layout IS NOT NULL OR paused_at IS NOT NULL OR workers IS NOT NULL OR rate IS NOT NULL
  UNION ALL SELECT '', 'now', 0, 0, 0, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint)
  UNION ALL SELECT '', 'now, of leases', 0, 0, 0, CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS numeric)) SELECT *
FROM latest
FOR UPDATE;

-- Flows
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id < $1
  AND kind = $2
  AND flow_key = $3
  AND state IN (1,2)
ORDER BY id DESC
LIMIT $4; -- with 9, "order", "4711", 100

-- Flows, by id
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id DESC
LIMIT $2; -- with "{1,2}", 100

-- Flows, open
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE state = 0
  AND ended_at IS NULL
ORDER BY id DESC
LIMIT $1; -- with 100

-- Flows, stuck
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab LEFT JOIN (SELECT DISTINCT f.id AS flow
  FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
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
LIMIT $1; -- with 100

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
FROM async_job_node_tab AS n  JOIN async_job_flow_tab AS f ON f.id = n.id / 131072 LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
  AND j.create_time = n.born
WHERE (n.id >= $1
    AND n.id < $2 OR n.id >= $3
    AND n.id < $4)
GROUP BY f.id, f.state; -- with 20000, 40000, 40000, 60000

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
SET lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1, $2)
    FOR UPDATE SKIP LOCKED))
  AND locked_by IN ($3, $4)
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()); -- with "a", "b", "me", "you"

-- GivenUpJobs
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE job_type = 7
    AND job_status IN (2, 5)
    AND update_time >= $1
    AND update_time < $2
    AND id > $3
  ORDER BY id
  LIMIT $4) SELECT *
FROM latest
FOR UPDATE; -- with 1, 2, 3, 100

-- HasScheduled
WITH latest AS (SELECT id, CASE WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term = 0 THEN 0 WHEN (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) THEN 2 ELSE 1 END AS stage
  FROM async_job_tab
  WHERE job_key = $1
    AND unique_in = $2) SELECT *
FROM latest
FOR UPDATE; -- with "cron-1", 7

-- HaveWork
WITH latest AS (SELECT job_type, (SELECT 1
    FROM async_job_tab AS work
    WHERE work.job_type = known.job_type
      AND (job_status IN (0, 3, 4) OR job_status IS NULL)
    ORDER BY job_type, job_status, priority, start_time, id
    LIMIT 1) IS NOT NULL AS has_work
  FROM async_job_type_tab AS known
  WHERE job_type IN (7,8)) SELECT *
FROM latest
FOR UPDATE;

-- HaveWork, of all
WITH latest AS (SELECT job_type, 1 = 1 AS has_work
  FROM async_job_type_tab AS known
  WHERE (SELECT 1
    FROM async_job_tab AS work
    WHERE work.job_type = known.job_type
      AND (job_status IN (0, 3, 4) OR job_status IS NULL)
    ORDER BY job_type, job_status, priority, start_time, id
    LIMIT 1) IS NOT NULL) SELECT *
FROM latest
FOR UPDATE;

-- Holdings
SELECT lock_name, EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp()) AS free, locked_by, term, running, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) AS now_micros, CAST(EXTRACT(EPOCH FROM locked_at) AS numeric) AS held_since, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until
FROM shedlock_tab
WHERE lock_name LIKE 'job-%'
  AND layout > 0 OR (lock_name LIKE 'at-%')
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())
ORDER BY lock_name;

-- IDs
SELECT id
FROM async_job_tab
WHERE id > $1
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
LIMIT $2; -- with 0, 100
SELECT id
FROM async_job_tab
WHERE id > $1
  AND job_status IN (2)
ORDER BY id
LIMIT $2; -- with 0, 100
SELECT id
FROM async_job_tab
WHERE id > $1
  AND job_key = $2
LIMIT $3; -- with 0, "order 4711", 100

-- InOneTransaction
DELETE
FROM shedlock_tab
WHERE lock_name IN ($1)
  AND EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp()); -- with "at-000000000000"

-- InState
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term <> 0) SELECT *
FROM latest
FOR UPDATE; -- with "{1,2}"

-- Indexes
WITH latest AS (SELECT owner.relname AS of_table, own.relname AS name
  FROM pg_index JOIN pg_class AS own ON own.oid = indexrelid JOIN pg_class AS owner ON owner.oid = indrelid
  WHERE indrelid IN (to_regclass('async_job_tab'), to_regclass('shedlock_tab'))) SELECT *
FROM latest
FOR UPDATE;

-- JobsOfKey
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE job_key = $1
    AND job_type = $2
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) SELECT *
FROM latest
FOR UPDATE; -- with "a", 7

-- KeepLeases
UPDATE shedlock_tab
SET lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1, $2)
    FOR UPDATE SKIP LOCKED))
  AND locked_by IN ($3)
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()); -- with "a", "b", "me"
WITH latest AS (SELECT lock_name, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint) AS now_millis
  FROM shedlock_tab
  WHERE lock_name IN ($1, $2)
    AND locked_by IN ($3)
    AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE; -- with "a", "b", "me"

-- KeepLeases and numbers
UPDATE shedlock_tab
SET running = CASE lock_name WHEN $1 THEN $2 WHEN $3 THEN $4 ELSE running END, lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($5, $6)
    FOR UPDATE SKIP LOCKED))
  AND locked_by IN ($7)
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()); -- with "a", 2, "b", 3, "a", "b", "me"
WITH latest AS (SELECT lock_name, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint) AS now_millis
  FROM shedlock_tab
  WHERE lock_name IN ($1, $2)
    AND locked_by IN ($3)
    AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE; -- with "a", "b", "me"

-- KeepLogs
INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 16, $1, 1000, $2, $3, $4, NULL, $5)
ON CONFLICT DO NOTHING; -- with "12/8", 12, 8, 5, "\"a line\""
DELETE
FROM async_job_step_tab
WHERE job_id = $1
  AND kind = 16
  AND attempt <= $2; -- with 1, 2

-- KnownTypes
SELECT job_type, COALESCE(name, ''), COALESCE(paused_at, 0), COALESCE(settings, ''), COALESCE(told_at, 0), COALESCE(cron_at, 0), COALESCE(layout, 0), COALESCE(workers, 0), CAST(COALESCE(rate, 0) AS numeric), CASE WHEN paused_until > paused_at THEN paused_until ELSE 0 END, CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT actor
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
WITH latest AS (SELECT COALESCE(MAX(id), 0) AS last
  FROM async_job_tab
  WHERE id > 0) SELECT *
FROM latest
FOR UPDATE;

-- LayDown
DELETE
FROM shedlock_tab
WHERE lock_name = $1
  AND EXISTS (SELECT *
  FROM (SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name = $2
      AND locked_by = $3) AS awake); -- with "dormant-7", "job-7", "me"
UPDATE shedlock_tab
SET lock_name = $1, lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($2)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $3; -- with "dormant-7", "job-7", "me"
WITH latest AS (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN ($1)
    AND locked_by = $2
    AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE; -- with "job-7", "me"

-- Layout
WITH latest AS (SELECT layout
  FROM async_job_type_tab
  WHERE job_type = 7
    AND layout IS NOT NULL) SELECT *
FROM latest
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
  AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority, update_time, COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
FROM (SELECT id AS found
  FROM async_job_tab
  WHERE id < $1
    AND id = ANY(CAST($2 AS bigint[]))
    AND job_key = $3
    AND job_type IN (7)
    AND (job_status IN (0) OR job_status IS NULL)
    AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < $4
  ORDER BY id + 0
  LIMIT $5) AS keyed JOIN async_job_tab ON id = found
ORDER BY id
LIMIT $6; -- with 9, "{1,2}", "a", 9, 10, 10

-- List, states
SELECT id, params AS params, start_time, create_time, CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority, update_time, COALESCE((SELECT name
    FROM async_job_type_tab AS named
    WHERE named.job_type = async_job_tab.job_type), ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, COALESCE(progress, ''), COALESCE(result, ''), CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
FROM async_job_tab
WHERE id > $1
  AND id < $2
  AND job_type IN (7)
  AND ((job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND COALESCE(start_time, 0) <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) OR (job_status IN (0) OR job_status IS NULL)
    AND term = 0
    AND COALESCE(start_time, 0) > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) OR (job_status IN (0,3,4) OR job_status IS NULL)
    AND term <> 0 OR job_status IN (1))
ORDER BY id
LIMIT $3; -- with 0, 9, 10

-- LiveJobs
WITH latest AS (SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
  FROM async_job_node_tab
  WHERE id > $1
    AND id <= $2
    AND state IN (2, 1, 2)
  ORDER BY id
  LIMIT $3) SELECT *
FROM latest
FOR UPDATE; -- with 60001, 60002, 1000

-- LiveJobs, held
SELECT id, CASE state WHEN 2 THEN job_id ELSE 0 END AS job, born
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND id > $2
  AND state IN (0, 1, 2)
ORDER BY id
LIMIT $3 FOR SHARE; -- with "{393216,393217,393218}", 5ffff, 1000

-- LockMatching
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND job_key = $2
  AND job_type IN (7)
  AND (job_status IN (0,4) OR job_status IS NULL)
  AND (CASE WHEN start_time > 0 THEN start_time ELSE create_time END) < $3
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE; -- with "{1,2}", "a", 9

-- LockState
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE; -- with "{1,2}"

-- LogAttempts
INSERT INTO async_job_log_tab (job_id, attempt, term, outcome, error, started, finished, instance)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8), ($9, $10, $11, $12, $13, $14, $15, $16), ($17, $18, $19, $20, $21, $22, $23, $24)
ON CONFLICT DO NOTHING; -- with 0, 0, 0, "", "", 0, 0, "", 0, 0, 0, "", "", 0, 0, "", 0, 0, 0, "", "", 0, 0, ""

-- LogsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = $1
  AND kind = 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created); -- with 1

-- LongParams
WITH latest AS (SELECT id, attempts, CASE WHEN params = 'see long_params' THEN COALESCE(long_params, params) ELSE params END AS params
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND term = $2
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) SELECT *
FROM latest
FOR UPDATE; -- with "{1,2}", 9

-- Look
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id = 0) SELECT *
FROM latest
FOR UPDATE;

-- LookAtNodes
WITH latest AS (SELECT 0 AS part, id, 1 AS jobs
  FROM (SELECT id
    FROM async_job_node_tab
    WHERE state = 1
    ORDER BY id
    LIMIT 500) AS ready
  UNION ALL SELECT 1, n.id, 1
  FROM (SELECT id, job_id, born, counted
    FROM async_job_node_tab
    WHERE state = 2
      AND job_id > $1
    ORDER BY job_id
    LIMIT $2) AS n JOIN async_job_tab AS j  ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE (j.job_status = 1 OR n.counted = 0
      AND j.job_status IN (2, 5)
      AND (j.term = 0
        AND (j.changes & 268435456) = 0 OR j.update_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - 10 OR j.update_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60))
  UNION ALL SELECT 2, COALESCE(MAX(job_id), 0), COUNT(*)
  FROM (SELECT job_id
    FROM async_job_node_tab
    WHERE state = 2
      AND job_id > $3
    ORDER BY job_id
    LIMIT $4) AS page
  UNION ALL SELECT 3, id, 1
  FROM (SELECT id
    FROM async_job_flow_tab
    WHERE state IN (0, 3)
      AND (due_at <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) OR state = 3
        AND due_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60)
    ORDER BY due_at
    LIMIT 100) AS due) SELECT *
FROM latest
FOR UPDATE; -- with 5, 1000, 5, 1000

-- MakeClosed
INSERT INTO shedlock_tab (lock_name, locked_by, layout, lock_until)
VALUES ($1, '', -1028, to_timestamp(2147400000)), ($2, '', -1028, to_timestamp(2147400000))
ON CONFLICT DO NOTHING; -- with "a", "b"

-- MakeLeases
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES ($1, ''), ($2, '')
ON CONFLICT DO NOTHING; -- with "a", "b"

-- Mark
UPDATE async_job_tab
SET term = 9, attempts = attempts + 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND clock_timestamp() <= (SELECT TIMESTAMPTZ 'epoch' + 1800000000500 * INTERVAL '1 millisecond')
  AND term = 0
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND (SELECT set_config('lock_timeout', '5', true)) IS NOT NULL;

-- Mark Lost
UPDATE async_job_tab
SET lost = CASE WHEN lost < 127 THEN lost + 1 ELSE lost END, term = 9, attempts = attempts + 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND clock_timestamp() <= (SELECT TIMESTAMPTZ 'epoch' + 1800000000500 * INTERVAL '1 millisecond')
  AND term = 8
  AND term < 9
  AND attempts = 1
  AND changes = 1
  AND create_time <= 1700000000
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND (SELECT set_config('lock_timeout', '5', true)) IS NOT NULL;

-- MarkedRows
WITH latest AS (SELECT id, attempts, lost
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND term = $2
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) SELECT *
FROM latest
FOR UPDATE; -- with "{1,2}", 9

-- MendAhead
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
ORDER BY id
FOR UPDATE; -- with "{1,2}"
UPDATE async_job_step_tab
SET until_at = until_at - 1000 * (SELECT update_time - CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
  FROM async_job_tab
  WHERE id = job_id)
WHERE job_id = ANY(CAST($1 AS bigint[]))
  AND kind IN (1, 2)
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND start_time + 60 >= update_time
    AND start_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
    AND update_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
    AND update_time > 1700000002
    AND (term = 0
      AND attempts > 0
      AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
      AND start_time <= update_time + 1)
    AND until_at + 60000 >= start_time * 1000
    AND (kind = 1
      AND ended_at > (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) / 1000) OR ended_at = 0
      AND attempt = attempts)); -- with "{1,2}"
UPDATE async_job_tab
SET start_time = start_time + (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) - update_time, changes = changes + CASE WHEN term = 0 THEN 1 ELSE 0 END, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND start_time + 60 >= update_time
  AND start_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
  AND update_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
  AND update_time > 1700000002
  AND (term = 0
    AND attempts > 0
    AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
    AND start_time <= update_time + 1); -- with "{1,2}"

-- MendFlowsAhead
UPDATE async_job_flow_tab
SET due_at = CASE WHEN undo_after >= 0
  AND due_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + undo_after + 60
  AND (deadline IS NULL OR due_at < deadline) THEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + undo_after WHEN created_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60 THEN due_at - created_at + CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) ELSE due_at END, deadline = CASE WHEN created_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60 THEN deadline - created_at + CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) ELSE deadline END, created_at = CASE WHEN created_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60 THEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) ELSE created_at END
WHERE state IN (0, 3)
  AND (undo_after >= 0
    AND due_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + undo_after + 60
    AND (deadline IS NULL OR due_at < deadline) OR created_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60);

-- MendSchedule
UPDATE async_job_type_tab
SET cron_at = 1700000000
WHERE job_type = 7
  AND cron_at = 1700000060
  AND cron_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint);

-- MendScheduleRow
UPDATE async_job_schedule_tab
SET reached_at = 1600000000, next_at = 0
WHERE name = $1
  AND reached_at = 1700000000
  AND reached_at > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint); -- with "nightly"

-- MoveLease
UPDATE shedlock_tab
SET term = $1, layout = $2, locked_by = $3, running = $4, locked_at = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())), lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = $5
  AND locked_by IN ('', $6); -- with 9, 1028, "me", 3, "a", "me"
WITH latest AS (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN ($1)
    AND locked_by = $2
    AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE; -- with "a", "me"

-- NameTypes
WITH latest AS (SELECT job_type, name
  FROM async_job_type_tab
  WHERE job_type IN (7,8)
    AND name IS NOT NULL) SELECT *
FROM latest
FOR UPDATE;
INSERT INTO async_job_type_tab (job_type, name)
VALUES (7, $1), (8, $2)
ON CONFLICT DO NOTHING; -- with "mail", "export"
UPDATE async_job_type_tab
SET name = CASE job_type WHEN 7 THEN $1 WHEN 8 THEN $2 END
WHERE job_type = ANY(ARRAY(SELECT job_type
    FROM async_job_type_tab
    WHERE job_type IN (7,8)
    ORDER BY job_type
    FOR UPDATE))
  AND name IS NULL; -- with "mail", "export"

-- Newest
SELECT (SELECT COALESCE(MAX(id), 0)
  FROM async_job_tab
  WHERE id > 0) AS newest, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) AS now;

-- NextIDs
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id > $1
    AND id < $2
    AND job_type IN (7)
    AND (job_status IN (0,4) OR job_status IS NULL)
  ORDER BY id
  LIMIT $3) SELECT *
FROM latest
FOR UPDATE; -- with 3, 9, 100
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id > $1
    AND id < $2
    AND job_key = $3
  ORDER BY id + 0
  LIMIT $4) SELECT *
FROM latest
FOR UPDATE; -- with 3, 9, "order 4711", 100

-- NodeInFlow
SELECT n.id AS node, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.job_id, 0), n.born, n.kind AS node_kind, f.id, f.kind, COALESCE(f.flow_key, ''), f.state, f.nodes, f.created_at, COALESCE(f.ended_at, 0)
FROM async_job_node_tab AS n JOIN async_job_flow_tab AS f ON f.id = $1
WHERE n.id = $2; -- with 3, 60001

-- NodesNamed
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.spec, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) THEN 1 ELSE 0 END
FROM async_job_node_tab AS n  LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= $1
  AND n.id < $2
  AND (n.id = ANY(CAST($3 AS bigint[])) OR n.name = $4)
ORDER BY n.id; -- with 60000, 80000, "{393217}", "pay"

-- NodesOf
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) THEN 1 ELSE 0 END
FROM async_job_node_tab AS n  LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= $1
  AND n.id < $2
ORDER BY n.id; -- with 60000, 80000

-- NoteAct
INSERT INTO async_job_act_tab (acted_at, actor, verb, why, job_type, jobs, first_job, last_job, detail, operation, state, last_id, changed)
VALUES (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
RETURNING id; -- with "mary", "cancel", "a mistake", (*int32)(nil), "4,5", 4, 5, "{}", 3, <nil>, 0, 2

-- NoteFired
UPDATE async_job_schedule_tab
SET reached_at = 1700000060, next_at = 1700000120, last_at = 1700000060, last_job = 5
WHERE name = $1
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- NoteRunning
UPDATE shedlock_tab
SET running = $1, lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = $2
  AND locked_by = $3
  AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()); -- with 3, "a", "me"

-- NoteScheduled
UPDATE async_job_type_tab
SET cron_at = 1700000060
WHERE job_type = 7
  AND cron_at < 1700000060
  AND paused_at IS NULL;

-- OpenLeases
UPDATE shedlock_tab
SET layout = 1028, term = GREATEST(term, 9), lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()))
WHERE lock_name IN ($1, $2)
  AND layout = -1028; -- with "a", "b"

-- Operations
WITH latest AS (SELECT id, acted_at, actor, verb, COALESCE(why, '') AS why, job_type, COALESCE(jobs, '') AS jobs, COALESCE(detail, '') AS detail, changed, COALESCE(operation, 0) AS operation, COALESCE(state, '') AS state, reached, last_id, skipped, COALESCE(worker, '') AS worker, touched_at
  FROM async_job_act_tab
  WHERE id > 0
    AND id = $1
    AND state IS NOT NULL
    AND state = 'open'
  ORDER BY id DESC
  LIMIT $2) SELECT *
FROM latest
FOR UPDATE; -- with 3, 100

-- OtherTypes
(SELECT job_type
  FROM async_job_tab
  WHERE job_type >= -2147483648
    AND job_type <= -9
    AND (job_status IN (0, 3, 4) OR job_status IS NULL)
  ORDER BY job_type, job_status, priority, start_time, id
  LIMIT 1)
UNION ALL (SELECT job_type
  FROM async_job_tab
  WHERE job_type >= -7
    AND job_type <= 6
    AND (job_status IN (0, 3, 4) OR job_status IS NULL)
  ORDER BY job_type, job_status, priority, start_time, id
  LIMIT 1)
UNION ALL (SELECT job_type
  FROM async_job_tab
  WHERE job_type >= 9
    AND job_type <= 2147483647
    AND (job_status IN (0, 3, 4) OR job_status IS NULL)
  ORDER BY job_type, job_status, priority, start_time, id
  LIMIT 1);

-- Page
(SELECT 0 AS part, id, params AS params, 0, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group
  FROM async_job_tab
  WHERE job_type = 7
    AND job_status = 0
    AND priority = 2
    AND start_time BETWEEN 0 AND 0
    AND id > (SELECT CAST($1 AS bigint))
    AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
      AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> '')
  ORDER BY job_status, start_time, id
  LIMIT $2)
UNION ALL (SELECT 1 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group
  FROM async_job_tab
  WHERE job_type = 7
    AND job_status = 0
    AND priority = 2
    AND (start_time, id) > ($3, $4)
    AND start_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 3
    AND id > 0
    AND (COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') = ''
      AND id % 1000003 * 618035 % 1000003 BETWEEN 500002 AND 750002 OR COALESCE(COALESCE(NULLIF(RTRIM(job_group), ''), job_key), '') <> '')
  ORDER BY job_status, start_time, id
  LIMIT $5); -- with 0, 100, 0, 0, 100

-- PassSchedule
UPDATE async_job_schedule_tab
SET reached_at = 1700000060, next_at = NULL
WHERE name = $1
  AND revision = 3
  AND reached_at = 1700000000
  AND paused_at IS NULL; -- with "nightly"

-- PastOfJob
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS bigint) AS attempt, CAST(term AS bigint) AS numbered, CAST(ended_at AS bigint) AS happened, CAST(COALESCE(until_at, 0) AS bigint) AS until_at
FROM async_job_step_tab
WHERE job_id = $1
  AND created = $2
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS bigint) AS attempt, CAST(id AS bigint) AS numbered, CAST(acted_at AS bigint) AS happened, CAST(COALESCE(operation, 0) AS bigint) AS until_at
  FROM async_job_act_tab
  WHERE id > (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
    AND state IS NULL
    AND acted_at >= $3
    AND last_job >= $4
    AND first_job <= $5
    AND (jobs = $6 OR jobs LIKE $7 OR jobs LIKE $8 OR jobs LIKE $9)
  ORDER BY id DESC
  LIMIT 50) AS acts
UNION ALL SELECT *
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS bigint) AS happened, 0 AS until_at
  FROM async_job_act_tab
  WHERE id <= (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
  ORDER BY id DESC
  LIMIT 1) AS earlier
UNION ALL SELECT 103, lock_name, '', holder, '', 0, term, taken_at, COALESCE(ended_at, 0)
FROM async_job_lease_log_tab
WHERE (lock_name = $10 OR lock_name LIKE $11)
  AND term = $12; -- with 4, 1000, 1000, 4, 4, "4", "4,%", "%,4", "%,4,%", "job-7", "job-7/%", 3

-- PastOfJob, without a term
SELECT kind AS part, name, COALESCE(step_value, '') AS told, '' AS who, '' AS why, CAST(attempt AS bigint) AS attempt, CAST(term AS bigint) AS numbered, CAST(ended_at AS bigint) AS happened, CAST(COALESCE(until_at, 0) AS bigint) AS until_at
FROM async_job_step_tab
WHERE job_id = $1
  AND created = $2
UNION ALL SELECT *
FROM (SELECT 101 AS part, verb AS name, COALESCE(detail, '') AS told, actor AS who, COALESCE(why, '') AS why, CAST(changed AS bigint) AS attempt, CAST(id AS bigint) AS numbered, CAST(acted_at AS bigint) AS happened, CAST(COALESCE(operation, 0) AS bigint) AS until_at
  FROM async_job_act_tab
  WHERE id > (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
    AND state IS NULL
    AND acted_at >= $3
    AND last_job >= $4
    AND first_job <= $5
    AND (jobs = $6 OR jobs LIKE $7 OR jobs LIKE $8 OR jobs LIKE $9)
  ORDER BY id DESC
  LIMIT 50) AS acts
UNION ALL SELECT *
FROM (SELECT 102 AS part, '' AS name, '' AS told, '' AS who, '' AS why, 0 AS attempt, 0 AS numbered, CAST(acted_at AS bigint) AS happened, 0 AS until_at
  FROM async_job_act_tab
  WHERE id <= (SELECT CASE WHEN MAX(id) > 5000 THEN MAX(id) - 5000 ELSE 0 END
    FROM async_job_act_tab)
  ORDER BY id DESC
  LIMIT 1) AS earlier; -- with 4, 1000, 1000, 4, 4, "4", "4,%", "%,4", "%,4,%"

-- Pause
INSERT INTO async_job_type_tab (job_type, paused_at)
VALUES (7, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
ON CONFLICT DO NOTHING;
UPDATE async_job_type_tab
SET paused_at = COALESCE(paused_at, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)), paused_until = NULL
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_until IS NOT NULL);

-- PauseSchedule
UPDATE async_job_schedule_tab
SET paused_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), revision = revision + 1
WHERE name = $1
  AND paused_at IS NULL; -- with "nightly"

-- PauseUntil
INSERT INTO async_job_type_tab (job_type, paused_at, paused_until)
VALUES (7, CASE WHEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) < 1700000000 THEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) ELSE 1699999999 END, 1700000000)
ON CONFLICT DO NOTHING;
UPDATE async_job_type_tab
SET paused_at = CASE WHEN paused_at < 1700000000 THEN paused_at WHEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) < 1700000000 THEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) ELSE 1699999999 END, paused_until = 1700000000
WHERE job_type = 7
  AND (paused_at IS NULL OR paused_at >= 1700000000 OR paused_until IS NULL OR paused_until <> 1700000000);

-- Paused
WITH latest AS (SELECT job_type
  FROM async_job_type_tab
  WHERE paused_at IS NOT NULL) SELECT *
FROM latest
FOR UPDATE;

-- PausedTypes
SELECT job_type, paused_at
FROM async_job_type_tab
WHERE paused_at IS NOT NULL
ORDER BY job_type;

-- Progress
WITH latest AS (SELECT COALESCE(progress, '')
  FROM async_job_tab
  WHERE id = $1) SELECT *
FROM latest
FOR UPDATE; -- with 1

-- PutSchedule
UPDATE async_job_schedule_tab
SET reached_at = CASE WHEN spec = $1 THEN reached_at ELSE GREATEST(reached_at, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) END, next_at = CASE WHEN spec = $2 THEN next_at ELSE 0 END, spec = $3, job_type = 7, params = $4, settings = $5, catch_up = 1, revision = revision + 1, put_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
WHERE name = $6; -- with "0 3 * * *", "0 3 * * *", "0 3 * * *", "{}", "{}", "nightly"
INSERT INTO async_job_schedule_tab (name, spec, job_type, params, settings, catch_up, reached_at, next_at, put_at)
VALUES ($1, $2, 7, $3, $4, 1, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), 0, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
ON CONFLICT DO NOTHING; -- with "nightly", "0 3 * * *", "{}", "{}"

-- RecordStep
INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value) SELECT id, 0, $1, create_time, $2, $3, $4, NULL, $5
FROM async_job_tab
WHERE id = $6
  AND term = $7
  AND attempts = $8
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)) FOR SHARE
ON CONFLICT DO NOTHING; -- with "charge", 2, 9, 1700000000000, "\"x\"", 1, 9, 2

-- RecordStepThrough
WITH ours AS (UPDATE async_job_tab
  SET steps = COALESCE(steps, 0) + 1
  WHERE id = $1
    AND term = $2
    AND attempts = $3
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  RETURNING id, create_time) INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value) SELECT id, 0, $4, create_time, $5, $6, $7, NULL, $8
FROM ours
ON CONFLICT DO NOTHING; -- with 1, 9, 2, "charge", 2, 9, 1700000000000, "\"x\""

-- RefuseNode
UPDATE async_job_node_tab
SET state = 4, problem = $1
WHERE id = $2
  AND state = 1; -- with "not this type", 60001

-- ReleaseLease
UPDATE shedlock_tab
SET lock_until = to_timestamp(GREATEST(EXTRACT(EPOCH FROM clock_timestamp()), LEAST(EXTRACT(EPOCH FROM clock_timestamp()), EXTRACT(EPOCH FROM locked_at)) + 61))
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($1)
    FOR UPDATE SKIP LOCKED))
  AND locked_by = $2; -- with "a", "me"
WITH latest AS (SELECT CASE WHEN EXTRACT(EPOCH FROM lock_until) > GREATEST(EXTRACT(EPOCH FROM clock_timestamp()), LEAST(EXTRACT(EPOCH FROM clock_timestamp()), EXTRACT(EPOCH FROM locked_at)) + 61) THEN 1 ELSE 0 END AS held
  FROM shedlock_tab
  WHERE lock_name = $1
    AND locked_by = $2) SELECT *
FROM latest
FOR UPDATE; -- with "a", "me"

-- RenameType
UPDATE async_job_type_tab
SET name = $1
WHERE job_type = 7
  AND name = $2; -- with "letter", "mail"

-- ReopenFlow
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (state IN (1, 2, 4, 5) OR kind = 1)
ORDER BY id
FOR UPDATE; -- with "{393216,393217,393218}"

-- ReplaceWaiting
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE; -- with "{1,2}"

-- ReplaceWaiting, rows
UPDATE async_job_tab
SET params = CASE id WHEN $1 THEN $2 WHEN $3 THEN $4 END, long_params = NULL, start_time = CASE id WHEN $5 THEN (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(CAST($6 AS bigint) AS bigint) * 1000 + 999999) / 1000000 WHEN $7 THEN CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) END, priority = CASE id WHEN $8 THEN 0 WHEN $9 THEN 1 END, max_retries = NULLIF(CASE id WHEN $10 THEN 3 WHEN $11 THEN -2 END, -2), meta = CASE id WHEN $12 THEN $13 WHEN $14 THEN NULL END, job_status = 0, retries = 0, lost = 0, changes = changes + 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST($15 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with 1, "{}", 2, "{}", 1, 1500, 2, 1, 2, 1, 2, 1, "{\"a\":\"b\"}", 2, "{1,2}"

-- Reschedule
UPDATE async_job_tab
SET start_time = GREATEST($1, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)), changes = changes + 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST($2 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with 1700000000, "{1,2}"

-- RestRuns
WITH latest AS (SELECT lock_name, state
  FROM async_job_now_tab
  WHERE lock_name IN ($1, $2)) SELECT *
FROM latest
FOR UPDATE; -- with "rest-7-64", "rest-7/1-65"

-- Restore
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
  ORDER BY id
  LIMIT $2) SELECT *
FROM latest
FOR UPDATE; -- with "{4,5}", 2
INSERT INTO async_job_tab (id, params, long_params, job_type, job_status, start_time, create_time, update_time, term, attempts, retries, lost, deferred, job_key, job_group, priority, max_retries, meta, progress, result, changes, unique_in)
VALUES ($1, $2, NULL, 7, 1, 0, 1000, 1001, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL), ($3, $4, $5, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, $6, $7, 0, 3, $8, $9, $10, 0, NULL)
ON CONFLICT DO NOTHING; -- with 4, "{}", 5, "see long_params", "xxxxxxxxxxxxxxxxxxx…, "a", "b", "{}", "half", "done"

-- RestoreSteps
INSERT INTO async_job_step_tab (job_id, kind, name, created, attempt, term, ended_at, until_at, step_value)
VALUES (1, 0, $1, 1000, $2, $3, $4, NULL, $5), (2, 1, $6, 1000, $7, $8, $9, $10, NULL)
ON CONFLICT DO NOTHING; -- with "charge", 2, 9, 1700000000000, "\"x\"", "until", 1, 8, 5, 9

-- Resume
UPDATE async_job_type_tab
SET paused_at = NULL, paused_until = NULL
WHERE job_type = 7
  AND paused_at IS NOT NULL;

-- ResumeSchedule
UPDATE async_job_schedule_tab
SET paused_at = NULL, reached_at = GREATEST(reached_at, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)), next_at = 0, revision = revision + 1
WHERE name = $1
  AND paused_at IS NOT NULL; -- with "nightly"

-- Retry
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE; -- with "{1,2}"

-- RetryWith
SELECT id, job_type, COALESCE(job_key, ''), CASE WHEN (unique_in IS NOT NULL OR changes >= 1073741824) THEN 1 ELSE 0 END, CASE WHEN unique_in IS NULL THEN 0 ELSE 1 END, COALESCE(meta, '')
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE; -- with "{1,2}"

-- Rise
INSERT INTO shedlock_tab (lock_name, locked_by)
VALUES ($1, '')
ON CONFLICT DO NOTHING; -- with "live-1"
UPDATE shedlock_tab
SET term = CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint) + 2500, running = 2500, layout = 41, lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10), locked_by = $1, locked_at = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()))
WHERE lock_name = $2
  AND layout < 41; -- with "me", "live-1"
WITH latest AS (SELECT layout
  FROM shedlock_tab
  WHERE lock_name = $1
    AND locked_by = $2
    AND running >= 0
    AND layout = 41) SELECT *
FROM latest
FOR UPDATE; -- with "live-1", "me"

-- RollUp
WITH latest AS (SELECT begins_at
  FROM async_job_stat_tab
  WHERE job_type = $1
    AND begins_at >= $2
    AND begins_at < $3
    AND seconds < $4
  ORDER BY begins_at
  LIMIT 1) SELECT *
FROM latest
FOR UPDATE; -- with 7, 1000, 7200, 3600

-- RollUp, rows
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type = $1
  AND begins_at >= $2
  AND begins_at < $3
FOR UPDATE; -- with 7, 3600, 7200
DELETE
FROM async_job_stat_tab
WHERE job_type = $1
  AND begins_at >= $2
  AND begins_at < $3; -- with 7, 3600, 7200
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (job_type, begins_at, lock_name, term) DO UPDATE
SET counted = excluded.counted, state = excluded.state
WHERE async_job_stat_tab.counted < excluded.counted; -- with 7, 3600, "", 0, 3600, 0, "{}"

-- RunningOfKeys
WITH latest AS (SELECT job_key, COUNT(*) AS running
  FROM async_job_tab
  WHERE job_type = $1
    AND job_key IN ($2, $3, $4, $5)
    AND NULLIF(RTRIM(job_group), '') IS NULL
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term IN ($6, $7)
  GROUP BY job_key
  UNION ALL SELECT job_group, COUNT(*) AS running
  FROM async_job_tab
  WHERE job_type = $8
    AND job_group IN ($9, $10, $11, $12)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND term IN ($13, $14)
  GROUP BY job_group) SELECT *
FROM latest
FOR UPDATE; -- with 7, "a", "b", "c", "c", 8, 9, 7, "a", "b", "c", "c", 8, 9

-- Schedule
WITH latest AS (SELECT cron_at IS NOT NULL
    AND cron_spec IS NOT NULL AS known, COALESCE(cron_at, 0) AS reached, COALESCE(cron_spec, '') AS spec, paused_at IS NOT NULL AS paused
  FROM async_job_type_tab
  WHERE job_type = 7) SELECT *
FROM latest
FOR UPDATE;

-- Schedules
SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
FROM async_job_schedule_tab
WHERE name <> ''
  AND name = $1
  AND SUBSTR(name, 1, 1) = $2
  AND name > $3
ORDER BY name
LIMIT $4; -- with "nightly", "n", "a", 100

-- SchedulesAhead
WITH latest AS (SELECT name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at
  FROM async_job_schedule_tab
  WHERE reached_at > $1
  ORDER BY name
  LIMIT $2) SELECT *
FROM latest
FOR UPDATE; -- with 1700000000, 100

-- SeeLeases
WITH latest AS (SELECT lock_name, EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp()) AS free, locked_by, term, running, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until, CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS numeric) AS now
  FROM shedlock_tab
  WHERE lock_name IN ($1, $2)) SELECT *
FROM latest
FOR UPDATE; -- with "a", "b"

-- SetLayout
INSERT INTO async_job_type_tab (job_type)
VALUES (7)
ON CONFLICT DO NOTHING;
UPDATE async_job_type_tab
SET layout = 2052
WHERE job_type = 7
  AND COALESCE(layout, 0) = 1026;

-- SetLimits
INSERT INTO async_job_type_tab (job_type, workers, rate)
VALUES (7, NULLIF(3, 0), NULLIF(2.5, 0))
ON CONFLICT DO NOTHING;
UPDATE async_job_type_tab
SET workers = NULLIF(3, 0), rate = NULLIF(2.5, 0)
WHERE job_type = 7
  AND (COALESCE(workers, 0) <> 3 OR COALESCE(rate, 0) <> 2.5);

-- SetOperation
UPDATE async_job_act_tab
SET state = $1, worker = NULL
WHERE id = 3
  AND state = $2; -- with "stopped", "open"

-- SetParams
UPDATE async_job_tab
SET params = $1, long_params = NULL, changes = changes + 1, update_time = GREATEST(update_time, (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)))
WHERE id = ANY(CAST($2 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0; -- with "{}", "{1,2}"

-- SetPriority
UPDATE async_job_tab
SET priority = 2, changes = changes + 1, update_time = GREATEST(update_time, (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)))
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "{1,2}"

-- SetProgress
UPDATE async_job_tab
SET progress = $1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "half way"
WITH latest AS (SELECT id, attempts, lost
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND term = $2
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) SELECT *
FROM latest
FOR UPDATE; -- with "{1}", 9

-- SetResult
UPDATE async_job_tab
SET result = $1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "done"
WITH latest AS (SELECT id, attempts, lost
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND term = $2
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))) SELECT *
FROM latest
FOR UPDATE; -- with "{1}", 9

-- Settle
UPDATE async_job_tab
SET job_status = 1, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Again
UPDATE async_job_tab
SET job_status = 3, start_time = (SELECT (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(1500 AS bigint) * 1000 + 999999) / 1000000), retries = retries + 1, deferred = deferred + 1, term = 0, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Awaiting
UPDATE async_job_tab
SET job_status = 3, start_time = CASE WHEN changes = 4 THEN (SELECT (CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000) AS bigint) + CAST(1500 AS bigint) * 1000 + 999999) / 1000000) ELSE (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) END, retries = retries + 0, deferred = deferred + 0, term = 0, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle Died
UPDATE async_job_tab
SET lost = lost + 1, term = 9, job_status = 2, update_time = (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND term = 8
  AND term <> 0
  AND term < 9
  AND attempts = 3
  AND lost >= 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4));

-- Settle NotStarted
UPDATE async_job_tab
SET term = 0, attempts = attempts - 1, changes = changes + 1, start_time = CASE WHEN start_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 60 THEN (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) ELSE start_time END, update_time = GREATEST(update_time, (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)))
WHERE id = ANY(CAST((SELECT '{1,2}') AS bigint[]))
  AND term = 9
  AND attempts = 2
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND changes = 1;

-- Sickness
SAVEPOINT persistent_queue;
(SELECT CASE backend_type WHEN 'walsender' THEN 'standby' ELSE 'session' END AS kind, CAST(pid AS text) AS id, COALESCE(CAST(usename AS text), '') AS who, COALESCE(host(client_addr), 'local') AS place, CAST(COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - xact_start), 0) AS bigint) AS seconds, COALESCE(state, '') AS state, LEFT(query, 300) AS statement, CAST(COALESCE(GREATEST(age(backend_xid), age(backend_xmin)), 0) AS bigint) AS amount, CAST(0 AS bigint) AS more
  FROM pg_stat_activity
  WHERE pid <> pg_backend_pid()
    AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
    AND (datname = current_database()
      AND backend_type = 'client backend'
      AND query !~* '^\s*vacuum' OR backend_type = 'walsender')
  ORDER BY amount DESC, seconds DESC
  LIMIT 3)
UNION ALL (SELECT 'prepared', gid, CAST(owner AS text), '', CAST(EXTRACT(EPOCH FROM clock_timestamp() - prepared) AS bigint), '', '', CAST(age(transaction) AS bigint), 0
  FROM pg_prepared_xacts
  WHERE database = current_database()
  ORDER BY prepared
  LIMIT 3)
UNION ALL SELECT 'slot', CAST(slot_name AS text), '', '', 0, CASE WHEN active THEN 'active' ELSE '' END, '', CAST(COALESCE(age(xmin), 0) AS bigint), COALESCE(CAST(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn) AS bigint), 0)
FROM pg_replication_slots
UNION ALL SELECT 'dead', '', '', '', CAST(COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - GREATEST(last_vacuum, last_autovacuum)), -1) AS bigint), CASE WHEN current_setting('autovacuum') = 'off' OR array_to_string(reloptions, ' ') ~* 'autovacuum_enabled=(f|of|n|0)' THEN 'off' ELSE '' END, '', n_dead_tup, n_live_tup
FROM pg_class JOIN pg_stat_all_tables ON relid = oid
WHERE oid = to_regclass('async_job_tab')
UNION ALL SELECT 'hidden', '', '', '', 0, '', '', COUNT(*), 0
FROM pg_stat_activity
WHERE datname = current_database()
  AND query = '<insufficient privilege>' HAVING COUNT(*) > 0;
RELEASE SAVEPOINT persistent_queue;

-- Signal
UPDATE async_job_tab
SET changes = changes + 1, update_time = GREATEST(update_time, (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)))
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "{1}"
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))
    AND job_status IN (1, 2, 5)) SELECT *
FROM latest
FOR UPDATE; -- with "{1}"

-- SignalNode
SELECT n.id, f.state
FROM async_job_flow_tab AS f  JOIN async_job_node_tab AS n  ON f.id = $1
WHERE n.id >= $2
  AND n.id < $3
  AND n.name = $4
  AND n.kind = 3; -- with 3, 60000, 80000, "approved"

-- SignalNode, rows
UPDATE async_job_node_tab
SET state = CASE waits WHEN 1 THEN 1 ELSE state END, waits = waits - 1, counted = 1, result = $1
WHERE id = $2
  AND counted = 0
  AND state = 0; -- with "yes", 60001

-- Span
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0)
FROM async_job_tab
WHERE id > 0;

-- Standings
WITH latest AS (SELECT id, COALESCE(job_status, 0) AS status, term, attempts, changes
  FROM async_job_tab
  WHERE id = ANY(CAST($1 AS bigint[]))) SELECT *
FROM latest
FOR UPDATE; -- with "{1,2}"

-- Stats
SELECT job_type, begins_at, lock_name, term, seconds, state
FROM async_job_stat_tab
WHERE job_type = $1
  AND begins_at >= $2
  AND begins_at < $3
ORDER BY begins_at, lock_name, term; -- with 7, 1000, 2000

-- StepsAndLogsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = ANY(CAST($1 AS bigint[]))
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created); -- with "{1,2}"

-- StepsOf
SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
FROM async_job_step_tab
WHERE job_id = ANY(CAST($1 AS bigint[]))
  AND kind < 16
  AND EXISTS (SELECT 1
  FROM async_job_tab
  WHERE id = job_id
    AND create_time = created); -- with "{1,2}"

-- StepsOfRun
WITH latest AS (SELECT job_id, kind, name, created, attempt, term, ended_at, COALESCE(until_at, 0) AS until_at, COALESCE(step_value, '') AS value
  FROM async_job_step_tab
  WHERE job_id = $1
    AND kind < 16
    AND EXISTS (SELECT 1
    FROM async_job_tab
    WHERE id = job_id
      AND create_time = created)) SELECT *
FROM latest
FOR UPDATE; -- with 1

-- StillPending
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4)); -- with "{1,2}"

-- StopFlow
UPDATE async_job_flow_tab
SET state = 3, undo_after = COALESCE(undo_after, 0), ended_at = NULL, due_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
WHERE id = $1
  AND (state IN (0, 1, 2) OR state = 3
    AND undo_after IS NULL); -- with 3

-- SweepAll
(SELECT 0 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority
  FROM (VALUES (7), (-8)) AS types (type) CROSS JOIN (VALUES (0), (3), (4)) AS statuses (status) CROSS JOIN (VALUES (2), (1), (0), (-1)) AS levels (level) CROSS JOIN LATERAL (SELECT *
    FROM async_job_tab
    WHERE job_type = type
      AND job_status = status
      AND (job_status IN (0, 3, 4) OR job_status IS NULL)
      AND priority = level
      AND start_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 3
      AND id > 0
    ORDER BY job_status, start_time, id
    LIMIT $1) AS due
  LIMIT $2)
UNION ALL (SELECT 1 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority
  FROM (VALUES (7), (-8)) AS types (type) CROSS JOIN (VALUES (0), (3), (4)) AS statuses (status) CROSS JOIN (VALUES (2), (1), (0), (-1)) AS levels (level) CROSS JOIN LATERAL (SELECT *
    FROM async_job_tab
    WHERE job_type = type
      AND job_status = status
      AND (job_status IN (0, 3, 4) OR job_status IS NULL)
      AND priority = level
      AND start_time IS NULL
      AND id > 0
    ORDER BY job_status, start_time, id
    LIMIT $3) AS due
  LIMIT $4)
UNION ALL (SELECT 2 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority
  FROM (VALUES (7), (-8)) AS types (type) CROSS JOIN (VALUES (0)) AS statuses (status) CROSS JOIN (VALUES (2), (1), (0), (-1)) AS levels (level) CROSS JOIN LATERAL (SELECT *
    FROM async_job_tab
    WHERE job_type = type
      AND job_status IS NULL
      AND priority = level
      AND start_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 3
      AND id > 0
    ORDER BY job_status, start_time, id
    LIMIT $5) AS due
  LIMIT $6)
UNION ALL (SELECT 3 AS part, id, params AS params, start_time, create_time, CASE WHEN term = 0
    AND attempts = 0
    AND changes = 0
    AND max_retries IS NULL
    AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority
  FROM (VALUES (7), (-8)) AS types (type) CROSS JOIN (VALUES (0)) AS statuses (status) CROSS JOIN (VALUES (2), (1), (0), (-1)) AS levels (level) CROSS JOIN LATERAL (SELECT *
    FROM async_job_tab
    WHERE job_type = type
      AND job_status IS NULL
      AND priority = level
      AND start_time IS NULL
      AND id > 0
    ORDER BY job_status, start_time, id
    LIMIT $7) AS due
  LIMIT $8); -- with 100, 100, 100, 100, 100, 100, 100, 100

-- Tail
SELECT id, CASE WHEN (1 = 0 OR job_type IN (7) OR job_type IN (8)
    AND priority >= 1)
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND (start_time <= (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 3 OR start_time IS NULL) THEN params END AS params, start_time, create_time, CASE WHEN term = 0
  AND attempts = 0
  AND changes = 0
  AND max_retries IS NULL
  AND meta IS NULL THEN NULL ELSE CAST(term AS text) || ',' || CAST(attempts AS text) || ',' || CAST(retries AS text) || ',' || CAST(lost AS text) || ',' || CAST(changes AS text) || ',' || CAST(deferred AS text) || ',' || CAST(COALESCE(max_retries, -2) AS text) || COALESCE(',' || meta, '') END AS tally, job_key, job_group, job_type, job_status, priority
FROM async_job_tab
WHERE id >= $1
  AND (id >= $2 OR id BETWEEN $3 AND $4)
ORDER BY id
LIMIT $5; -- with 1, 5, 1, 2, 100

-- Tail Taken
SELECT id, job_type, COALESCE(NULLIF(RTRIM(job_group), ''), job_key), create_time
FROM async_job_tab
WHERE id >= $1
  AND (id >= $2 OR id BETWEEN $3 AND $4)
ORDER BY id
LIMIT $5; -- with 1, 5, 1, 2, 100

-- TakeLeases
UPDATE shedlock_tab
SET term = GREATEST(term + 1, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS bigint)), locked_by = $1, running = 0, locked_at = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp())), lock_until = to_timestamp(EXTRACT(EPOCH FROM clock_timestamp()) + 10)
WHERE lock_name = ANY(ARRAY(SELECT lock_name
    FROM shedlock_tab
    WHERE lock_name IN ($2, $3)
    FOR UPDATE SKIP LOCKED))
  AND EXTRACT(EPOCH FROM lock_until) <= EXTRACT(EPOCH FROM clock_timestamp())
  AND layout = 1
  AND running <> -2; -- with "me", "a", "b"
WITH latest AS (SELECT lock_name, term
  FROM shedlock_tab
  WHERE lock_name IN ($1, $2)
    AND locked_by = $3
    AND EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp())) SELECT *
FROM latest
FOR UPDATE; -- with "a", "b", "me"

-- TendFlow
SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, alarms, undo_nodes, COALESCE(undo_after, -1) AS undo_after, COALESCE(deadline, 0) AS deadline
FROM async_job_flow_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id DESC
LIMIT $2; -- with "{3}", 1

-- TendFlow, rows
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT id
FROM async_job_flow_tab
WHERE id = $1
  AND state = 3
  AND COALESCE(undo_after, -1) = $2
FOR UPDATE SKIP LOCKED; -- with 3, 0
SELECT COUNT(*) AS stood, COALESCE(SUM(CASE WHEN j.job_status IN (2, 5)
      AND j.update_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - $1 THEN 1 ELSE 0 END), 0) AS over_now, COALESCE(MIN(CASE WHEN j.job_status IN (2, 5) THEN j.update_time END), 0) AS since
FROM async_job_node_tab AS n  JOIN async_job_tab AS j  ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= $2
  AND n.id < $3
  AND n.state = 2
  AND n.kind = 0
  AND n.counted <> 0; -- with 0, 60000, 80000
WITH latest AS (SELECT n.id, n.job_id, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END AS status, COALESCE(j.term, 0) AS term, CASE WHEN j.id IS NULL OR (j.term = 0
      AND (j.changes & 268435456) = 0 OR j.update_time <= CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) - 10 OR j.update_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) + 60) THEN 1 ELSE 0 END AS over_now
  FROM async_job_node_tab AS n  LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
    AND j.create_time = n.born
  WHERE n.id >= $1
    AND n.id < $2
    AND n.state = 2
    AND n.kind = 0
  ORDER BY n.id) SELECT *
FROM latest
FOR UPDATE; -- with 60000, 80000
SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(NULL, '')
FROM async_job_node_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{393216,393217,393218}"
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND job_status IN (2, 5)
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{7}"
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
  AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
  AND term = 0
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{7}"
SELECT id
FROM async_job_flow_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id
FOR UPDATE SKIP LOCKED; -- with "{3}"
SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(NULL, ''), COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, CASE WHEN j.id IS NULL THEN -1 ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, CASE WHEN j.start_time > CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint) THEN 1 ELSE 0 END
FROM async_job_node_tab AS n  LEFT JOIN async_job_tab AS j  ON j.id = n.job_id
  AND j.create_time = n.born
WHERE n.id >= $1
  AND n.id < $2
ORDER BY n.id; -- with 60000, 80000
SELECT n.name, n.undo_job
FROM async_job_node_tab AS n
WHERE n.id >= $1
  AND n.id < $2
  AND n.kind = 0
  AND n.name IN ($3); -- with 60000, 80000, "pay"
SELECT id, state, nodes
FROM async_job_flow_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id FOR SHARE; -- with "{3}"

-- Tenures
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < $1
  AND (ended_at IS NULL OR ended_at >= $2)
  AND lock_name LIKE 'job-%'
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100; -- with 2000, 1000

-- Tenures of
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < $1
  AND (ended_at IS NULL OR ended_at >= $2)
  AND (lock_name = $3 OR lock_name LIKE $4)
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100; -- with 2000, 1000, "job-7", "job-7/%"

-- Tenures of the buried
SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '')
FROM async_job_lease_log_tab
WHERE taken_at < $1
  AND (ended_at IS NULL OR ended_at >= $2)
  AND lock_name IN ($3, $4)
ORDER BY taken_at DESC, lock_name, term DESC
LIMIT 100; -- with 2000, 1000, "live-0123456789ab", "live-ba9876543210"

-- TheirJobs
SELECT id, create_time
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
ORDER BY id
FOR UPDATE; -- with "{7}"

-- Timetable
SAVEPOINT persistent_queue;
SELECT timed.name, timed.job_type, timed.put_at, timed.reached_at, timed.next_at, COALESCE(timed.last_at, 0) AS last_at, COALESCE(timed.last_job, 0) AS last_job, COALESCE(job.job_status, -1) AS last_status, COALESCE((SELECT locked_by
    FROM shedlock_tab
    WHERE lock_name = 'run-schedules'), '') AS keeper, CAST(COALESCE((SELECT EXTRACT(EPOCH FROM lock_until)
      FROM shedlock_tab
      WHERE lock_name = 'run-schedules'), 0) AS numeric) AS kept_until, CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS numeric) AS now
FROM async_job_schedule_tab AS timed LEFT JOIN async_job_tab AS job ON job.id = timed.last_job
WHERE timed.next_at >= 0
  AND timed.paused_at IS NULL
ORDER BY timed.next_at
LIMIT 1000;
RELEASE SAVEPOINT persistent_queue;

-- TypeLeases
SELECT lock_name, CAST(EXTRACT(EPOCH FROM lock_until) AS numeric) AS held_until, EXTRACT(EPOCH FROM lock_until) > EXTRACT(EPOCH FROM clock_timestamp()) - 3600 AS lately
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
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[])); -- with "{1,2}"

-- Unlocked
SELECT id
FROM async_job_tab
WHERE id = ANY(CAST($1 AS bigint[]))
FOR UPDATE SKIP LOCKED; -- with "{1,2}"

-- Wake
UPDATE shedlock_tab
SET lock_name = CASE lock_name WHEN $1 THEN $2 WHEN $3 THEN $4 END
WHERE lock_name IN ($5, $6); -- with "dormant-7", "job-7", "dormant-8", "job-8", "dormant-7", "dormant-8"

-- WriteLines
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES ($1, $2, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $3), ($4, $5, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $6)
ON CONFLICT (lock_name) DO UPDATE
SET term = excluded.term, told_at = excluded.told_at, state = excluded.state
WHERE async_job_now_tab.term <= excluded.term; -- with "job-7", 3, "{\"workers\":0}", "job-8/1", 4, "{\"running\":2,\"workers\":0}"

-- WriteRestRuns
INSERT INTO async_job_now_tab (lock_name, term, told_at, state)
VALUES ($1, $2, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $3), ($4, $5, CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint), $6)
ON CONFLICT (lock_name) DO UPDATE
SET term = excluded.term, told_at = excluded.told_at, state = excluded.state
WHERE async_job_now_tab.term <= excluded.term; -- with "rest-7-64", 1, "{\"rows\":2,\"keys\":\"5AwpLA\",\"jobs\":\"AAAABg\"}", "rest-7-64+1", 1, "{\"rows\":2,\"keys\":\"5wwt5eQMKSw\",\"jobs\":\"AAAABQ\"}"

-- WriteSettings
WITH latest AS (SELECT job_type, COALESCE(settings, '') AS settings, COALESCE(told_at, 0) AS told_at
  FROM async_job_type_tab
  WHERE job_type IN (7,8)) SELECT *
FROM latest
FOR UPDATE;
UPDATE async_job_type_tab
SET settings = CASE job_type WHEN 7 THEN $1 WHEN 8 THEN $2 END, told_at = CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)
WHERE job_type = ANY(ARRAY(SELECT job_type
    FROM async_job_type_tab
    WHERE job_type IN (7,8)
    ORDER BY job_type
    FOR UPDATE))
  AND COALESCE(told_at, 0) = CASE job_type WHEN 7 THEN 0 WHEN 8 THEN 0 END; -- with "{}", "{}"

-- WriteStats
INSERT INTO async_job_stat_tab (job_type, begins_at, lock_name, term, seconds, counted, state)
VALUES ($1, $2, $3, $4, $5, $6, $7), ($8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (job_type, begins_at, lock_name, term) DO UPDATE
SET counted = excluded.counted, state = excluded.state
WHERE async_job_stat_tab.counted < excluded.counted; -- with 7, 60, "job-7", 3, 60, 5, "{\"runs\":{\"success\":2},\"delay\":[1,2],\"took\":[0,2]}", 8, 60, "job-8/1", 4, 60, 0, "{}"

-- WriteTenures
INSERT INTO async_job_lease_log_tab (lock_name, term, holder, taken_at, ended_at, how)
VALUES ($1, $2, $3, $4, $5, $6), ($7, $8, $9, $10, $11, $12)
ON CONFLICT (lock_name, term) DO UPDATE
SET ended_at = excluded.ended_at, how = excluded.how
WHERE excluded.how IS NOT NULL
  AND (async_job_lease_log_tab.how IS NULL OR async_job_lease_log_tab.how = 'expired'); -- with "job-7", 3, "me", 1000, <nil>, <nil>, "job-8/1", 4, "me", 1000, 2000, "released"

-- WrittenAhead
WITH latest AS (SELECT id
  FROM async_job_tab
  WHERE job_type IN (7,8)
    AND (COALESCE(job_status, 0) = 0 OR job_status IN (3, 4))
    AND start_time + 60 >= update_time
    AND start_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
    AND update_time > (SELECT CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp())) AS bigint)) + 2
    AND update_time > 1700000002
    AND (term = 0
      AND attempts > 0
      AND (changes = 0 OR start_time <= update_time + 3600) OR (attempts > 0 OR changes <> 0)
      AND start_time <= update_time + 1)
  LIMIT 100) SELECT *
FROM latest
FOR UPDATE;
