package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// topicView is a topic as the API shows it.
type topicView struct {
	Name    string         `json:"name"`
	JobType int32          `json:"job_type"` // what a plain INSERT writes
	Created string         `json:"created"`
	Paused  string         `json:"paused_since,omitempty"`
	Until   string         `json:"paused_until,omitempty"`
	Config  *topics.Config `json:"config"`
}

func viewOfTopic(c *call, t *topics.Topic, paused map[int32]pause) topicView {
	p := paused[t.Type]
	return topicView{t.Name, t.Type, stamp(t.Created), stamp(p.since), stamp(p.until), configFor(c, t)}
}

// masked stands for the value of a header that a caller may not read.
const masked = "•••"

// configFor is a topic's configuration, without the values of its headers if the caller may not read bodies: they may be secrets.
func configFor(c *call, t *topics.Topic) *topics.Config {
	if len(t.Config.Headers) == 0 || c.caller.MayTopic(tokens.ReadBodies, t.Name) {
		return &t.Config
	}
	config := t.Config
	config.Headers = make(map[string]string, len(t.Config.Headers))
	for name := range t.Config.Headers {
		config.Headers[name] = masked
	}
	return &config
}

// listTopics shows the topics, or those whose names begin with a prefix.
func (a *api) listTopics(c *call) error {
	prefix := c.URL.Query().Get("prefix")
	ctx, cancel := c.within()
	defer cancel()
	paused, err := a.paused(ctx, a.DB)
	if err != nil {
		return err
	}
	list := []topicView{}
	for _, t := range a.Topics.All() {
		if strings.HasPrefix(t.Name, prefix) && c.caller.MayTopic(tokens.ReadTasks, t.Name) {
			list = append(list, viewOfTopic(c, t, paused))
		}
	}
	return c.say(http.StatusOK, struct {
		Topics []topicView `json:"topics"`
	}{list})
}

// topicOf is the topic that a request's path names, if it is there and the caller may do that with it.
func (a *api) topicOf(c *call, scope tokens.Scope) (*topics.Topic, error) {
	name, err := c.topic(scope)
	if err != nil {
		return nil, err
	}
	t := a.Topics.Named(name)
	if t == nil {
		return nil, problem.New(problem.NotFound, "there is no topic %q; it appears with its first task, or by PUT", name)
	}
	return t, nil
}

func (a *api) showTopic(c *call) error {
	t, err := a.topicOf(c, tokens.ReadTasks)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	paused, err := a.paused(ctx, a.DB)
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, viewOfTopic(c, t, paused))
}

func (a *api) putTopic(c *call) error {
	name, err := c.topic(tokens.ManageTopics)
	if err != nil {
		return err
	}
	if !task.IsTopic(name) {
		return problem.New(problem.Invalid, "%s", task.TopicRule)
	}
	ctx, cancel := c.within()
	defer cancel()
	paused, err := a.paused(ctx, a.DB) // before the change, of which nobody would hear if this failed after it
	if err != nil {
		return err
	}
	t, status, err := a.put(c, name)
	if err != nil {
		return err
	}
	return c.say(status, viewOfTopic(c, t, paused))
}

// put gives a topic or a template the configuration that a request brings.
func (a *api) put(c *call, name string) (t *topics.Topic, status int, err error) {
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	config, bad := topics.ParseConfig(text)
	if bad != nil {
		return nil, 0, bad
	}
	for name, value := range config.Headers {
		if value == masked {
			return nil, 0, problem.OfField("/headers", "the value of %q is hidden from this token, which lacks the scope %s; send the value itself",
				name, tokens.ReadBodies)
		}
	}
	ctx, cancel := c.within()
	defer cancel()
	t, created, err := a.Topics.Put(ctx, name, &config, c.caller)
	if created {
		return t, http.StatusCreated, err
	}
	return t, http.StatusOK, err
}

// dropTopic deletes a topic whose tasks have all ended. A task that is added while it looks is still sent.
func (a *api) dropTopic(c *call) error {
	t, err := a.topicOf(c, tokens.ManageTopics)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	pending, err := a.Jobs.Counts(ctx, a.DB, queue_job.CountFilter{JobTypes: []int32{t.Type}, Statuses: queue_job.PendingStatuses()}) // along an index
	if err != nil {
		return err
	}
	if slices.ContainsFunc(pending, func(c queue_job.TypeCounts) bool { return len(c.ByStatus) > 0 }) {
		return problem.New(problem.TopicInUse, "topic %q has tasks that have not ended; cancel them, by POST /v1/operations for example, or wait", t.Name)
	}
	return a.drop(ctx, c, t.Name, "there is no topic %q")
}

