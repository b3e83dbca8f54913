package simulator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Table has the tables in memory: jobs, leases, attempts. Its methods do the same as the statements of package store,
// each in one step; the contracts are there. A test in tests/ sends the same statements to both and compares. One
// thing happens at a time: in a world, by the world's mutex.
type Table struct {
	*tables
	link  *link // by which statements come; nil: they take effect at once
	pulse bool  // lives are told through their own connection
}

// tables are what all tables of a world have in common.
type tables struct {
	alone    sync.Mutex // of statements that take effect at once
	clock    func() time.Time
	watch    func(change)
	nextID   uint64
	jobs     []*Job // by id, with uncommitted rows
	leases   map[string]Lease
	attempts map[attemptKey]store.Attempt
	steps    map[stepKey]store.Step
	paused   []int32         // types
	until    map[int32]int64 // when their pauses end, if they do
	limits   map[int32]store.Limits
	layouts  map[int32]int64
	rests    map[string]restRuns
	locked   func(lease string) bool                   // by others
	passing  func(ids []uint64) []uint64               // of these rows, those that are left if a statement leaves out locked ones
	lapsed   func(lease string, term int64)            // is told of each lease that is taken, and that nobody has freed
	freed    map[string]bool                           // by somebody; the others expire
	recorded func(*history, store.Step)                // is told of each step
	born     func(parent *Job, next *store.NewJob) Job // is told of each job that follows another one, and returns its row

	flows      []*flowRow
	bornMost   int                              // jobs that one transaction adds
	bornOf     func(*flowRow, *flowRowNode) Job // is told of each job of a flow that a count adds, and returns its row
	calledOff  func()                           // is told of each that it does not
	flowBecame func(f *flowRow, was int16)      // is told of each change of a flow's state
	refuses    func(*order) bool                // the database does not take a job
}

// Job is a row of async_job_tab.
type Job struct {
	store.Row          // Status and StartTime are 0 where the column is NULL
	NoStatus   bool    // job_status is NULL
	NoStart    bool    // start_time is NULL
	Due        float64 // start_time before it was rounded to whole seconds
	LongParams string
	Written    int64 // update_time, if a statement of the library has written the row
	Unique     bool  // unique_in is set

	committed bool
	history   *history // for the judge
}

// Lease is a row of shedlock_tab; times are unix seconds.
type Lease struct {
	Until, Since int64
	Owner        string
	Term         int64
	Running      int
	Layout       int64
}

type attemptKey struct {
	job     uint64
	attempt int
	term    int64
}

// change is what a statement did to one row.
type change struct {
	verb          verb
	term          int64 // the term in the statement
	before, after Job   // if the row is gone, after is empty
	retried       int32
	deferred      int32
	wait          float64
}

// NewTable returns empty tables. The clock is the database's.
func NewTable(clock func() time.Time) *Table {
	return &Table{tables: &tables{
		clock: clock, watch: func(change) {}, lapsed: func(string, int64) {},
		locked: func(string) bool { return false }, passing: func(ids []uint64) []uint64 { return ids },
		nextID: 1, freed: map[string]bool{}, leases: map[string]Lease{}, rests: map[string]restRuns{}, layouts: map[int32]int64{},
		attempts: map[attemptKey]store.Attempt{}, steps: map[stepKey]store.Step{}, recorded: func(*history, store.Step) {},
		born:     func(_ *Job, next *store.NewJob) Job { return newborn(clock().Unix(), next) },
		bornMost: 500,
		bornOf: func(_ *flowRow, n *flowRowNode) Job {
			row := newborn(clock().Unix(), &store.NewJob{JobType: n.order.row.JobType})
			row.Extra = &store.Extra{Node: n.id}
			return row
		},
		calledOff: func() {}, refuses: func(*order) bool { return false }, flowBecame: func(*flowRow, int16) {},
	}}
}

func (t *Table) now() int64 { return t.clock().Unix() }

func (t *Table) nowPrecise() float64 { return float64(t.clock().UnixMicro()) / 1e6 }

