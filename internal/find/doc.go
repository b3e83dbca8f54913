// Package find finds the rows that are to run and offers each to the sink that wants it. It marks nothing and knows nothing of
// what becomes of a row.
//
//	the table                        Finder, one for each database          Sink, one for each lease
//
//	by id     ──── Follow: the tail, milliseconds after the commit ───┐
//	                 gaps: ids that a late commit may fill            │
//	                         ▲ a row that came late                   ├──► Offer ──► a row has room, or …
//	by index  ──── Sweep: all types once a second, however old ───────┤                   │
//	               Look: types that were just taken, or whose         │                   │ … it has none:
//	                     rows the tail may have missed ───────────────┤                   ▼
//	                       │ there is more than one statement brings  │              Backlog.Fell
//	                       ▼                                          │                   │
//	by page   ──── Load: one type, lane by lane, as there is room ────┘ ◄─────────────────┘
//
// # Three ways to a row
//
// The tail is fast, the sweep is sure, and the loader is for what is more than either brings. The tail reads along the primary key what
// has come behind the newest id, and the rows in the gaps below it. It misses a row that is committed more than two seconds after the
// tail has passed its id, and a row that falls due more than three seconds from now. The sweep needs no memory: it asks the due index for
// whatever is pending and due, of all types in one statement. Both stop at a full sink: the row stays in the table, the sink's Backlog is
// behind, and from then on the sweep leaves this type to the loader. The loader goes through the lanes of the due index, round after
// round. If it reaches their ends, and the sink had room for every row of that round, the sweep has the type again.
//
// # The first look
//
// There is one kind of look at types of which nobody has seen anything yet: one statement for all of them, as long as that brings
// everything. It is taken when leases come, and once more if the tail's last reading was not for them: a row that was committed
// between the look and that reading has been seen by neither. If a statement for several types brings not all, it offers nothing, and
// each loader looks at its type alone; if one for a single type does not, the loader pages, the most urgent rows first.
//
// # What a read is
//
// A picture of the past. It may show as pending what has been settled here since. So each read has a number while it is under way
// (Reads), and a sink that forgets a row goes on knowing its id until every read that began before is over.
//
// # What it asks of others
//
// Process says what time it is, whom to tell of an error, and whether there has been a job of late; Here names the lease that stands
// for all others while a statement is under way. Nothing here takes a lease or gives one: whoever holds one calls Add, and End when
// it is over.
package find
