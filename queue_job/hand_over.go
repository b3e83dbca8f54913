package queue_job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// handOverLasts is for how many seconds a hand-over is asked for.
const handOverLasts = 5

// HandOver asks the instance that holds a lease to give it to any other instance, mostly within a second. The lease is the
// [Lease.Name] of [Jobs.Leases]: "job-7" for job type 7, "job-7/2" for its shard 2. Use it if a type should leave a machine, for example because its handlers
// need more of the machine than you thought. Handlers that run, run on where they are; other jobs of the type start on the next
// holder. HandOver does not wait for that: [Jobs.Leases] shows it. Through a transaction, it takes effect at the commit.
//
// The shares stay even. If the next holder then has two leases more than another instance, another lease goes back in exchange. If
// there is none that could, the lease itself comes back after five seconds. The lease stays where it is if no other instance has a
// configuration for the type, or its holder has had it for less than [Config.MinLockSecond]; after five seconds, HandOver has to be
// called again.
//
// It is an error if the name is not that of a job type's lease, if nobody holds the lease, or if there is no other instance of the
// holder's service. If the lease is being handed over already, HandOver changes nothing and returns nil.
func (j *Jobs) HandOver(ctx context.Context, ex Executor, lease string) error {
	if err := j.handOver(ctx, ex, lease); err != nil {
		return fmt.Errorf("hand over %q: %w", lease, err)
	}
	return nil
}

func (j *Jobs) handOver(ctx context.Context, ex Executor, lease string) error {
	st, err := j.through(ex)
	if err != nil {
		return err
	}
	if _, _, ok := share.ParseType(lease); !ok {
		return errors.New(`it is not the lease of a job type; use a name that Leases returns, such as "job-7"`)
	}
	fleet, err := st.Fleet(ctx, share.Prefixes)
	if err != nil {
		return err
	}
	term, err := mayHandOver(lease, fleet.Leases)
	if err != nil {
		return err
	}
	if err := dropHandOvers(ctx, st); err != nil {
		return err
	}
	jobType, _, _ := share.ParseType(lease)
	_, err = notingType(ctx, st, "hand over", jobType, lease, func(st *store.Store) (bool, error) {
		return true, askForHandOver(ctx, st, share.HandOver(lease, term))
	})
	return err
}

// askForHandOver takes the lease that asks for a hand-over, unless somebody else has it. Its new row looks like one that has
// ended, so an instance that starts may delete it before it is taken; then it is made again.
func askForHandOver(ctx context.Context, st *store.Store, name string) error {
	const tries = 5
	for range tries {
		if err := st.MakeLeases(ctx, []string{name}); err != nil {
			return err
		}
		taken, err := st.TakeLeases(ctx, []string{name}, whoAsks(), int64(share.Undivided), handOverLasts)
		if err != nil || len(taken) > 0 {
			return err
		}
	}
	return nil
}

// mayHandOver returns the term under which a lease is held, or an error that says why it cannot be handed over.
func mayHandOver(lease string, rows []store.Seen) (term int64, err error) {
	jobType, _, _ := share.ParseType(lease)
	i := slices.IndexFunc(rows, func(row store.Seen) bool { return row.Name == lease && !row.Free && row.Layout > 0 })
	if i < 0 {
		return 0, fmt.Errorf("no instance holds it; start one that has a configuration for job type %d", jobType)
	}
	holder := share.OwnerOf(rows[i].Owner)
	if holder.Instance == "" {
		return 0, fmt.Errorf("its holder, %s, is of an older version, which cannot be asked; stop that instance, and another one takes the lease", share.Readable(rows[i].Owner))
	}
	service := holder.Service
	for _, row := range rows {
		if row.Name == share.Presence(holder.Instance) { // a type's configuration may have another name than the instance
			service = share.OwnerOf(row.Owner).Service
		}
	}
	another := func(row store.Seen) bool {
		id, present := share.ParsePresence(row.Name)
		return present && !row.Free && row.Running != share.Leaves && id != holder.Instance && share.OwnerOf(row.Owner).Service == service
	}
	if !slices.ContainsFunc(rows, another) {
		return 0, fmt.Errorf("there is no other instance of service %q that could take it; start one that has a configuration for job type %d", service, jobType)
	}
	return rows[i].Term, nil
}

// dropHandOvers deletes what earlier calls have asked for.
func dropHandOvers(ctx context.Context, st *store.Store) error {
	names, err := st.EndedLeases(ctx, []string{share.HandOvers})
	names = slices.DeleteFunc(names, func(name string) bool { return !share.Ephemeral(name) })
	if err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	return st.DropEnded(ctx, names)
}

// whoAsks is the owner of a row that asks: another text at each call.
func whoAsks() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("HandOver@%s/%d#%s", host, os.Getpid(), rand.Text())
}
