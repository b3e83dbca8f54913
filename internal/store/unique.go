package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Whether a job may be there beside another one with its key is decided by the unique index over job_key and unique_in, in the statement that
// adds the job or makes it run again. unique_in is the job's type; NULL: the key need not be unique.
//
//	done, and unique ── a new job takes the key ──► done, unique_in is NULL, and the row remembers that (keyTaken)
//	       ▲                                          │
//	       └── pending, and unique ◄── Retry ─────────┤ nobody has the key
//	                                                  └ another row has it: this one stays as it is
//
// If the new job says so, it takes the key from a row in flight as well. That row goes on, and runs again without its key if it has to.

// AddUnlessThere inserts one row whose key is unique, and returns its id. If a row of the type has the key as its
// unique key already, it inserts nothing and returns the id of that row. If the job says so, a final row, or one that waits no more, is not in
// the way: AddUnlessThere takes the uniqueness from it. If another transaction is about to commit a row with the key,
// AddUnlessThere waits for the end of that transaction. For the database it is no error that the row is there, so the
// caller's transaction goes on. Sent again, it returns the id of the row that the first sending added.
//
// On MySQL and MariaDB, several callers that add a key which was just taken from its row may end in a deadlock. It seems
// that each locks the index entry that is not purged yet, and the INSERTs of the others wait for that lock. If each
// statement is known to be a transaction of its own, a deadlock undoes the statement alone, and AddUnlessThere repeats
// it. In a transaction of the caller, the caller has to repeat everything.
func (s *Store) AddUnlessThere(ctx context.Context, job *NewJob, created int64) (id uint64, there bool, err error) {
	err = s.InSpiteOfDeadlocks(func() (err error) {
		id, there, err = s.addUnlessThere(ctx, job, created)
		return err
	})
	return id, there, err
}

func (s *Store) addUnlessThere(ctx context.Context, job *NewJob, created int64) (id uint64, there bool, err error) {
	if job.Takes != TakesNone {
		// This read locks nothing. With a locking read, two callers would both lock the index entry of the key, and then
		// neither could take the uniqueness. The read may be out of date; what follows does not rely on it.
		if err := s.freeKey(ctx, job); err != nil {
			return 0, false, err
		}
	}
	const tries = 5 // the row in the way may go between two statements
	for range tries {
		id, there, err := s.insertJob(ctx, s.InsertNew, s.UnlessThere, job, created)
		if err != nil || !there {
			return id, false, err
		}
		found, err := s.ownerOfKey(ctx, job, s.lockOwners(job.Takes))
		switch {
		case err != nil:
			return 0, false, err
		case len(found) == 0:
		case !found[0].givesTo(job):
			return found[0].id, true, nil
		default:
			if err := s.takeKeys(ctx, job.Takes, found[0].id); err != nil {
				return 0, false, err
			}
		}
	}
	// Something else than the key keeps the row out. An INSERT that ignores nothing returns the error.
	id, err = s.AddJob(ctx, job, created)
	return id, false, err
}

// freeKey takes the uniqueness of the job's key from the row that has it, if that row is not in the way.
func (s *Store) freeKey(ctx context.Context, job *NewJob) error {
	found, err := s.ownerOfKey(ctx, job, "")
	if err != nil || len(found) == 0 || !found[0].givesTo(job) {
		return err
	}
	return s.takeKeys(ctx, job.Takes, found[0].id)
}

// Takes says from which rows a new job takes a unique key.
type Takes int8

const (
	TakesNone    Takes = iota
	TakesFinal         // from a row that is done, failed or cancelled
	TakesStarted       // from a row that waits no more: it is in flight, or final
)

// keyOwner is the row that has a key as its unique key.
type keyOwner struct {
	id uint64
	at Takes // whoever takes at least so much may have its key; TakesNone: it waits
}

// ownerAt is a keyOwner's at.
var ownerAt = fmt.Sprintf("CASE WHEN %s THEN %d WHEN %s THEN %d ELSE %d END", waiting, TakesNone, pending, TakesStarted, TakesFinal)

func (o *keyOwner) givesTo(job *NewJob) bool { return o.at != TakesNone && job.Takes >= o.at }