func (t *Table) nowRounded() int64 { return t.clock().Add(500 * time.Millisecond).Unix() }

func (j *Job) pending() bool {
	return j.NoStatus || j.Status == 0 || j.Status == 3 || j.Status == 4
}

func (j *Job) dueBy(moment int64) bool { return j.NoStart || j.StartTime <= moment }

// ours returns the pending rows that have the term and are at this attempt.
func (t *Table) ours(ids []uint64, term int64, attempt int32) (rows []*Job) {
	for _, j := range t.bearing(ids, term) {
		if j.Attempts == attempt {
			rows = append(rows, j)
		}
	}
	return rows
}

// bearing returns the pending rows that have the term.
func (t *Table) bearing(ids []uint64, term int64) (rows []*Job) {
	for _, id := range ids {
		if j := t.find(id); j != nil && j.Term == term && j.pending() {
			rows = append(rows, j)
		}
	}
	return rows
}

// find returns the committed row of an id, or nil.
func (t *Table) find(id uint64) *Job {
	if i, ok := t.search(id); ok && t.jobs[i].committed {
		return t.jobs[i]
	}
	return nil
}

// search returns where the row of an id is, or would be.
func (t *Table) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(t.jobs, id, func(j *Job, id uint64) int { return cmp.Compare(j.ID, id) })
}

// rowOf is the row of an id, committed or not. It must be there.
func (t *Table) rowOf(id uint64) *Job {
	i, _ := t.search(id)
	return t.jobs[i]
}

// write changes rows and tells the judge.
func (t *Table) write(rows []*Job, c change, set func(*Job)) int {
	for _, j := range rows {
		c.before = *j
		set(j)
		j.Written = t.now()
		if c.verb == setPriority || c.verb == unmarkJobs {
			j.Written = max(c.before.Written, j.Written)
		}
		c.after = *j
		t.watch(c)
	}
	return len(rows)
}

func (t *Table) Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (int, error) {
	return do(ctx, t, markJobs, about{ids: ids, term: term}, func() (int, error) {
		if t.clock().UnixMilli() > deadline {
			return 0, nil
		}
		var rows []*Job
		for _, id := range t.passing(ids) {
			if j := t.find(id); j != nil && j.Version() == read && j.Term < term && j.CreateTime <= createdBy && j.pending() {
				rows = append(rows, j)
			}
		}
		return t.write(rows, change{verb: markJobs, term: term}, func(j *Job) {
			if j.Term != 0 {
				j.Lost++
			}
			j.Term = term
			j.Attempts++
		}), nil
	})
}

func (t *Table) MarkedRows(ctx context.Context, ids []uint64, term int64) ([]store.Marked, error) {
	return do(ctx, t, readMarked, about{ids: ids, term: term}, func() (marked []store.Marked, err error) {
		for _, j := range t.bearing(ids, term) {
			marked = append(marked, store.Marked{ID: j.ID, Attempts: j.Attempts, Lost: j.Lost})
		}
		return marked, nil
	})
}

// Unlocked returns the rows that are there: nobody locks a row of this table.
func (t *Table) Unlocked(ctx context.Context, ids []uint64) ([]uint64, error) {
	return do(ctx, t, seeUnlocked, about{ids: ids}, func() (there []uint64, err error) {
		for _, id := range t.passing(ids) {
			if t.find(id) != nil {
				there = append(there, id)
			}
		}
		return there, nil
	})
}

func (t *Table) LongParams(ctx context.Context, ids []uint64, term int64) ([]store.RunParams, error) {
	return do(ctx, t, readLong, about{ids: ids, term: term}, func() (params []store.RunParams, err error) {
		for _, j := range t.bearing(ids, term) {
			whole := j.Params
			if j.HasLong() {
				whole = j.LongParams
			}
			params = append(params, store.RunParams{ID: j.ID, Attempts: j.Attempts, Params: whole})
		}
		return params, nil
	})
}

