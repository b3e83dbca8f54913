package tables

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// User is somebody who may log in.
type User struct {
	Name    string
	Hash    string // of the password
	Role    string
	Created time.Time
}

// Users returns all users.
func (t *Tables) Users(ctx context.Context) (users []User, err error) {
	return t.users(ctx, `SELECT name, hash, role, create_time FROM {p}pqueue_user_tab ORDER BY name`)
}

// User returns a user; nil: there is none of that name. Some databases ignore blanks at the end of a name. Those who count what went wrong with
// a name do not: so such a name is nobody's, nor is one that the column could not hold.
func (t *Tables) User(ctx context.Context, name string) (*User, error) {
	if strings.ContainsFunc(name, func(r rune) bool { return r == 0 || r > unicode.MaxASCII }) {
		return nil, nil
	}
	user, err := firstUser(t.users(ctx, `SELECT name, hash, role, create_time FROM {p}pqueue_user_tab WHERE name = ?`, name))
	if user != nil && user.Name != name {
		user = nil
	}
	return user, err
}

// UserOfSession returns the user whose session has a hash, and has not expired at a moment; nil: there is none.
func (t *Tables) UserOfSession(ctx context.Context, hash string, now time.Time) (*User, error) {
	return firstUser(t.users(ctx, `SELECT u.name, u.hash, u.role, u.create_time FROM {p}pqueue_session_tab s JOIN {p}pqueue_user_tab u ON u.name = s.name
		WHERE s.hash = ? AND s.expire_time > ?`, hash, now.Unix()))
}

func firstUser(users []User, err error) (*User, error) {
	if err != nil || len(users) == 0 {
		return nil, err
	}
	return &users[0], nil
}

func (t *Tables) users(ctx context.Context, query string, args ...any) (users []User, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		var u User
		var created int64
		err := scan(&u.Name, &u.Hash, &u.Role, &created)
		u.Created = fromUnix(created)
		users = append(users, u)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read the users: %w", err)
	}
	return users, nil
}

// AddUser adds a user, and reports whether the name was free.
func (t *Tables) AddUser(ctx context.Context, u User) (added bool, err error) {
	added, err = t.changed(ctx, t.db, `{ignore} INTO {p}pqueue_user_tab (name, hash, role, create_time) VALUES (?, ?, ?, ?){or nothing}`,
		u.Name, u.Hash, u.Role, unix(u.Created))
	if err != nil {
		return false, fmt.Errorf("add user %s: %w", u.Name, err)
	}
	return added, nil
}

// SetPassword changes a password, which ends the user's sessions. It reports whether the user is there.
func (t *Tables) SetPassword(ctx context.Context, name, hash string) (there bool, err error) {
	return t.changeUser(ctx, name, `UPDATE {p}pqueue_user_tab SET hash = ? WHERE name = ?`, hash, name)
}

// DropUser deletes a user and ends their sessions. It reports whether the user was there.
func (t *Tables) DropUser(ctx context.Context, name string) (there bool, err error) {
	return t.changeUser(ctx, name, `{delete} FROM {p}pqueue_user_tab WHERE name = ?`, name)
}

func (t *Tables) changeUser(ctx context.Context, name, statement string, args ...any) (there bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) (err error) {
		if there, err = t.changed(ctx, tx, statement, args...); err != nil {
			return err
		}
		return t.exec(ctx, tx, `{delete} FROM {p}pqueue_session_tab WHERE name = ?`, name)
	})
	if err != nil {
		return false, fmt.Errorf("change user %s: %w", name, err)
	}
	return there, nil
}

const sessionsKept = 7 * 24 * time.Hour // after their end; a clock that is ahead for a moment ends nobody's for good

// AddSession adds a session, and deletes the sessions that expired long before a moment.
func (t *Tables) AddSession(ctx context.Context, hash, name string, now, expires time.Time) error {
	err := t.exec(ctx, t.db, `{delete} FROM {p}pqueue_session_tab WHERE expire_time <= ?`, now.Add(-sessionsKept).Unix())
	if err == nil {
		err = t.exec(ctx, t.db, `INSERT INTO {p}pqueue_session_tab (hash, name, expire_time) VALUES (?, ?, ?)`, hash, name, expires.Unix())
	}
	if err != nil {
		return fmt.Errorf("add a session: %w", err)
	}
	return nil
}

// DropSession ends a session.
func (t *Tables) DropSession(ctx context.Context, hash string) error {
	if err := t.exec(ctx, t.db, `{delete} FROM {p}pqueue_session_tab WHERE hash = ?`, hash); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}