const (
	topicsTogether = 500 // whose tasks are counted by a statement
	keptShown      = 100
)

// dropTopics deletes the topics whose names begin with a prefix, as far as the caller may, and their tasks have all ended.
func (a *api) dropTopics(c *call) error {
	prefix := c.URL.Query().Get("prefix")
	if prefix == "" {
		return problem.OfField("?prefix",
			"it is missing: how the names of the topics begin that are to be deleted; GET /v1/topics takes it, too, and shows them")
	}
	var types []int32
	names := map[int32]string{}
	for _, t := range a.Topics.All() {
		if strings.HasPrefix(t.Name, prefix) && c.caller.MayTopic(tokens.ManageTopics, t.Name) {
			types = append(types, t.Type)
			names[t.Type] = t.Name
		}
	}
	ctx, cancel := c.within()
	defer cancel()
	answer := droppedTopics{Names: []string{}}
	var idle []int32
	for some := range slices.Chunk(types, topicsTogether) {
		pending, err := a.Jobs.Counts(ctx, a.DB, queue_job.CountFilter{JobTypes: some, Statuses: queue_job.PendingStatuses()})
		if err != nil {
			return err
		}
		busy := map[int32]bool{}
		for _, of := range pending {
			busy[of.JobType] = len(of.ByStatus) > 0
		}
		for _, jobType := range some {
			switch {
			case !busy[jobType]:
				idle = append(idle, jobType)
			case len(answer.Names) < keptShown:
				answer.Names = append(answer.Names, names[jobType])
				fallthrough
			default:
				answer.Kept++
			}
		}
	}
	if len(idle) > 0 {
		var err error
		if answer.Deleted, err = a.Topics.DeleteAll(ctx, idle); err != nil {
			return err
		}
	}
	return c.say(http.StatusOK, answer)
}

// droppedTopics says what has become of topics that were to be deleted.
type droppedTopics struct {
	Deleted int      `json:"deleted"`
	Kept    int      `json:"kept"` // they have tasks that have not ended
	Names   []string `json:"kept_names"`
}

func (a *api) dropTemplate(c *call) error {
	pattern := c.PathValue("pattern")
	if err := mayTopic(c.caller, tokens.ManageTopics, pattern); err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	if !topics.IsPattern(pattern) {
		return problem.New(problem.NotFound, noTemplate, pattern)
	}
	return a.drop(ctx, c, pattern, noTemplate)
}

const noTemplate = "there is no template %q; GET /v1/templates lists them"

