// Package topics knows the topics: each is a job type of its own, which appears with its first task.
package topics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

const (
	// LimitDefault is how many topics there may be. A topic without tasks costs nothing.
	LimitDefault = 10_000

	dormantAfter = 10 * time.Minute // without a task

	lookEvery = time.Second
	lookMax   = 5 * time.Second
	freshFor  = 10 * time.Second // without an answer for this long, the database is away
	tryMax    = time.Minute      // a try takes some seconds at most, also if the database is away

	alonePatience = 2 * time.Second // for trying topics one by one: if the database is away, all of them fail
	namesLogged   = 10
	toldAgain     = time.Minute // of topics that are still not served
)

// Topic is a topic at a moment. Do not change it.
type Topic struct {
	Type    int32
	Name    string
	Config  Config
	Created time.Time

	version int64
}

// Table is what the registry needs of the tables. *tables.Tables has it.
type Table interface {
	Versions(ctx context.Context) (tables.Versions, error)
	TopicsSince(ctx context.Context, version int64) ([]tables.Topic, error)
	PutTopic(ctx context.Context, name, config string, limits tables.Limits) (tables.Topic, bool, error)
	MakeTopics(ctx context.Context, topics []tables.Topic, limits tables.Limits) ([]tables.Topic, error)
	DeleteTopics(ctx context.Context, types []int32) ([]tables.Topic, error)
	DeleteTopic(ctx context.Context, name string) (topic tables.Topic, found bool, err error)
	Tokens(ctx context.Context) ([]tables.Token, error)
}

// Registry has the topics and the tokens in memory, and looks once a second whether there are others.
type Registry struct {
	table    Table
	limits   Limits
	serve    func(context.Context, []*Topic) error
	log      *slog.Logger
	known    known
	holders  atomic.Pointer[tokens.Set]
	looked   moment     // when it last saw the table
	tried    moment     // when Run last tried to
	mu       sync.Mutex // of changes
	seen     tables.Versions
	unread   bool             // the tokens were never read
	latest   map[int32]int64  // the version that was learned last, of each topic and template
	unserved map[int32]*Topic // topics that are not served as they are
	refused  struct {         // what the log says of topics that are not served
		names []string
		told  time.Time
	}

	waiting struct { // rows that this process has written and not learned of
		sync.Mutex
		rows []tables.Topic
	}
}

// known may be read at any time; changes take turns. A deleted topic has no name, but still its type: a task may have
// been added to it at that moment. Templates are kept as topics are, under their patterns, and have no tasks.
type known struct {
	byName, byType, templates sync.Map // *Topic
}

func (k *known) named(name string) *Topic       { return topicIn(&k.byName, name) }
func (k *known) ofType(jobType int32) *Topic    { return topicIn(&k.byType, jobType) }
func (k *known) template(pattern string) *Topic { return topicIn(&k.templates, pattern) }

func topicIn(m *sync.Map, key any) *Topic {
	topic, _ := m.Load(key)
	is, _ := topic.(*Topic)
	return is
}

func topicsOf(m *sync.Map) (all []*Topic) {
	for _, topic := range m.Range {
		all = append(all, topic.(*Topic))
	}
	return all
}

// Limits are how many topics there may be.
type Limits struct {
	All     int
	OfToken int // that a token's patterns fit when it makes another one
}

// New makes a registry. The function serve is told of topics that are new or have another configuration, until it returns nil for
// them; nil: this process sends nothing.
func New(table Table, limits Limits, serve func(context.Context, []*Topic) error, log *slog.Logger) *Registry {
	r := &Registry{table: table, limits: limits, serve: serve, log: log, unread: true, latest: map[int32]int64{}, unserved: map[int32]*Topic{}}
	r.holders.Store(tokens.NewSet(nil))
	return r
}

// Named returns the topic of a name, or nil.
func (r *Registry) Named(name string) *Topic { return r.known.named(name) }

// OfType returns the topic of a job type, or nil.
func (r *Registry) OfType(jobType int32) *Topic { return r.known.ofType(jobType) }

