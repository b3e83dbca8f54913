package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
)

func TestAConfigurationIsWrittenAsItWasRead(t *testing.T) {
	text := `{"rate":0.5,"burst":3,"concurrency":20,"per_destination":5,"per_key":1,"ordered":true,"timeout":"20s","retry":{"waits":["5s","1m0s"],"max_attempts":9},"per_key_rate":1.5,"per_key_burst":2,"per_destination_rate":2.5,"success":{"status":"200-299, 304","body_equals":"success"},"permanent_statuses":"400, 404, 410-499","headers":{"x-tenant":"7"}}`
	c, bad := ParseConfig([]byte(text))
	if bad != nil {
		t.Fatal(bad)
	}
	again, err := json.Marshal(&c)
	if err != nil || string(again) != text {
		t.Errorf("%s, %v", again, err)
	}
	text = `{"success":{"json":{"code":0}}}`
	c2, bad := ParseConfig([]byte(text))
	if again, err := json.Marshal(&c2); bad != nil || err != nil || string(again) != text {
		t.Errorf("%s, %v, %v", again, err, bad)
	}
	job := (&Topic{Type: 1_000_003, Name: "orders", Config: c}).Job()
	if job.JobType != 1_000_003 || job.ServiceName != "orders" || job.RatePerSecond != 0.5 || job.RateBurst != 3 || job.WorkerPoolCapacity != 20 || job.MaxPerKey != 1 ||
		!job.OrderedByKey || job.RatePerKey != 1.5 || job.BurstPerKey != 2 || job.MaxRetries != 8 || job.LostLimit != -1 || c.Limits().InFlight != 5 {
		t.Errorf("%+v", job)
	}
}

func TestATopicThatNobodyHasConfiguredWorks(t *testing.T) {
	topic := &Topic{Type: 1_000_000, Name: "orders"}
	if err := topic.Config.validate(); err != nil {
		t.Error(err)
	}
	if c := topic.Config; c.RetryOf(&task.Content{}).Attempts() != 10 || c.TimeoutOf(&task.Content{}) != 15*time.Second || c.Limits().InFlight != ConcurrencyDefault/2 {
		t.Errorf("%+v", c)
	}
	one := Config{Concurrency: 1}
	if n := one.Limits().InFlight; n != 1 {
		t.Errorf("of one place, %d are for a destination", n)
	}
}

func TestWhatWouldHaveNoEffectBesideAnotherFieldIsRefused(t *testing.T) {
	for text, pointer := range map[string]string{
		`{"per_destination":65}`: "/per_destination", `{"concurrency":4,"per_destination":5}`: "/per_destination", `{"per_key":65}`: "/per_key", `{"concurrency":4,"per_key":5}`: "/per_key",
		`{"permanent_statuses":"204"}`: "/permanent_statuses", `{"success":{"status":"404"},"permanent_statuses":"400-499"}`: "/permanent_statuses",
		`{"success":{"body_equals":"success","json":{"code":0}}}`: "/success/json", `{"success":{"body_equals":"{\"code\":0}","json":{"code":0}}}`: "/success/json",
		`{"success":{"status":"204","body_equals":"success"}}`: "/success/status", `{"success":{"status":"204-205, 304","json":{"code":0}}}`: "/success/status",
		`{"retry":{"waits":["1s","2s"],"max_attempts":2}}`: "/retry/max_attempts", `{"retry":{"waits":["1s"],"max_attempts":1}}`: "/retry/max_attempts",
	} {
		if _, bad := ParseConfig([]byte(text)); bad == nil || bad.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v, want %q", text, bad, pointer)
		}
		if _, bad := storedConfig(text); bad != nil {
			t.Errorf("%s: an earlier version took it, and now its topic is not served: %v", text, bad)
		}
	}
	for _, text := range []string{
		`{"per_destination":64}`, `{"concurrency":100,"per_destination":65}`, `{"concurrency":5,"per_key":5,"per_destination":5}`, `{"permanent_statuses":"300-599"}`, `{"success":{"status":"200, 404"},"permanent_statuses":"400-403, 204"}`,
		`{"success":{"status":"200, 204","body_equals":"success"}}`, `{"success":{"status":"204"}}`, `{"retry":{"waits":["1s","2s"],"max_attempts":3}}`, `{"retry":{"max_attempts":1}}`,
		`{"rate":2,"per_destination_rate":5}`, // the latter spreads what the former lets in at once
	} {
		if _, bad := ParseConfig([]byte(text)); bad != nil {
			t.Errorf("%s: %v", text, bad)
		}
	}
}

