// Package flow moves flows forward: it counts the ends of their jobs, and adds the jobs that wait for nobody any more.
//
// A job of a flow is inserted only when everything before it is done. Until then it is a node, a row of async_job_node_tab, that says how many
// ends it waits for. So a row of async_job_tab is a job that runs, as ever, and whoever marks, settles, cancels or completes one knows nothing of
// flows: they only make the row final, as do plain SQL, and older versions. The [Counter] does the rest, in a transaction of its own:
//
//	settle, CompleteTx, Cancel, SQL            Counter                                     everybody's tail
//	  job 7: final         ── hint, or look ─►   reads the final jobs, without a lock
//	                                             locks their nodes, and those that follow
//	                                             node of job 7: born ─► done                  (counts once)
//	                                             followers: waits - 1; 0 is ready
//	                                             holds the flow open, INSERTs their jobs  ──► finds them
//	                                             followers: ready ─► born, with their jobs
//	                                             COMMIT
//
// # Why each follower is born exactly once
//
//   - An end is counted by the compare-and-set of its node, in the transaction that lessens what its followers wait for. Success never turns back,
//     so whoever comes second, or again, finds the node done. A failure is noted once, for those that wait for the end whatever it is; the node
//     stays born, and if somebody retries its job and that succeeds, the success counts.
//   - A job is born by the compare-and-set of its node, in the transaction that inserts it. Too many for one transaction, or births that fail, stay
//     ready, and each look finds what is ready.
//   - An end is lost for nobody, since it is a state and no event: a final row, and a node that has not counted it. The process that wrote the
//     outcome counts at once (Ended). What it was kept from counting, and what others have ended, a look finds, once a second: a page of the nodes
//     that have jobs, joined with those jobs.
//
// Jobs are not locked at all: a transaction that holds one (Cancel, CompleteTx) holds no counter up. Nodes that somebody has locked are left out,
// and counted some milliseconds later; so a transaction that holds a flow (CancelFlow, RetryFlow) holds up this flow alone. A server that cannot
// leave them out has counters wait for each other, in no circle: nodes are locked in the order of their ids, a node stands behind those that it
// waits for, and flows are locked after nodes.
//
// A flow is cancelled by its row, which births hold: a birth that was first is found by the cancellation, which then cancels the jobs that are
// there; one that comes later finds the flow cancelled, and its node is called off.
//
// # How a flow is undone
//
//	open ── UndoFlow, a failure, a deadline ──► stopping ── nothing is left that may succeed ──► undoing ── all is undone ──► undone
//
// It goes one way. Stopping is written to the flow's row, which births hold; so from then on no job of it is born. Whoever tends it (TendFlow)
// cancels the jobs that wait, lets those that run end, and counts them. When each job has succeeded, or ended otherwise and its run is over, one
// transaction turns it: it holds all nodes, the flow and the jobs that have failed, gives the nodes of these up, and adds a node for each job that
// has succeeded and can be undone. They are nodes like any others, in the reverse order; so each is born once, for the same reasons.
//
// A job of a flow that stops does not run again: a retry holds the flows of its jobs and leaves out those of such flows. If it was first, the flow
// stops after it, and finds the job pending. So what has succeeded is undone, and nothing succeeds afterwards.
//
// # What it costs
//
// A job without a flow pays nothing. Without an open flow, an instance asks once a minute whether there is one; with one, it looks once a second.
// A count is some ten statements for up to 500 ends. A handle that begins no transactions counts nothing.
//
// A birth that the database refuses again and again, alone, is noted at its node, as a sentence, and holds up what comes after it and nothing else.
package flow
