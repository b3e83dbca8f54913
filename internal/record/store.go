package record

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Store has what people read and change, besides what a [store.Store] has for the engine.
type Store struct{ store.Store }

// Open is [conn.Open].
func Open(ctx context.Context, db conn.DB, prefix string) (*Store, error) {
	s, err := store.Open(ctx, db, prefix)
	if err != nil {
		return nil, err
	}
	return &Store{*s}, nil
}

// over returns the store on a sender.
func over(s *conn.Sender) *Store { return &Store{store.Store{Sender: s}} }

// Through is [conn.Sender.Through].
func (s *Store) Through(h conn.Handle) *Store { return over(s.Sender.Through(h)) }

// Plain is [conn.Sender.Plain].
func (s *Store) Plain() *Store { return over(s.Sender.Plain()) }

// ByClock is [conn.Sender.ByClock].
func (s *Store) ByClock(now func() time.Time) *Store { return over(s.Sender.ByClock(now)) }

// Relieved is [conn.Sender.Relieved].
func (s *Store) Relieved() (engine, handlers *Store, release func()) {
	first, second, release := s.Sender.Relieved()
	return over(first), over(second), release
}

// InOneTransaction is [store.Store.InOneTransaction].
func (s *Store) InOneTransaction(ctx context.Context, act func(*Store) error) error {
	return s.Store.InOneTransaction(ctx, func(one *store.Store) error { return act(&Store{*one}) })
}
