// Package metrics shows Prometheus what a [persistent_queue.Runner] does: how late jobs start, how long they take and how they end, by
// job type, and what waits in memory.
//
//	m := metrics.New()
//	runner, err := persistent_queue.New(configs, log, m.Option())
//	prometheus.MustRegister(m)
//
// A scrape reads memory, and sends no statement. It costs the database nothing, however large the table is. What only the table
// knows, such as the number of failed jobs since last year, is not here.
//
// Each process tells what it does itself. The jobs of a type are run by the processes that hold its leases, so a sum over all
// processes counts each run once. The labels are job_type, the number, and type_name, which is [queue_job.Config.ServiceName]; there
// is none for a key, a job or an instance, so the number of series is bounded by that of the types: about 60 for each type that
// runs, and 5 for one whose lease another process has.
//
// The file docs/metrics.md of the repository lists the metrics. Beside this package, the repository has rules for alerts
// (alerts.yml) and a dashboard for Grafana (dashboard.json).
package metrics
