package simulator

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/mutant"
)

const (
	mutantsVariable = "PQ_SIM_MUTANTS" // "1", or a part of the mutants' names
	mutantSeeds     = 10_000           // for each, unless PQ_SIM_SEEDS says otherwise
)

// mutants are failures that this library, or a similar one, has had or could have. Some are missing, because
// worlds do not show them. Trust that is counted from the answer to a renewal: a late renewal is given up so soon that
// the margin covers nearly all of it (six thousand worlds). A lease that is renewed although nobody works: it costs a
// wait, within the bound on outages. The keeper's own tests show these two. A row that is forgotten while a read of it
// is under way: its old picture only costs a mark that is refused, because a mark asks for the version that was read. A mark
// of a row that bears the holder's own term already: for the same reason, nobody sends one (twenty thousand worlds). The test of the
// statement's text shows it. Who lays a type down and does not look for work afterwards, or forgets by an older look what was noted:
// the gap is as short as a statement (ten thousand worlds). The engine's own tests show these two. A clock that was put forward and is not
// read again after a mark has found itself late: leases expire by that clock, too, and it is read when they are taken again (two thousand
// worlds). The engine's own tests show this one. A lease whose row is locked, and that is
// trusted as if it had been renewed: it expires by its row all the same, and its holder looks (ten thousand worlds). The keeper's own
// tests show this one.
var mutants = []mutant.Mutant{
	{
		Name: "only rows say which keys an earlier holder's handlers have",
		File: "internal/engine/turns.go",
		Old:  "running[key] = max(running[key], n)",
		New:  "_ = n",
	},
	{
		Name: "behind: rows that were left alone for the sake of a rest are not loaded when it is over",
		File: "internal/find/backlog.go",
		Old:  "p.ended = p.ended || len(p.terms) < before",
		New:  "_ = before",
	},
	{
		Name: "behind: a row that is changed in memory waits for the next round of its lane",
		File: "internal/engine/mark.go",
		Old:  "\t\t\tm.backlog.LetGo()\n",
		New:  "",
	},
	{
		Name: "cut off: nobody writes that a stop has cut jobs off",
		File: "internal/engine/database.go",
		Old:  "CutOff(deaf)",
		New:  "_ = deaf",
	},
	{
		Name: "cut off: a job falls due at once, while its handler's lease goes on",
		File: "internal/engine/cut_off.go",
		Old:  "(t.lease.FreeIn() + tenth - 1).Truncate(tenth)",
		New:  "0 * (t.lease.FreeIn() + tenth)",
	},
	{
		Name: "late: a mark does not find that it is late",
		File: "internal/simulator/table.go",
		Old:  "if t.clock().UnixMilli() > deadline {",
		New:  "if deadline == 0 {",
	},
	{
		Name: "late: a lease is given away while a mark is in doubt",
		File: "internal/engine/line.go",
		Old:  "if inDoubt {",
		New:  "if inDoubt && lease.Term == 0 {",
	},
	{
		Name: "late: a mark that was carried out after all is not taken back",
		File: "internal/engine/line.go",
		Old:  "l.settler.undo(lease, over...)",
		New:  "_ = over",
	},
	{
		Name: "a row that runs again is without the key that was taken from it",
		File: "internal/simulator/unique.go",
		Old:  "\tj.Unique = true\n",
		New:  "\tj.Unique = false\n",
	},
	{
		Name: "a row that runs again has its key back, although another row has it",
		File: "internal/simulator/unique.go",
		Old:  "if t.bears(j) {",
		New:  "if t.bears(j) && j.Key == \"\" {",
	},
	{
		Name: "a restored row counts its changes from nothing, so its version may come again",
		File: "internal/simulator/unique.go",
		Old:  "j.Changes = changes\n",
		New:  "j.Changes = 0 * changes\n",
	},
	{
		Name: "break: a holder does not see it at its next look",
		File: "internal/keeper/keeper.go",
		Old:  "\t\t\tk.lose(row.Name, l)\n",
		New:  "\t\t\t_ = l\n",
	},
	{
		Name: "break: renewals wait for the locked row of one lease",
		File: "internal/simulator/breaks.go",
		Old:  "case abandonLeases, openLeases,",
		New:  "case keepLeases, abandonLeases, openLeases,",
	},
	{
		Name: "break: what gives a locked lease back waits for its row",
		File: "internal/simulator/breaks.go",
		Old:  "case abandonLeases, openLeases,",
		New:  "case releaseLease, closeLease, layDown, abandonLeases, openLeases,",
	},
	{
		Name: "the next holder is told of keys only when the lease is free",
		File: "internal/cluster/handover.go",
		Old:  "if err = c.writeRestKeys(ctx, s, lease, &r.keys); err != nil {",
		New:  "if err != nil {",
	},
	{
		Name: "break: the next holder counts what the last one has marked as lost at once",
		File: "internal/cluster/seat.go",
		Old:  "t != nil && time.Now().Before(t.unaware.until)",
		New:  "t != nil && t.unaware.Term < 0",
	},
	{
		Name: "break: a holder does not give back what it has not started",
		File: "internal/engine/line.go",
		Old:  "l.settler.undo(lease, unstarted...)",
		New:  "if lease.Context().Err() == nil {\n\t\tl.settler.undo(lease, unstarted...)\n\t}",
	},
	{
		Name: "locked rows are not looked at again",
		File: "internal/engine/dispatcher.go",
		Old:  "\td.lookAtLocked()\n",
		New:  "\n",
	},
	{
		Name: "rows that a mark has passed over are taken for gone",
		File: "internal/engine/mark.go",
		Old:  "m.passedOver(lease, rest)",
		New:  "m.queue.forget(rest[:0]...)",
	},
	{
		Name: "shards that are taken in one millisecond have one term",
		File: "internal/store/term.go",
		Old:  "return (max(last+1, millis)-shard+shardsMost-1)/shardsMost*shardsMost + shard",
		New:  "return max(last+1, millis) + 0*shard",
	},
	{
		Name: "a successor believes its memory after its predecessor has written",
		File: "internal/simulator/table.go",
		Old:  "j.Version() == read && ",
		New:  "j.Changes == read.Changes && ",
	},
	{
		Name: "a mark that arrives late finds a row that has run since",
		File: "internal/simulator/table.go",
		Old:  "j.Version() == read && ",
		New:  "j.Changes == read.Changes && j.Term == read.Term && ",
	},
	{
		Name: "a pause is not looked at again after a mark",
		File: "internal/engine/run.go",
		Old:  "!t.gone.Load() && r.starts.allowedAt(t.started) &&",
		New:  "!t.gone.Load() &&",
	},
	{
		Name: "what was cancelled while it waited for a worker is started",
		File: "internal/engine/run.go",
		Old:  "!t.gone.Load() && r.starts.allowedAt(t.started) &&",
		New:  "r.starts.allowedAt(t.started) &&",
	},
	{
		Name: "a cancelled job that was retried is taken for the run that goes on",
		File: "internal/engine/cancels.go",
		Old:  "(row.Attempts < t.Attempts && row.Term <= t.Term || t.marked(row))",
		New:  "row.Term <= t.Term",
	},
	{
		Name: "a settle that arrives late is taken for the next run",
		File: "internal/simulator/table.go",
		Old:  "if j.Attempts == attempt {",
		New:  "if true {",
	},
	{
		Name: "an unmark that arrives late is taken for the next mark",
		File: "internal/simulator/table.go",
		Old:  "return j.Changes != o.Marked.Changes",
		New:  "return false",
	},
	{
		Name: "a row of the log that failed is not tried again",
		File: "internal/engine/attempts.go",
		Old:  "\t\t\tl.note(o.log)\n",
		New:  "",
	},
	{
		Name: "a lost run waits for another outcome to be logged",
		File: "internal/engine/attempts.go",
		Old:  "\tground.Signal(a.came)\n\treturn ok\n",
		New:  "\treturn ok\n",
	},
	{
		Name: "Stop does not wait for the log",
		File: "internal/engine/line.go",
		Old:  "await(noted, l.wake, func() bool { return l.settler.log.unnoted() == 0 })",
		New:  "_ = noted",
	},
	{
		Name: "a run whose handler gave up on its commit is logged as a retry",
		File: "internal/engine/outcome.go",
		Old:  "v.doubt = t.ID // the handler may have given up while its commit was under way",
		New:  "",
	},
	{
		Name: "a run whose handler completed the job is told as dropped",
		File: "internal/engine/run.go",
		Old:  "Dropped: dropped && !v.written",
		New:  "Dropped: dropped",
	},
	{
		Name: "answers that come slowly allow no start",
		File: "internal/engine/dispatcher.go",
		Old:  "return max(heededFor, WatchEvery+2*took+little)",
		New:  "return max(heededFor, little)",
	},
	{
		Name: "a type that waits for a place in its process is forgotten",
		File: "internal/engine/quota.go",
		Old:  "\tif got < n {\n\t\tq.await(p)\n\t}\n",
		New:  "",
	},
	{
		Name: "a worker that leaves keeps its place in the process",
		File: "internal/engine/workers.go",
		Old:  "\t\tw.left()\n",
		New:  "\t\tground.Signal(w.wake)\n",
	},
	{
		Name: "a worker begins without a place in the process",
		File: "internal/engine/quota.go",
		Old:  "\tmay = min(wanted, p.unused)\n",
		New:  "\tmay = min(wanted, p.unused+1)\n",
	},
	{
		Name: "in order, the table is not asked which row is the first",
		File: "internal/engine/turns.go",
		Old:  "!there || id >= t.ID",
		New:  "!there || id > 0",
	},
	{
		Name: "a job that has a group goes by its key",
		File: "internal/engine/keys.go",
		Old:  "strings.TrimRight(t.Group(), \" \")",
		New:  "strings.TrimRight(t.Key, \" \")",
	},
	{
		Name: "the first job of a group is looked for among the keys",
		File: "internal/simulator/table.go",
		Old:  "if _, found := firsts[j.Group()]; ",
		New:  "if _, found := firsts[j.Group()]; j.Group() == j.Key && ",
	},
	{
		Name: "in order, a job that runs again lets the others of its key pass",
		File: "internal/engine/turns.go",
		Old:  "if !k.cfg.OrderedByKey {",
		New:  "if true {",
	},
	{
		Name: "in order, what is held back is never looked at again",
		File: "internal/engine/dispatcher.go",
		Old:  "d.turns.lookAtParked()\n",
		New:  "\n",
	},
	{
		Name: "early marks do not wait for their time",
		File: "internal/engine/workers.go",
		Old:  "if t.dueMillis > now {",
		New:  "if t.dueMillis > now+1000 {",
	},
	{
		Name: "early marks that are refused come before their time",
		File: "internal/engine/row.go",
		Old:  "t.dueMillis = max(t.dueMillis, now+t.refusal(",
		New:  "t.dueMillis = max(0, now+t.refusal(",
	},
	{
		Name: "early marks stay when the type is paused or given up",
		File: "internal/engine/workers.go",
		Old:  "append(w.ready, w.early...)\n\tw.ready, w.early = nil, nil",
		New:  "w.ready\n\tw.ready = nil",
	},
	{
		Name: "one place too many for each key",
		File: "internal/engine/keys.go",
		Old:  "if k.taken[key] >= k.most {",
		New:  "if k.taken[key] > k.most {",
	},
	{
		Name: "the place of a key is not given back",
		File: "internal/engine/keys.go",
		Old:  "if q.keys.leave(t) {",
		New:  "if false {",
	},
	{
		Name: "rows that are held back are not known to have left room",
		File: "internal/engine/turns.go",
		Old:  "ground.Signal(k.roomCame) // rows were parked, or went back to the table",
		New:  "",
	},
	{
		Name: "a start takes no token",
		File: "internal/engine/gate.go",
		Old:  "g.limiter.ReserveN(now, n)",
		New:  "",
	},
	{
		Name: "a settle without the term",
		File: "internal/simulator/table.go",
		Old:  "j != nil && j.Term == term && j.pending()",
		New:  "j != nil && j.pending()",
	},
	{
		Name: "a handler starts without asking for trust, and by an answer of any age", // and the process stands still before that, now and then
		File: "internal/engine/run.go",
		Old:  "return t.lease.Trusted() && !t.gone.Load() && r.starts.allowedAt(t.started) &&\n\t\tt.started.Sub(*t.seen.Load()) < time.Duration(r.starts.lasts.Load())",
		New:  "time.Sleep(time.Duration(t.ID%5/4) * 3 * time.Second)\n\treturn !t.gone.Load() && r.starts.till.Load() != nil",
	},
	{
		Name: "a holder hears only when it takes a lease whether the type is paused",
		File: "internal/cluster/pauses.go",
		Old:  "s.Hear(answer)",
		New:  "_ = s",
	},
	{
		Name: "a limit of the rate is not heeded",
		File: "internal/cluster/types.go",
		Old:  "cfg.RatePerSecond, cfg.RateBurst = divided.WorkerPoolCapacity, divided.RatePerSecond, divided.RateBurst",
		New:  "cfg.RatePerSecond, cfg.RateBurst = divided.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst",
	},
	{
		Name: "a pause does not end",
		File: "internal/cluster/coordinator.go",
		Old:  "c.heedOver(v.over)",
		New:  "",
	},
	{
		Name: "limits are not heeded",
		File: "internal/cluster/coordinator.go",
		Old:  "c.heedLimits(v.limits)",
		New:  "",
	},
	{
		Name: "a sweep leaves out types that have a pending row",
		File: "internal/find/sweep.go",
		Old:  "return known && !has",
		New:  "return known && (has || !has)",
	},
	{
		Name: "no sweep",
		File: "internal/engine/database.go",
		Old:  "d.loops.Go(func() { d.finder.Sweep(working) })",
		New:  "",
	},
	{
		Name: "a job starts although its long parameters could not be read",
		File: "internal/engine/long_params.go",
		Old:  "\treturn ok\n",
		New:  "\treturn ok || true\n",
	},
	{
		Name: "what was put off while the clock was ahead is not mended",
		File: "internal/engine/ahead.go",
		Old:  "n, err = d.tables.Ahead.MendAhead(statement, ids, own)",
		New:  "err = nil",
	},
	{
		Name: "FirstPullDay counts from the clock that was ahead",
		File: "internal/engine/ahead.go",
		Old:  "d.startedEarlier()",
		New:  "",
	},
	{
		Name: "a job whose long parameters could not be read keeps its mark",
		File: "internal/engine/long_params.go",
		Old:  "t.refuse(r.clock.Now(), lockedLongest)",
		New:  "t.gone.Store(true)",
	},
	{
		Name: "an unknown mark is taken for failed",
		File: "internal/engine/mark.go",
		Old:  "marked, errBack := m.readBack(lease, batch)",
		New:  "marked, errBack := map[uint64]store.Marked{}, error(nil)",
	},
	{
		Name: "an unknown mark is taken for done",
		File: "internal/engine/mark.go",
		Old:  "marked, errBack := m.readBack(lease, batch)",
		New:  "marked, errBack := map[uint64]store.Marked{}, error(nil)\n\tfor _, t := range batch {\n\t\tmarked[t.ID] = store.Marked{ID: t.ID, Attempts: t.Attempts + 1, Lost: t.Lost}\n\t}",
	},
	{
		Name: "an outcome whose settle failed is dropped",
		File: "internal/engine/settler.go",
		Old:  "\treturn group, nil, isCut\n",
		New:  "\treturn nil, nil, isCut\n",
	},
	{
		Name: "an outcome whose settle failed is dropped, and its row forgotten",
		File: "internal/engine/settler.go",
		Old:  "\treturn group, nil, isCut\n",
		New:  "\ts.line.(*line).queue.forget(st.tasks...)\n\treturn nil, nil, isCut\n",
	},
	{
		Name: "an outcome whose row is locked is dropped",
		File: "internal/engine/statement.go",
		Old:  "\treturn locked, nil\n",
		New:  "\treturn nil, nil\n",
	},
	{
		Name: "locked rows whose outcomes wait are not looked at again",
		File: "internal/engine/failures.go",
		Old:  "in = min(in, time.Until(f.lookAt))",
		New:  "in = min(in, time.Hour)",
	},
	{
		Name: "marks are not taken back at the end of a lease",
		File: "internal/engine/line.go",
		Old:  "l.settler.undo(lease, unstarted...)",
		New:  "_ = unstarted",
	},
	{
		Name: "a mark that comes back after the stop is not taken back",
		File: "internal/engine/mark.go",
		Old:  "m.settler.undo(lease, ours...)\n",
		New:  "\n",
	},
	{
		Name: "a release without owner",
		File: "internal/simulator/table.go",
		Old:  "if !ok || l.Owner != owner {",
		New:  "if !ok {",
	},
	{
		Name: "a renewal without owner",
		File: "internal/simulator/table.go",
		Old:  "case !ok || !slices.Contains(owners, l.Owner) || l.Until <= t.now():",
		New:  "case !ok || l.Until <= t.now():",
	},
	{
		Name: "trust is counted from the answer to the taking, which took a second",
		File: "internal/keeper/keeper.go",
		Old:  "k.hold(t.Want, t.term, t.owner, t.sent)",
		New:  "k.hold(t.Want, t.term, t.owner, t.sent.Add(time.Second))",
	},
	{
		Name: "trust without margin",
		File: "internal/lease/lease.go",
		Old:  "sent.Add(lock - rounding - margin(lock))",
		New:  "sent.Add(lock)",
	},
	{
		Name: "a term that does not grow",
		File: "internal/simulator/table.go",
		Old:  "Term: store.NextTerm(name, l.Term, t.clock().UnixMilli())",
		New:  "Term: max(l.Term, 1)",
	},
	{
		Name: "a suspect does not wait for its neighbours",
		File: "internal/engine/apart.go",
		Old:  "d.awaitQuiet(ctx, nil)\n\tif !d.awaitPlace",
		New:  "if !d.awaitPlace",
	},
	{
		Name: "neighbours do not wait for a suspect",
		File: "internal/engine/apart.go",
		Old:  "d.workers.start(suspect.dueMillis, marked...)\n\td.awaitQuiet(ctx, suspect)",
		New:  "d.workers.start(suspect.dueMillis, marked...)",
	},
	{
		Name: "a lost job fails in one statement, and its reason is in the next",
		File: "internal/engine/settler.go",
		Old:  "st.why = first.log",
		New:  "_ = first",
	},
	{
		Name: "a suspect starts before the log says that its own last run was lost",
		File: "internal/engine/apart.go",
		Old:  "\td.awaitNoted(ctx)\n",
		New:  "",
	},
	{
		Name: "two suspects at a time",
		File: "internal/engine/apart.go",
		Old:  "place: make(chan struct{}, 1)",
		New:  "place: make(chan struct{}, 2)",
	},
	{
		Name: "a job that kills its process does so for ever",
		File: "internal/engine/held.go",
		Old:  "lostTooOften(&h.line.cfg, lost) && lost > t.Lost",
		New:  "false",
	},
	{
		Name: "a job has failed one loss too early",
		File: "internal/engine/outcome.go",
		Old:  "int(lost) >= cfg.LostLimit",
		New:  "int(lost) >= cfg.LostLimit-1",
	},
	{
		Name: "jobs start early",
		File: "internal/engine/workers.go",
		Old:  "w.early[0].dueMillis <= now {",
		New:  "w.early[0].dueMillis <= now+50 {",
	},
	{
		Name: "a retry is not counted",
		File: "internal/engine/outcome.go",
		Old:  "if v.retried = 1; hasWait {",
		New:  "if hasWait {",
	},
	{
		Name: "a deferred run counts in the next run",
		File: "internal/engine/statement.go",
		Old:  "again.Deferred += act.deferred",
		New:  "",
	},
	{
		Name: "hooks are told what was sent, not what was written",
		File: "internal/engine/statement.go",
		Old:  "if wanted && st.wrote(rows[o.ID]) && !others {",
		New:  "if _ = others; wanted {",
	},
	{
		Name: "hooks are not told of what an earlier sending has written",
		File: "internal/engine/statement.go",
		Old:  "if wanted && st.wrote(rows[o.ID]) && !others {",
		New:  "if _ = others; written > all {",
	},
	{
		Name: "a hook is told of cancellations by others",
		File: "internal/engine/statement.go",
		Old:  "others := st.status == queue_job.JobStatusCancelled ||",
		New:  "others :=",
	},
	{
		Name: "an interrupted run counts as failed",
		File: "internal/engine/outcome.go",
		Old:  "return interrupted(context.Cause(ended), err)",
		New:  "_ = ended",
	},
	{
		Name: "late commits below abandoned rows are passed over",
		File: "internal/simulator/table.go",
		Old:  "place.ID = old[len(old)-1].ID",
		New:  "place.ID = end",
	},
	{
		Name: "a job that still runs under a term that was given away is taken for lost",
		File: "internal/engine/held.go",
		Old:  "if h.line.runsElsewhere(&t.Row) {",
		New:  "if false {",
	},
	{
		Name: "what still runs elsewhere does not count against the capacity",
		File: "internal/engine/workers.go",
		Old:  "max(0, w.cfg.WorkerPoolCapacity-w.lent)",
		New:  "w.cfg.WorkerPoolCapacity",
	},
	{
		Name: "what still runs elsewhere does not count against the slots of its key",
		File: "internal/engine/turns.go",
		Old:  "most - running[key] - (here",
		New:  "most - 0*running[key] - (here",
	},
	{
		Name: "what remains of a lease frees its row",
		File: "internal/simulator/table.go",
		Old:  "t.leases[name] = Lease{Until: t.nowRounded() + lockSeconds, Since: t.now(), Owner: owner, Term: term, Running: running, Layout: layout}",
		New:  "t.leases[name] = Lease{Until: t.now(), Since: t.now(), Owner: owner, Term: term, Running: running, Layout: layout}",
	},
	{
		Name: "a lease is given away as if nothing ran under it",
		File: "internal/cluster/handover.go",
		Old:  "err = c.Keeper.Move(ctx, lease, restOf(lease), running, int64(s.retirement().until))",
		New:  "_, err = c.Keeper.Release(ctx, lease)",
	},
	{
		Name: "a lease goes to and fro",
		File: "internal/share/share.go",
		Old:  "return ofType >= 2 || ofType == 1 && n.all[from] >= n.all[to]+2",
		New:  "return ofType >= 2 || ofType == 1 && n.all[from] >= n.all[to]+1",
	},
	{
		Name: "an instance that is drained takes its part",
		File: "internal/share/names.go",
		Old:  "v.Present, v.Drained = stay, drained[v.Me]",
		New:  "v.Drained = drained[v.Me] && len(stay) == 0",
	},
	{
		Name: "the tail passes the first job of a dormant type by",
		File: "internal/find/tail.go",
		Old:  "\t\t\tf.Strays.Came(row.JobType)\n",
		New:  "",
	},
	{
		Name: "nobody looks for work of dormant types but at the start",
		File: "internal/cluster/dormancy.go",
		Old:  "if c.dormancy.first.Load() {",
		New:  "if false {",
	},
	{
		Name: "a layout opens before all leases of the one before are closed",
		File: "internal/share/layout.go",
		Old:  "open := len(c.Make)+len(c.Close)+len(c.GiveUp) == 0 && !othersHold",
		New:  "open := true || othersHold",
	},
	{
		Name: "a lease is taken whatever its layout",
		File: "internal/simulator/table.go",
		Old:  "if ok && l.Until <= t.now() && l.Layout == layout && ",
		New:  "if ok && l.Until <= t.now() && ",
	},
	{
		Name: "a look brings the rows of all shards, and the loader takes them",
		File: "internal/find/finder.go",
		Old:  "if list[i].Shard == shard {",
		New:  "if list[i].Shard == shard || len(list) == 1 {",
	},
	{
		Name: "a page brings the rows of all shards, and the loader takes them",
		File: "internal/find/loader.go",
		Old:  "return n > 1 && share.ShardOf(row.ID, row.Group(), n) != l.Shard",
		New:  "return n > share.MostShards && share.ShardOf(row.ID, row.Group(), n) != l.Shard",
	},
	{
		Name: "the parts of the shards are more than the whole",
		File: "internal/share/layout.go",
		Old:  "if shard < of%shards {",
		New:  "if of%shards > 0 {",
	},
	{
		Name: "each shard has the rate of the type",
		File: "internal/engine/line.go",
		Old:  "cfg.RatePerSecond /= float64(n)",
		New:  "",
	},
	{
		Name: "what runs under an earlier layout does not count against the capacity",
		File: "internal/engine/line.go",
		Old:  "max(0, l.whole-r.Earlier)",
		New:  "max(0, l.whole)",
	},
	{
		Name: "what earlier lines of this process run does not count",
		File: "internal/cluster/seat.go",
		Old:  "other.JobType == s.JobType && other != s && other.retired()",
		New:  "other.JobType == s.JobType && other.Layout < 0",
	},
	{
		Name: "what a line with an earlier configuration runs does not count",
		File: "internal/cluster/seat.go",
		Old:  "r.Running += other.Handlers()",
		New:  "_ = other",
	},
	{
		Name: "rows of a line with an earlier configuration are taken for the new line's",
		File: "internal/cluster/seat.go",
		Old:  "r.Members = append(r.Members, other.Member)",
		New:  "_ = append(r.Members, other.Member)",
	},
	{
		Name: "a type is divided anew, and its old lines keep their leases",
		File: "internal/cluster/reconcile.go",
		Old:  "if serving && !t.wanted.Swap(true) {",
		New:  "if false && !t.wanted.Swap(true) {",
	},
	{
		Name: "Stop does not wait",
		File: "internal/cluster/handover.go",
		Old:  "s.Bears(lease) && ground.Sleep(",
		New:  "false && ground.Sleep(",
	},
	{
		Name: "a handler's Goexit costs a worker",
		File: "internal/engine/run.go",
		Old:  "r.workers.vanished()",
		New:  "ground.Signal(l.wake)",
	},
	{
		Name: "a mark passes over that somebody changed the row",
		File: "internal/simulator/table.go",
		Old:  "j.Version() == read && ",
		New:  "j.Term == read.Term && j.Attempts == read.Attempts && ",
	},
	{
		Name: "abandoned rows are run",
		File: "internal/find/backlog.go",
		Old:  "return row.ID <= b.UpTo && row.DueSecond() < b.since.Load()",
		New:  "return false",
	},
	{
		Name: "the gaps of the tail and the sweep forget late commits",
		File: "internal/find/sweep.go",
		Old:  "\t\tin.sink.Offer(row)\n\t}\n\treturn full, len(rows) > 0, nil",
		New:  "\t\tif row.ID > newest {\n\t\t\tin.sink.Offer(row)\n\t\t}\n\t}\n\treturn full, len(rows) > 0, nil",
	},
	{
		Name: "a lease lost by the table's word is kept",
		File: "internal/keeper/keeper.go",
		Old:  "\t\t\t\tk.drop(l)\n\t\t\t\tl.end(ErrLost)",
		New:  "\t\t\t\tl.trustUntil(lease.TrustedUntil(sent, lock))\n\t\t\t\tl.renewAt = sent.Add(lease.RenewEvery(lock))",
	},
}