func TestWhatIsWrongWithAConfigurationIsSaid(t *testing.T) {
	for text, pointer := range map[string]string{
		`{"rate":-1}`: "/rate", `{"rate":0.00001}`: "/rate", `{"burst":2}`: "/burst", `{"concurrency":10001}`: "/concurrency", `{"per_key":-1}`: "/per_key", `{"ordered":true,"per_key":2}`: "/per_key",
		`{"success":{"status":"2xx"}}`: "/success/status", `{"success":{"status":"299-200"}}`: "/success/status", `{"success":{"stat":"200"}}`: "/success/stat", `{"permanent_statuses":"100"}`: "/permanent_statuses",
		`{"headers":{"host":"a"}}`: "/headers", `{"success":{"json":{"a":"` + strings.Repeat("x", 70_000) + `"}}}`: "/success", `{"permanent_statuses":"400` + strings.Repeat(",400", 20_000) + `"}`: "/permanent_statuses", `{"per_destination_rate":-1}`: "/per_destination_rate",
		`{"per_destination":-1}`: "/per_destination", `{"per_key_rate":0.00001}`: "/per_key_rate", `{"per_key_rate":1000001}`: "/per_key_rate", `{"per_key_burst":2}`: "/per_key_burst", `{"per_key_rate":1,"per_key_burst":100001}`: "/per_key_burst", `{"timeout":"1ms"}`: "/timeout", `{"timeout":5}`: "/timeout", `{"retry":{"waits":["5"]}}`: "/retry/waits/0",
		`{"retry":{"max_attempts":0}}`: "/retry/max_attempts", `{"rat":1}`: "/rat", `{"rate":1,"rate":2}`: "/rate", `{"Rate":1}`: "/Rate", `{"retry":{}}`: "/retry", `{"success":{"body_equals":" "}}`: "/success/body_equals", `[]`: "", `{} {}`: "",
	} {
		if _, bad := ParseConfig([]byte(text)); bad == nil || bad.Fields[0].Pointer != pointer {
			t.Errorf("%.100s: %v, want %q", text, bad, pointer)
		}
	}
}

// table is a table of topics in memory.
type table struct {
	rows     []tables.Topic
	versions tables.Versions
	err      error
}

func (f *table) Versions(context.Context) (tables.Versions, error) { return f.versions, f.err }

func (f *table) TopicsSince(_ context.Context, version int64) (rows []tables.Topic, err error) {
	for _, r := range f.rows {
		if r.Version > version {
			rows = append(rows, r)
		}
	}
	return rows, f.err
}

func (f *table) PutTopic(_ context.Context, name, config string, limits tables.Limits) (tables.Topic, bool, error) {
	if len(f.rows) >= limits.All {
		return tables.Topic{}, false, tables.ErrTopicLimit
	}
	f.versions.Topics++
	row := tables.Topic{Type: int32(1_000_000 + len(f.rows)), Name: name, Config: config, Version: f.versions.Topics}
	f.rows = append(f.rows, row)
	return row, true, f.err
}

