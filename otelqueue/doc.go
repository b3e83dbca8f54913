// Package otelqueue traces jobs with OpenTelemetry. The request that adds a job, the adding, and the job's first run are one trace,
// across processes.
//
//	tracing := otelqueue.New()
//	jobs, err := queue_job.Open(db, queue_job.OnAdd(tracing.OnAdd))
//	runner, err := persistent_queue.New(configs, log,
//		persistent_queue.WithMiddleware(tracing.Middleware), persistent_queue.WithBatchMiddleware(tracing.BatchMiddleware))
//
// Whoever adds a job gets a span "add", whose context stands in the job's metadata as traceparent and tracestate (W3C Trace Context).
// So a job that another language inserts belongs to its trace, too: INSERT … meta = '{"traceparent":"00-…"}'. Baggage is not stored.
//
// A run is a span "run". It is always linked to the adding. If it is the job's first run and begins within a minute ([ChildWithin]),
// it is a child of the adding, too. Retries and late runs are roots of traces of their own: one trace over days of retries would
// help nobody. A call for a batch is one span with a link for each job.
//
// Attributes follow OpenTelemetry's conventions for messaging. Attributes of our own begin with persistent_queue. Keys and parameters
// of jobs are left out, because they may be personal.
//
// If your *sql.DB is traced as well, the Runner's polls become spans: about a dozen a second, and eight if there was no
// job for a minute. Have that instrumentation leave out statements without a parent, or give the Runner a handle of its own
// ([persistent_queue.WithDB]).
//
// docs/operate/traces.md in the repository lists spans and attributes.
package otelqueue
