// Package operate is for people who run a queue in production, and for the programs that they use.
//
//	what they ask                    read from                                                function
//	why has this job not started?    the job, the leases, the log, what holders have told     [Explain]
//	what does this flow wait for?    the flow, its jobs, the log                              [ExplainFlow]
//	which flows are stuck?           open flows, and their jobs                               [OpenFlows]
//	is anything wrong?               the types, the leases, what holders have told            [Check]
//	what has run, and how fast?      async_job_stat_tab                                       [History]
//	who had which lease?             async_job_lease_log_tab                                  [LeaseHistory]
//	who changed what?                async_job_act_tab                                        [Acts]
//
//	what they do to many jobs        [PreviewOf], [Begin], [Operations], [Stop], [Resume], [CarryOut]
//
// All of it reads small tables, or jobs by an index; only PreviewOf may read more. Check counts the jobs that are late, some thousands of
// them at most. What is said is held against what it was made of: each sentence has a claim in evidence_test.go, or beside it, that says when
// it is true, and what Explain says is asked at each mark and each start of simulated worlds (internal/simulator).
package operate