func (t *Table) Settle(ctx context.Context, ids []uint64, o store.Outcome) (int, error) {
	verb, what := putBack, about{ids: ids}
	switch o := o.(type) {
	case store.NotStarted:
		verb, what.term = unmarkJobs, o.Marked.Term
	case store.Final:
		verb, what.term, what.note = finish, o.Term, statusName(o.Status)
	case store.Followed:
		verb, what.term, what.note = finish, o.Term, statusName(o.Status)
	case store.Again:
		what.term, what.note = o.Term, statusName(o.Status)
	case store.Died:
		verb, what.term, what.logs = failLost, o.Term, o.Why != nil
	}
	return do(ctx, t, verb, what, func() (int, error) { return t.settle(ids, o), nil })
}

func (t *Table) settle(ids []uint64, o store.Outcome) int {
	switch o := o.(type) {
	case store.NotStarted:
		rows := slices.DeleteFunc(t.ours(ids, o.Marked.Term, o.Marked.Attempts), func(j *Job) bool { return j.Changes != o.Marked.Changes })
		return t.write(rows, change{verb: unmarkJobs, term: o.Marked.Term}, func(j *Job) {
			j.Term = 0
			j.Attempts--
			j.Changes++
			if now := t.now(); j.StartTime > now+60 { // it was due by a clock that was ahead
				j.StartTime, j.Due = now, float64(now)
			}
		})
	case store.Final:
		return t.write(t.ours(ids, o.Term, o.Attempt), change{verb: finish, term: o.Term}, func(j *Job) { j.setStatus(o.Status) })
	case store.Followed:
		return t.settleFollowed(ids, o)
	case store.Again:
		due := t.nowPrecise() + o.Wait
		put := change{verb: putBack, term: o.Term, retried: o.Retried, deferred: o.Deferred, wait: o.Wait}
		return t.write(t.ours(ids, o.Term, o.Attempt), put, func(j *Job) {
			j.setStatus(o.Status)
			j.StartTime, j.NoStart, j.Due = int64(math.Ceil(due)), false, due
			if o.Awaits && j.Changes != o.Changes {
				j.StartTime, j.Due = t.now(), float64(t.now())
			}
			j.Retries += o.Retried
			j.Deferred += o.Deferred
			j.Term = 0
		})
	case store.Died:
		var rows []*Job
		for _, id := range ids {
			if j := t.find(id); j != nil && j.Term == o.Read.Term && j.Term != 0 && j.Term < o.Term && j.Attempts == o.Read.Attempts &&
				j.Lost >= o.LostBefore && j.pending() {
				rows = append(rows, j)
			}
		}
		if o.Why != nil && len(rows) > 0 {
			t.log(*o.Why)
		}
		return t.write(rows, change{verb: failLost, term: o.Term}, func(j *Job) {
			j.Lost++
			j.Term = o.Term
			j.setStatus(2)
		})
	}
	panic("an outcome that the table does not know")
}

func (j *Job) setStatus(status int32) { j.Status, j.NoStatus = int16(status), false }

func (t *Table) LogAttempts(ctx context.Context, attempts []store.Attempt) error {
	return carryOut(ctx, t, logAttempts, about{ids: []uint64{attempts[0].JobID}}, func() error {
		for _, a := range attempts {
			t.log(a)
		}
		return nil
	})
}

func (t *Table) log(a store.Attempt) {
	key := attemptKey{a.JobID, a.Attempt, a.Term}
	if _, ok := t.attempts[key]; !ok {
		t.attempts[key] = a
	}
}

func (t *Table) Standings(ctx context.Context, ids []uint64) ([]store.Standing, error) {
	return do(ctx, t, readStandings, about{ids: ids}, func() ([]store.Standing, error) { return t.standings(ids), nil })
}

func (t *Table) standings(ids []uint64) (rows []store.Standing) {
	for _, id := range ids {
		if j := t.find(id); j != nil {
			rows = append(rows, store.Standing{ID: id, Status: int32(j.Status), Version: j.Version()})
		}
	}
	return rows
}

func (t *Table) Paused(ctx context.Context) ([]int32, error) {
	return do(ctx, t, readPaused, about{}, func() ([]int32, error) {
		return slices.Clone(t.paused), nil
	})
}

