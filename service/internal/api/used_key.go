package api

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"regexp"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
)

var plainKey = regexp.MustCompile(`^[!-~]{1,200}$`)

// usedKey is the Idempotency-Key of a request, or nil, and what its body is to be written to, for the key's hash.
func usedKey(c *call) (*tables.UsedKey, hash.Hash, error) {
	key := c.Request.Header.Get("Idempotency-Key")
	if key == "" {
		return nil, noHash{}, nil
	}
	if key = strings.Trim(key, `"`); !plainKey.MatchString(key) {
		return nil, nil, problem.New(problem.Invalid, "the Idempotency-Key must have 1 to 200 visible ASCII characters, such as a UUID")
	}
	into := sha256.New()
	into.Write([]byte(c.Method + " " + c.URL.Path + "\n"))
	return &tables.UsedKey{Token: c.caller.ID, Key: key}, into, nil
}

// noHash is written to where there is no key.
type noHash struct{ hash.Hash }

func (noHash) Write(text []byte) (int, error) { return len(text), nil }

// usedKeyOf is the Idempotency-Key of a request whose body is known, or nil.
func usedKeyOf(c *call, body []byte) (*tables.UsedKey, error) {
	key, into, err := usedKey(c)
	if err != nil || key == nil {
		return nil, err
	}
	into.Write(body)
	key.Hash = hex.EncodeToString(into.Sum(nil))
	return key, nil
}

// errAnswered ends a transaction whose request was answered before.
var errAnswered = problem.New(problem.Exists, "the request was answered before")

// takeKey takes a key in a transaction. If it was used for the same request, the error is errAnswered, and it returns how that was answered.
func (a *api) takeKey(ctx context.Context, tx *sql.Tx, key tables.UsedKey) (before tables.UsedKey, err error) {
	taken, used, err := a.Tables.TakeKey(ctx, tx, key)
	switch {
	case err != nil || taken:
		return before, err
	case used.Hash != key.Hash:
		return before, problem.New(problem.KeyReused, "the Idempotency-Key was used for another request; take a new one for each request")
	}
	return used, errAnswered
}

// answerKey notes with a key what its request is answered.
func (a *api) answerKey(ctx context.Context, tx *sql.Tx, key *tables.UsedKey, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	key.Status, key.Answer = status, string(text)
	return a.Tables.AnswerKey(ctx, tx, *key)
}

// answerer makes the answer to tasks that were added, in their transaction. An error ends it.
type answerer func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (status int, body any, err error)

// locate says where what an answer is about can be seen: below a path, by the id in the answer.
func (c *call) locate(below, answer string) {
	var is struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(answer), &is) == nil && is.ID != "" {
		c.Header().Set("Location", below+is.ID)
	}
}

// once adds tasks and takes the request's key in the same transaction. If the key was used for the same request, it answers as then.
func (a *api) once(c *call, key tables.UsedKey, jobs []queue_job.AddModelJob, answer answerer) error {
	var before tables.UsedKey
	_, err := a.Intake.AddAll(c.Context(), jobs, intake.Around{
		Before: func(ctx context.Context, tx *sql.Tx) (err error) {
			before, err = a.takeKey(ctx, tx, key)
			return err
		},
		After: func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) error {
			status, body, err := answer(ctx, tx, added)
			if err != nil {
				return err
			}
			return a.answerKey(ctx, tx, &key, status, body)
		},
	})
	if errors.Is(err, errAnswered) {
		c.Header().Set("Idempotency-Replayed", "true")
		key, err = before, nil
	}
	if err != nil {
		return err
	}
	clear(jobs)         // whoever reads the answer slowly holds up nobody
	if len(jobs) == 1 { // else the answer has no id, and may be long
		c.locate(tasksPath, key.Answer)
	}
	return c.sayText(key.Status, []byte(key.Answer))
}
