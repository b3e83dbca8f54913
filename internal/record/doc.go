// Package record has what is noted beside the jobs, and what people read and change: with the store it holds every statement that the
// library sends.
//
//	who                            calls                              about
//	queue_job, operate, console    List, Count, Acts, Activity …      what people ask
//	queue_job, bulk                NoteAct, Restore, SetLimits …      what people change
//	internal/upkeep                WriteStats, WriteTenures …         what has run, and who had the leases
//	internal/upkeep                DeleteOld, ClaimOperation …        what is done once in a while
//	        │
//	        ▼
//	Store ──► store.Store          Mark, Settle, Cancel, Retry …      what the engine sends, and people, too
//
// A [Store] is a [store.Store] that also has the verbs of this package, so whoever has one can send all. Where a change of a row has to agree
// with what the engine writes into the same row, as a cancellation has to, its verb is with the engine's.
//
// The rules of package store hold here, too: each statement says what it needs, what it changes, and what fewer rows than asked means, and
// it can be sent again. The SQL of these verbs is shown beside that of the others, in internal/store/testdata.
//
// A read that may be asked of a replica says so. The others go to the primary, since something is decided by them.
package record
