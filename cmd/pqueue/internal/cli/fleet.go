package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

func (a *app) leaseCommand() *cobra.Command {
	return noun("lease", "See and move the leases: which instance runs which job type", a.leaseList(), a.leaseHistory(), a.leaseYield(), a.leaseBreak())
}

func (a *app) leaseList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the leases of the job types and their shards, with their holders",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fleetList(cmd.Context(), a, "leases", (*queue_job.Jobs).Leases, []column[queue_job.Lease]{
				{"lease", func(l queue_job.Lease) string { return l.Name }},
				{"name", func(l queue_job.Lease) string { return l.TypeName }},
				{"holder", func(l queue_job.Lease) string { return l.Holder }},
				{"term", func(l queue_job.Lease) string { return strconv.FormatInt(l.Term, 10) }},
				{"since", func(l queue_job.Lease) string { return clock(l.Since) }},
				{"until", func(l queue_job.Lease) string { return clock(l.Until) }},
				{"running", func(l queue_job.Lease) string { return strconv.Itoa(l.Running) }},
				{"still running at", func(l queue_job.Lease) string { return remainsText(l.Remains) }},
			}, leaseJSON)
		},
	}
}

func remainsText(remains []queue_job.Remains) string {
	var texts []string
	for _, r := range remains {
		texts = append(texts, fmt.Sprintf("%s (%d)", r.Holder, r.Running))
	}
	return strings.Join(texts, ", ")
}

func leaseJSON(l queue_job.Lease) any {
	type remains struct {
		Holder  string  `json:"holder"`
		Term    string  `json:"term"`
		Since   *string `json:"since"`
		Until   *string `json:"until"`
		Running int     `json:"running"`
	}
	still := []remains{}
	for _, r := range l.Remains {
		still = append(still, remains{r.Holder, strconv.FormatInt(r.Term, 10), stamp(r.Since), stamp(r.Until), r.Running})
	}
	return map[string]any{
		"lease": l.Name, "type": l.JobType, "name": l.TypeName, "shard": l.Shard, "instance": l.Instance, "holder": l.Holder,
		"term": strconv.FormatInt(l.Term, 10), "since": stamp(l.Since), "until": stamp(l.Until), "running": l.Running,
		"remains": still, "asked_by": l.AskedBy,
	}
}

// fleetVerb reads something of the leases.
type fleetVerb[T any] func(*queue_job.Jobs, context.Context, queue_job.Executor) ([]T, error)

func readAll[T any](ctx context.Context, a *app, db *database, read fleetVerb[T]) (items []T, err error) {
	err = a.within(ctx, func(ctx context.Context) (err error) {
		items, err = read(db.jobs, ctx, db)
		return err
	})
	return items, err
}

// readOne is the one of them that has a name. The error says where there are others.
func readOne[T any](ctx context.Context, a *app, db *database, read fleetVerb[T], named func(T) bool, none error) (one T, err error) {
	items, err := readAll(ctx, a, db, read)
	if err != nil {
		return one, err
	}
	if i := slices.IndexFunc(items, named); i >= 0 {
		return items[i], nil
	}
	return one, none
}

// fleetList shows what a verb reads of the leases.
func fleetList[T any](ctx context.Context, a *app, what string, read fleetVerb[T], columns []column[T], asJSON func(T) any) error {
	return a.with(ctx, func(db *database) error {
		items, err := readAll(ctx, a, db, read)
		if err == nil {
			_, err = list(a, all(items), what, columns, asJSON)
		}
		return err
	})
}

// yieldWithin is how long lease yield waits to see the new holder. The lease usually moves within a second.
const yieldWithin = 5 * time.Second

func (a *app) leaseYield() *cobra.Command {
	return &cobra.Command{
		Use:   "yield <lease>",
		Short: "Ask the holder of a lease to give it to another instance",
		Long: `Ask the holder of a lease to give it to another instance: a job type leaves a machine so. Handlers that run, run on where they are;
other jobs start at the next holder. It waits until there is another holder, for 5 seconds at most.`,
		Example: "  pqueue lease yield job-7\n  pqueue lease yield job-7/2    # the third shard",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.leasesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error { return a.yield(cmd.Context(), db, args[0]) })
		},
	}
}

