package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/create-info/persistent-queue/service/internal/logins"
	"github.com/create-info/persistent-queue/service/internal/tables"
)

// User is somebody who may log in to the console.
type User struct {
	Name    string
	Role    Role
	Created time.Time
}

// Role is what a user may do.
type Role string

const (
	// Reader may look.
	Reader Role = "read"
	// Operator may change what can be changed, too.
	Operator Role = "operate"
)

// roles are all roles.
var roles = []Role{Reader, Operator}

var userName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,99}$`)

// Users are the users in a database. Their passwords are kept as Argon2id hashes, and must have twelve bytes at least.
type Users struct{ tables *tables.Tables }

// OpenUsers opens the users, and makes the service's tables if they are not there.
func OpenUsers(ctx context.Context, db *sql.DB, tablePrefix string) (*Users, error) {
	t, err := tables.Open(ctx, db, tablePrefix)
	if err != nil {
		return nil, err
	}
	return &Users{t}, nil
}

// Create makes a user.
func (u *Users) Create(ctx context.Context, name, password string, role Role) error {
	if !userName.MatchString(name) {
		return errors.New("create a user: a name has 1 to 100 of a-z 0-9 . _ @ -, and begins with a letter or digit")
	}
	if role != Reader && role != Operator {
		return fmt.Errorf("create a user: there is no role %q; there are %v", role, roles)
	}
	hash, err := logins.Hash(password)
	if err != nil {
		return fmt.Errorf("create a user: %w", err)
	}
	now, err := u.tables.Now(ctx)
	if err != nil {
		return fmt.Errorf("create a user: %w", err)
	}
	added, err := u.tables.AddUser(ctx, tables.User{Name: name, Hash: hash, Role: string(role), Created: now})
	if err == nil && !added {
		err = fmt.Errorf("create a user: %s is there already; give them another password, or drop them", name)
	}
	return err
}

// List returns all users, in the order of their names.
func (u *Users) List(ctx context.Context) (list []User, err error) {
	rows, err := u.tables.Users(ctx)
	for _, r := range rows {
		list = append(list, User{r.Name, Role(r.Role), r.Created})
	}
	return list, err
}

// SetPassword gives a user another password, and ends their sessions, on all instances within ten seconds. It reports whether the user is
// there.
func (u *Users) SetPassword(ctx context.Context, name, password string) (there bool, err error) {
	hash, err := logins.Hash(password)
	if err != nil {
		return false, fmt.Errorf("password of %s: %w", name, err)
	}
	return u.tables.SetPassword(ctx, name, hash)
}

// Drop deletes a user, and ends their sessions as SetPassword does. It reports whether the user was there.
func (u *Users) Drop(ctx context.Context, name string) (there bool, err error) {
	return u.tables.DropUser(ctx, name)
}

// Protect puts a login before a handler, such as a console: whoever is nobody is asked at /login. /logout ends a session, as twelve hours
// do. What is below /static/ passes. From the sixth failed login on, each failure delays the next try of that address, up to 15 minutes; from
// the hundred-and-first within a short time on, a name is delayed, too, by ten seconds at most.
// Its addresses are relative, so it works below any path, with [http.StripPrefix], and behind a proxy that takes a prefix away.
func (u *Users) Protect(next http.Handler) http.Handler { return logins.New(u.tables).Protect(next) }

// ProtectWithPassword asks for one password of twelve bytes or more before a handler, which all who use it share: browsers show a dialog, in
// which the name may be any. From the sixth failed login on, each failure delays the next try of that address, up to 15 minutes.
func ProtectWithPassword(password string, next http.Handler) (http.Handler, error) {
	if len(password) < logins.PasswordMin {
		return nil, fmt.Errorf("the password has %d bytes, and needs %d at least", len(password), logins.PasswordMin)
	}
	return logins.Shared(password, next), nil
}

// UserOf is who has sent a request that Protect let pass. Nil: it was no such request.
func UserOf(r *http.Request) *User {
	row := logins.UserOf(r)
	if row == nil {
		return nil
	}
	return &User{row.Name, Role(row.Role), row.Created}
}
