package tables

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Token is a row of the tokens. Its secret is not in the table.
type Token struct {
	ID      string
	Hash    string // SHA-256 of the secret, in hexadecimal digits
	Note    string
	Scopes  string // with blanks between them
	Topics  string // patterns, with blanks between them
	Expires time.Time
	Created time.Time
}

// Tokens returns all tokens, expired ones too.
func (t *Tables) Tokens(ctx context.Context) (tokens []Token, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		var token Token
		var expires, created int64
		if err := scan(&token.ID, &token.Hash, &token.Note, &token.Scopes, &token.Topics, &expires, &created); err != nil {
			return err
		}
		token.Expires, token.Created = fromUnix(expires), fromUnix(created)
		tokens = append(tokens, token)
		return nil
	}, `SELECT id, hash, note, scopes, topics, expire_time, create_time FROM {p}pqueue_token_tab ORDER BY create_time, id`)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	return tokens, nil
}

// AddToken adds a token. All instances know it within a second.
func (t *Tables) AddToken(ctx context.Context, token Token) error {
	err := t.In(ctx, func(tx *sql.Tx) error {
		if _, err := t.raise(ctx, tx, tokensCounter, 1); err != nil {
			return err
		}
		return t.exec(ctx, tx, `INSERT INTO {p}pqueue_token_tab (id, hash, note, scopes, topics, expire_time, create_time) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			token.ID, token.Hash, token.Note, token.Scopes, token.Topics, unix(token.Expires), unix(token.Created))
	})
	if err != nil {
		return fmt.Errorf("add a token: %w", err)
	}
	return nil
}

// DropToken deletes a token, and reports whether it was there. No instance takes it any more, a second later at most.
func (t *Tables) DropToken(ctx context.Context, id string) (there bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) (err error) {
		if _, err := t.raise(ctx, tx, tokensCounter, 1); err != nil {
			return err
		}
		there, err = t.changed(ctx, tx, `{delete} FROM {p}pqueue_token_tab WHERE id = ?`, id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("drop token %s: %w", id, err)
	}
	return there, nil
}
