package queue_job

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/witness"
)

const (
	aliveFor     = 2500 * time.Millisecond // the last word of an instance counts, at least: its beats say how long
	watchedAgain = 5                       // times, if the database has not answered
)

// Bury says that the process of an instance is gone: its leases end, and so does what the table says it still runs. So what it ran runs again at
// once, instead of when its leases end ([Config.LockSecond]). The instance is an [Instance.Id] of [Jobs.Instances]. Use it if you know that the
// process has ended: it was killed, or its machine is off. It is for people, and for controllers that watch processes; without it, others start
// what waits after 2.5 seconds all the same, and leave alone what it may still run. [github.com/create-info/persistent-queue.WithIdentity] does the
// same for a process that is started again in its place.
//
// Do not use it for an instance that is frozen, or cut off from the database: what it runs would run twice at the same time. Then its contexts end
// when it hears of that, and its outcomes do not count.
//
// Bury watches the instance for 2.5 seconds, or for longer if the instance says so in its beats. Give it a handle that begins transactions of
// its own: in a transaction of yours, the table may look as it did when that began. The watch counts only while the database answers Bury's own
// statements within a second, and writes, too; if it stands still, Bury begins to count anew, five times, and waits for two seconds longer. If
// ctx ends, so does the watch.
//
// It is an [ErrRefused] if the instance says that it lives, if no life of it is in the table, if the database does not answer, or if ex is a
// transaction. An instance has a life while it has leases; not on SQLite, and not in versions before Bury. If nobody has to be buried any more,
// Bury returns nil.
func (j *Jobs) Bury(ctx context.Context, ex Executor, instance string) error {
	if err := j.bury(ctx, ex, instance); err != nil {
		return fmt.Errorf("bury %q: %w", instance, err)
	}
	return nil
}

func (j *Jobs) bury(ctx context.Context, ex Executor, instance string) error {
	st, err := j.through(ex)
	if err != nil {
		return err
	}
	if !st.CanTransact() {
		return refused("a transaction may show the table as it was when it began, so nobody could be heard; pass the *sql.DB")
	}
	fleet, err := st.Fleet(ctx, share.Prefixes)
	if err != nil {
		return err
	}
	life, err := lifeOf(instance, fleet.Leases)
	if err != nil {
		return err
	}
	if life.Running <= store.Dead {
		return endDead(ctx, st, instance)
	}
	silent, err := watchSilence(ctx, st, &life)
	if err != nil || !silent {
		return err
	}
	buried, err := notingFleet(ctx, st, "bury", instance, func(st *record.Store) (bool, error) {
		return st.BuryDead(ctx, life.Name, life.Owner, life.Term, lastsFor(instance, fleet.Leases), false)
	})
	switch {
	case err != nil:
		return err
	case !buried:
		return refused("its row has changed in this moment, since it lives or others have buried it, or somebody has locked the row; try again")
	}
	return endDead(ctx, st, instance)
}

// endDead ends all that belongs to an instance whose process is gone. Every instance does the same at its next look.
func endDead(ctx context.Context, st *record.Store, instance string) error {
	fleet, err := st.Fleet(ctx, share.Prefixes)
	if err != nil {
		return err
	}
	var names, owners []string
	for i := range fleet.Leases {
		if row := &fleet.Leases[i]; share.EndsWithProcess(instance, row.Name, row.Owner) && !row.Free && row.Layout >= 0 {
			names, owners = append(names, row.Name), append(owners, row.Owner)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(owners)
	return st.FreeLeases(ctx, names, slices.Compact(owners))
}

// lastsFor is how many seconds it takes until the last lease of an instance has ended.
func lastsFor(instance string, rows []store.Seen) (seconds int64) {
	for _, row := range rows {
		if !row.Free && share.OwnerOf(row.Owner).Instance == instance {
			seconds = max(seconds, int64(row.Left)+1)
		}
	}
	return seconds
}

// lifeOf is the row of an instance's life.
func lifeOf(instance string, rows []store.Seen) (life store.Seen, err error) {
	if i := slices.IndexFunc(rows, func(row store.Seen) bool { return row.Name == share.Life(instance) && !row.Free }); i >= 0 {
		return rows[i], nil
	}
	if here, found := presenceOf(instance, rows); found {
		return life, refused("the table does not say whether it lives: it has no lease of a job type, works on SQLite or through a handle of its own "+
			"kind, or is of an older version. What it has ends by itself at %s, unless it lives; use Break if a lease must end sooner",
			micros(here.Until).Format(time.TimeOnly))
	}
	return life, refused("no such instance is there; use an Id that Instances returns")
}

// watchSilence reports whether the instance has been silent for so long that its last beat counts no more; the life is then as it was seen last. If
// neither that nor an error, the instance is gone.
func watchSilence(ctx context.Context, st *record.Store, life *store.Seen) (silent bool, err error) {
	host, _ := os.Hostname()
	var drawn [6]byte
	rand.Read(drawn[:])
	id := hex.EncodeToString(drawn[:])
	w := &witness.Witness{Table: &st.Store, Name: share.Life(id), Lapses: watchedAgain,
		Owner: fmt.Sprintf("Bury@%s/%d#%s.%s", host, os.Getpid(), id, share.Taking(1, lease.DefaultLock))}
	enough := func(life store.Seen) time.Duration {
		return max(aliveFor, time.Duration(life.Running)*time.Millisecond)
	}
	verdict := witness.Gone
	err = w.Watch(ctx, []store.Seen{*life}, enough, func(seen store.Seen, v witness.Verdict) { *life, verdict = seen, v })
	switch {
	case errors.Is(err, witness.ErrUnanswered):
		return false, refused("%v; call Bury again when it answers", err)
	case err != nil:
		return false, err
	case verdict == witness.Lives:
		return false, refused("it says that it lives: %s has renewed its life while Bury watched. End the process first, or use Drain or HandOver",
			share.Readable(life.Owner))
	}
	return verdict == witness.Silent, nil
}
