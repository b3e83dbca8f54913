package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Registry is what the engine needs of the tables to tell what job types are called and how they are run. *store.Store has it.
type Registry interface {
	TypeNames(ctx context.Context, types []int32) (map[int32]string, error)
	NameTypes(ctx context.Context, given []store.TypeName) (others []store.TypeName, err error)
	TellSettings(ctx context.Context, given []store.TypeSettings) error
}

const (
	tellAgain     = time.Minute     // after errors, at most
	nameMax       = 3 * time.Second // then jobs start before it is known what others call their types
	namesTogether = 500             // types whose names one statement reads
)

// ErrOtherName is the cause of an error about a job type that has another name in the tables. Trying again does not help.
var ErrOtherName = queue_job.ErrOtherName

// otherName is an error with the cause [ErrOtherName].
type otherName string

func (o otherName) Error() string      { return string(o) }
func (otherName) Is(target error) bool { return target == ErrOtherName }

// claim returns the types that have another name in the table, with what is to be said of it: their jobs are others', which the handlers
// here must not run. If there are none, it names the types that have no name there. Jobs do not wait long for the answer: what it would
// have been is found by tellTypes.
func (d *database) claim(ctx context.Context, configs []queue_job.Config) (others map[int32]error) {
	if d.tables.Registry == nil {
		return nil
	}
	statements, cancel := context.WithTimeout(ctx, nameMax)
	defer cancel()
	names := namesOf(configs)
	var found []store.TypeName
	for some := range slices.Chunk(names, namesTogether) {
		types := make([]int32, len(some))
		for i := range some {
			types[i] = some[i].JobType
		}
		there, err := d.tables.Registry.TypeNames(statements, types)
		if err != nil {
			return nil
		}
		for _, t := range some {
			if name := there[t.JobType]; name != "" && name != t.Name {
				found = append(found, store.TypeName{JobType: t.JobType, Name: name})
			}
		}
	}
	if others = othersOf(configs, found); len(others) > 0 { // a start that is refused takes no number
		return others
	}
	found, err := d.tables.Registry.NameTypes(statements, names)
	if err != nil {
		return nil
	}
	return othersOf(configs, found)
}

func namesOf(configs []queue_job.Config) []store.TypeName {
	names := make([]store.TypeName, len(configs))
	for i := range configs {
		names[i] = store.TypeName{JobType: configs[i].JobType, Name: nameOf(&configs[i])}
	}
	return names
}

// othersOf are the types whose name in the table is neither theirs nor the one that they had.
func othersOf(configs []queue_job.Config, found []store.TypeName) (others map[int32]error) {
	for _, other := range found {
		for i := range configs {
			cfg := &configs[i]
			if cfg.JobType != other.JobType || cfg.RenamedFrom != "" && ground.Cut(cfg.RenamedFrom, store.NameMax) == other.Name {
				continue
			}
			if others == nil {
				others = map[int32]error{}
			}
			others[cfg.JobType] = otherName(otherNameText(cfg, other.Name))
		}
	}
	return others
}

// refuse starts no jobs of types that are others', and has the log and the health say so.
func (d *database) refuse(configs []queue_job.Config, others map[int32]error) {
	for i := range configs {
		if err := others[configs[i].JobType]; err != nil {
			d.log.Error(d.aboutType(&configs[i]), err.Error()+"; its jobs are not run here")
		}
	}
	d.refused.add(others)
}

// refused are the types of others, whose jobs are not run here, with the reasons.
type refused struct {
	mu    sync.Mutex
	types map[int32]error
}

func (r *refused) add(types map[int32]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil {
		r.types = map[int32]error{}
	}
	maps.Copy(r.types, types)
}

// forget has types be judged anew.
func (r *refused) forget(types []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range types {
		delete(r.types, jobType)
	}
}

// first is the reason for one of them; nil: there are none.
func (r *refused) first() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jobType := range slices.Sorted(maps.Keys(r.types)) {
		return r.types[jobType]
	}
	return nil
}

// joined is one error about all the types.
func joined(others map[int32]error) error {
	var all []error
	for _, jobType := range slices.Sorted(maps.Keys(others)) {
		all = append(all, others[jobType])
	}
	return errors.Join(all...)
}

// tellTypes writes into the table how the types are run, and what they are called, as far as they have no name there. Nothing waits for
// it. If it turns out only now that a type is another's, it is run no longer.
func (d *database) tellTypes(ctx context.Context, configs []queue_job.Config) {
	if d.tables.Registry == nil {
		return
	}
	names, settings := namesOf(configs), make([]store.TypeSettings, len(configs))
	for i, cfg := range configs {
		settings[i] = store.TypeSettings{JobType: cfg.JobType, Settings: hidden.Settings(&cfg, &d.retention)}
	}
	var others []store.TypeName
	err := d.errlog.Retry(ctx, "tell the job types", ground.Backoff{First: time.Second, Longest: tellAgain}, func() (err error) {
		statements, cancel := context.WithTimeout(d.patience, ground.StatementMax)
		defer cancel()
		if others, err = d.tables.Registry.NameTypes(statements, names); err == nil {
			err = d.tables.Registry.TellSettings(statements, settings)
		}
		return err
	})
	if err != nil {
		return
	}
	if wrong := othersOf(configs, others); len(wrong) > 0 {
		d.refuse(configs, wrong)
		d.order(ctx, recast{remove: slices.Collect(maps.Keys(wrong))}) // an error: the Runner stops
	}
	d.askForNew(configs)
}

func otherNameText(cfg *queue_job.Config, name string) string {
	return fmt.Sprintf("job type %d is called %q here, and %q by the service that ran it first: if these are two types, give one of them another JobType; "+
		"if it is one that was renamed, set RenamedFrom to %q, or rename it for all services: pqueue type rename %d %q (%sasync_job_type_tab.name)",
		cfg.JobType, nameOf(cfg), name, name, cfg.JobType, nameOf(cfg), cfg.TablePrefix)
}

// nameOf is what a type is called, as it stands in the table.
func nameOf(cfg *queue_job.Config) string { return ground.Cut(cfg.ServiceName, store.NameMax) }

func (d *database) aboutType(cfg *queue_job.Config, more ...slog.Attr) context.Context {
	return d.which.about(logger.With(d.log.GetNewContext(cfg.ServiceName), append([]slog.Attr{slog.Int("job_type", int(cfg.JobType))}, more...)...))
}
