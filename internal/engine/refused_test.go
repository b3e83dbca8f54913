package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// nameless are tables that do not answer at first.
type nameless struct {
	upkeep.Registry
	silent int
	given  []record.TypeName
	told   []record.TypeSettings
}

func (n *nameless) NameTypes(_ context.Context, given []record.TypeName) (others []record.TypeName, err error) {
	if n.silent > 0 {
		n.silent--
		return nil, errors.New("no answer")
	}
	n.given = append(n.given, given...)
	return []record.TypeName{{JobType: 2, Name: "export"}}, nil
}

func (n *nameless) WriteSettings(_ context.Context, given []record.TypeSettings) error {
	n.told = append(n.told, given...)
	return nil
}

func TestTypesAreNamedAsSoonAsTheDatabaseAnswersAndAnotherNameIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}
		names := &nameless{silent: 9}
		mail, index := typeWith(1), typeWith(2)
		mail.ServiceName, index.ServiceName, index.TablePrefix = "mail", "index", "shop_"
		r := &resting{}
		tables := Tables{Jobs: r, Leases: r, Registry: names, Close: func() {}}
		d, err := openDatabase(t.Context(), tables, []queue_job.Config{mail, index}, pipeline.Process{Log: log, Permit: pipeline.NewPermit()})
		if err != nil {
			t.Fatal(err)
		}
		d.begin()
		time.Sleep(time.Hour)
		if err := d.stop(context.Background()); err != nil {
			t.Error(err)
		}
		if want := []record.TypeName{{JobType: 1, Name: "mail"}, {JobType: 2, Name: "index"}}; !slices.Equal(names.given, want) {
			t.Errorf("named %v, want %v", names.given, want)
		}
		if len(names.told) != 2 || names.told[0] != (record.TypeSettings{JobType: 1, Settings: `{"config":{"LoadLimit":100,"LockSecond":10,"QueueMaxSize":100,"WorkerExpirySecond":60,"WorkerPoolCapacity":2}}`}) {
			t.Errorf("told %v", names.told)
		}
		const want = `level=ERROR msg="job type 2 is called \"index\" here, and \"export\" by the service that ran it first: ` +
			`if these are two types, give one of them another JobType; if it is one that was renamed, set RenamedFrom to \"export\", or rename it for all services: ` +
			`pqueue type rename 2 \"index\" (shop_async_job_type_tab.name); its jobs are not run here" service=index job_type=2`
		if left := d.coordinator.Configured(); len(left) != 1 || left[0].JobType != 1 || !errors.Is(d.health.refused.first(), ErrOtherName) {
			t.Errorf("left: %v; %v", left, d.health.refused.first())
		}
		if strings.Count(text.String(), "level=ERROR") != 1 || !strings.Contains(text.String(), want) {
			t.Errorf("%s\nwant\n%s", &text, want)
		}
	})
}
