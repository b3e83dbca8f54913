package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func valid() Config {
	return Config{
		ServiceName: "shop", JobType: 7, Db: &sql.DB{},
		HandleJobFunc: func(context.Context, *Job) error { return nil },
	}
}

// batched lets a batch handler take the place of the other one.
func batched(c *Config) {
	c.HandleJobFunc = nil
	c.HandleBatchFunc = func(context.Context, []*Job) error { return nil }
}

func TestABadConfigIsRefusedWithItsFieldAndTheRemedy(t *testing.T) {
	remedy := regexp.MustCompile(`; (use|set|give) `)
	bad := map[string][]func(*Config){
		"ServiceName": {func(c *Config) { c.ServiceName = "" }, func(c *Config) { c.ServiceName = "a\x00b" }, func(c *Config) { c.ServiceName = "a\xffb" }},
		"MaxRetries":  {func(c *Config) { c.MaxRetries = -2 }},
		"LostLimit":   {func(c *Config) { c.LostLimit = -2 }, func(c *Config) { c.LostLimit = 101 }},
		"WaitTime":    {func(c *Config) { c.WaitTime = -1 }, func(c *Config) { c.WaitTime = waitTimeMax + 1 }},
		"Timeout":     {func(c *Config) { c.Timeout = -1 }},
		"Middleware": {func(c *Config) { c.Middleware = []Middleware{nil} },
			func(c *Config) { batched(c); c.Middleware = []Middleware{func(next Handler) Handler { return next }} }},
		"BatchMiddleware": {func(c *Config) { batched(c); c.BatchMiddleware = []BatchMiddleware{nil} },
			func(c *Config) {
				c.BatchMiddleware = []BatchMiddleware{func(next BatchHandler) BatchHandler { return next }}
			}},
		"WorkerPoolCapacity": {func(c *Config) { c.WorkerPoolCapacity = -1 }, func(c *Config) { Workers(0)(c) }},
		"WorkerExpirySecond": {func(c *Config) { c.WorkerExpirySecond = -1 }},
		"Db":                 {func(c *Config) { c.Db = nil }, func(c *Config) { c.Db = (*sql.DB)(nil) }},
		"TablePrefix":        {func(c *Config) { c.TablePrefix = "a b" }, func(c *Config) { c.TablePrefix = strings.Repeat("x", 41) }},
		"FirstPullDay":       {func(c *Config) { c.FirstPullDay = -2 }},
		"QueueMaxSize":       {func(c *Config) { c.QueueMaxSize = -1 }},
		"LoadLimit":          {func(c *Config) { c.LoadLimit = -1 }},
		"HandleJobFunc":      {func(c *Config) { c.HandleJobFunc = nil }},
		"RatePerSecond": {func(c *Config) { c.RatePerSecond = -1 }, func(c *Config) { c.RatePerSecond = math.NaN() }, func(c *Config) { c.RatePerSecond = math.Inf(1) },
			func(c *Config) { c.RatePerSecond = 1e-9 }},
		"RateBurst": {func(c *Config) { c.RatePerSecond, c.RateBurst = 1, -1 }, func(c *Config) { c.RateBurst = 1 },
			func(c *Config) { batched(c); c.RatePerSecond, c.RateBurst = 1, 99 }},
		"Shards": {func(c *Config) { c.Shards = -1 }, func(c *Config) { c.Shards = 65 }, func(c *Config) { c.Shards, c.WorkerPoolCapacity = 4, 3 },
			func(c *Config) { c.Shards, c.RatePerSecond, c.RateBurst = 4, 100, 3 }, func(c *Config) { batched(c); c.Shards, c.RatePerSecond, c.RateBurst = 2, 100, 199 }},
		"GroupWeight": {func(c *Config) { c.GroupWeight = func(string) float64 { return 1 } }},
		"MaxPerKey":   {func(c *Config) { c.MaxPerKey = -1 }, func(c *Config) { c.MaxPerKey, c.OrderedByKey = 2, true }},
		"RatePerKey": {func(c *Config) { c.RatePerKey = -1 }, func(c *Config) { c.RatePerKey = math.NaN() }, func(c *Config) { c.RatePerKey = rateMax + 1 },
			func(c *Config) { c.RatePerKey = 1e-9 }},
		"BurstPerKey": {func(c *Config) { c.RatePerKey, c.BurstPerKey = 1, -1 }, func(c *Config) { c.RatePerKey, c.BurstPerKey = 1, burstPerKeyMax+1 },
			func(c *Config) { c.BurstPerKey = 1 }},
		"HandleBatchFunc": {func(c *Config) { c.HandleBatchFunc = func(context.Context, []*Job) error { return nil } }},
		"BatchSize": {func(c *Config) { batched(c); c.BatchSize = -1 }, func(c *Config) { batched(c); c.BatchSize = 1001 },
			func(c *Config) { c.BatchSize = 1 }},
		"BatchWait": {func(c *Config) { batched(c); c.BatchWait = -1 }, func(c *Config) { batched(c); c.BatchWait = time.Minute + 1 },
			func(c *Config) { c.BatchWait = 1 }},
		"KeepLog":       {func(c *Config) { batched(c); c.KeepLog = true }},
		"LockSecond":    {func(c *Config) { c.LockSecond = 1 }, func(c *Config) { c.LockSecond = 86_401 }, func(c *Config) { c.LockSecond = 1<<32 - 1 }},
		"MinLockSecond": {func(c *Config) { c.MinLockSecond = 86_401 }},
		"DormantAfter": {func(c *Config) { c.DormantAfter = -1 }, func(c *Config) { c.DormantAfter = time.Second - 1 },
			func(c *Config) { c.DormantAfter, c.Shards = time.Minute, 2 }, func(c *Config) { c.DormantAfter, c.Schedule = time.Minute, &never{} }},
		"Schedule":        {func(c *Config) { c.Schedule = (*never)(nil) }},
		"ScheduleParams":  {func(c *Config) { c.ScheduleParams = make(chan int) }, func(c *Config) { c.ScheduleParams = strings.Repeat("x", ParamsMax) }},
		"ScheduleCatchUp": {func(c *Config) { c.ScheduleCatchUp = -2 }, func(c *Config) { c.ScheduleCatchUp = 1001 }},
	}
	var texts strings.Builder
	broken := map[int]bool{} // rules, by their number
	for _, field := range slices.Sorted(maps.Keys(bad)) {
		for _, breakIt := range bad[field] {
			cfg := valid()
			breakIt(&cfg)
			err := cfg.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), "queue_job.Config."+field+" (job type 7, service ") || !remedy.MatchString(err.Error()) {
				t.Errorf("%s: %v", field, err)
			}
			fmt.Fprintln(&texts, err)
			broken[slices.IndexFunc(rules, func(r rule) bool { return r.broken(&cfg) != nil })] = true
		}
	}
	if want := contents(t, "testdata/refused.txt"); texts.String() != want {
		t.Errorf("testdata/refused.txt has other texts than these:\n%s", &texts)
	}
	for i, r := range rules[:len(rules)-len(withoutEffect)] {
		if !broken[i] {
			t.Errorf("nothing breaks rule %d, of %s", i, r.field)
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		anyValueWorks := slices.Contains([]string{"JobType", "NeedRetry", "RetryTiming", "OnFinished", "OrderedByKey", "FairByGroup", "RenamedFrom", "StrictParams"}, field.Name)
		if bad[field.Name] == nil && !anyValueWorks && field.IsExported() {
			t.Errorf("nothing is refused for %s", field.Name)
		}
	}
}

