package topics

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service/internal/task"
)

// values are what a configuration may say for each of its fields, other than the default.
var values = map[string]string{
	"rate": "2", "burst": "3", "concurrency": "9", "per_destination": "5", "per_key": "1", "ordered": "true", "timeout": `"20s"`, "retry": `{"waits":["1s"]}`,
	"per_destination_rate": "4", "success": `{"status":"204"}`, "permanent_statuses": `"404"`, "headers": `{"x-mine":"1"}`,
}

// effect is all that a topic does with its configuration.
func effect(t *testing.T, text string) string {
	t.Helper()
	c, bad := ParseConfig([]byte(text))
	if bad != nil {
		t.Fatal(bad)
	}
	job := (&Topic{Type: 1_000_003, Name: "orders", Config: c}).Job()
	retry := c.RetryOf(&task.Content{})
	return fmt.Sprint(job.WorkerPoolCapacity, job.RatePerSecond, job.RateBurst, job.MaxPerKey, job.OrderedByKey, c.Limits(), c.Rules, c.Headers, c.TimeoutOf(&task.Content{}), retry.Waits, retry.Attempts())
}

func TestEachFieldOfAConfigurationHasAnEffect(t *testing.T) {
	for n := range reflect.TypeFor[written]().NumField() {
		field, _, _ := strings.Cut(reflect.TypeFor[written]().Field(n).Tag.Get("json"), ",")
		value, known := values[field]
		if !known {
			t.Errorf("what does %s do? values needs one for it", field)
			continue
		}
		without := "{}"
		with := fmt.Sprintf("{%q:%s}", field, value)
		if field == "burst" { // it belongs to a rate
			without, with = `{"rate":2}`, `{"rate":2,"burst":3}`
		}
		if before, after := effect(t, without), effect(t, with); before == after {
			t.Errorf("%s has no effect: %s", with, after)
		}
	}
}