func (a *app) yield(ctx context.Context, db *database, name string) error {
	before, err := a.lease(ctx, db, name)
	if err != nil {
		return err
	}
	if before.Holder == "" {
		return exitf(exitNothing, "nobody holds %s", name)
	}
	if err := a.within(ctx, func(ctx context.Context) error { return db.jobs.HandOver(ctx, db, name) }); err != nil {
		return err
	}
	for end := time.Now().Add(yieldWithin); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		now, err := a.lease(ctx, db, name)
		if err != nil {
			return err
		}
		if now.Holder != "" && now.Term != before.Term {
			if now.Instance == before.Instance {
				return exitf(exitNothing, "%s is back at %s: no other instance took it", name, now.Holder)
			}
			a.sayf("%s: %s -> %s", name, before.Holder, now.Holder)
			return nil
		}
	}
	return exitf(exitNothing, "%s has the same holder after %v, %s: no other instance runs the type, or the holder does not answer",
		name, yieldWithin, before.Holder)
}

func (a *app) leaseBreak() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "break <lease>",
		Short: "End a lease whose holder does not answer",
		Long: `End a lease whose holder does not answer, so that another instance takes it before it expires. If the holder lives, use lease yield:
with break, jobs that run now may run twice, for the next holder runs them again, after two seconds. The contexts of the old holder's
handlers end when it looks at the leases, twice a second, or after a third of the lease's length at most.`,
		Example: "  pqueue lease break job-7\n  pqueue lease break job-7/2 --yes    # in a script",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.leasesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				before, err := a.lease(cmd.Context(), db, args[0])
				if err != nil {
					return err
				}
				if before.Holder == "" {
					return exitf(exitNothing, "nobody holds %s", args[0])
				}
				if !yes {
					if err := a.confirm(fmt.Sprintf("end %s under %s? %s may run twice", args[0], before.Holder, words.Count(before.Running, "job"))); err != nil {
						return err
					}
				}
				if err := a.within(cmd.Context(), func(ctx context.Context) error { return db.jobs.Break(ctx, db, args[0]) }); err != nil {
					return err
				}
				a.sayf("%s is taken from %s", args[0], before.Holder)
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) lease(ctx context.Context, db *database, name string) (queue_job.Lease, error) {
	return readOne(ctx, a, db, (*queue_job.Jobs).Leases, func(l queue_job.Lease) bool { return l.Name == name },
		exitf(exitNothing, "there is no lease %q; pqueue lease list has their names", name))
}

func (a *app) hostCommand() *cobra.Command {
	return noun("host", "See, drain and bury the instances", a.hostList(), a.hostDrain(), a.hostUndrain(), a.hostBury())
}

func (a *app) hostDrain() *cobra.Command {
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "drain <instance>",
		Short: "Have an instance give its leases to the others, and take none",
		Long: `Have an instance give its leases to the other instances of its service, and take none, until the time is over or host undrain is called.
Handlers that run, run on where they are. It waits until the instance has no lease, for 5 seconds at most; what runs on no other
instance stays.`,
		Example: "  pqueue host list\n  pqueue host drain 5e0c8f3a91d2 --for 2h",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.instancesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error { return a.drain(cmd.Context(), db, args[0], lasts) })
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", time.Hour, "how long")
	return cmd
}

func (a *app) hostUndrain() *cobra.Command {
	return &cobra.Command{
		Use:   "undrain <instance>",
		Short: "Have an instance that was drained take its part of the leases again",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.instancesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				return a.within(cmd.Context(), func(ctx context.Context) error {
					was, err := db.jobs.Undrain(ctx, db, args[0])
					if err == nil && !was {
						err = exitf(exitNothing, "%s is not drained", args[0])
					}
					return err
				})
			})
		},
	}
}

// buryWithin is how long host bury takes at most: it watches the instance, and begins anew if the database does not answer.
const buryWithin = 30 * time.Second