func (t *Table) EndPauses(ctx context.Context, types []int32) (int, error) {
	return do(ctx, t, endPauses, about{types: types}, func() (ended int, err error) {
		for _, jobType := range t.over() {
			if slices.Contains(types, jobType) {
				t.resume(jobType)
				ended++
			}
		}
		return ended, nil
	})
}

// WrittenAhead looks for rows that were put off while the clock was ahead. All waits are short here, so it need not tell a retry from
// a row that somebody has given another time.
func (t *Table) WrittenAhead(ctx context.Context, types []int32, own int64, limit int) ([]uint64, error) {
	return do(ctx, t, findAhead, about{}, func() (ids []uint64, err error) {
		for _, j := range t.jobs {
			if len(ids) < limit && slices.Contains(types, j.JobType) && t.writtenAhead(j, own) {
				ids = append(ids, j.ID)
			}
		}
		return ids, nil
	})
}

// MendFlowsAhead mends nothing: there are no flows here.
func (t *Table) MendFlowsAhead(context.Context) (int, error) { return 0, nil }

func (t *Table) MendAhead(ctx context.Context, ids []uint64, own int64) (int, error) {
	return do(ctx, t, mendAhead, about{ids: ids}, func() (int, error) {
		var rows []*Job
		for _, id := range ids {
			if j := t.find(id); j != nil && t.writtenAhead(j, own) {
				rows = append(rows, j)
			}
		}
		return t.write(rows, change{verb: mendAhead}, func(j *Job) {
			back := j.Written - t.now()
			j.StartTime -= back
			j.Due -= float64(back)
			if j.Term == 0 {
				j.Changes++
			}
		}), nil
	})
}

func (t *Table) writtenAhead(j *Job, own int64) bool {
	const least = 2
	return j.committed && j.pending() && j.StartTime > t.now()+least && j.Written > max(t.now(), own)+least && j.StartTime+60 >= j.Written &&
		(j.Attempts > 0 && j.Term == 0 || (j.Attempts > 0 || j.Changes > 0) && j.StartTime <= j.Written+1)
}

// over are the types whose pause is over.
func (t *Table) over() (types []int32) {
	for _, jobType := range t.paused {
		if until := t.until[jobType]; until > 0 && until <= t.now() {
			types = append(types, jobType)
		}
	}
	return types
}

func (t *Table) Newest(ctx context.Context) (id uint64, now float64, err error) {
	err = carryOut(ctx, t, newest, about{}, func() error {
		for i := len(t.jobs) - 1; i >= 0 && id == 0; i-- {
			if t.jobs[i].committed {
				id = t.jobs[i].ID
			}
		}
		now = t.nowPrecise()
		return nil
	})
	return id, now, err
}

func (t *Table) Tail(ctx context.Context, from uint64, gaps []store.Gap, wanted []store.Wanted, horizon int64, limit int) ([]store.TailRow, error) {
	return do(ctx, t, tailJobs, about{}, func() ([]store.TailRow, error) {
		rows := []store.TailRow{}
		pass := func(from, to uint64) {
			for i, _ := t.search(from); i < len(t.jobs) && t.jobs[i].ID <= to && len(rows) < limit; i++ {
				j := t.jobs[i]
				if !j.committed {
					continue
				}
				if len(wanted) == 0 {
					rows = append(rows, store.TailRow{Row: store.Row{ID: j.ID, JobType: j.JobType, Key: j.Group(), CreateTime: j.CreateTime}})
					continue
				}
				row := store.TailRow{Row: j.Row, Whole: j.wanted(wanted) && j.pending() && j.dueBy(t.now()+horizon)}
				if !row.Whole {
					row.Params = ""
				}
				rows = append(rows, row)
			}
		}
		for _, gap := range gaps {
			if from > 0 {
				pass(gap.From, min(gap.To, from-1)) // the last call has the rest
			}
		}
		pass(from, math.MaxUint64)
		return rows, nil
	})
}

func (j *Job) wanted(wanted []store.Wanted) bool {
	return slices.ContainsFunc(wanted, func(w store.Wanted) bool {
		return slices.Contains(w.Types, j.JobType) && (j.Priority >= w.From || w.From == lowest)
	})
}

