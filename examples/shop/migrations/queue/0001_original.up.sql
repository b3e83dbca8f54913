-- The tables of the original library; where they are already, nothing changes.

CREATE TABLE IF NOT EXISTS async_job_tab (
  id          bigint unsigned NOT NULL AUTO_INCREMENT,
  params      varchar(4096) COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT '',
  job_type    int NOT NULL,
  job_status  tinyint DEFAULT NULL,
  start_time  int unsigned DEFAULT 0,
  create_time int unsigned NOT NULL,
  update_time int unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci /*T![auto_id_cache] AUTO_ID_CACHE=1 */;

CREATE TABLE IF NOT EXISTS shedlock_tab (
  lock_name  varchar(64) NOT NULL,
  lock_until timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  locked_at  timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  locked_by  varchar(255) NOT NULL,
  PRIMARY KEY (lock_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
