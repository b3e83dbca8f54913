// Package tokens says who may do what: tokens with scopes and patterns of topics or, if the service is open to this machine and there is no
// token, whoever is on this machine.
package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/nearby"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
)

// Scope is something that a token may do.
type Scope string

const (
	AddTasks     Scope = "tasks:add"
	ReadTasks    Scope = "tasks:read"
	ReadBodies   Scope = "bodies:read"   // bodies of tasks, and what receivers answered
	ManageTasks  Scope = "tasks:manage"  // cancel, change, run now, retry
	ManageTopics Scope = "topics:manage" // configure, pause, resume
	Admin        Scope = "admin"         // everything, tokens too
)

// Scopes are all scopes.
var Scopes = []Scope{AddTasks, ReadTasks, ReadBodies, ManageTasks, ManageTopics, Admin}

// Caller is who sent a request.
type Caller struct {
	ID     string // of the token; "local" without one
	token  bool
	scopes []Scope
	topics []string
}

type openKey struct{}

// Open is the context of requests to a service that is open to this machine.
func Open(ctx context.Context) context.Context { return context.WithValue(ctx, openKey{}, true) }

// local is who calls from this machine while there is no token, if the service is open to it.
var local = &Caller{ID: "local", scopes: []Scope{Admin}, topics: []string{"*"}}

// Adder is a caller without a token, who may add tasks to all topics and do nothing else.
func Adder(id string) *Caller {
	return &Caller{ID: id, scopes: []Scope{AddTasks}, topics: []string{"*"}}
}

// IsToken reports whether a caller has shown a token. A caller who is known by something else may be one of many.
func IsToken(c *Caller) bool { return c.token }

// May reports whether the caller may do something, with topics of any name.
func (c *Caller) May(scope Scope) bool {
	return slices.Contains(c.scopes, scope) || slices.Contains(c.scopes, Admin)
}

// MayTopic reports whether the caller may do something with a topic, or with all topics that a pattern fits: then each of them fits one of
// the caller's patterns. Tokens of earlier versions may have ? and [a-z] in their patterns, which stand for a character of a topic, and never
// for the * of a pattern, which is any number of them.
func (c *Caller) MayTopic(scope Scope, topic string) bool {
	return c.May(scope) && slices.ContainsFunc(c.topics, func(pattern string) bool {
		if strings.Contains(topic, "*") && strings.ContainsAny(pattern, `?[\`) {
			return false
		}
		fits, err := path.Match(pattern, topic)
		return err == nil && fits
	})
}

// Topics are the patterns of topics with which the caller may do something.
func (c *Caller) Topics() []string { return c.topics }

const topicsMax = 10_000 // bytes of the patterns of a token

// New makes a token, and its text, which is shown once. The topics are patterns, in which * stands for any characters. When it is created is by
// the database's clock. Whether it expires in time to come is by this process's, as it is when a caller shows it.
func New(note string, scopes []Scope, topics []string, expires, created time.Time) (token tables.Token, text string, err error) {
	if len(scopes) == 0 || len(topics) == 0 {
		return token, "", fmt.Errorf("a token needs scopes and patterns of topics; * stands for all topics")
	}
	var names []string
	for _, s := range scopes {
		if !slices.Contains(Scopes, s) {
			return token, "", fmt.Errorf("there is no scope %q; there are %v", s, Scopes)
		}
		if !slices.Contains(names, string(s)) {
			names = append(names, string(s))
		}
	}
	for _, pattern := range topics {
		if !task.IsTopic(strings.ReplaceAll(pattern, "*", "a")) {
			return token, "", fmt.Errorf("%.100q fits no topic; use a name, or * for any characters, as in shop.*; %s", pattern, task.TopicRule)
		}
	}
	if slices.Contains(scopes, Admin) && !slices.Contains(topics, "*") {
		return token, "", fmt.Errorf("admin may do everything, also make tokens for all topics; leave the topics out, or give the token the other scopes")
	}
	if !expires.IsZero() && !expires.After(time.Now()) {
		return token, "",
			fmt.Errorf("the token expires at %s, which is over; use a time to come, or none for a token that does not expire",
				expires.UTC().Format(time.RFC3339))
	}
	if n := len(strings.Join(topics, " ")); n > topicsMax {
		return token, "", fmt.Errorf("the patterns of topics have %d bytes, and the most is %d; use shorter ones, with *", n, topicsMax)
	}
	token, text = withID(strings.ToLower(rand.Text()[:12]), note, names, topics, expires, created)
	return token, text, nil
}

// FirstID is the id of the token that a service makes if there is none. Of several processes that start at once, one can add it.
const FirstID = "first"

// First makes that token: it may do everything.
func First(now time.Time) (token tables.Token, text string) {
	return withID(FirstID, "made by the first start", []string{string(Admin)}, []string{"*"}, time.Time{}, now)
}

func withID(id, note string, scopes, topics []string, expires, now time.Time) (token tables.Token, text string) {
	secret := rand.Text() + rand.Text()
	token = tables.Token{ID: id, Hash: hashOf(secret),
		Note: note, Scopes: strings.Join(scopes, " "), Topics: strings.Join(topics, " "), Expires: expires, Created: now}
	return token, "pq_" + id + "_" + secret
}

// hashOf needs no salt and no slow hash: a secret has 260 bits of chance.
func hashOf(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(hash[:])
}

// Set is what there is of tokens at a moment. Do not change it.
type Set struct {
	byID map[string]known
}

type known struct {
	hash    string
	caller  *Caller
	expires time.Time
}

// NewSet makes a set of the table's rows.
func NewSet(rows []tables.Token) *Set {
	s := &Set{byID: make(map[string]known, len(rows))}
	for _, row := range rows {
		caller := &Caller{ID: row.ID, token: true, topics: strings.Fields(row.Topics)}
		for _, scope := range strings.Fields(row.Scopes) {
			caller.scopes = append(caller.scopes, Scope(scope))
		}
		s.byID[row.ID] = known{row.Hash, caller, row.Expires}
	}
	return s
}

// Caller says who sent a request.
func (s *Set) Caller(r *http.Request, now time.Time) (*Caller, *problem.Problem) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return s.holder(strings.TrimLeft(text, " "), now)
	case len(s.byID) > 0:
		return nil, problem.New(problem.Unauthorized, "a token is missing; send the header Authorization: Bearer pq_…")
	case r.Context().Value(openKey{}) == nil:
		return nil, problem.New(problem.Unauthorized, "a token is missing, and there is none yet; make one with pqueue token create")
	case !nearby.FromThisMachine(r):
		return nil, problem.New(problem.Unauthorized,
			"without a token, only programs on this machine may call, and none through a proxy; make one with pqueue token create")
	}
	return local, nil
}

func (s *Set) holder(text string, now time.Time) (*Caller, *problem.Problem) {
	id, secret, _ := strings.Cut(strings.TrimPrefix(text, "pq_"), "_")
	token, ok := s.byID[id]
	if !ok || subtle.ConstantTimeCompare([]byte(hashOf(secret)), []byte(token.hash)) == 0 {
		return nil, problem.New(problem.Unauthorized, "there is no such token; pqueue token create makes one")
	}
	if !token.expires.IsZero() && !now.Before(token.expires) {
		return nil, problem.New(problem.Unauthorized, "the token has expired at %s; make another one", token.expires.UTC().Format(time.RFC3339))
	}
	return token.caller, nil
}
