-- The tables of persistent-queue on SQLite; mysql.sql says what the columns mean. One column per line: schema.Migrate
-- adds the lines that an existing table lacks. SQLite reads a row from its front, so long_params stands last.

CREATE TABLE IF NOT EXISTS async_job_tab (
  id          integer PRIMARY KEY AUTOINCREMENT,
  params      varchar(4096) NOT NULL DEFAULT '',
  job_type    int NOT NULL,
  job_status  tinyint DEFAULT NULL,
  start_time  int DEFAULT 0,
  create_time int NOT NULL,
  update_time int NOT NULL,
  term        bigint NOT NULL DEFAULT 0,
  attempts    int NOT NULL DEFAULT 0,
  retries     int NOT NULL DEFAULT 0,
  lost        tinyint NOT NULL DEFAULT 0,
  job_key     varchar(128) DEFAULT NULL,
  unique_in   int DEFAULT NULL,
  priority    tinyint NOT NULL DEFAULT 0,
  max_retries int DEFAULT NULL,
  changes     int NOT NULL DEFAULT 0,
  progress    varchar(255) DEFAULT NULL,
  result      varchar(1024) DEFAULT NULL,
  deferred    int NOT NULL DEFAULT 0,
  meta        varchar(1024) DEFAULT NULL,
  job_group   varchar(128) DEFAULT NULL,
  steps       int DEFAULT NULL,
  long_params text DEFAULT NULL
);

CREATE INDEX IF NOT EXISTS async_job_due ON async_job_tab (job_type, job_status, priority, start_time, id);

CREATE UNIQUE INDEX IF NOT EXISTS async_job_key ON async_job_tab (job_key, unique_in) WHERE job_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_group ON async_job_tab (job_group) WHERE job_group IS NOT NULL;

CREATE TABLE IF NOT EXISTS shedlock_tab (
  lock_name  varchar(64) PRIMARY KEY NOT NULL,
  lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  locked_at  timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  locked_by  varchar(255) NOT NULL,
  term       bigint NOT NULL DEFAULT 0,
  running    int NOT NULL DEFAULT 0,
  layout     bigint NOT NULL DEFAULT 1
);

CREATE TABLE IF NOT EXISTS async_job_log_tab (
  job_id   bigint NOT NULL,
  attempt  int NOT NULL,
  term     bigint NOT NULL,
  outcome  varchar(16) NOT NULL,
  error    varchar(1024) NOT NULL,
  started  bigint NOT NULL,
  finished bigint NOT NULL,
  instance varchar(255) NOT NULL,
  PRIMARY KEY (job_id, attempt, term)
);

CREATE TABLE IF NOT EXISTS async_job_type_tab (
  job_type  integer PRIMARY KEY,
  paused_at int DEFAULT NULL,
  cron_at   int DEFAULT NULL,
  cron_spec varchar(255) DEFAULT NULL,
  layout    bigint DEFAULT NULL,
  name      varchar(255) DEFAULT NULL,
  settings  text DEFAULT NULL,
  told_at   bigint DEFAULT NULL,
  workers   int DEFAULT NULL,
  rate      double DEFAULT NULL,
  paused_until int DEFAULT NULL
);

CREATE INDEX IF NOT EXISTS async_job_type_paused ON async_job_type_tab (paused_at) WHERE paused_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_type_layout ON async_job_type_tab (layout) WHERE layout IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_type_workers ON async_job_type_tab (workers) WHERE workers IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_type_rate ON async_job_type_tab (rate) WHERE rate IS NOT NULL;

CREATE TABLE IF NOT EXISTS async_job_now_tab (
  lock_name varchar(64) PRIMARY KEY,
  term      bigint NOT NULL,
  told_at   bigint NOT NULL,
  state     text NOT NULL
);

CREATE TABLE IF NOT EXISTS async_job_stat_tab (
  job_type  int NOT NULL,
  begins_at bigint NOT NULL,
  lock_name varchar(64) NOT NULL,
  term      bigint NOT NULL,
  seconds   int NOT NULL,
  counted   bigint NOT NULL,
  state     text NOT NULL,
  PRIMARY KEY (job_type, begins_at, lock_name, term)
);

CREATE TABLE IF NOT EXISTS async_job_lease_log_tab (
  lock_name varchar(64) NOT NULL,
  term      bigint NOT NULL,
  holder    varchar(255) NOT NULL,
  taken_at  bigint NOT NULL,
  ended_at  bigint DEFAULT NULL,
  how       varchar(16) DEFAULT NULL,
  PRIMARY KEY (lock_name, term)
);

