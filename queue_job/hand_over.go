package queue_job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// handOverLasts is for how many seconds a hand-over is asked for.
const handOverLasts = 5

// ErrRefused is the cause of an error of HandOver, Drain, Break, Bury and PauseUntil that has nothing to do with the database: as things are,
// the call cannot do what it is for. The error's text says why, and usually what to do. Nothing was changed.
var ErrRefused = errors.New("refused")

// refusal is an ErrRefused that says nothing but its reason.
type refusal string

func refused(format string, values ...any) error { return refusal(fmt.Sprintf(format, values...)) }

func (r refusal) Error() string { return string(r) }

func (r refusal) Is(target error) bool { return target == ErrRefused }

// HandOver asks the instance that holds a lease to give it to any other instance, usually within a second. The lease is the
// [Lease.Name] of [Jobs.Leases]: "job-7" for job type 7, "job-7/2" for its shard 2. Use it if a type should leave a machine, for example
// because its handlers need more of the machine than you thought. Handlers that run, run on where they are; other jobs of the type start on
// the next holder. HandOver does not wait for that: [Jobs.Leases] shows it. Through a transaction, it takes effect at the commit.
//
// The shares stay even. If the next holder then has two leases more than another instance, another lease goes back in exchange. If
// there is none that could, the lease itself comes back after five seconds. The lease stays where it is if no other instance has a
// configuration for the type, or its holder has had it for less than [Config.MinLockSecond]; after five seconds, HandOver has to be
// called again.
//
// It is an [ErrRefused] if the name is not that of a job type's lease, if nobody holds the lease, or if there is no other instance of the
// holder's service. If the lease is being handed over already, HandOver changes nothing and returns nil.
func (j *Jobs) HandOver(ctx context.Context, ex Executor, lease string) error {
	if err := j.handOver(ctx, ex, lease); err != nil {
		return fmt.Errorf("hand over %q: %w", lease, err)
	}
	return nil
}

func (j *Jobs) handOver(ctx context.Context, ex Executor, lease string) error {
	st, rows, jobType, err := j.lookForType(ctx, ex, lease)
	if err != nil {
		return err
	}
	term, err := mayHandOver(lease, rows)
	if err != nil {
		return err
	}
	if err := dropHandOvers(ctx, st); err != nil {
		return err
	}
	_, err = notingType(ctx, st, "hand over", jobType, lease, func(st *record.Store) (bool, error) {
		return takeAsking(ctx, st, share.HandOver(lease, term), "HandOver", handOverLasts)
	})
	return err
}

// Break ends a lease under its holder, so that another instance, or the same one, takes it. The lease is a [Lease.Name] of
// [Jobs.Leases]. Use it if the holder does not answer and the lease would last for minutes, see [Config.LockSecond]; if the holder
// lives, [Jobs.HandOver] is the better way, for nothing runs twice then. Through a transaction, it takes effect at the commit.
//
// The next holder starts jobs at once, but leaves those alone for two seconds that the holder before has marked. A holder that lives and
// reaches the database sees the break at its next look at the leases, twice a second, or a second later if it has just taken the lease:
// until then it may start jobs, also jobs that are added after Break. Then it starts nothing more, gives back what it has not started, and
// the contexts of its handlers end; an outcome that it writes within these two seconds counts. Otherwise it is the next renewal that fails,
// after a third of [Config.LockSecond] at most. What still bears the old holder's mark after two seconds counts as lost and runs again. So jobs
// that run longer may run twice, or fail if [Config.LostLimit] is 1; so may all that a holder marks who learns of the break later. For that
// time, more jobs may run than limits such as [Config.MaxPerKey] allow.
//
// Break returns an [ErrRefused] if nobody holds the lease, or if the lease is not one of a job type.
func (j *Jobs) Break(ctx context.Context, ex Executor, lease string) error {
	if err := j.breakLease(ctx, ex, lease); err != nil {
		return fmt.Errorf("break %q: %w", lease, err)
	}
	return nil
}

func (j *Jobs) breakLease(ctx context.Context, ex Executor, lease string) error {
	st, rows, jobType, err := j.lookForType(ctx, ex, lease)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Name != lease || row.Free || row.Layout < 0 {
			continue
		}
		_, err := notingType(ctx, st, "break", jobType, lease, func(st *record.Store) (bool, error) {
			return st.BreakLease(ctx, lease, row.Owner)
		})
		return err
	}
	return refused("nobody holds it")
}