// withoutEffect has a case for each of the last rules.
var withoutEffect = map[string]struct {
	change func(*Config)
	want   string
}{
	"retries that are not allowed": {func(c *Config) { c.MaxRetries = 5 }, "MaxRetries (job type 7, service \"shop\"): is 5, and NeedRetry is false, so the first failure is final; set NeedRetry to true, or MaxRetries to 0"},
	"no number of retries":         {func(c *Config) { c.NeedRetry = true }, "NeedRetry (job type 7, service \"shop\"): is true, and MaxRetries is 0, so the first failure is final; set MaxRetries to the number of retries, or NeedRetry to false"},
	"a timing of no retries":       {func(c *Config) { c.RetryTiming = Waits(1) }, "RetryTiming (job type 7, service \"shop\"): is set, and NeedRetry is false; set NeedRetry to true and MaxRetries to the number of retries, or RetryTiming to nil"},
	"a wait without a unit":        {func(c *Config) { c.WaitTime = 10 }, "WaitTime (job type 7, service \"shop\"): is 10ns, which is no wait; give it a unit, such as 10 * time.Second"},
	"a timeout without a unit":     {func(c *Config) { c.Timeout = 30 }, "Timeout (job type 7, service \"shop\"): is 30ns, in which no handler does anything; give it a unit, such as 30 * time.Second"},
}

