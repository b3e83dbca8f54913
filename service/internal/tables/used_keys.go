package tables

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// UsedKey is an Idempotency-Key that a request came with, and what it was answered.
type UsedKey struct {
	Token, Key string // a key belongs to the token that used it
	Hash       string // of the request, in hexadecimal digits
	Status     int
	Answer     string
}

// TakeKey takes an Idempotency-Key for a request in its transaction. If the key was used before, taken is false, and used is what it
// was used for. While another transaction has the key and has not ended, TakeKey waits for it.
func (t *Tables) TakeKey(ctx context.Context, tx *sql.Tx, key UsedKey) (taken bool, used UsedKey, err error) {
	taken, err = t.changed(ctx, tx,
		`{ignore} INTO {p}pqueue_used_key_tab (token, used_key, hash, status, answer, create_time) VALUES (?, ?, ?, 0, '', {second}){or nothing}`,
		key.Token, key.Key, key.Hash)
	if err != nil {
		return false, used, fmt.Errorf("take an idempotency key: %w", err)
	}
	if taken {
		return true, key, nil
	}
	found := false
	err = t.each(ctx, tx, func(scan func(...any) error) error {
		found, used.Token, used.Key = true, key.Token, key.Key
		return scan(&used.Hash, &used.Status, &used.Answer)
	}, `SELECT hash, status, answer FROM {p}pqueue_used_key_tab WHERE token = ? AND used_key = ?`, key.Token, key.Key)
	if err == nil && !found {
		err = fmt.Errorf("it was deleted at this moment")
	}
	if err != nil {
		return false, used, fmt.Errorf("read an idempotency key: %w", err)
	}
	return false, used, nil
}

// AnswerKey writes what the request with the key is answered, in the transaction that has taken the key.
func (t *Tables) AnswerKey(ctx context.Context, tx *sql.Tx, key UsedKey) error {
	err := t.exec(ctx, tx, `UPDATE {p}pqueue_used_key_tab SET status = ?, answer = ? WHERE token = ? AND used_key = ?`,
		key.Status, key.Answer, key.Token, key.Key)
	if err != nil {
		return fmt.Errorf("answer an idempotency key: %w", err)
	}
	return nil
}

// ForgetKeys deletes the keys that were used before a moment.
func (t *Tables) ForgetKeys(ctx context.Context, before time.Time) error {
	if err := t.exec(ctx, t.db, `{delete} FROM {p}pqueue_used_key_tab WHERE create_time < ?`, before.Unix()); err != nil {
		return fmt.Errorf("forget idempotency keys: %w", err)
	}
	return nil
}