func (t *Table) SweepAll(ctx context.Context, types []int32, horizon int64, limit int) (rows []store.Row, more bool, err error) {
	err = carryOut(ctx, t, sweepJobs, about{}, func() error {
		count := map[[2]bool]int{}
		for _, j := range t.jobs {
			kind := [2]bool{j.NoStatus, j.NoStart}
			if !j.committed || !j.pending() || !slices.Contains(types, j.JobType) || !slices.Contains(store.Priorities, j.Priority) ||
				!j.dueBy(t.now()+horizon) || count[kind] == limit {
				continue
			}
			count[kind]++
			more = more || count[kind] == limit
			rows = append(rows, j.Row)
		}
		return nil
	})
	return rows, more, err
}

func (t *Table) Page(ctx context.Context, jobType int32, shard store.Shard, places []store.Place, horizon int64, limit int) ([][]store.Row, error) {
	return do(ctx, t, pageJobs, about{note: leaseName(jobType)}, func() ([][]store.Row, error) {
		pages := make([][]store.Row, len(places))
		for i, place := range places {
			lane := t.lane(jobType, place.Lane, func(j *Job) bool {
				if shard.Of > 1 && j.Group() == "" && share.ShardOf(j.ID, "", shard.Of) != shard.Number {
					return false // of rows with a group, not every database can tell
				}
				if place.Start != store.AtATime {
					return j.ID > place.ID
				}
				return j.StartTime <= t.now()+horizon && (j.StartTime > place.StartTime || j.StartTime == place.StartTime && j.ID > place.ID)
			})
			for _, j := range lane[:min(limit, len(lane))] {
				pages[i] = append(pages[i], j.Row)
			}
		}
		return pages, nil
	})
}

const mostUrgent, lowest = 2, -1

func (t *Table) ClampPriorities(ctx context.Context, types []int32) error {
	return carryOut(ctx, t, clampPriorities, about{note: leaseName(types[0])}, func() error {
		for _, j := range t.jobs {
			if j.committed && j.pending() && slices.Contains(types, j.JobType) {
				j.Priority = min(max(lowest, j.Priority), mostUrgent)
			}
		}
		return nil
	})
}

func (t *Table) FirstOfKeys(ctx context.Context, jobType int32, keys []string, from uint64, before int64, upTo uint64) (map[string]uint64, error) {
	return do(ctx, t, firstOfKeys, about{note: leaseName(jobType), keys: keys}, func() (map[string]uint64, error) {
		return t.firstOfKeys(jobType, keys, from, before, upTo), nil
	})
}

func (t *Table) firstOfKeys(jobType int32, keys []string, from uint64, before int64, upTo uint64) map[string]uint64 {
	firsts := map[string]uint64{}
	for _, j := range t.jobs {
		due := j.StartTime
		if due == 0 {
			due = j.CreateTime
		}
		leftAlone := j.ID <= upTo && due < before
		if _, found := firsts[j.Group()]; !found && !leftAlone && j.ID >= from && j.committed && j.pending() && j.JobType == jobType && j.Group() != "" &&
			slices.Contains(keys, j.Group()) {
			firsts[j.Group()] = j.ID
		}
	}
	return firsts
}

func (t *Table) RunningOfKeys(ctx context.Context, jobType int32, keys []string, terms []int64) (map[string]int, error) {
	return do(ctx, t, runningOfKeys, about{note: leaseName(jobType)}, func() (map[string]int, error) {
		running := map[string]int{}
		for _, j := range t.jobs {
			if j.committed && j.pending() && j.JobType == jobType && j.Group() != "" && slices.Contains(keys, j.Group()) && slices.Contains(terms, j.Term) {
				running[j.Group()]++
			}
		}
		return running, nil
	})
}