func TestASettingWithoutEffectIsRefusedWithTheRemedy(t *testing.T) {
	for name, c := range withoutEffect {
		cfg := valid()
		c.change(&cfg)
		err := cfg.Validate()
		if !errors.Is(err, ErrNoEffect) || err.Error() != "queue_job.Config."+c.want {
			t.Errorf("%s: %v", name, err)
		}
		cfg.LockSecond = 1
		if err := cfg.Validate(); err == nil || errors.Is(err, ErrNoEffect) {
			t.Errorf("%s, and a setting that cannot work: %v", name, err)
		}
	}
}

type never struct{}

func (*never) Next(time.Time) time.Time { return time.Time{} }

func TestTheFirstBadSettingIsReportedForSeveral(t *testing.T) {
	if err := (&Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "ServiceName") {
		t.Fatal(err)
	}
}

func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"nothing set":         func(*Config) {},
		"a negative job type": func(c *Config) { c.JobType = -1 },
		"FirstPullDay -1":     func(c *Config) { c.FirstPullDay = -1 },
		"unlimited retries":   func(c *Config) { c.NeedRetry, c.MaxRetries = true, Unlimited },
		"waits between runs": func(c *Config) {
			c.NeedRetry, c.MaxRetries, c.RetryTiming, c.WaitTime = true, 1, Waits(0), time.Millisecond
		},
		"ten years of wait":      func(c *Config) { c.WaitTime = waitTimeMax },
		"a lease of two seconds": func(c *Config) { c.LockSecond = 2 },
		"one in order per key":   func(c *Config) { c.MaxPerKey, c.OrderedByKey = 1, true },
		"the rarest starts":      func(c *Config) { c.RatePerKey, c.BurstPerKey = rateMin, burstPerKeyMax },
		"the most starts":        func(c *Config) { c.RatePerKey = rateMax },
		"a batch handler":        batched,
		"the largest batches": func(c *Config) {
			batched(c)
			c.BatchSize, c.BatchWait, c.RatePerSecond, c.RateBurst = 1000, time.Minute, rateMin, 1000
		},
		"as many shards as workers":     func(c *Config) { c.Shards, c.WorkerPoolCapacity = 64, 64 },
		"many shards, and a small rate": func(c *Config) { c.Shards, c.RatePerSecond = 64, 1 },
		"leases of a day":               func(c *Config) { c.LockSecond, c.MinLockSecond = 86_400, 86_400 },
		"one of everything": func(c *Config) {
			c.NeedRetry = true
			c.MaxRetries, c.WorkerPoolCapacity, c.WorkerExpirySecond, c.QueueMaxSize, c.LoadLimit = 1, 1, 1, 1, 1
		},
	} {
		cfg := valid()
		change(&cfg)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDocumentsSayTheDefaults(t *testing.T) {
	code, list := contents(t, "config.go"), contents(t, "../docs/operate/configuration.md")
	_, code, _ = strings.Cut(code, "type Config struct {")
	fields := reflect.ValueOf(defaults)
	for i := range fields.NumField() {
		name, value := fields.Type().Field(i).Name, fields.Field(i)
		if value.IsZero() {
			continue
		}
		if entry := regexp.MustCompile(fmt.Sprintf("(?m)^- \\*\\*`%s`\\*\\* \\(%v\\b.*\\): ", name, value)); !entry.MatchString(list) {
			t.Errorf("docs/operate/configuration.md has no entry %v", entry)
		}
		about, _, _ := strings.Cut(code, "\t"+name+" ")
		about = about[strings.LastIndex(about, "// "+name+" is "):]
		if !regexp.MustCompile(fmt.Sprintf(`[Dd]efault %v\b`, value)).MatchString(about) {
			t.Errorf("the comment above %s does not say that its default is %v:\n%s", name, value, about)
		}
	}
}

// Whoever looks a field up finds all that this page says of it in one entry.
func TestDocumentsHaveEachField(t *testing.T) {
	list := contents(t, "../docs/operate/configuration.md")
	for field := range reflect.TypeFor[Config]().Fields() {
		if n := strings.Count(list, "\n- **`"+field.Name+"`** ("); n != 1 && field.IsExported() {
			t.Errorf("docs/operate/configuration.md has %d entries for %s", n, field.Name)
		}
	}
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestZeroMeansTheDefaultAndWhatIsSetStays(t *testing.T) {
	got := Config{}.withDefaults()
	want := Config{LostLimit: 3, WorkerPoolCapacity: 100, WorkerExpirySecond: 60, FirstPullDay: 7, QueueMaxSize: 50_000, LoadLimit: 10_000, Shards: 1, LockSecond: 10}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := (Config{RatePerSecond: 200}).withDefaults().RateBurst; got != 20 {
		t.Errorf("a rate of 200 has a burst of %d by default, want 20", got)
	}
	if got := (Config{RatePerSecond: 0.1}).withDefaults().RateBurst; got != 1 {
		t.Errorf("a rate of 0.1 has a burst of %d by default, want 1", got)
	}
	in := valid()
	batched(&in)
	in.RatePerSecond = 50
	if got := in.withDefaults(); got.BatchSize != 100 || got.RateBurst != 100 {
		t.Errorf("batches of %d, a burst of %d; want 100 and 100", got.BatchSize, got.RateBurst)
	}
	set := Config{LostLimit: -1, MaxRetries: 1, WaitTime: time.Second, WorkerPoolCapacity: 2, WorkerExpirySecond: 3, FirstPullDay: -1, QueueMaxSize: 4, LoadLimit: 5, Shards: 8, LockSecond: 6, MinLockSecond: 7}
	if got := set.withDefaults(); !reflect.DeepEqual(got, set) {
		t.Errorf("%+v", got)
	}
}

func TestEveryStatusHasAName(t *testing.T) {
	for status, want := range map[JobStatus]string{
		JobStatusInit: "init", JobStatusSuccess: "success", JobStatusFailed: "failed", JobStatusContinue: "continue",
		JobStatusRetry: "retry", JobStatusCancelled: "cancelled", 6: "unknown status 6", -1: "unknown status -1",
	} {
		if got := status.String(); got != want {
			t.Errorf("%d is called %q, want %q", int32(status), got, want)
		}
	}
}

func TestTheStatusesAreTheNumbersInTheTable(t *testing.T) {
	statuses := []JobStatus{JobStatusInit, JobStatusSuccess, JobStatusFailed, JobStatusContinue, JobStatusRetry, JobStatusCancelled}
	for number, status := range statuses {
		if int(status) != number {
			t.Errorf("%v is %d, want %d", status, int32(status), number)
		}
	}
}
