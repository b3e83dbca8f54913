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
	freshFor  = 10 * time.Second // without an answer for so long, the database is away
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
	PutTopic(ctx context.Context, name, config string, change bool, limit int) (tables.Topic, bool, error)
	DeleteTopic(ctx context.Context, name string) (topic tables.Topic, found bool, err error)
	Tokens(ctx context.Context) ([]tables.Token, error)
}

// Registry has the topics and the tokens in memory, and looks once a second whether there are others.
type Registry struct {
	table   Table
	limit   int
	serve   func(context.Context, []*Topic) error
	log     *slog.Logger
	known   atomic.Pointer[known]
	holders atomic.Pointer[tokens.Set]
	looked  atomic.Int64 // when it last saw the table, in unix milliseconds
	tried   atomic.Int64 // when Run last tried to; 0: it does not run
	mu      sync.Mutex   // of those who bring something new
	seen    tables.Versions
	unread  bool            // the tokens were never read
	latest  map[int32]int64 // the version that was learned last, of each topic and template
	served  map[int32]int64
	refused struct { // what the log says of topics that are not served
		names []string
		told  time.Time
	}

	waiting struct { // rows that this process has written and not learned of
		sync.Mutex
		rows []tables.Topic
	}
}

// known is copied for each change. A deleted topic has no name, but still its type: a task may have been added to it at that moment.
// Templates are kept as topics are, under their patterns, and have no tasks.
type known struct {
	byName    map[string]*Topic
	byType    map[int32]*Topic
	templates map[string]*Topic
}

// New makes a registry. The function serve is told of topics that are new or have another configuration, until it returns nil for
// them; nil: this process sends nothing.
func New(table Table, limit int, serve func(context.Context, []*Topic) error, log *slog.Logger) *Registry {
	r := &Registry{table: table, limit: limit, serve: serve, log: log, unread: true, latest: map[int32]int64{}, served: map[int32]int64{}}
	r.known.Store(&known{map[string]*Topic{}, map[int32]*Topic{}, map[string]*Topic{}})
	r.holders.Store(tokens.NewSet(nil))
	return r
}

// Named returns the topic of a name, or nil.
func (r *Registry) Named(name string) *Topic { return r.known.Load().byName[name] }

// OfType returns the topic of a job type, or nil.
func (r *Registry) OfType(jobType int32) *Topic { return r.known.Load().byType[jobType] }

// All returns all topics, in the order of their names.
func (r *Registry) All() []*Topic {
	return slices.SortedFunc(maps.Values(r.known.Load().byName), func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
}

// Templates returns all templates, in the order in which they are tried: the longest pattern first.
func (r *Registry) Templates() []*Topic {
	return slices.SortedFunc(maps.Values(r.known.Load().templates), func(a, b *Topic) int {
		return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.Name, b.Name))
	})
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

// Ensure returns the topic of a name, and makes it if it is new.
func (r *Registry) Ensure(ctx context.Context, name string) (*Topic, error) {
	if topic := r.Named(name); topic != nil {
		return topic, nil
	}
	topic, _, err := r.put(ctx, name, r.template(name), false)
	return topic, err
}

// Put gives a topic or a template a configuration, and makes it if it is new. A template is for topics that are made later.
func (r *Registry) Put(ctx context.Context, name string, config *Config) (topic *Topic, created bool, err error) {
	return r.put(ctx, name, config, true)
}

func (r *Registry) put(ctx context.Context, name string, config *Config, change bool) (*Topic, bool, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, false, err
	}
	row, created, err := r.table.PutTopic(ctx, name, string(text), change, r.limit)
	if errors.Is(err, tables.ErrTopicLimit) {
		return nil, false, problem.New(problem.TopicLimit, "there are %d topics, and no more are allowed; use one that is there, or raise --topics", r.limit)
	}
	if err != nil {
		return nil, false, err
	}
	r.news(ctx, row)
	topic := cmp.Or(r.OfType(row.Type), r.known.Load().templates[row.Name])
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

// news learns of a row that this process has written. Many rows cost little more than one, so it learns of all that wait.
func (r *Registry) news(ctx context.Context, row tables.Topic) {
	r.waiting.Lock()
	r.waiting.rows = append(r.waiting.rows, row)
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
	was := r.known.Load()
	next := &known{maps.Clone(was.byName), maps.Clone(was.byType), maps.Clone(was.templates)}
	for _, row := range rows {
		if r.latest[row.Type] >= row.Version {
			continue
		}
		r.latest[row.Type] = row.Version
		topic, names := r.topicOf(&row), next.templates
		if task.IsTopic(row.Name) {
			next.byType[row.Type], names = topic, next.byName
		}
		if !row.Deleted {
			names[row.Name] = topic
		} else if has := names[row.Name]; has != nil && has.Type == row.Type {
			delete(names, row.Name)
		}
	}
	r.known.Store(next)
}

// tell has the topics served that are not served as they are. If one of them is refused, the others are served without it. What fails is
// tried again at the next look.
func (r *Registry) tell(ctx context.Context) {
	if r.serve == nil {
		return
	}
	var news []*Topic
	for _, topic := range r.known.Load().byType {
		if r.served[topic.Type] != topic.version {
			news = append(news, topic)
		}
	}
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
		r.log.Error("topics cannot be served; each second, they are tried again", "topics", len(names), "among them", names[:min(len(names), namesLogged)], "error", why)
		r.refused.told = time.Now()
	}
	r.refused.names = names
}

func (r *Registry) noteServed(topics []*Topic) {
	for _, topic := range topics {
		r.served[topic.Type] = topic.version
	}
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
	r.looked.Store(time.Now().UnixMilli())
	return nil
}

// Fresh returns an error if the database has not answered for ten seconds.
func (r *Registry) Fresh() error {
	if since := time.Since(time.UnixMilli(r.looked.Load())); since > freshFor {
		return fmt.Errorf("the database has not answered for %v", since.Round(time.Second))
	}
	return nil
}

// Stuck returns an error if Run makes no progress: neither an answer of the database nor the lack of one has come for a minute.
func (r *Registry) Stuck() error {
	tried := r.tried.Load()
	if since := time.Since(time.UnixMilli(tried)); tried > 0 && since > tryMax {
		return fmt.Errorf("the service has made no progress for %v", since.Round(time.Second))
	}
	return nil
}

// Run looks once a second until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	defer r.tried.Store(0)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		r.tried.Store(time.Now().UnixMilli())
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
