package queue_job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

type mail struct{ To string }

var mails = Define[mail](7, "mails")

func ignored(context.Context, *Job, mail) error { return nil }

func TestADefinedTypeRetriesWithGrowingWaitsUnlessItIsToldOtherwise(t *testing.T) {
	timing := Waits(time.Hour)
	for name, c := range map[string]struct {
		config      Config
		retries     int
		first, last time.Duration // the longest waits
	}{
		"by itself":               {mails.Handle(ignored), usualRetries, 2 * time.Second, 6 * time.Hour},
		"in batches":              {mails.HandleBatch(func(context.Context, []Typed[mail]) error { return nil }), usualRetries, 2 * time.Second, 6 * time.Hour},
		"with a number":           {mails.Handle(ignored, Retries(3, nil)), 3, 2 * time.Second, 6 * time.Hour},
		"with a timing":           {mails.Handle(ignored, Retries(Unlimited, timing)), Unlimited, time.Hour, time.Hour},
		"with a field that waits": {mails.Handle(ignored, func(c *Config) { c.WaitTime = time.Minute }), usualRetries, time.Minute, time.Minute},
	} {
		cfg := c.config
		cfg.Db = valid().Db
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cfg = cfg.withDefaults()
		wait := func(retries int) time.Duration {
			if cfg.RetryTiming == nil {
				return cfg.WaitTime
			}
			return cfg.RetryTiming(retries, nil)
		}
		if first, last := wait(0), wait(usualRetries-1); !cfg.NeedRetry || cfg.MaxRetries != c.retries || first > c.first || first < c.first/2 || last > c.last || last < c.last/2 {
			t.Errorf("%s: %v, %d retries, waits from %v to %v", name, cfg.NeedRetry, cfg.MaxRetries, first, last)
		}
	}
	once := mails.Handle(ignored, Retries(0, nil), Workers(3), Timeout(time.Minute))
	once.Db = valid().Db
	if err := once.Validate(); err != nil || once.NeedRetry || once.WorkerPoolCapacity != 3 || once.Timeout != time.Minute {
		t.Errorf("%v, %+v", err, once)
	}
}

// A number that somebody has forgotten to read from the settings must not become a hundred workers.
func TestNoWorkersAreRefused(t *testing.T) {
	cfg := Define[struct{}](7, "mail").Handle(func(context.Context, *Job, struct{}) error { return nil }, Workers(0))
	cfg.Db = valid().Db
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "WorkerPoolCapacity") || !strings.Contains(err.Error(), "is 0 by Workers(0)") {
		t.Error(err)
	}
}

func TestATimeThatNobodyHasSetIsRefused(t *testing.T) {
	var at time.Time
	var db inserts
	_, err := jobsOfMySQL(t).Add(t.Context(), &db, AddModelJob{JobType: 7}.With(At(at)))
	if err == nil || !strings.Contains(err.Error(), "start time: it is the zero time.Time") {
		t.Error(err)
	}
}

func TestABatchOfADefinedTypeEndsByJob(t *testing.T) {
	jobs := func() []*Job {
		return []*Job{{Id: 11, JobParams: `{"To":"anna"}`}, {Id: 12, JobParams: "no JSON"}, {Id: 13, JobParams: `{"To":"bob"}`}}
	}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		returns error
		want    [3]error // nil: none; the second is always the one of its parameters
	}{
		"well":              {nil, [3]error{nil, nil, nil}},
		"badly":             {boom, [3]error{boom, nil, boom}},
		"one badly":         {JobErrors{13: boom}, [3]error{nil, nil, boom}},
		"a job of no batch": {JobErrors{7: boom}, [3]error{boom, nil, boom}},
		"not asked for":     {JobErrors{12: boom}, [3]error{boom, nil, boom}},
	} {
		var got []Typed[mail]
		err := mails.HandleBatch(func(_ context.Context, list []Typed[mail]) error {
			got = list
			return c.returns
		}).HandleBatchFunc(t.Context(), jobs())
		var each BatchErrors
		if !errors.As(err, &each) || len(each) != 3 {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != 2 || got[0].Id != 11 || got[0].Params.To != "anna" || got[1].Params.To != "bob" {
			t.Errorf("%s: the handler got %v", name, got)
		}
		var o *Outcome
		if errors.As(each[1], &o) || !strings.Contains(each[1].Error(), `"mails": parameters of job 12`) {
			t.Errorf("%s: parameters that are no JSON: %v", name, each[1])
		}
		for _, i := range []int{0, 2} {
			if !errors.Is(each[i], c.want[i]) || (each[i] == nil) != (c.want[i] == nil) {
				t.Errorf("%s: job %d ends with %v, want %v", name, i, each[i], c.want[i])
			}
		}
	}
}

func TestADefinedTypeKnowsItsJobs(t *testing.T) {
	ours, other := &JobInfo{Id: 1, JobType: 7, JobParams: `{"To":"anna"}`}, &JobInfo{Id: 2, JobType: 8, JobParams: `{}`}
	if m, err := mails.Decode(ours); err != nil || m.To != "anna" {
		t.Error(m, err)
	}
	if _, err := mails.Decode(other); err == nil || !strings.Contains(err.Error(), `job 2 is of type 8, and "mails" is type 7`) {
		t.Error(err)
	}
	db := &inserts{id: 5}
	if id, err := mails.Add(t.Context(), jobsOfMySQL(t), db, mail{"bob"}, WithKey("k")); err != nil || id != 5 || db.args[0] != `{"To":"bob"}` || db.args[1] != int32(7) {
		t.Error(id, err, db.args)
	}
	if mails.Key("k").String() != `jobs of type 7 with key "k"` {
		t.Error(mails.Key("k"))
	}
}
