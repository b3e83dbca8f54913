-- Parameters of more than 4,096 characters go with the column long_params. In their place, params says: see long_params.
-- So first let such jobs run, or cancel them. This query finds those that wait, and must return nothing:
--   SELECT id FROM async_job_tab WHERE long_params IS NOT NULL AND (job_status IS NULL OR job_status IN (0, 3, 4))

DROP TABLE async_job_node_tab;

DROP TABLE async_job_flow_tab;

DROP TABLE async_job_schedule_tab;

DROP TABLE async_job_step_tab;

DROP TABLE async_job_act_tab;

DROP TABLE async_job_lease_log_tab;

DROP TABLE async_job_stat_tab;

DROP TABLE async_job_now_tab;

DROP TABLE async_job_type_tab;

DROP TABLE async_job_log_tab;

ALTER TABLE shedlock_tab
  DROP COLUMN term,
  DROP COLUMN running,
  DROP COLUMN layout;

ALTER TABLE async_job_tab
  DROP INDEX async_job_due,
  DROP INDEX async_job_key,
  DROP INDEX async_job_group;

ALTER TABLE async_job_tab
  DROP COLUMN term,
  DROP COLUMN attempts,
  DROP COLUMN retries,
  DROP COLUMN lost,
  DROP COLUMN job_key,
  DROP COLUMN unique_in,
  DROP COLUMN priority,
  DROP COLUMN max_retries,
  DROP COLUMN changes,
  DROP COLUMN progress,
  DROP COLUMN result,
  DROP COLUMN deferred,
  DROP COLUMN meta,
  DROP COLUMN job_group,
  DROP COLUMN steps,
  DROP COLUMN long_params;
