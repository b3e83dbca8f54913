package store

import (
	"context"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Store has the library's statements to one set of tables in one database.
type Store struct{ *conn.Sender }

// Open is [conn.Open].
func Open(ctx context.Context, db conn.DB, prefix string) (*Store, error) {
	s, err := conn.Open(ctx, db, prefix)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// Through is [conn.Sender.Through].
func (s *Store) Through(h conn.Handle) *Store { return &Store{s.Sender.Through(h)} }

// Reserve is [conn.Sender.Reserve].
func (s *Store) Reserve() (reserved *Store, release func()) {
	one, release := s.Sender.Reserve()
	return &Store{one}, release
}

// Pulse is [conn.Sender.Pulse].
func (s *Store) Pulse() (reserved *Store, release func()) {
	one, release := s.Sender.Pulse()
	if one == nil {
		return nil, release
	}
	return &Store{one}, release
}

// InOneTransaction passes to act a store whose statements are one transaction: that of the handle, if it is one; if the handle is a pool,
// a transaction of their own, which is sent again after a deadlock. On another handle, each statement is a transaction of its own.
func (s *Store) InOneTransaction(ctx context.Context, act func(*Store) error) error {
	return conn.SendAgain(s.CanTransact() || s.CommitsEach(), func() error { return s.together(ctx, act) })
}

func (s *Store) together(ctx context.Context, act func(*Store) error) error {
	return conn.Together(ctx, s, func(one *conn.Sender) error { return act(&Store{one}) })
}

func (s *Store) onOneSession(ctx context.Context, act func(*Store) error) error {
	return conn.OnOneSession(ctx, s, func(one *conn.Sender) error { return act(&Store{one}) })
}
