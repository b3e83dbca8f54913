DROP TABLE shedlock_tab;

DROP TABLE async_job_tab;
