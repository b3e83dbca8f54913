// Package record has what is noted beside the jobs, what people read, and some of what they change. With the store, it holds every verb, and so
// every statement but a few: package schema creates the tables, and package conn asks what the database is, sets sessions up and ends
// transactions.
//
//	who                                  calls                          about
//	queue_job, operate, faces, console   List, Count, Acts, Activity …  what people ask
//	queue_job, operate, bulk             NoteAct, Restore, SetLimits …  what people change
//	internal/upkeep                      WriteStats, WriteTenures …     what has run, and who had the leases
//	upkeep, bulk, queue_job              DeleteOld, ClaimOperation …    what is done once in a while
//	        │
//	        ▼
//	Store ──► store.Store                Mark, Settle, Cancel, Retry …  what the engine sends, and people, too
//
// A [Store] is a [store.Store] that also has the verbs of this package, so whoever has one can send all. Where a change of a row has to agree
// with what the engine writes into the same row, as a cancellation has to, its verb is with the engine's.
//
// The rules of package store hold here, too: each statement says what it needs, what it changes, and what fewer rows than asked means, and
// it can be sent again. The SQL of these verbs is shown beside that of the others, in internal/store/testdata.
//
// If what a read shows is taken for certain, it goes to the primary (FromPrimary), as NextIDs. The others may be answered by a replica, whether
// their comments say so or not, as List, Count and FindOld: people look at the answer, or a change checks the rows once more.
package record