// lookForType is look for somebody who wants the lease of a job type.
func (j *Jobs) lookForType(ctx context.Context, ex Executor, lease string) (st *record.Store, rows []store.Seen, jobType int32, err error) {
	jobType, _, ok := share.ParseType(lease)
	if !ok {
		return nil, nil, 0, refused(`it is not the lease of a job type; use a name that Leases returns, such as "job-7"`)
	}
	st, rows, err = j.look(ctx, ex)
	return st, rows, jobType, err
}

// look reads the leases as an instance does.
func (j *Jobs) look(ctx context.Context, ex Executor) (*record.Store, []store.Seen, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, nil, err
	}
	fleet, err := st.Fleet(ctx, share.Prefixes)
	return st, fleet.Leases, err
}

// takeAsking takes a lease that asks for something, unless somebody else has it. Its new row looks like one that has ended, so an
// instance that starts may delete it before it is taken; then it is made again. It reports whether it has taken the lease.
func takeAsking(ctx context.Context, st *record.Store, name, verb string, seconds int64) (taken bool, err error) {
	const tries = 5
	for try := range tries {
		if err := st.MakeLeases(ctx, []string{name}); err != nil {
			return false, err
		}
		terms, err := st.TakeLeases(ctx, []string{name}, whoAsks(verb, seconds), int64(share.Undivided), seconds, try%2 == 1) // perhaps somebody broke it
		if err != nil || len(terms) > 0 {
			return len(terms) > 0, err
		}
	}
	return false, nil
}

// mayHandOver returns the term under which a lease is held, or an error that says why it cannot be handed over.
func mayHandOver(lease string, rows []store.Seen) (term int64, err error) {
	jobType, _, _ := share.ParseType(lease)
	i := slices.IndexFunc(rows, func(row store.Seen) bool { return row.Name == lease && !row.Free && row.Layout > 0 })
	if i < 0 {
		return 0, refused("no instance holds it; start one that has a configuration for job type %d", jobType)
	}
	holder := share.OwnerOf(rows[i].Owner)
	if holder.Instance == "" {
		return 0, refused("its holder, %s, is of an older version, which cannot be asked; stop that instance, and another one takes the lease",
			share.Readable(rows[i].Owner))
	}
	if lifeIsOver(holder.Instance, rows) {
		return 0, refused("its holder, %s, was not heard of and is buried; another instance takes the lease by itself", share.Readable(rows[i].Owner))
	}
	service := holder.Service
	if here, found := presenceOf(holder.Instance, rows); found { // a type's configuration may have another name than the instance
		service = share.OwnerOf(here.Owner).Service
	}
	if !another(service, holder.Instance, rows) {
		return 0, refused("there is no other instance of service %q that could take it; start one that has a configuration for job type %d",
			service, jobType)
	}
	return rows[i].Term, nil
}

// presenceOf finds the row that says that an instance is there.
func presenceOf(instance string, rows []store.Seen) (row store.Seen, found bool) {
	i := slices.IndexFunc(rows, func(row store.Seen) bool { return row.Name == share.Presence(instance) && !row.Free })
	if i < 0 || lifeIsOver(instance, rows) {
		return store.Seen{}, false
	}
	return rows[i], true
}

// lifeIsOver reports whether others have buried an instance.
func lifeIsOver(instance string, rows []store.Seen) bool {
	return slices.ContainsFunc(rows, func(row store.Seen) bool {
		return row.Name == share.Life(instance) && !row.Free && row.Running <= store.Buried
	})
}

// another reports whether there is an instance of a service beside one, which does not leave.
func another(service, beside string, rows []store.Seen) bool {
	drained := map[string]bool{}
	for _, row := range rows {
		if id, ok := share.ParseDrain(row.Name); ok && !row.Free {
			drained[id] = true
		}
	}
	return slices.ContainsFunc(rows, func(row store.Seen) bool {
		id, present := share.ParsePresence(row.Name)
		return present && !row.Free && row.Running != share.Leaves && !drained[id] && id != beside && share.OwnerOf(row.Owner).Service == service &&
			!lifeIsOver(id, rows)
	})
}

// dropHandOvers deletes what earlier calls have asked for.
func dropHandOvers(ctx context.Context, st *record.Store) error {
	names, err := st.EndedLeases(ctx, []string{share.HandOvers})
	names = slices.DeleteFunc(names, func(name string) bool { return !share.Ephemeral(name) })
	if err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	return st.DropEnded(ctx, names)
}

// whoAsks is the owner of a row that asks: another text at each call. It says for how long the row is to last; if the row lasts for longer, the
// database's clock was ahead, and an instance ends it.
func whoAsks(verb string, seconds int64) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s@%s/%d#%s.%s", verb, host, os.Getpid(), rand.Text(), share.Taking(1, time.Duration(seconds)*time.Second))
}