// Whoever changes a line that a mutant changes hears of it at once, and not when the mutants are run.
func TestEveryMutantFindsItsLine(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.GoTest("../..", "internal/simulator", t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

// Can the simulator fail? Each mutant is compiled and simulated until a world shows it. On two busy processors that
// takes an hour, so it is done on demand.
func TestTheSimulatorFindsKnownFailures(t *testing.T) {
	wanted := os.Getenv(mutantsVariable)
	if wanted == "" {
		t.Skipf("left out: it compiles %d times; set %s=1", len(mutants), mutantsVariable)
	}
	seeds := numberFrom(t, seedsVariable, mutantSeeds)
	for _, m := range mutants {
		if wanted != "1" && !strings.Contains(m.Name, wanted) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			began := time.Now()
			cmd, err := m.GoTest("../..", "internal/simulator", t.TempDir(), "-vet=off", "-run=^TestNothingIsLostAndNothingRunsTwiceWithoutCause$", ".")
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", seedsVariable, seeds))
			text, _ := cmd.CombinedOutput()
			out := string(text)
			switch seed, found := brokenSeed(out); {
			case strings.Contains(out, "[build failed]"):
				t.Fatal(out)
			case found:
				t.Logf("found by seed %d after %v: %s", seed, time.Since(began).Round(time.Second), firstAccusation(out))
			default:
				t.Errorf("survives %d seeds:\n%s", seeds, out)
			}
		})
	}
}

var accusation = regexp.MustCompile(`(?m)^ *(?:[a-z_]+\.go:\d+: )?seed (\d+): (.*)$`)

// brokenSeed returns the first seed that the output calls broken.
func brokenSeed(out string) (first int, found bool) {
	for _, m := range accusation.FindAllStringSubmatch(out, -1) {
		if seed, err := strconv.Atoi(m[1]); err == nil && (!found || seed < first) {
			first, found = seed, true
		}
	}
	return first, found
}

func firstAccusation(out string) string {
	what := ""
	for _, m := range accusation.FindAllStringSubmatch(out, -1) {
		if !strings.HasPrefix(m[2], "exit status") {
			return m[2]
		}
		what = m[2]
	}
	return what
}