// lane returns the rows of a lane in its order.
func (t *Table) lane(jobType int32, lane store.Lane, where func(*Job) bool) (rows []*Job) {
	for _, j := range t.jobs {
		status := int32(j.Status) == lane.Status
		if j.NoStatus || lane.Status == store.NoStatus {
			status = j.NoStatus && lane.Status == store.NoStatus
		}
		if j.committed && j.JobType == jobType && j.Priority == lane.Priority && status && startOf(j) == lane.Start && where(j) {
			rows = append(rows, j)
		}
	}
	slices.SortStableFunc(rows, func(a, b *Job) int { return cmp.Compare(a.StartTime, b.StartTime) })
	return rows
}

func startOf(j *Job) store.Start {
	switch {
	case j.NoStart:
		return store.Unset
	case j.StartTime == 0:
		return store.AtOnce
	}
	return store.AtATime
}

func (t *Table) Abandoned(ctx context.Context, jobType int32, lane store.Lane, before int64, upTo uint64) (place store.Place, n int, err error) {
	err = carryOut(ctx, t, countOld, about{note: leaseName(jobType)}, func() error {
		if lane.Start == store.AtATime {
			old := t.lane(jobType, lane, func(j *Job) bool { return j.StartTime < before && j.ID <= upTo })
			place, n = store.Place{Lane: lane, StartTime: before - 1, ID: 1<<63 - 1}, len(old)
			return nil
		}
		end := upTo
		if young := t.lane(jobType, lane, func(j *Job) bool { return j.CreateTime >= before }); len(young) > 0 {
			end = min(young[0].ID-1, upTo)
		}
		old := t.lane(jobType, lane, func(j *Job) bool { return j.ID <= end })
		if place, n = (store.Place{Lane: lane}), len(old); n > 0 {
			place.ID = old[len(old)-1].ID
		}
		return nil
	})
	return place, n, err
}

func (t *Table) SeeLeases(ctx context.Context, names []string) ([]store.Seen, error) {
	return do(ctx, t, seeLeases, ofLeases(names...), func() (seen []store.Seen, err error) {
		for _, name := range names {
			if l, ok := t.leases[name]; ok {
				seen = append(seen, store.Seen{Name: name, Free: l.Until <= t.now(), Owner: l.Owner, Term: l.Term, Running: l.Running,
					Left: float64(l.Until - t.now()), Until: l.Until * 1e6})
			}
		}
		return seen, nil
	})
}

func (t *Table) MakeLeases(ctx context.Context, names []string) error {
	return carryOut(ctx, t, makeLeases, ofLeases(names...), func() error {
		for _, name := range names {
			if _, ok := t.leases[name]; !ok {
				t.leases[name] = Lease{Until: t.now(), Since: t.now(), Layout: 1}
			}
		}
		return nil
	})
}

func (t *Table) TakeLeases(ctx context.Context, names []string, owner string, layout, lockSeconds int64, broken bool) (map[string]int64, error) {
	return do(ctx, t, takeLeases, about{note: joined(names), leases: names, layout: layout}, func() (map[string]int64, error) {
		terms := map[string]int64{}
		for _, name := range names {
			l, ok := t.leases[name]
			if ok && l.Until <= t.now() && l.Layout == layout && (l.Running == store.Broken) == broken && !t.locked(name) {
				if !t.freed[name] {
					t.lapsed(name, l.Term)
				}
				delete(t.freed, name)
				l = Lease{Until: t.nowRounded() + lockSeconds, Since: t.now(), Owner: owner, Term: store.NextTerm(name, l.Term, t.clock().UnixMilli()),
					Layout: l.Layout}
				t.leases[name] = l
			}
			if ok && l.Owner == owner && l.Until > t.now() {
				terms[name] = l.Term
			}
		}
		return terms, nil
	})
}

func (t *Table) KeepLeases(ctx context.Context, names, owners []string, lockSeconds int64, running map[string]int) (map[string]time.Duration, error) {
	return do(ctx, t, keepLeases, ofLeases(names...), func() (kept map[string]time.Duration, err error) {
		kept = map[string]time.Duration{}
		for _, name := range names {
			l, ok := t.leases[name]
			switch {
			case !ok || !slices.Contains(owners, l.Owner) || l.Until <= t.now():
			case t.locked(name):
				kept[name] = max(0, time.Duration((t.nowPrecise()-float64(l.Until-lockSeconds))*float64(time.Second)))
			default:
				l.Until = t.nowRounded() + lockSeconds
				if n, changed := running[name]; changed {
					l.Running = n
				}
				t.leases[name] = l
				kept[name] = 0
			}
		}
		return kept, nil
	})
}