// ownerOfKey finds the row that has the job's key as its unique key; none: no row has it. A locking read sees what is
// committed, even if the transaction's own snapshot of the table is older.
func (s *Store) ownerOfKey(ctx context.Context, job *NewJob, locking string) ([]keyOwner, error) {
	args := s.Arguments()
	found, err := conn.Read(ctx, s, conn.Each(func(b *keyOwner) []any { return []any{&b.id, &b.at} }),
		s.FromPrimary(fmt.Sprintf("SELECT id, %s AS stage FROM %s %s WHERE job_key = %s AND unique_in = %s%s",
			ownerAt, s.Tables.Jobs, s.ByKey, args.Value(job.Key), args.Value(job.JobType), locking)), args.List...)
	return found, conn.Wrap("find the job of the key", err)
}

// keyTaken is added to a row's changes when the uniqueness of its key is taken from it: so the row remembers that it is to have it
// again if it runs again. No row is changed as often as that.
//
// It stands in changes because earlier versions take and retry rows, too. They neither see it nor lose it: where they retry the row, it
// runs without its key, as it did before.
const KeyTaken = 1 << 30

// The words of statements for that. A row whose key is back counts one more change than before it was taken, so its version is a new one.
var (
	IsUnique = fmt.Sprintf("(unique_in IS NOT NULL OR changes >= %d)", KeyTaken)
	// In sessions with sql_mode ORACLE, there is no %.
	ownChanges  = fmt.Sprintf("CASE WHEN changes >= %d THEN changes - %[1]d ELSE changes END", KeyTaken)
	withoutKey  = fmt.Sprintf("unique_in = NULL, changes = %s + %d", ownChanges, KeyTaken)
	withKeyBack = fmt.Sprintf("unique_in = CASE WHEN changes >= %d THEN job_type ELSE unique_in END", KeyTaken)
)

// lockOwners is the end of a SELECT of keyOwners. A job that takes keys from started rows stands for what the caller's transaction changes: the row
// that waits must not start before the commit, or its run would not see that.
func (s *Store) lockOwners(takes Takes) string {
	if takes == TakesStarted {
		return s.HoldingRead
	}
	return s.LockingRead
}

// takeKeys takes the uniqueness of their keys from final rows, or from rows that wait no more, which remember it. A row keeps it if another
// caller took it, or the row is gone or pending again, or waits again.
func (s *Store) takeKeys(ctx context.Context, takes Takes, ids ...uint64) error {
	args, inTheWay := s.Arguments(), pending
	if takes == TakesStarted {
		inTheWay = "(" + waiting + ")"
	}
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("UPDATE %s %s SET %s WHERE %s AND unique_in IS NOT NULL AND NOT %s", s.Tables.Jobs, s.ByPrimary, withoutKey, args.In(ids), inTheWay),
		args.List...)
	return conn.Wrap("take the key from another job", err)
}

// AddedJob is what has become of a row that may have been there.
type AddedJob struct {
	ID    uint64
	There bool // another row has the key, and this is its id
}

// AddJobsUnlessThere is [Store.AddUnlessThere] for many rows, no two of which have one type and key, in the order of the rows. It
// sends up to five statements for each thousand rows or megabyte; if they are of several types, up to twenty. It sends a few more for each
// row whose key another caller takes or lets go at the same moment. After an error, the result has the rows at the beginning for which it
// is known.
func (s *Store) AddJobsUnlessThere(ctx context.Context, jobs []NewJob, created int64) (added []AddedJob, err error) {
	for len(jobs) > 0 {
		some := jobs[:statementRows(jobs)]
		jobs = jobs[len(some):]
		more, err := s.addSomeUnlessThere(ctx, some, created)
		added = append(added, more...)
		if err != nil {
			return added, err
		}
	}
	return added, nil
}