CREATE INDEX IF NOT EXISTS async_job_ended ON async_job_lease_log_tab (ended_at);

CREATE TABLE IF NOT EXISTS async_job_act_tab (
  id         integer PRIMARY KEY AUTOINCREMENT,
  acted_at   bigint NOT NULL,
  actor      varchar(255) NOT NULL,
  verb       varchar(32) NOT NULL,
  why        text DEFAULT NULL,
  job_type   int DEFAULT NULL,
  jobs       text DEFAULT NULL,
  first_job  bigint DEFAULT NULL,
  last_job   bigint DEFAULT NULL,
  detail     text DEFAULT NULL,
  operation  bigint DEFAULT NULL,
  state      varchar(16) DEFAULT NULL,
  reached    bigint NOT NULL DEFAULT 0,
  last_id    bigint NOT NULL DEFAULT 0,
  changed    bigint NOT NULL DEFAULT 0,
  skipped    bigint NOT NULL DEFAULT 0,
  worker     varchar(255) DEFAULT NULL,
  touched_at bigint NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS async_job_act_job ON async_job_act_tab (last_job);

CREATE INDEX IF NOT EXISTS async_job_act_state ON async_job_act_tab (state);

CREATE INDEX IF NOT EXISTS async_job_act_type ON async_job_act_tab (job_type) WHERE job_type IS NOT NULL;

CREATE TABLE IF NOT EXISTS async_job_step_tab (
  job_id     bigint NOT NULL,
  kind       smallint NOT NULL,
  name       varchar(128) NOT NULL,
  created    bigint NOT NULL,
  attempt    int NOT NULL,
  term       bigint NOT NULL,
  ended_at   bigint NOT NULL,
  until_at   bigint DEFAULT NULL,
  step_value text DEFAULT NULL,
  PRIMARY KEY (job_id, kind, name)
);

CREATE TABLE IF NOT EXISTS async_job_schedule_tab (
  name       varchar(100) PRIMARY KEY,
  spec       varchar(255) NOT NULL,
  job_type   int NOT NULL,
  params     text NOT NULL,
  settings   text DEFAULT NULL,
  catch_up   int NOT NULL DEFAULT 1,
  revision   bigint NOT NULL DEFAULT 1,
  paused_at  bigint DEFAULT NULL,
  reached_at bigint NOT NULL,
  next_at    bigint DEFAULT NULL,
  last_at    bigint DEFAULT NULL,
  last_job   bigint DEFAULT NULL,
  put_at     bigint NOT NULL
);

CREATE INDEX IF NOT EXISTS async_job_schedule_next ON async_job_schedule_tab (next_at);

CREATE TABLE IF NOT EXISTS async_job_flow_tab (
  id         integer PRIMARY KEY AUTOINCREMENT,
  kind       varchar(64) NOT NULL,
  flow_key   varchar(128) DEFAULT NULL,
  open_key   varchar(128) DEFAULT NULL,
  state      smallint NOT NULL DEFAULT 0,
  nodes      int NOT NULL,
  created_at bigint NOT NULL,
  ended_at   bigint DEFAULT NULL,
  alarms     int NOT NULL DEFAULT 0,
  undo_nodes int NOT NULL DEFAULT 0,
  undo_after bigint DEFAULT NULL,
  deadline   bigint DEFAULT NULL,
  due_at     bigint DEFAULT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS async_job_flow_open ON async_job_flow_tab (kind, open_key) WHERE open_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_flow_state ON async_job_flow_tab (state, ended_at);

CREATE INDEX IF NOT EXISTS async_job_flow_key ON async_job_flow_tab (flow_key) WHERE flow_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS async_job_flow_due ON async_job_flow_tab (state, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS async_job_node_tab (
  id        integer PRIMARY KEY,
  name      varchar(128) NOT NULL,
  state     smallint NOT NULL,
  waits     int NOT NULL,
  followers text DEFAULT NULL,
  enders    text DEFAULT NULL,
  spec      text DEFAULT NULL,
  job_id    bigint DEFAULT NULL,
  born      bigint NOT NULL DEFAULT 0,
  counted   smallint NOT NULL DEFAULT 0,
  result    varchar(1024) DEFAULT NULL,
  problem   varchar(1024) DEFAULT NULL,
  kind      smallint NOT NULL DEFAULT 0,
  undo_job  text DEFAULT NULL
);

CREATE INDEX IF NOT EXISTS async_job_node_state ON async_job_node_tab (state, job_id);
