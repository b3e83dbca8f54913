// Package find finds the rows that are to run, and offers each to its sink: the line that works the row's type, while it has the lease. It
// marks nothing, and does not know what becomes of a row. All that it writes is a valid priority, if a pending row has none (ClampPriorities).
//
//	the table                        Finder, one for each database          Sink, one for each lease
//
//	by id     ──── Follow: the tail, soon after the commit ───────────┐
//	                 gaps: ids that a late commit may fill            │
//	                         ▲ a row that came late                   ├──► Offer ──► a row has room, or …
//	by index  ──── Sweep: types without a backlog, once a second ─────┤                   │
//	               Look: types that were just taken, or whose         │                   │ … it has none:
//	                     rows the tail may have missed ───────────────┤                   ▼
//	                       │ there is more than one statement brings  │              Backlog.Fell
//	                       ▼                                          │                   │
//	by page   ──── Load: one type, lane by lane, as there is room ────┘ ◄─────────────────┘
//
// A row is due here if it falls due now or within three seconds, the horizon: it waits for its moment in memory. A lane is a stretch of the
// due index: the pending rows of a type with one priority, one status and one kind of start_time (0, a time, or NULL).
//
// # Three ways to a row
//
// The tail finds new rows quickly, the sweep finds every due row, and the loader reads what does not fit. The tail reads along the primary key
// what has come behind the newest id, and the rows in the gaps below it. It asks for a gap for two seconds, and for as long again after each
// late row in it; for 64 gaps at most. It misses a row that is committed later than that, and a row that is not due yet.
//
// The sweep asks the due index for whatever is pending and due, in one statement for all types without a backlog. If there is more than the
// statement brings, the types that it saw are left to their loaders, and the others are swept again. If a sweep has found nothing, the next
// sweep first asks which types have a pending row. If sweeps take long, up to five seconds pass in between.
//
// If a sink is full, the row stays in the table, and the sink's Backlog is marked as behind: the table has due rows that are not in memory. From
// then on, the sweep leaves the type to the loader, and the tail brings only rows of priorities that still have room. The loader goes through
// the lanes, round after round. The sweep has the type again if the loader has reached the ends of all lanes and the sink had room for every
// row, unless old rows are left alone (FirstPullDay) or more than a thousand rows are in memory, which the sweep would read again and again.
// If a type is fair by group, the loader does not stand still at a row whose group has no room: it skips it, and comes back (skip.go).
//
// # The first look
//
// When leases come, one statement reads the due rows of all these types. If a type was added after the tail's last reading, it is looked at
// again. Otherwise, a row that is committed between the first look and the tail's next reading would be seen by neither. If a statement for
// several types does not bring everything, it offers nothing, and each loader looks at its type alone. If a statement for one type does not
// bring everything, the loader reads pages, the most urgent rows first.
//
// # What a read is
//
// A picture of the past. It may show as pending what has been settled here since. So each read has a number while it is under way
// (Reads), and a sink that forgets a row goes on knowing its id until every read that began before is over.
//
// # What it asks of others
//
// The struct Process has the tables and the clock, hears of errors, and says whether a job waits or runs in this process. Finder.Here is
// told the lease that says that this instance is there; if that lease ends, statements are cancelled. Nothing here takes a lease or gives one:
// whoever holds one calls Add, and End when it is over.
package find
