package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// Token is what callers of the API show.
type Token struct {
	ID string
	// Note says what the token is for.
	Note string
	// Scopes are what it may do: tasks:add, tasks:read, bodies:read (bodies of tasks), tasks:manage (cancel, change, retry), topics:manage
	// and admin, which is everything.
	Scopes []string
	// Topics are patterns of topics, in which * stands for any characters.
	Topics []string
	// Expires is when it counts no more, by the clock of the process that is called. Zero: never.
	Expires time.Time
	Created time.Time
}

// Tokens are the tokens in a database, for tools: running services see a change within a second.
type Tokens struct{ tables *tables.Tables }

// OpenTokens opens the tokens, and makes the service's tables if they are not there.
func OpenTokens(ctx context.Context, db *sql.DB, tablePrefix string) (*Tokens, error) {
	t, err := tables.Open(ctx, db, tablePrefix)
	if err != nil {
		return nil, err
	}
	return &Tokens{t}, nil
}

// Create makes a token with this note, scopes, topics and end, and returns its text, which nothing can show again: the table has its
// hash only.
func (t *Tokens) Create(ctx context.Context, token Token) (id, text string, err error) {
	var scopes []tokens.Scope
	for _, s := range token.Scopes {
		scopes = append(scopes, tokens.Scope(s))
	}
	now, err := t.tables.Now(ctx)
	var row tables.Token
	if err == nil {
		row, text, err = tokens.New(token.Note, scopes, token.Topics, token.Expires, now)
	}
	if err == nil {
		err = t.tables.AddToken(ctx, row)
	}
	if err != nil {
		return "", "", fmt.Errorf("create a token: %w", err)
	}
	return row.ID, text, nil
}

// First makes a token that may do everything, if there is no token, and returns its text. It returns no text if there is one, also if
// another process makes it at the same time.
func (t *Tokens) First(ctx context.Context) (text string, err error) {
	there, err := t.tables.Tokens(ctx)
	if err != nil || len(there) > 0 {
		return "", err
	}
	now, err := t.tables.Now(ctx)
	if err != nil {
		return "", err
	}
	row, text := tokens.First(now)
	if errAdd := t.tables.AddToken(ctx, row); errAdd != nil {
		there, err = t.tables.Tokens(ctx)
		isOurs := func(other tables.Token) bool { return other.Hash == row.Hash }
		switch {
		case err != nil || len(there) == 0:
			return "", fmt.Errorf("create the first token: %w", errors.Join(errAdd, err))
		case !slices.ContainsFunc(there, isOurs): // otherwise, it was added though the answer was lost
			return "", nil
		}
	}
	return text, nil
}

// List returns all tokens, the first one first.
func (t *Tokens) List(ctx context.Context) (list []Token, err error) {
	rows, err := t.tables.Tokens(ctx)
	for _, r := range rows {
		list = append(list, Token{r.ID, r.Note, strings.Fields(r.Scopes), strings.Fields(r.Topics), r.Expires, r.Created})
	}
	return list, err
}

// Revoke deletes a token, and reports whether it was there.
func (t *Tokens) Revoke(ctx context.Context, id string) (there bool, err error) {
	return t.tables.DropToken(ctx, id)
}