func (a *app) hostBury() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "bury <instance>",
		Short: "Say that the process of an instance is gone",
		Long: `Say that the process of an instance is gone: its leases end, and what it ran, runs again at once, instead of when its leases end. Use it
if the process was killed, or its machine is off, and will not be started again in its place. If the process is only frozen, or cut off from the
database, its jobs run twice at the same time. It watches the instance for 2.5 seconds or more, and refuses if that lives.`,
		Example: "  pqueue host list\n  pqueue host bury 5e0c8f3a91d2\n  pqueue host bury 5e0c8f3a91d2 --yes    # in a script",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completed(a.instancesToComplete),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				if !yes {
					question := "is the process of " + args[0] + " gone? If it is only frozen or cut off, what it runs, runs twice at the same time"
					if err := a.confirm(question); err != nil {
						return err
					}
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), buryWithin)
				defer cancel()
				if err := db.jobs.Bury(ctx, db, args[0]); err != nil {
					return err
				}
				a.sayf("%s is dead: its leases have ended, and what it ran, runs again", args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) drain(ctx context.Context, db *database, id string, lasts time.Duration) error {
	here, err := a.instance(ctx, db, id)
	if err != nil {
		return err
	}
	if err := a.within(ctx, func(ctx context.Context) error { return db.jobs.Drain(ctx, db, id, lasts) }); err != nil {
		return err
	}
	for end := time.Now().Add(yieldWithin); len(here.Leases) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		if here, err = a.instance(ctx, db, id); err != nil {
			return err
		}
	}
	if n := len(here.Leases); n > 0 {
		return exitf(exitPartly, "%s on %s is drained until %s, and still has %s: no other instance takes %s",
			id, here.Host, clock(here.DrainedUntil), words.Count(n, "lease"), strings.Join(here.Leases, ", "))
	}
	a.sayf("%s on %s has no lease, and takes none until %s; %s on", id, here.Host, clock(here.DrainedUntil), handlersRun(here.Running))
	return nil
}

func handlersRun(n int) string {
	if n == 1 {
		return "1 handler runs"
	}
	return strconv.Itoa(n) + " handlers run"
}

func (a *app) instance(ctx context.Context, db *database, id string) (queue_job.Instance, error) {
	return readOne(ctx, a, db, (*queue_job.Jobs).Instances, func(i queue_job.Instance) bool { return i.Id == id },
		exitf(exitNothing, "there is no instance %q; pqueue host list has their ids", id))
}

func (a *app) hostList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the instances that are there, and what each of them has",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(db *database) error {
				instances, err := readAll(cmd.Context(), a, db, (*queue_job.Jobs).Instances)
				if err != nil {
					return err
				}
				now, err := a.now(cmd.Context(), db)
				if err == nil {
					_, err = list(a, all(instances), "instances", instanceColumns(now), instanceJSON)
				}
				return err
			})
		},
	}
}

func instanceJSON(i queue_job.Instance) any {
	return map[string]any{
		"instance": i.Id, "service": i.Service, "host": i.Host, "process": i.Process, "since": stamp(i.Since), "until": stamp(i.Until),
		"leases": append([]string{}, i.Leases...), "running": i.Running, "leaving": i.Leaving, "drained_until": stamp(i.DrainedUntil),
		"heard_of": stamp(i.HeardOf), "starts_until": stamp(i.StartsUntil), "runs_until": stamp(i.RunsUntil),
		"buried": stamp(i.Buried), "buried_by": i.BuriedBy,
	}
}

func instanceColumns(now time.Time) []column[queue_job.Instance] {
	return []column[queue_job.Instance]{
		{"instance", func(i queue_job.Instance) string { return i.Id }},
		{"service", func(i queue_job.Instance) string { return i.Service }},
		{"host", func(i queue_job.Instance) string { return i.Host }},
		{"process", func(i queue_job.Instance) string { return strconv.Itoa(i.Process) }},
		{"since", func(i queue_job.Instance) string { return clock(i.Since) }},
		{"heard of", func(i queue_job.Instance) string { return faces.Heard(&i, now) }},
		{"leases", func(i queue_job.Instance) string { return strconv.Itoa(len(i.Leases)) }},
		{"running", func(i queue_job.Instance) string { return strconv.Itoa(i.Running) }},
		{"state", func(i queue_job.Instance) string { return instanceState(&i, now) }},
	}
}

// instanceState says in a few words how an instance is.
func instanceState(i *queue_job.Instance, now time.Time) string {
	if i.Leaving && i.Buried.IsZero() {
		return "leaves"
	}
	return cmp.Or(faces.Restless(i, now, clock), "there")
}
