// Package share decides which instance works which job type: which free leases an instance takes, which leases it asks others
// for, and which of its own it gives when it is asked. It takes a picture of the leases and returns names; it needs no SQL,
// no clock and no goroutine.
//
//	all rows of the leases ──► See ──► Picture ──► Take: free leases that fall to this instance
//	                            │         ├──────► Ask:  leases of whoever leaves, hands over, or has too many
//	                            │         └──────► Give: own leases for which somebody asks, if this picture agrees
//	                            ├──► Rests: what still runs under leases that were given away
//	                            └──► Changes: the next steps to another layout
//
// # What an instance tells the others is a lease
//
// A lease ends by itself if its owner dies, so nothing is ever left half done. (Only which jobs and keys handlers have under a rest stands in
// another table, async_job_now_tab.)
//
//	row             owner                                      says
//	job-7           the holder                                 this instance starts the jobs of type 7; running: how many it runs,
//	                                                           or -2 (store.Broken): somebody has broken the lease
//	job-7/2         the holder                                 the same of shard 2, if the type is divided
//	at-1f2e…        each instance                              this instance is here; running -1 (Leaves): it is about to stop
//	live-1f2e…      each instance, each second                 this instance may start jobs until then; running -2 (Buried), -3 (Dead): not any more
//	want-7          an instance that asks, for a second        give me job-7
//	rest-7-16…      an earlier holder of job-7                 jobs of type 7 still run here, under this term; running: how many
//	away-7-16…      a caller of HandOver, for five seconds     whoever holds job-7 under this term, give it to any other instance
//	away-1f2e…      a caller of Drain, until the drain's end   this instance gives all that it has, and takes nothing
//
// # No leader and no plan
//
// Every instance looks at the same table and decides for itself. Instances of one service that work the same types hand free leases
// out in the same way, so what a dead instance had goes to several others at once. An instance asks for a lease if the holder has two more
// leases of the type than it has itself, or one more of the type and two more in all. The holder gives the lease only if its own picture
// agrees, and after its MinLockSecond.
//
// The instances stop giving: let S be the number of shards that an instance has of one type, and H the number of leases that it has in
// all. A lease that is given to even the shares out lowers the sum of S² over all instances and types; or it leaves that sum as it is, and
// lowers the sum of H² over all instances. Both sums are whole numbers. An instance that stops, or is drained, gives whatever it is asked for.
//
// # HandOver and Drain
//
// HandOver moves a lease once, however even the shares are: its row names the term, and the next holder has another term. While the row is
// there, for five seconds, nobody asks for this lease to even the shares out; if another lease can go the other way instead, it does.
//
// Drain makes the others treat an instance as if it were stopping: they ask for its leases, and it asks for none. If all instances of a
// service are drained, none is. If nobody takes a free lease for five seconds, a drained instance takes it, so that nothing stands still.
//
// # Layouts
//
// A layout says into how many shards a type is divided. Its number only grows. A lease can be taken only for the layout in its row. If the
// layout of a type changes, each holder closes its own lease, and any instance that works the type closes free leases. When all are closed, any
// of them opens the leases of the new layout. So jobs never start under leases of two layouts at a time, whoever dies or comes late; what
// started before runs on under rests. Change lists the next steps. Each step can be sent late, and more than once.
package share