func (s *Store) addSomeUnlessThere(ctx context.Context, jobs []NewJob, created int64) (added []AddedJob, err error) {
	if err := s.freeKeys(ctx, jobs); err != nil {
		return nil, err
	}
	var ids []uint64
	var ours ours
	err = s.InSpiteOfDeadlocks(func() error {
		return s.onOneSession(ctx, func(one *Store) (err error) {
			ids, ours, err = one.addManyNew(ctx, jobs, created)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		added = append(added, AddedJob{ID: id})
	}
	if ids != nil {
		return added, nil
	}
	takes := slices.MaxFunc(jobs, func(a, b NewJob) int { return cmp.Compare(a.Takes, b.Takes) }).Takes
	owners, err := s.ownersOfKeys(ctx, jobs, s.lockOwners(takes))
	if err != nil {
		return nil, err
	}
	bearing := make([]uint64, len(jobs))
	for i := range jobs {
		bearing[i] = owners[uniqueKeyOf(&jobs[i])].id
	}
	inserted := ours(bearing)
	for i := range jobs {
		job := &jobs[i]
		one, owner := AddedJob{ID: bearing[i], There: !inserted[i]}, owners[uniqueKeyOf(job)]
		if one.There && (one.ID == 0 || owner.givesTo(job)) {
			one.ID, one.There, err = s.AddUnlessThere(ctx, job, created)
		}
		if err != nil {
			return added, err
		}
		added = append(added, one)
	}
	return added, nil
}

// freeKeys takes the uniqueness of the jobs' keys from rows that are not in their way.
func (s *Store) freeKeys(ctx context.Context, jobs []NewJob) error {
	for _, takes := range []Takes{TakesFinal, TakesStarted} {
		theirs := slices.DeleteFunc(slices.Clone(jobs), func(job NewJob) bool { return job.Takes != takes })
		if len(theirs) == 0 {
			continue
		}
		owners, err := s.ownersOfKeys(ctx, theirs, "")
		var free []uint64
		for _, o := range owners {
			if o.givesTo(&theirs[0]) {
				free = append(free, o.id)
			}
		}
		if err == nil && len(free) > 0 {
			err = s.InSpiteOfDeadlocks(func() error { return s.takeKeys(ctx, takes, SortedIDs(free)...) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uniqueKey is a key among the rows of a type.
type uniqueKey struct {
	jobType int32
	key     string
}

func uniqueKeyOf(job *NewJob) uniqueKey { return uniqueKey{job.JobType, job.Key} }

const keysTogether = 128 // if they are of several types: each is a condition of its own, and a place in the index of its own

// ownersOfKeys is ownerOfKey for many jobs, by their types and keys.
func (s *Store) ownersOfKeys(ctx context.Context, jobs []NewJob, locking string) (map[uniqueKey]keyOwner, error) {
	owners := make(map[uniqueKey]keyOwner, len(jobs))
	ofOneType := !slices.ContainsFunc(jobs, func(job NewJob) bool { return job.JobType != jobs[0].JobType })
	for len(jobs) > 0 {
		some := jobs
		if !ofOneType {
			some = jobs[:min(len(jobs), keysTogether)]
		}
		jobs = jobs[len(some):]
		err := s.InSpiteOfDeadlocks(func() error { return s.someOwnersOfKeys(ctx, some, ofOneType, locking, owners) })
		if err != nil {
			return owners, conn.Wrap("find the jobs of the keys", err)
		}
	}
	return owners, nil
}

func (s *Store) someOwnersOfKeys(ctx context.Context, jobs []NewJob, ofOneType bool, locking string, owners map[uniqueKey]keyOwner) error {
	args := s.Arguments()
	column, where := "", ""
	if ofOneType {
		keys := make([]string, len(jobs))
		for i := range jobs {
			keys[i] = jobs[i].Key
		}
		where = fmt.Sprintf("%s AND unique_in = %s", args.Among("job_key", keys), args.Value(jobs[0].JobType))
	} else {
		column = ", unique_in"
		var ors []string
		for _, job := range conn.Evened(args, jobs) {
			ors = append(ors, fmt.Sprintf("job_key = %s AND unique_in = %s", args.Value(job.Key), args.Number(int64(job.JobType))))
		}
		where = "(" + strings.Join(ors, " OR ") + ")"
	}
	type keyed struct {
		uniqueKey
		keyOwner
	}
	found, err := conn.Read(ctx, s, conn.Each(func(k *keyed) []any {
		k.jobType = jobs[0].JobType
		if into := []any{&k.key, &k.id, &k.at}; ofOneType {
			return into
		} else {
			return append(into, &k.jobType)
		}
	}), s.FromPrimary(fmt.Sprintf("SELECT job_key, id, %s AS stage%s FROM %s %s WHERE %s%s",
		ownerAt, column, s.Tables.Jobs, s.ByKey, where, locking)), args.List...)
	for _, k := range found {
		owners[k.uniqueKey] = k.keyOwner
	}
	return err
}

// ours tells which rows an INSERT has inserted that left out others. Bearing has, for each row, the id of the row that has its key
// now; 0: none has.
type ours func(bearing []uint64) []bool

// addManyNew inserts the rows that are not there, by one statement. If all were inserted, it returns their ids, else how to tell which
// were.
func (s *Store) addManyNew(ctx context.Context, jobs []NewJob, created int64) ([]uint64, ours, error) {
	if s.Arrays {
		return s.addNewByArrays(ctx, jobs, created)
	}
	return s.addNewByValues(ctx, jobs, created)
}

// addNewByValues inserts the rows as a list of values.
func (s *Store) addNewByValues(ctx context.Context, jobs []NewJob, created int64) ([]uint64, ours, error) {
	values, args := s.valuesOf(jobs, created)
	result, err := conn.Execute(ctx, s, s.InsertNew+" "+s.Tables.Jobs+values, args...)
	if err != nil {
		return nil, nil, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return nil, nil, conn.Wrap("how many rows were there", err)
	}
	if n == 0 {
		return nil, func(bearing []uint64) []bool { return make([]bool, len(bearing)) }, nil
	}
	told, step, err := s.toldID(ctx, result)
	switch {
	case err != nil:
		return nil, nil, err
	case s.IDStep == "":
		if int(n) == len(jobs) {
			return idsFrom(told-uint64(n-1), step, len(jobs)), nil, nil
		}
		return nil, newest(int(n)), nil
	case int(n) == len(jobs):
		return idsFrom(told, step, len(jobs)), nil, nil
	default:
		return nil, spanOf(told, step), nil
	}
}

// newest tells which rows are ours by their number: with one writer at a time, and ids that only grow, they have the largest ids.
func newest(n int) ours {
	return func(bearing []uint64) []bool {
		sorted := slices.Sorted(slices.Values(bearing))
		least := sorted[len(sorted)-n]
		ours := make([]bool, len(bearing))
		for i, id := range bearing {
			ours[i] = id != 0 && id >= least
		}
		return ours
	}
}

// spanOf tells which rows are ours by the ids that the statement had for itself, of which the database tells the first that is
// in the table. InnoDB sets apart as many ids as the statement has rows, and a row that is left out uses its id up
// (innodb_autoinc_lock_mode 1 and 2); or nobody else gets an id until the statement ends (0). So the span begins as many steps
// before the first id as rows were left out before that row, and no row of others with these keys lies in it.
func spanOf(first, step uint64) ours {
	return func(bearing []uint64) []bool {
		before := max(0, slices.Index(bearing, first))
		last := first + uint64(len(bearing)-1-before)*step
		ours := make([]bool, len(bearing))
		for i, id := range bearing {
			ours[i] = first <= id && id <= last
		}
		return ours
	}
}

// addNewByArrays inserts the rows from arrays; the statement returns the ids of what it has inserted.
func (s *Store) addNewByArrays(ctx context.Context, jobs []NewJob, created int64) ([]uint64, ours, error) {
	ids, err := s.insertArrays(ctx, jobs, created, "type", s.UnlessThere)
	if err != nil || len(ids) == len(jobs) {
		return ids, nil, err
	}
	return nil, func(bearing []uint64) []bool {
		ours := make([]bool, len(bearing))
		for i, id := range bearing {
			ours[i] = slices.Contains(ids, id)
		}
		return ours
	}, nil
}

const replaceRowsMax = 250 // a database goes through the whole list for each row

// ReplaceWaiting makes rows into these jobs, as if the jobs had just been added: their parameters, times, priorities, retries and metadata.
// The rows keep their ids, keys and groups. It needs rows that are pending and not in flight, and reports for each row whether it is the job
// now. Sent again, it counts one more change, and does no more.
//
// Of one row, the number of changed rows tells that. Several are locked first, up to a thousand in a transaction: of the UPDATE alone, nobody
// could say later which of them it has changed. On a handle that begins no transaction, it tells only of a row whether it waits and has the
// parameters.
func (s *Store) ReplaceWaiting(ctx context.Context, ids []uint64, jobs []NewJob) (replaced []bool, err error) {
	if len(ids) == 1 {
		n, err := s.replace(ctx, ids, jobs)
		return []bool{n == 1}, err
	}
	for len(ids) > 0 {
		n := statementRows(jobs)
		var some []bool
		err := s.InOneTransaction(ctx, func(s *Store) (err error) {
			some, err = s.replaceSome(ctx, ids[:n], jobs[:n])
			return err
		})
		if err != nil {
			return replaced, err
		}
		replaced, ids, jobs = append(replaced, some...), ids[n:], jobs[n:]
	}
	return replaced, nil
}

// replaceSome locks the rows that wait and replaces them.
func (s *Store) replaceSome(ctx context.Context, ids []uint64, jobs []NewJob) (replaced []bool, err error) {
	waiting, err := s.LockState(ctx, ids, Waiting)
	if err != nil {
		return nil, err
	}
	locked := make(map[uint64]bool, len(waiting))
	for _, id := range waiting {
		locked[id] = true
	}
	var at []int // of the rows that wait, in ids
	for i, id := range ids {
		if locked[id] {
			at = append(at, i)
		}
	}
	replaced = make([]bool, len(ids))
	for some := range slices.Chunk(at, replaceRowsMax) {
		theirs, by := make([]uint64, len(some)), make([]NewJob, len(some))
		for n, i := range some {
			theirs[n], by[n] = ids[i], jobs[i]
		}
		n, err := s.replace(ctx, theirs, by)
		var are map[uint64]string
		if err == nil && n < len(some) { // the locks were gone
			are, err = s.waitingParams(ctx, theirs)
		}
		if err != nil {
			return nil, err
		}
		for _, i := range some {
			params, waits := are[ids[i]]
			replaced[i] = n == len(some) || waits && params == jobs[i].Params
		}
	}
	return replaced, nil
}

// replace returns how many rows it has made into the jobs.
func (s *Store) replace(ctx context.Context, ids []uint64, jobs []NewJob) (int, error) {
	set := func(args *conn.Arguments) string {
		each := func(value func(*NewJob) string) string {
			var all strings.Builder
			for i := range jobs {
				fmt.Fprintf(&all, " WHEN %s THEN %s", args.ID(ids[i]), value(&jobs[i]))
			}
			return "CASE id" + all.String() + " END"
		}
		start := func(job *NewJob) string {
			switch {
			case job.Delay > 0:
				return s.startOf(job, args)
			case job.StartTime > 0:
				return strconv.FormatUint(uint64(job.StartTime), 10) // as an argument, it would make the list one of texts
			default:
				return s.NowSecond
			}
		}
		long := "NULL"
		params := each(func(job *NewJob) string { short, _ := InColumns(job.Params); return args.Value(short) })
		if anyLong(jobs) {
			long = each(func(job *NewJob) string { _, long := InColumns(job.Params); return args.OrNull(long) })
		}
		return fmt.Sprintf("params = %s, long_params = %s, start_time = %s, priority = %s, max_retries = NULLIF(%s, %d), meta = %s, "+
			"job_status = 0, retries = 0, lost = 0, changes = changes + 1",
			params, long, each(start),
			each(func(job *NewJob) string { return strconv.Itoa(int(job.Priority)) }),
			each(func(job *NewJob) string { return strconv.Itoa(job.MaxRetries) }), NotSet,
			each(func(job *NewJob) string { return args.OrNull(job.Meta) }))
	}
	return s.change(ctx, "replace jobs that wait", ids, waiting, set)
}

// waitingParams reads the parameters of rows, and leaves out each row that is not pending or is in flight.
func (s *Store) waitingParams(ctx context.Context, ids []uint64) (map[uint64]string, error) {
	type row struct {
		id     uint64
		params string
	}
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.id, &r.params} }),
		s.FromPrimary(fmt.Sprintf("SELECT id, %s AS params FROM %s %s WHERE %s AND %s%s",
			WholeParams, s.Tables.Jobs, s.ByPrimary, args.In(ids), waiting, s.Current())), args.List...)
	params := make(map[uint64]string, len(rows))
	for _, r := range rows {
		params[r.id] = r.params
	}
	return params, conn.Wrap("parameters of jobs that wait", err)
}