// All returns all topics, in the order of their names.
func (r *Registry) All() []*Topic {
	all := topicsOf(&r.known.byName)
	slices.SortFunc(all, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Templates returns all templates, in the order in which they are tried: the longest pattern first.
func (r *Registry) Templates() []*Topic {
	all := topicsOf(&r.known.templates)
	slices.SortFunc(all, func(a, b *Topic) int {
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// IsPattern reports whether a text is a pattern of topics that a template can have: a name with * for any characters.
func IsPattern(text string) bool {
	return strings.Contains(text, "*") && task.IsTopic(strings.ReplaceAll(text, "*", "a"))
}

// template is the configuration of a new topic: that of the first template whose pattern fits.
func (r *Registry) template(name string) *Config {
	for _, t := range r.Templates() {
		if fits, err := path.Match(t.Name, name); err == nil && fits {
			return &t.Config
		}
	}
	return &Config{}
}

// Tokens are the tokens as they were a second ago at most.
func (r *Registry) Tokens() *tokens.Set { return r.holders.Load() }

// Ensure returns the topic of a name, and makes it if it is new. If a caller wants it, it is one of those that the caller's token may make.
func (r *Registry) Ensure(ctx context.Context, name string, by *tokens.Caller) (*Topic, error) {
	if topic := r.Named(name); topic != nil {
		return topic, nil
	}
	all, err := r.EnsureAll(ctx, []string{name}, by)
	return all[name], err
}

// EnsureAll returns the topics of names, and makes the new ones, all of them or none.
func (r *Registry) EnsureAll(ctx context.Context, names []string, by *tokens.Caller) (map[string]*Topic, error) {
	all := make(map[string]*Topic, len(names))
	var missing []tables.Topic
	for _, name := range names {
		if _, known := all[name]; known {
			continue
		}
		topic := r.Named(name)
		if all[name] = topic; topic != nil {
			continue
		}
		config, err := json.Marshal(r.template(name))
		if err != nil {
			return nil, err
		}
		missing = append(missing, tables.Topic{Name: name, Config: string(config)})
	}
	if len(missing) == 0 {
		return all, nil
	}
	rows, err := r.table.MakeTopics(ctx, missing, r.limitsOf(by))
	if err != nil {
		return nil, r.tooMany(err)
	}
	r.news(ctx, rows...)
	for _, row := range rows {
		if all[row.Name] = r.OfType(row.Type); all[row.Name] == nil {
			all[row.Name] = r.topicOf(&row)
		}
	}
	return all, nil
}

// limitsOf are the limits for what a caller makes; nil: the service itself, which does what somebody was allowed to want.
func (r *Registry) limitsOf(by *tokens.Caller) tables.Limits {
	limits := tables.Limits{All: r.limits.All, Fitting: r.limits.OfToken}
	if by != nil && !by.May(tokens.Admin) {
		limits.Like = by.Topics()
	}
	return limits
}

func (r *Registry) tooMany(err error) error {
	switch {
	case errors.Is(err, tables.ErrTopicLimit):
		return problem.New(problem.TopicLimit,
			"there may be %d topics, and no more are made; use one that is there, delete some with DELETE /v1/topics?prefix=…, or raise --topics",
			r.limits.All)
	case errors.Is(err, tables.ErrShareLimit):
		return problem.New(problem.TopicLimit,
			"there may be %d topics with names that this token's patterns fit, and it makes no more; use one that is there, delete some with DELETE "+
				"/v1/topics?prefix=…, or raise --topics-per-token",
			r.limits.OfToken)
	}
	return err
}

// Put gives a topic or a template a configuration, and makes it if it is new. A template is for topics that are made later.
func (r *Registry) Put(ctx context.Context, name string, config *Config, by *tokens.Caller) (topic *Topic, created bool, err error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, false, err
	}
	row, created, err := r.table.PutTopic(ctx, name, string(text), r.limitsOf(by))
	if err != nil {
		return nil, false, r.tooMany(err)
	}
	r.news(ctx, row)
	topic = cmp.Or(r.OfType(row.Type), r.known.template(row.Name))
	if topic == nil { // a template that somebody has deleted since
		topic = r.topicOf(&row)
	}
	return topic, created, nil
}

// Delete deletes a topic or a template, if it is there. Whoever does so sees to it that the topic has no tasks.
func (r *Registry) Delete(ctx context.Context, name string) (found bool, err error) {
	row, found, err := r.table.DeleteTopic(ctx, name)
	if found {
		r.news(ctx, row)
	}
	return found, err
}

// DeleteAll deletes those of the topics that are there, and returns how many that were. Whoever does so sees to it that they have no tasks.
func (r *Registry) DeleteAll(ctx context.Context, types []int32) (deleted int, err error) {
	rows, err := r.table.DeleteTopics(ctx, types)
	if len(rows) > 0 {
		r.news(ctx, rows...)
	}
	return len(rows), err
}

// news learns of rows that this process has written. Many rows cost little more than one, so it learns of all that wait.
func (r *Registry) news(ctx context.Context, written ...tables.Topic) {
	r.waiting.Lock()
	r.waiting.rows = append(r.waiting.rows, written...)
	r.waiting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.Lock()
	rows := r.waiting.rows
	r.waiting.rows = nil
	r.waiting.Unlock()
	if len(rows) > 0 { // else another call has learned of them
		r.learn(rows)
		r.tell(ctx)
	}
}

func (r *Registry) topicOf(row *tables.Topic) *Topic {
	config, bad := storedConfig(row.Config)
	if bad != nil {
		r.log.Error("a topic's configuration cannot be read; the topic goes on with the defaults", "topic", row.Name, "error", bad)
	}
	return &Topic{Type: row.Type, Name: row.Name, Config: config, Created: row.Created, version: row.Version}
}

// learn takes the rows in. A row may come late, after a newer one of the same topic.
func (r *Registry) learn(rows []tables.Topic) {
	for _, row := range rows {
		if r.latest[row.Type] >= row.Version {
			continue
		}
		r.latest[row.Type] = row.Version
		topic, names := r.topicOf(&row), &r.known.templates
		if task.IsTopic(row.Name) {
			r.known.byType.Store(row.Type, topic)
			r.unserved[row.Type] = topic
			names = &r.known.byName
		}
		if !row.Deleted {
			names.Store(row.Name, topic)
		} else if has := topicIn(names, row.Name); has != nil && has.Type == row.Type {
			names.Delete(row.Name)
		}
	}
}

// tell has the topics served that are not served as they are. If one of them is refused, the others are served without it. What fails is
// tried again at the next look.
func (r *Registry) tell(ctx context.Context) {
	if r.serve == nil {
		clear(r.unserved)
	}
	news := slices.Collect(maps.Values(r.unserved))
	if len(news) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	left, names, why := news, []string{}, r.serve(ctx, news)
	if why == nil {
		r.noteServed(news)
		r.refused.names = nil
		return
	}
	for end := time.Now().Add(alonePatience); len(left) > 0 && len(news) > 1 && time.Now().Before(end); left = left[1:] { // one of them may be the cause
		if err := r.serve(ctx, left[:1]); err != nil {
			names, why = append(names, left[0].Name), err
		} else {
			r.noteServed(left[:1])
		}
	}
	for _, topic := range left {
		names = append(names, topic.Name)
	}
	r.tellRefused(names, why)
}

// tellRefused logs which topics are not served when they become others, and again after a while.
func (r *Registry) tellRefused(names []string, why error) {
	slices.Sort(names)
	if len(names) > 0 && (!slices.Equal(names, r.refused.names) || time.Since(r.refused.told) >= toldAgain) {
		r.log.Error("topics cannot be served; each second, they are tried again",
			"topics", len(names), "among them", names[:min(len(names), namesLogged)], "error", why)
		r.refused.told = time.Now()
	}
	r.refused.names = names
}

func (r *Registry) noteServed(topics []*Topic) {
	for _, topic := range topics {
		delete(r.unserved, topic.Type)
	}
}

// moment is when something was last so. How long that is ago does not change when somebody sets the clock.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) isNow() {
	now := time.Now()
	m.at.Store(&now)
}

func (m *moment) forget() { m.at.Store(nil) }

func (m *moment) since() (since time.Duration, known bool) {
	if at := m.at.Load(); at != nil {
		return time.Since(*at), true
	}
	return 0, false
}

// Look reads what is new, if anything is.
func (r *Registry) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	now, err := r.table.Versions(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Topics > r.seen.Topics {
		rows, err := r.table.TopicsSince(ctx, r.seen.Topics)
		if err != nil {
			return err
		}
		r.learn(rows)
		r.seen.Topics = now.Topics
	}
	if now.Tokens > r.seen.Tokens || r.unread {
		rows, err := r.table.Tokens(ctx)
		if err != nil {
			return err
		}
		r.holders.Store(tokens.NewSet(rows))
		r.seen.Tokens, r.unread = now.Tokens, false
	}
	r.tell(ctx)
	r.looked.isNow()
	return nil
}

// Fresh returns an error if the database has not answered for ten seconds.
func (r *Registry) Fresh() error {
	since, known := r.looked.since()
	if !known {
		return errors.New("the database has not answered yet")
	}
	if since > freshFor {
		return fmt.Errorf("the database has not answered for %v", since.Round(time.Second))
	}
	return nil
}

// Stuck returns an error if Run makes no progress: neither an answer of the database nor the lack of one has come for a minute.
func (r *Registry) Stuck() error {
	if since, runs := r.tried.since(); runs && since > tryMax {
		return fmt.Errorf("the service has made no progress for %v", since.Round(time.Second))
	}
	return nil
}

// Run looks once a second until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	defer r.tried.forget()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		r.tried.isNow()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.Look(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			r.log.Error("topics and tokens of others are not seen until the database answers", "error", err)
		}
		failing = err != nil
	}
}