func (t *Table) AbandonLeases(ctx context.Context, names []string, owner string) error {
	return carryOut(ctx, t, abandonLeases, ofLeases(names...), func() error {
		for _, name := range names { // the statement has waited for their locks
			t.release(name, owner, 0)
		}
		return nil
	})
}

func (t *Table) ReleaseLease(ctx context.Context, name, owner string, atLeast time.Duration) (bool, error) {
	return do(ctx, t, releaseLease, ofLeases(name), func() (bool, error) { return t.release(name, owner, atLeast) })
}

func (t *Table) release(name, owner string, atLeast time.Duration) (ours bool, err error) {
	l, ok := t.leases[name]
	if !ok || l.Owner != owner {
		return false, nil
	}
	if t.locked(name) && l.Until > t.now() {
		return true, store.ErrLocked
	}
	l.Until = t.now()
	if atLeast > 0 {
		l.Until = max(l.Until, min(l.Until, l.Since)+int64(atLeast/time.Second)+1)
	}
	t.leases[name], t.freed[name] = l, true
	return true, nil
}

func (t *Table) Fleet(ctx context.Context, prefixes []string) (store.Fleet, error) {
	return do(ctx, t, lookAtFleet, about{}, func() (store.Fleet, error) { return t.fleet(t.shownTo(prefixes)), nil })
}

