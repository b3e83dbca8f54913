package cluster

import (
	"context"
	"testing"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// fakeMembers makes members that only note what they are told.
type fakeMembers struct{}

func (fakeMembers) About(*queue_job.Config) context.Context { return context.Background() }
func (fakeMembers) Try(*queue_job.Config) error             { return nil }
func (fakeMembers) Begin([]Member)                          {}

func (fakeMembers) New(*queue_job.Config, Spec) (Member, error) { return &fakeMember{}, nil }

type fakeMember struct {
	Member
	heard []*Pauses
	ended int
}

func (m *fakeMember) About() context.Context { return context.Background() }
func (m *fakeMember) Hear(answer *Pauses)    { m.heard = append(m.heard, answer) }

func (m *fakeMember) End(ended func()) {
	m.ended++
	ended()
}

// coordinatorOf is a coordinator of some types that no loop works, and whose statements about leases all succeed.
func coordinatorOf(t *testing.T, tables Tables, configs ...queue_job.Config) *Coordinator {
	t.Helper()
	log := logger.QueueLog{}
	c, err := New(Process{
		Tables: tables, Members: fakeMembers{}, Life: t.Context(), About: t.Context(), Log: log, Clock: &ground.Clock{},
		Errlog: ground.NewErrlog(log, t.Context(), nil), Keeper: keeper.New(t.Context(), &leases{}, "shop@host/1", "a1b2c3d4e5f6", func(error) {}),
	}, configs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// leases are a table of leases in which all succeeds that is asked for.
type leases struct{ keeper.Leases }

func (*leases) LayDown(context.Context, string, string) error   { return nil }
func (*leases) DropLease(context.Context, string, string) error { return nil }

// serveOn has a seat serve under a lease.
func serveOn(t *testing.T, s *seat, term int64) *tenure {
	t.Helper()
	s.take(keeper.Unending(t.Context(), keeper.Want{Name: s.name}, term), unaware{})
	return s.begin(func() {})
}
