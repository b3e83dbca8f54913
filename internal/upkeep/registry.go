package upkeep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// Registry is the table that says what job types are called and how they are run. *record.Store has it.
type Registry interface {
	Names
	NameTypes(ctx context.Context, given []record.TypeName) (others []record.TypeName, err error)
	WriteSettings(ctx context.Context, given []record.TypeSettings) error
}

const (
	registerFirst = time.Second     // after an error
	registerAgain = time.Minute     // after errors, at most
	nameMax       = 3 * time.Second // then jobs start before it is known what others call their types
	namesTogether = 500             // types whose names one statement reads
)

// otherName is an error with the cause [queue_job.ErrOtherName].
type otherName string

func (o otherName) Error() string      { return string(o) }
func (otherName) Is(target error) bool { return target == queue_job.ErrOtherName }

// Claim returns the types that have another name in the table, with what is to be said of it: their jobs are others', which the handlers
// here must not run. If there are none, it names the types that have no name there. Jobs do not wait long for the answer: what it would
// have been is found by [Register].
func Claim(ctx context.Context, table Registry, configs []queue_job.Config) (others map[int32]error) {
	statements, cancel := context.WithTimeout(ctx, nameMax)
	defer cancel()
	names := namesOf(configs)
	var found []record.TypeName
	for some := range slices.Chunk(names, namesTogether) {
		types := make([]int32, len(some))
		for i := range some {
			types[i] = some[i].JobType
		}
		there, err := table.TypeNames(statements, types)
		if err != nil {
			return nil
		}
		for _, t := range some {
			if name := there[t.JobType]; name != "" && name != t.Name {
				found = append(found, record.TypeName{JobType: t.JobType, Name: name})
			}
		}
	}
	if others := othersOf(configs, found); len(others) > 0 { // a start that is refused takes no number
		return others
	}
	found, err := table.NameTypes(statements, names)
	if err != nil {
		return nil
	}
	return othersOf(configs, found)
}

// Register is the task that writes into the table how the types are run, and what they are called. A name stays as it was written first;
// the instance that started last writes its settings, unless they are in the table already. It is done once, and nothing waits for it.
// Then is told which types turn out to be others', as Claim would have said. Statements are given up when patience ends.
func Register(b *Base, table Registry, patience context.Context, configs []queue_job.Config, kept queue_job.Retention,
	then func(ctx context.Context, others map[int32]error)) *Task {
	names, settings := namesOf(configs), make([]record.TypeSettings, len(configs))
	for i, cfg := range configs {
		settings[i] = record.TypeSettings{JobType: cfg.JobType, Settings: bridge.QueueJob.Settings(&cfg, &kept)}
	}
	again := ground.Backoff{First: registerFirst, Longest: registerAgain}
	return &Task{Base: b, doing: "tell the job types", do: func(ctx context.Context, _ Turn) (time.Duration, error) {
		statements, cancel := context.WithTimeout(patience, ground.StatementMax)
		defer cancel()
		found, err := table.NameTypes(statements, names)
		if err == nil {
			err = table.WriteSettings(statements, settings)
		}
		if err != nil {
			return again.Next(), err
		}
		then(ctx, othersOf(configs, found))
		return ended, nil
	}}
}

func namesOf(configs []queue_job.Config) []record.TypeName {
	names := make([]record.TypeName, len(configs))
	for i := range configs {
		names[i] = record.TypeName{JobType: configs[i].JobType, Name: nameOf(&configs[i])}
	}
	return names
}

// othersOf are the types whose name in the table is neither theirs nor the one that they had.
func othersOf(configs []queue_job.Config, found []record.TypeName) (others map[int32]error) {
	for _, other := range found {
		for i := range configs {
			cfg := &configs[i]
			if cfg.JobType != other.JobType || cfg.RenamedFrom != "" && ground.Cut(cfg.RenamedFrom, record.NameMax) == other.Name {
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

func otherNameText(cfg *queue_job.Config, name string) string {
	return fmt.Sprintf("job type %d is called %q here, and %q by the service that ran it first: "+
		"if these are two types, give one of them another JobType; "+
		"if it is one that was renamed, set RenamedFrom to %q, or rename it for all services: pqueue type rename %d %q (%sasync_job_type_tab.name)",
		cfg.JobType, nameOf(cfg), name, name, cfg.JobType, nameOf(cfg), cfg.TablePrefix)
}

// nameOf is what a type is called, as it stands in the table.
func nameOf(cfg *queue_job.Config) string { return ground.Cut(cfg.ServiceName, record.NameMax) }