func (a *api) drop(ctx context.Context, c *call, name, missing string) error {
	found, err := a.Topics.Delete(ctx, name)
	if err == nil && !found {
		err = problem.New(problem.NotFound, missing, name)
	}
	if err != nil {
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}

// templateView is a template as the API shows it.
type templateView struct {
	Pattern string         `json:"pattern"`
	Created string         `json:"created"`
	Config  *topics.Config `json:"config"`
}

// putTemplate says how topics are configured that appear later, with names that a pattern fits.
func (a *api) putTemplate(c *call) error {
	pattern := c.PathValue("pattern")
	if err := mayTopic(c.caller, tokens.ManageTopics, pattern); err != nil {
		return err
	}
	if !topics.IsPattern(pattern) {
		return problem.New(problem.Invalid, "a pattern is a topic's name in which * stands for any characters, such as shop.*")
	}
	t, status, err := a.put(c, pattern)
	if err != nil {
		return err
	}
	return c.say(status, templateView{t.Name, stamp(t.Created), configFor(c, t)})
}

func (a *api) listTemplates(c *call) error {
	list := []templateView{}
	for _, t := range a.Topics.Templates() {
		if c.caller.MayTopic(tokens.ReadTasks, t.Name) {
			list = append(list, templateView{t.Name, stamp(t.Created), configFor(c, t)})
		}
	}
	return c.say(http.StatusOK, struct {
		Templates []templateView `json:"templates"`
	}{list})
}

// stats are the tasks of a topic that have not ended, and what its holders have in memory.
type stats struct {
	Waiting   int64   `json:"waiting"`
	Deferred  int64   `json:"deferred"`
	Retrying  int64   `json:"retrying"`
	InFlight  int     `json:"in_flight"` // up to ten seconds ago
	Overdue   float64 `json:"overdue_seconds"`
	Succeeded int     `json:"succeeded_runs"` // since the holder took the topic
	Failed    int     `json:"failed_runs"`
	HeldBack  []held  `json:"held_back,omitempty"` // by what, as the holders have told up to ten seconds ago
}

// held is what tasks wait for that are not sent.
type held struct {
	Why   string `json:"why"`
	Tasks int    `json:"tasks"`
	Until string `json:"until,omitempty"`
}

func (a *api) topicStats(c *call) error {
	t, err := a.topicOf(c, tokens.ReadTasks)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	counts, err := a.Jobs.Counts(ctx, a.DB, queue_job.CountFilter{JobTypes: []int32{t.Type}, Statuses: queue_job.PendingStatuses()})
	if err != nil {
		return err
	}
	lines, err := a.Jobs.Lines(ctx, a.DB)
	if err != nil {
		return err
	}
	clock := sync.OnceValues(func() (time.Time, error) { return a.now(ctx) })
	var s stats
	for _, of := range counts {
		s.Waiting += of.ByStatus[queue_job.JobStatusInit]
		s.Deferred += of.ByStatus[queue_job.JobStatusContinue]
		s.Retrying += of.ByStatus[queue_job.JobStatusRetry]
	}
	lines = slices.DeleteFunc(lines, func(l queue_job.Line) bool { return l.JobType != t.Type || l.Instance == "" })
	if len(lines) == 0 { // nobody sends the topic's tasks, so nobody tells how late they are
		if s.Overdue, err = a.overdue(ctx, t.Type, clock); err != nil {
			return err
		}
	}
	for _, l := range lines {
		s.InFlight += l.Running
		s.Overdue = max(s.Overdue, l.Overdue.Seconds())
		if p := l.PutOff; p != nil { // a task that is put off is due later, and has been late since it first was
			now, err := clock()
			if err != nil {
				return err
			}
			s.Overdue = max(s.Overdue, now.Sub(p.Since).Seconds())
			for _, c := range p.Causes {
				s.HeldBack = append(s.HeldBack, held{c.Text, c.Jobs, stamp(c.Until)})
			}
		}
		s.Succeeded += l.Runs[queue_job.JobStatusSuccess]
		s.Failed += l.Runs[queue_job.JobStatusFailed] + l.Runs[queue_job.JobStatusRetry]
	}
	return c.say(http.StatusOK, s)
}

// overdue is for how many seconds the task has been due that has been due for longest. It looks at the head of each part of the due index, as an
// instance does that begins to send the tasks.
func (a *api) overdue(ctx context.Context, jobType int32, clock func() (time.Time, error)) (seconds float64, err error) {
	rows, err := bridge.QueueJob.StoreOf(a.Jobs, a.DB)
	if err != nil {
		return 0, err
	}
	var places []store.Place
	for _, lane := range store.Lanes() {
		places = append(places, store.Place{Lane: lane})
	}
	heads, err := rows.Page(ctx, jobType, store.Shard{}, places, 0, 1)
	if err != nil {
		return 0, err
	}
	for _, head := range heads {
		for _, row := range head {
			now, err := clock()
			if err != nil {
				return 0, err
			}
			seconds = max(seconds, now.Sub(time.Unix(cmp.Or(row.StartTime, row.CreateTime), 0)).Seconds())
		}
	}
	return seconds, nil
}

// destination is a destination as the API shows it.
type destination struct {
	Origin    string `json:"origin"`
	Topic     string `json:"topic,omitempty"`
	State     string `json:"state"`
	OpenUntil string `json:"open_until,omitempty"`
	Why       string `json:"why,omitempty"`
	InFlight  int    `json:"in_flight"`
	Waiting   int    `json:"waiting"`
	Limit     int    `json:"limit,omitempty"`
}

const destinationsMax = 1000 // the worst ones

// listDestinations shows the destinations as this process sees them: those of the topics that it holds.
func (a *api) listDestinations(c *call) error {
	list := []destination{}
	if a.Destinations != nil {
		seen := func(topic string) bool {
			return topic == "" && c.caller.May(tokens.Admin) || topic != "" && c.caller.MayTopic(tokens.ReadTasks, topic)
		}
		for _, d := range a.Destinations(seen, destinationsMax) {
			list = append(list, destination{d.Origin, d.Topic, string(d.State), stamp(d.OpenUntil), string(d.Why), d.InFlight, d.Waiting, d.Limit})
		}
	}
	return c.say(http.StatusOK, struct {
		Destinations []destination `json:"destinations"`
	}{list})
}
