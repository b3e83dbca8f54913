package find

import "github.com/create-info/persistent-queue/internal/store"

// Sink takes rows in. It knows them by their ids, so a row that is found twice is one row.
type Sink interface {
	Offer(row *store.Row) (accepted bool)                 // false: there is no room, and the sink has called [Backlog.Fell]
	Knows(id uint64) bool                                 // the row is in memory, or was until a moment ago
	Room() (lowest int32, all bool)                       // for rows that start at once: down to which priority, and whether of all
	Lane(priority int32, timed bool) (now, most int)      // how many rows of a lane it takes, and how many if it had none
	RoomOf(lane store.Lane, group string) (now, most int) // the same for the rows of a group, if the type is fair by group
	InMemory() int                                        // rows
	Forget()                                              // all that wait
}