func (f *table) MakeTopics(ctx context.Context, topics []tables.Topic, limits tables.Limits) (all []tables.Topic, err error) {
	for _, topic := range topics {
		row, _, err := f.PutTopic(ctx, topic.Name, topic.Config, limits)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

func (f *table) DeleteTopics(context.Context, []int32) ([]tables.Topic, error) { return nil, f.err }

func (f *table) DeleteTopic(_ context.Context, name string) (tables.Topic, bool, error) {
	for i := range f.rows {
		if row := &f.rows[i]; row.Name == name && !row.Deleted {
			f.versions.Topics++
			row.Version, row.Deleted = f.versions.Topics, true
			return *row, true, f.err
		}
	}
	return tables.Topic{}, false, f.err
}

func (f *table) Tokens(context.Context) ([]tables.Token, error) { return nil, f.err }

func TestTopicsThatComeWhileOneIsTakenInAreTakenInTogether(t *testing.T) {
	const topics = 50
	begun, goOn := make(chan struct{}), make(chan struct{})
	var told []int
	r := New(&table{}, Limits{All: topics}, func(_ context.Context, news []*Topic) error {
		if told = append(told, len(news)); len(told) == 1 {
			close(begun)
			<-goOn
		}
		return nil
	}, slog.New(slog.DiscardHandler))
	var coming sync.WaitGroup
	come := func(n int32) {
		coming.Go(func() {
			r.news(t.Context(), tables.Topic{Type: n, Name: fmt.Sprint("topic-", n), Config: "{}", Version: int64(n)})
			if r.OfType(n) == nil {
				t.Errorf("topic %d is not known yet", n)
			}
		})
	}
	come(1)
	<-begun
	for n := range int32(topics - 1) {
		come(n + 2)
	}
	for waits := 0; waits < topics-1; {
		r.waiting.Lock()
		waits = len(r.waiting.rows)
		r.waiting.Unlock()
		runtime.Gosched()
	}
	close(goOn)
	coming.Wait()
	if !slices.Equal(told, []int{1, topics - 1}) {
		t.Errorf("served %v at a time", told)
	}
}

func TestATopicIsServedUntilThatSucceedsAndThenOnlyIfItChanges(t *testing.T) {
	f := &table{rows: []tables.Topic{{Type: 1_000_000, Name: "a", Config: "{}", Version: 1}}, versions: tables.Versions{Topics: 1}}
	var told []string
	fails := errors.New("no lease")
	r := New(f, Limits{All: 2}, func(_ context.Context, news []*Topic) error {
		for _, n := range news {
			told = append(told, n.Name)
		}
		return fails
	}, slog.New(slog.DiscardHandler))
	look := func(want ...string) {
		t.Helper()
		told = nil
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if strings.Join(told, " ") != strings.Join(want, " ") {
			t.Errorf("served: %v, want %v", told, want)
		}
	}
	look("a")
	fails = nil
	look("a")
	look()
	if topic, err := r.Ensure(t.Context(), "b", nil); err != nil || topic.Name != "b" || told[0] != "b" {
		t.Errorf("%v, %v, %v", topic, err, told)
	}
	look()
	f.rows[0].Config, f.rows[0].Version, f.versions.Topics = `{"concurrency":3}`, 9, 9
	look("a")
	if c := r.Named("a").Config; !reflect.DeepEqual(c, Config{Concurrency: 3}) || r.OfType(1_000_000) != r.Named("a") {
		t.Errorf("%+v", c)
	}
	r.learn([]tables.Topic{{Type: 1_000_000, Name: "a", Config: `{"concurrency":2}`, Version: 5}}) // it comes late
	if c := r.Named("a").Config; c.Concurrency != 3 {
		t.Errorf("%+v", c)
	}
	_, err := r.Ensure(t.Context(), "c", nil)
	if bad := (*problem.Problem)(nil); !errors.As(err, &bad) || bad.Code != problem.TopicLimit {
		t.Error(err)
	}
	if n := len(r.All()); n != 2 {
		t.Errorf("%d topics", n)
	}
}

func TestATopicThatIsRefusedKeepsNoOtherFromBeingServed(t *testing.T) {
	f := &table{versions: tables.Versions{Topics: 5}}
	for n := range 5 {
		f.rows = append(f.rows, tables.Topic{Type: int32(1_000_000 + n), Name: fmt.Sprint("t", n), Config: "{}", Version: int64(n + 1)})
	}
	var log strings.Builder
	served := map[string]int{}
	r := New(f, Limits{All: 10}, func(_ context.Context, news []*Topic) error {
		if slices.ContainsFunc(news, func(n *Topic) bool { return n.Name == "t2" || n.Name == "t4" }) {
			return errors.New("refused")
		}
		for _, n := range news {
			served[n.Name]++
		}
		return nil
	}, slog.New(slog.NewTextHandler(&log, nil)))
	synctest.Test(t, func(t *testing.T) {
		for range 30 {
			if err := r.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lookEvery)
		}
	})
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines of the same two topics in half a minute, want one", lines)
	}
	if !reflect.DeepEqual(served, map[string]int{"t0": 1, "t1": 1, "t3": 1}) {
		t.Errorf("served: %v", served)
	}
	if text := log.String(); !strings.Contains(text, "t2") || !strings.Contains(text, "t4") || strings.Contains(text, "t3") {
		t.Error(text)
	}
}