func (t *Table) fleet(prefixes []string) (f store.Fleet) {
	for _, name := range slices.Sorted(maps.Keys(t.leases)) {
		l := t.leases[name]
		free := l.Until <= t.now()
		if strings.HasPrefix(name, prefixes[0]) || !free && hasPrefix(name, prefixes[1:]) {
			f.Leases = append(f.Leases, store.Seen{Name: name, Free: free, Owner: l.Owner, Term: l.Term, Running: l.Running, Layout: l.Layout,
				Left: float64(l.Until) - t.nowPrecise(), Until: l.Until * 1e6})
		}
	}
	f.Layouts, f.Paused, f.Now = maps.Clone(t.layouts), slices.Clone(t.paused), t.nowPrecise()
	f.Over, f.Limits = t.over(), maps.Clone(t.limits)
	return f
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (t *Table) MoveLease(ctx context.Context, name, owner string, term, layout, lockSeconds int64, running int) error {
	return carryOut(ctx, t, moveLease, ofLeases(name), func() error {
		l, ok := t.leases[name]
		if !ok || l.Owner != "" && l.Owner != owner {
			return fmt.Errorf("%s is not this process's", name)
		}
		t.leases[name] = Lease{Until: t.nowRounded() + lockSeconds, Since: t.now(), Owner: owner, Term: term, Running: running, Layout: layout}
		return nil
	})
}

func (t *Table) NoteRunning(ctx context.Context, name, owner string, lockSeconds int64, running int) error {
	return carryOut(ctx, t, noteRunning, ofLeases(name), func() error {
		if l, ok := t.leases[name]; ok && l.Owner == owner && l.Until > t.now() {
			l.Running, l.Until = running, t.nowRounded()+lockSeconds
			t.leases[name] = l
		}
		return nil
	})
}

func (t *Table) DropLease(ctx context.Context, name, owner string) error {
	return carryOut(ctx, t, dropLease, ofLeases(name), func() error {
		if t.leases[name].Owner == owner {
			delete(t.leases, name)
		}
		return nil
	})
}

func (t *Table) EndedLeases(ctx context.Context, prefixes []string) ([]string, error) {
	return do(ctx, t, seeEnded, about{}, func() (names []string, err error) {
		for _, name := range slices.Sorted(maps.Keys(t.leases)) {
			if t.leases[name].Until <= t.now() && hasPrefix(name, prefixes) {
				names = append(names, name)
			}
		}
		return names, nil
	})
}

func (t *Table) DropEnded(ctx context.Context, names []string) error {
	return carryOut(ctx, t, dropEnded, ofLeases(names...), func() error {
		for _, name := range names {
			if l, ok := t.leases[name]; ok && l.Until <= t.now() {
				delete(t.leases, name)
			}
		}
		return nil
	})
}

// Transaction is a transaction of business code, or of somebody at a prompt. Its rows have their ids at once; others
// see them when it commits.
type Transaction struct {
	table *Table
	rows  []*Job
}

func (t *Table) Begin() *Transaction { return &Transaction{table: t} }

// Insert adds a row. The table gives it its id.
func (x *Transaction) Insert(j Job) (id uint64) {
	t := x.table
	j.ID, j.Due, j.committed = t.nextID, float64(j.StartTime), false
	t.nextID++
	t.jobs = append(t.jobs, &j)
	x.rows = append(x.rows, &j)
	return j.ID
}

func (x *Transaction) Commit() {
	x.table.write(x.rows, change{verb: commit}, func(j *Job) { j.committed = true })
	x.rows = nil
}

// Rollback takes the rows back; their ids are not used again.
func (x *Transaction) Rollback() {
	t := x.table
	t.jobs = slices.DeleteFunc(t.jobs, func(j *Job) bool { return slices.Contains(x.rows, j) })
	x.rows = nil
}

// SkipIDs leaves a gap in the ids, as failed INSERTs do, or a change of AUTO_INCREMENT by hand.
func (t *Table) SkipIDs(n uint64) {
	t.nextID += n
}

// Reschedule gives a pending row that is not marked another time, as queue_job does.
func (t *Table) Reschedule(id uint64, start int64) {
	if j := t.find(id); j != nil && j.pending() && j.Term == 0 {
		t.write([]*Job{j}, change{verb: reschedule}, func(j *Job) {
			start := max(start, t.now())
			j.StartTime, j.NoStart, j.Due = start, false, float64(start)
			j.Changes++
		})
	}
}

// Change changes a row by hand, if it is there.
func (t *Table) Change(id uint64, set func(*Job)) {
	if j := t.find(id); j != nil {
		t.write([]*Job{j}, change{verb: byHand}, set)
	}
}

// Delete deletes a row, if it is there.
func (t *Table) Delete(id uint64) {
	if j := t.find(id); j != nil {
		t.remove(j)
	}
}

func (t *Table) remove(j *Job) {
	i, _ := t.search(j.ID)
	t.jobs = slices.Delete(t.jobs, i, i+1)
	t.watch(change{verb: byHand, before: *j})
}

// Truncate deletes every row and lets the ids begin anew. It waits for open transactions: while there are any, it does
// nothing and returns false.
func (t *Table) Truncate() (done bool) {
	if slices.ContainsFunc(t.jobs, func(j *Job) bool { return !j.committed }) {
		return false
	}
	for len(t.jobs) > 0 {
		t.remove(t.jobs[len(t.jobs)-1])
	}
	t.nextID = 1
	return true
}

// Jobs returns the committed rows in the order of their ids.
func (t *Table) Jobs() (jobs []Job) {
	for _, j := range t.jobs {
		if j.committed {
			jobs = append(jobs, *j)
		}
	}
	return jobs
}

// Lease returns the row of a lease; ok is false if there is none.
func (t *Table) Lease(name string) (l Lease, ok bool) {
	t.alone.Lock()
	defer t.alone.Unlock()
	l, ok = t.leases[name]
	return l, ok
}

// SetLease writes a lease's row by hand, DeleteLease deletes it.
func (t *Table) SetLease(name string, l Lease) {
	t.leases[name] = l
}

func (t *Table) DeleteLease(name string) {
	delete(t.leases, name)
}

// Attempts returns how many runs of a job are in the log.
func (t *Table) Attempts(job uint64) (n int) {
	for key := range t.attempts {
		if key.job == job {
			n++
		}
	}
	return n
}
