-- The tables of persistent-queue on MySQL, MariaDB and TiDB. One column or key per line: schema.Migrate adds the lines that
-- an existing table lacks.

-- One row per job. Business code inserts it, and needs to know the first seven columns only. If a job has no key, both
-- columns of the unique key are NULL: with one NULL alone, Galera would take two such jobs for equal, and refuse one of
-- them if they are committed on two nodes at the same moment, as it does with two jobs of the same key. The comment at the
-- end is for TiDB: without it, each of its servers takes ids from a block of its own, so ids do not tell what is new.
-- What few jobs have is text: each time a server changes a row, it copies a varchar at its full width, be it NULL or not.
CREATE TABLE IF NOT EXISTS async_job_tab (
  id          bigint unsigned NOT NULL AUTO_INCREMENT,
  params      varchar(4096) COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT '',
  job_type    int NOT NULL,
  job_status  tinyint DEFAULT NULL COMMENT '0 or NULL: init, 1: success, 2: failed, 3: continue, 4: retry, 5: cancelled',
  start_time  int unsigned DEFAULT 0 COMMENT 'due, unix seconds; 0: at once',
  create_time int unsigned NOT NULL COMMENT 'unix seconds',
  update_time int unsigned NOT NULL COMMENT 'unix seconds',
  term        bigint NOT NULL DEFAULT 0 COMMENT 'lease under which the job is in flight or was finished; 0: not marked',
  attempts    int NOT NULL DEFAULT 0 COMMENT 'runs started',
  retries     int NOT NULL DEFAULT 0 COMMENT 'runs that failed and were followed by another',
  lost        tinyint NOT NULL DEFAULT 0 COMMENT 'runs whose process died',
  job_key     varchar(128) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'business key',
  unique_in   int DEFAULT NULL COMMENT 'the job type, if no other such job of it has this key; NULL: others may',
  priority    tinyint NOT NULL DEFAULT 0 COMMENT '2: urgent, 1: high, 0: normal, -1: low',
  max_retries int DEFAULT NULL COMMENT 'NULL: as the job type says; -1: without limit',
  changes     int NOT NULL DEFAULT 0 COMMENT 'times it was changed while it waited, or was unmarked',
  progress    varchar(255) DEFAULT NULL COMMENT 'how far the handler is, in its own words',
  result      text DEFAULT NULL COMMENT 'what the handler brought about',
  deferred    int NOT NULL DEFAULT 0 COMMENT 'of attempts: runs that ended with Defer, and do not count',
  meta        text COLLATE utf8mb4_unicode_ci DEFAULT NULL COMMENT 'JSON object of texts that go with the job: a trace, a tenant',
  job_group   varchar(128) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'what order, limits and shards go by; NULL: job_key',
  steps       int DEFAULT NULL COMMENT 'how many steps were recorded in a transaction of the handler; NULL: none',
  long_params mediumtext COLLATE utf8mb4_unicode_ci DEFAULT NULL COMMENT 'the parameters, if params has no room for them and says: see long_params',
  PRIMARY KEY (id),
  KEY async_job_due (job_type, job_status, priority, start_time, id),
  UNIQUE KEY async_job_key (job_key, unique_in),
  KEY async_job_group (job_group)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci /*T![auto_id_cache] AUTO_ID_CACHE=1 */;

-- One row per lease: who works a job type (job-<type>) or a shard of it (job-<type>/<shard>), or holds a named lock.
CREATE TABLE IF NOT EXISTS shedlock_tab (
  lock_name  varchar(64) NOT NULL COMMENT 'lock key',
  lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT 'lock expiry time',
  locked_at  timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'lock time',
  locked_by  varchar(255) NOT NULL COMMENT 'who lock',
  term       bigint NOT NULL DEFAULT 0 COMMENT 'grows with every holder',
  running    int NOT NULL DEFAULT 0 COMMENT 'handlers that run under the lease; -1: an instance is about to stop',
  layout     bigint NOT NULL DEFAULT 1 COMMENT 'of a job type: generation * 1024 + shards; negative: closed until that layout opens',
  PRIMARY KEY (lock_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per run that did not succeed.
CREATE TABLE IF NOT EXISTS async_job_log_tab (
  job_id   bigint unsigned NOT NULL,
  attempt  int NOT NULL,
  term     bigint NOT NULL,
  outcome  varchar(16) NOT NULL COMMENT 'retry, failed, cancelled, continue (with an error), lost',
  error    varchar(1024) NOT NULL,
  started  bigint NOT NULL COMMENT 'unix milliseconds; 0: unknown',
  finished bigint NOT NULL COMMENT 'unix milliseconds',
  instance varchar(255) NOT NULL COMMENT 'service, host, process',
  PRIMARY KEY (job_id, attempt, term)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- One row per job type that was run, paused or divided.
CREATE TABLE IF NOT EXISTS async_job_type_tab (
  job_type  int NOT NULL,
  paused_at int unsigned DEFAULT NULL COMMENT 'unix seconds; NULL: it runs',
  cron_at   int unsigned DEFAULT NULL COMMENT 'up to when the times of its schedule have their jobs, unix seconds',
  cron_spec varchar(255) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'the schedule, in its own words',
  layout    bigint DEFAULT NULL COMMENT 'generation * 1024 + shards; NULL: one shard',
  name      varchar(255) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'what those who run the type call it',
  settings  text COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'how they run it: the configuration of the instance that started last, as JSON',
  told_at   int unsigned DEFAULT NULL COMMENT 'since when the settings are these, unix seconds',
  workers   int DEFAULT NULL COMMENT 'how many of its jobs may run at a time, if the configuration allows more; NULL: as it says',
  rate      double DEFAULT NULL COMMENT 'how many may start in a second, if the configuration allows more; NULL: as it says',
  paused_until int unsigned DEFAULT NULL COMMENT 'when the pause ends, unix seconds; NULL: when somebody resumes it',
  PRIMARY KEY (job_type),
  KEY async_job_type_paused (paused_at),
  KEY async_job_type_layout (layout),
  KEY async_job_type_workers (workers),
  KEY async_job_type_rate (rate)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per job type, or shard of a type, that an instance has ever held: what the holder told last.
CREATE TABLE IF NOT EXISTS async_job_now_tab (
  lock_name varchar(64) NOT NULL COMMENT 'of a job type or a shard, as in shedlock_tab',
  term      bigint NOT NULL COMMENT 'of the holder that wrote this',
  told_at   int unsigned NOT NULL COMMENT 'unix seconds',
  state     text COLLATE utf8mb4_bin NOT NULL COMMENT 'what waits in its memory and what runs, as JSON',
  PRIMARY KEY (lock_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What each holder of a lease has done in a minute, for 90 days; after two days, the minutes of an hour are one row.
CREATE TABLE IF NOT EXISTS async_job_stat_tab (
  job_type  int NOT NULL,
  begins_at bigint NOT NULL COMMENT 'when the span of time begins that this is about, unix seconds',
  lock_name varchar(64) NOT NULL COMMENT 'of the lease whose holder wrote this, as in shedlock_tab; empty: of all',
  term      bigint NOT NULL COMMENT 'of that holder; 0: of all',
  seconds   int NOT NULL COMMENT 'how long the span is',
  counted   bigint NOT NULL COMMENT 'starts and ends of runs; a row is only overwritten by one that has counted more',
  state     text COLLATE utf8mb4_bin NOT NULL COMMENT 'what has started and how it ended, as JSON',
  PRIMARY KEY (job_type, begins_at, lock_name, term)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row for each time that an instance held the lease of a job type, or of a shard, for 90 days.
CREATE TABLE IF NOT EXISTS async_job_lease_log_tab (
  lock_name varchar(64) NOT NULL COMMENT 'of a job type or a shard, as in shedlock_tab',
  term      bigint NOT NULL COMMENT 'of the holder',
  holder    varchar(255) NOT NULL COMMENT 'as in shedlock_tab.locked_by',
  taken_at  bigint NOT NULL COMMENT 'unix milliseconds',
  ended_at  bigint DEFAULT NULL COMMENT 'unix milliseconds; NULL: it is held, or nobody has had it since',
  how       varchar(16) DEFAULT NULL COMMENT 'it ended: released, asked, lost or expired',
  PRIMARY KEY (lock_name, term),
  KEY async_job_ended (ended_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per act of somebody who steers jobs or types, and one per operation on many jobs.
CREATE TABLE IF NOT EXISTS async_job_act_tab (
  id         bigint unsigned NOT NULL AUTO_INCREMENT,
  acted_at   int unsigned NOT NULL COMMENT 'unix seconds',
  actor      varchar(255) COLLATE utf8mb4_bin NOT NULL COMMENT 'who did it',
  verb       varchar(32) COLLATE utf8mb4_bin NOT NULL,
  why        text COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'in the words of the actor',
  job_type   int DEFAULT NULL COMMENT 'of an act on a type',
  jobs       text DEFAULT NULL COMMENT 'the ids of the jobs that it changed',
  first_job  bigint unsigned DEFAULT NULL COMMENT 'the smallest of them',
  last_job   bigint unsigned DEFAULT NULL COMMENT 'the largest of them',
  detail     mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'what it changed, as JSON',
  operation  bigint unsigned DEFAULT NULL COMMENT 'the operation that this is a part of',
  state      varchar(16) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'of an operation: open, done or stopped',
  reached    bigint unsigned NOT NULL DEFAULT 0 COMMENT 'of an operation: the last job that it has looked at',
  last_id    bigint unsigned NOT NULL DEFAULT 0 COMMENT 'of an operation: the last job that it may look at',
  changed    bigint NOT NULL DEFAULT 0 COMMENT 'jobs that it changed',
  skipped    bigint NOT NULL DEFAULT 0 COMMENT 'of an operation: jobs that it had to leave as they were',
  worker     varchar(255) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'of an operation: the process that carries it out',
  touched_at int unsigned NOT NULL DEFAULT 0 COMMENT 'when that process was last heard of, unix seconds',
  PRIMARY KEY (id),
  KEY async_job_act_job (last_job),
  KEY async_job_act_state (state),
  KEY async_job_act_type (job_type)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*T![auto_id_cache] AUTO_ID_CACHE=1 */;

-- What the handlers of jobs need not do again: one row per step of a job that has run, and per time that it sleeps to. And one
-- row per run whose log lines are kept, of kind 16, which no handler reads.
CREATE TABLE IF NOT EXISTS async_job_step_tab (
  job_id     bigint unsigned NOT NULL,
  kind       smallint NOT NULL COMMENT '0: a step, 1: a sleep, 2: a signal',
  name       varchar(128) COLLATE utf8mb4_bin NOT NULL,
  created    bigint NOT NULL COMMENT 'create_time of the job; a row with another one is of a job that had this id before',
  attempt    int NOT NULL COMMENT 'of the run that has recorded it, as in async_job_tab.attempts',
  term       bigint NOT NULL COMMENT 'of that run',
  ended_at   bigint NOT NULL COMMENT 'when it was recorded, unix milliseconds; 0: of a signal, which is waited for',
  until_at   bigint DEFAULT NULL COMMENT 'of a sleep, or of the wait for a signal: when it ends, unix milliseconds',
  step_value mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'what the step has returned, as JSON; NULL: it could not be stored',
  PRIMARY KEY (job_id, kind, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per schedule that was put with Jobs.PutSchedule.
CREATE TABLE IF NOT EXISTS async_job_schedule_tab (
  name       varchar(100) COLLATE utf8mb4_bin NOT NULL COMMENT 'of the schedule',
  spec       varchar(255) COLLATE utf8mb4_bin NOT NULL COMMENT 'its times, as a crontab has them',
  job_type   int NOT NULL COMMENT 'of the jobs that it adds',
  params     mediumtext COLLATE utf8mb4_bin NOT NULL COMMENT 'the parameters of these jobs',
  settings   text COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'what else these jobs have, as JSON',
  catch_up   int NOT NULL DEFAULT 1 COMMENT 'so many of the times that have passed without a job get one, at most',
  revision   bigint NOT NULL DEFAULT 1 COMMENT 'grows with every change by people',
  paused_at  int unsigned DEFAULT NULL COMMENT 'unix seconds; NULL: it runs',
  reached_at int unsigned NOT NULL COMMENT 'up to when its times have their jobs, unix seconds',
  next_at    int unsigned DEFAULT NULL COMMENT 'its next time, unix seconds; 0: to be reckoned, NULL: there is none',
  last_at    int unsigned DEFAULT NULL COMMENT 'the time that got a job last, unix seconds',
  last_job   bigint unsigned DEFAULT NULL COMMENT 'that job',
  put_at     int unsigned NOT NULL COMMENT 'when somebody put it last, unix seconds',
  PRIMARY KEY (name),
  KEY async_job_schedule_next (next_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per flow: jobs that are added one after the other, as those before them are done.
CREATE TABLE IF NOT EXISTS async_job_flow_tab (
  id         bigint unsigned NOT NULL AUTO_INCREMENT,
  kind       varchar(64) COLLATE utf8mb4_bin NOT NULL,
  flow_key   varchar(128) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'of which one flow of the kind is open at a time',
  open_key   varchar(128) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'the same while it is open; NULL: it has ended, or has no key',
  state      smallint NOT NULL DEFAULT 0 COMMENT '0: open, 1: done, 2: cancelled, 3: what runs is to end, 4: is being undone, 5: undone',
  nodes      int NOT NULL COMMENT 'how many jobs it has',
  created_at bigint NOT NULL COMMENT 'unix seconds',
  ended_at   bigint DEFAULT NULL COMMENT 'unix seconds; NULL: it is open',
  alarms     int NOT NULL DEFAULT 0 COMMENT 'how many of its jobs, the last ones, are added if another one fails',
  undo_nodes int NOT NULL DEFAULT 0 COMMENT 'how many nodes undo it, behind the one for its end',
  undo_after bigint DEFAULT NULL COMMENT 'it is undone so many seconds after a job has failed; NULL: it is not',
  deadline   bigint DEFAULT NULL COMMENT 'unix seconds: when it is to be done; NULL: whenever',
  due_at     bigint DEFAULT NULL COMMENT 'unix seconds: when to look at it next; NULL: not before a job of it ends',
  PRIMARY KEY (id),
  UNIQUE KEY async_job_flow_open (kind, open_key),
  KEY async_job_flow_state (state, ended_at),
  KEY async_job_flow_key (flow_key),
  KEY async_job_flow_due (state, due_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*T![auto_id_cache] AUTO_ID_CACHE=1 */;

-- The nodes of flows: one row per job that a flow has, or will have, and one for the end of the flow; if it is undone, one per job of that.
CREATE TABLE IF NOT EXISTS async_job_node_tab (
  id        bigint unsigned NOT NULL COMMENT 'the id of the flow, times 131072, plus the number of the node in it',
  name      varchar(128) COLLATE utf8mb4_bin NOT NULL COMMENT 'empty: it joins others, or ends the flow',
  state     smallint NOT NULL COMMENT '0: waits for others, 1: is to get its job, 2: has its job, 3: that has succeeded, 4: it could not be added, 5: called off, 6: given up',
  waits     int NOT NULL COMMENT 'how many ends it still waits for',
  followers mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'the numbers of those that wait for its success, as 2-9,12',
  enders    mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'the numbers of those that wait for its end',
  spec      mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'its job, as JSON; NULL: it has none',
  job_id    bigint unsigned DEFAULT NULL COMMENT 'that job; NULL: it is not there yet',
  born      bigint NOT NULL DEFAULT 0 COMMENT 'create_time of that job; a row with another one is of another job',
  counted   smallint NOT NULL DEFAULT 0 COMMENT 'job_status of the first end without success that was counted, or 1: the signal has come; 0: none',
  result    varchar(1024) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'of its job, when that had succeeded, or the value of the signal',
  problem   varchar(1024) COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'why its job could not be added',
  kind      smallint NOT NULL DEFAULT 0 COMMENT '0: a job, 1: the end of the flow, 2: a job for when one fails, 3: waits for a signal, 4: undoes the job of this name, 5: joins such, 6: their end',
  undo_job  mediumtext COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'the job that undoes its job, as JSON; NULL: none does',
  PRIMARY KEY (id),
  KEY async_job_node_state (state, job_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
