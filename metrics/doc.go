// Package metrics shows Prometheus what a [persistent_queue.Runner] does: how late jobs start, how long they take and how they end, by
// job type, and what waits in memory.
//
//	m := metrics.New()
//	runner, err := persistent_queue.New(configs, log, m.Option())
//	prometheus.MustRegister(m)
//
// A scrape reads memory and sends no statement, so it costs the database nothing, however large the table is. What only the table
// knows, such as the number of failed jobs since last year, is not here. [Flows] alone asks the database: which flows are open, and stuck.
//
// Each process reports its own runs, so a sum over all processes counts each run once. The labels are job_type, the number, and
// type_name, which is [queue_job.Config.ServiceName]. No label has a key, a job or an instance, so the number of series grows only
// with the number of types: a type has about 60 series in a process that runs it, and 5 in one that does not.
//
// docs/operate/metrics.md in the repository lists the metrics. The files alerts.yml and dashboard.json, beside this package, are alerts for
// Prometheus and a dashboard for Grafana.
package metrics
