package queue_job

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// everySetting is a configuration whose plain values are all set.
func everySetting() *Config {
	return &Config{
		JobType: 7, ServiceName: "mail", TablePrefix: "shop_",
		NeedRetry: true, MaxRetries: 3, WaitTime: 90 * time.Second, LostLimit: 5, Timeout: time.Minute, StrictParams: true, KeepLog: true,
		WorkerPoolCapacity: 12, WorkerExpirySecond: 61, RatePerSecond: 0.5, RateBurst: 4, MaxPerKey: 2, OrderedByKey: true, FairByGroup: true,
		RatePerKey: 2.5, BurstPerKey: 3,
		FirstPullDay: -1, QueueMaxSize: 100, LoadLimit: 50, BatchSize: 10, BatchWait: time.Second, ScheduleCatchUp: 9,
		Shards: 4, DormantAfter: time.Hour, LockSecond: 20, MinLockSecond: 3,
	}
}

func TestWhatIsToldOfATypeIsReadAgain(t *testing.T) {
	told := everySetting()
	fields := reflect.ValueOf(*told)
	for i := range fields.NumField() {
		if field := fields.Type().Field(i); field.IsExported() && isSetting(field) && fields.Field(i).IsZero() {
			t.Fatalf("%s is not set here: set it, so that it is tried", field.Name)
		}
	}
	keeps := Retention{Done: time.Hour, Failed: 30 * 24 * time.Hour}
	text := settingsOf(told, &keeps)
	for _, private := range []string{"mail", "shop_", "JobType"} {
		if strings.Contains(text, private) {
			t.Errorf("%q is told: %s", private, text)
		}
	}
	var got Type
	got.readSettings(text)
	want := *told
	want.JobType, want.ServiceName, want.TablePrefix = 0, "", ""
	if !reflect.DeepEqual(got.Config, want) {
		t.Errorf("%+v\nwant %+v", got.Config, want)
	}
	var list []string
	for name, value := range got.Settings() {
		if list = append(list, name+" "+value); len(list) == 3 {
			break
		}
	}
	if all := maps.Collect(got.Settings()); len(all) != 26 || list[2] != "WaitTime 1m30s" {
		t.Errorf("settings: %v, the first %v", all, list)
	}
	if got.Retention != keeps {
		t.Errorf("jobs are kept for %v", got.Retention)
	}
	if wait := (Wait{90 * time.Second, 90 * time.Second}); !slices.Equal(got.RetryWaits, []Wait{wait, wait, wait}) {
		t.Errorf("retries wait for %v", got.RetryWaits)
	}
}

func TestSettingsOfAnotherVersionAreReadAsFarAsTheyAreKnown(t *testing.T) {
	var got Type
	got.readSettings(`{"config":{"WorkerPoolCapacity":7,"Timeout":"2s","MaxRetries":"many","OrderedByKey":1,"NeedRetry":true,"LoadLimit":"1s","Moon":true,"JobType":9,"backsOff":true},"retry_waits":[["1s","2s"],["oops",""]],"tides":[]}`)
	want := Type{Config: Config{WorkerPoolCapacity: 7, Timeout: 2 * time.Second, NeedRetry: true}, RetryWaits: []Wait{{time.Second, 2 * time.Second}, {}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	got = Type{}
	got.readSettings("no JSON")
	if !reflect.DeepEqual(got, Type{}) {
		t.Errorf("%+v", got)
	}
}

func TestThePreviewOfRetries(t *testing.T) {
	const s = time.Second
	handler := func(context.Context, *Job) error { return nil }
	for _, c := range []struct {
		what string
		cfg  Config
		want []Wait
	}{
		{"no retries", Config{MaxRetries: 3, WaitTime: s}, nil},
		{"the same wait", Config{NeedRetry: true, MaxRetries: 2, WaitTime: s}, []Wait{{s, s}, {s, s}}},
		{"a list", Config{NeedRetry: true, MaxRetries: 3, RetryTiming: Waits(s, 2*s)}, []Wait{{s, s}, {2 * s, 2 * s}, {2 * s, 2 * s}}},
		{"longer than can be", Config{NeedRetry: true, MaxRetries: 1, RetryTiming: Waits(2 * waitTimeMax)}, []Wait{{waitTimeMax, waitTimeMax}}},
		{"it needs the error", Config{NeedRetry: true, MaxRetries: 3, RetryTiming: func(_ int, err error) time.Duration {
			if strings.Contains(err.Error(), "busy") {
				return s
			}
			return 2 * s
		}}, nil},
	} {
		c.cfg.HandleJobFunc = handler
		var got Type
		got.readSettings(settingsOf(&c.cfg, &Retention{}))
		if !slices.Equal(got.RetryWaits, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got.RetryWaits, c.want)
		}
	}
	var got Type
	got.readSettings(settingsOf(&Config{NeedRetry: true, MaxRetries: Unlimited, RetryTiming: Exponential(8*s, time.Hour)}, &Retention{}))
	if len(got.RetryWaits) != retriesShown {
		t.Fatalf("%d waits are shown", len(got.RetryWaits))
	}
	for i, wait := range got.RetryWaits {
		if longest := min(8*s<<i, time.Hour); wait.Least < longest/2 || wait.Least > wait.Most || wait.Most > longest {
			t.Errorf("retry %d waits for %v, want %v to %v", i+1, wait, longest/2, longest)
		}
	}
}