func TestAnOrderedTopicOfAnEarlierVersionKeepsItsOrder(t *testing.T) {
	f := &table{rows: []tables.Topic{{Type: 1_000_000, Name: "a", Config: `{"per_key":2,"ordered":true,"rate":3}`, Version: 1}}, versions: tables.Versions{Topics: 1}}
	r := New(f, Limits{All: 2}, nil, slog.New(slog.DiscardHandler))
	if err := r.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := r.Named("a").Config; !reflect.DeepEqual(c, Config{Ordered: true, PerKey: 1, Rate: 3}) || c.validate() != nil {
		t.Errorf("%+v", c)
	}
}

func TestADeletedTopicHasNoNameAndIsStillServed(t *testing.T) {
	f := &table{}
	served := map[int32]bool{}
	serve := func(_ context.Context, news []*Topic) error {
		for _, n := range news {
			served[n.Type] = true
		}
		return nil
	}
	r, other := New(f, Limits{All: 10}, serve, slog.New(slog.DiscardHandler)), New(f, Limits{All: 10}, nil, slog.New(slog.DiscardHandler))
	first, err := r.Ensure(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Put(t.Context(), "a.*", &Config{Concurrency: 3}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "a.*"} {
		if found, err := other.Delete(t.Context(), name); err != nil || !found {
			t.Fatal(found, err)
		}
		if found, err := other.Delete(t.Context(), name); err != nil || found {
			t.Errorf("%s was deleted twice, %v", name, err)
		}
	}
	if err := r.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.learn([]tables.Topic{{Type: first.Type, Name: "a", Config: "{}", Version: 1}, {Type: first.Type + 1, Name: "a.*", Config: "{}", Version: 2}}) // they come late
	if r.Named("a") != nil || len(r.All()) != 0 || len(r.Templates()) != 0 || r.OfType(first.Type) == nil {
		t.Errorf("%v, %v", r.All(), r.Templates())
	}
	second, err := r.Ensure(t.Context(), "a", nil)
	if err != nil || second.Type == first.Type || r.Named("a") != second || second.Config.Concurrency != 0 {
		t.Errorf("%+v, %v", second, err)
	}
	late := New(f, Limits{All: 10}, serve, slog.New(slog.DiscardHandler))
	clear(served)
	if err := late.Look(t.Context()); err != nil || !served[first.Type] || !served[second.Type] || late.Named("a").Type != second.Type {
		t.Errorf("%v, %v", served, err)
	}
}

func TestARegistryKnowsHowOldItsLookIs(t *testing.T) {
	f := &table{}
	r := New(f, Limits{All: 2}, nil, slog.New(slog.DiscardHandler))
	if r.Fresh() == nil {
		t.Error("it has not looked yet")
	}
	if err := r.Look(t.Context()); err != nil || r.Fresh() != nil {
		t.Error(err, r.Fresh())
	}
	f.err = errors.New("away")
	if err := r.Look(t.Context()); err == nil {
		t.Error("the look succeeded")
	}
}

// blocked is a table that does not return, not even when its time is up.
type blocked struct {
	table
	asked, answer chan struct{}
}

func (b *blocked) Versions(context.Context) (tables.Versions, error) {
	b.asked <- struct{}{}
	<-b.answer
	return tables.Versions{}, errors.New("away")
}

func TestARegistryThatDoesNotComeBackFromALookIsStuckAndOneWithoutADatabaseIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &blocked{asked: make(chan struct{}, 1), answer: make(chan struct{})}
		r := New(f, Limits{All: 2}, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		for range 100 { // seconds
			<-f.asked
			f.answer <- struct{}{}
			if err := r.Stuck(); err != nil {
				t.Fatalf("the database is away: %v", err)
			}
		}
		<-f.asked
		time.Sleep(tryMax - 2*time.Second)
		if err := r.Stuck(); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		if r.Stuck() == nil {
			t.Error("a look has not come back for more than a minute")
		}
		close(f.answer)
		cancel() // a tick may have come already
		running.Wait()
		if err := r.Stuck(); err != nil {
			t.Errorf("it does not run any more: %v", err)
		}
	})
}
