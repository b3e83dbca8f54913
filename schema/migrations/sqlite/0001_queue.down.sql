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

DROP TABLE shedlock_tab;

DROP TABLE async_job_tab;
