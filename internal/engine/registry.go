package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

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

const tellAgain = time.Minute // after errors, at most

// tellTypes writes into the table how the types are run, and what they are called, as far as they have no name there, and says which
// of them have another one. Nothing waits for it.
func (d *database) tellTypes(ctx context.Context, configs []queue_job.Config) {
	if d.tables.Registry == nil {
		return
	}
	names, settings := make([]store.TypeName, len(configs)), make([]store.TypeSettings, len(configs))
	for i, cfg := range configs {
		names[i] = store.TypeName{JobType: cfg.JobType, Name: nameOf(&cfg)}
		settings[i] = store.TypeSettings{JobType: cfg.JobType, Settings: hidden.Settings(&cfg, &d.retention)}
	}
	for wait := time.Second; ; wait = min(2*wait, tellAgain) {
		statements, cancel := context.WithTimeout(d.patience, statementMax)
		others, err := d.tables.Registry.NameTypes(statements, names)
		if err == nil {
			err = d.tables.Registry.TellSettings(statements, settings)
		}
		cancel()
		if !d.trouble.on(ctx, "tell the job types", err) {
			d.tellOtherNames(configs, others)
			d.askForNew(configs)
			return
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func (d *database) tellOtherNames(configs []queue_job.Config, others []store.TypeName) {
	for _, other := range others {
		for _, cfg := range configs {
			if cfg.JobType == other.JobType {
				d.log.Error(d.aboutType(&cfg), otherNameText(&cfg, other.Name))
			}
		}
	}
}

func otherNameText(cfg *queue_job.Config, name string) string {
	return fmt.Sprintf("job type %d is called %q here, and %q by whoever ran it first: if these are two types, give one of them another JobType; if it is one, use one name, or correct %sasync_job_type_tab.name",
		cfg.JobType, nameOf(cfg), name, cfg.TablePrefix)
}

// nameOf is what a type is called, as it stands in the table.
func nameOf(cfg *queue_job.Config) string { return cut(cfg.ServiceName, store.NameMax) }

func (d *database) aboutType(cfg *queue_job.Config) context.Context {
	return logger.With(d.log.GetNewContext(cfg.ServiceName), slog.Int("job_type", int(cfg.JobType)))
}

// typeText says a job type's number and, if it is known, its name.
func typeText(jobType int32, name string) string {
	if name == "" {
		return fmt.Sprintf("type %d", jobType)
	}
	return fmt.Sprintf("type %d (%s)", jobType, name)
}
