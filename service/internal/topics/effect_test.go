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
	"per_destination_rate": "4", "per_key_rate": "6", "per_key_burst": "7", "success": `{"status":"204"}`, "permanent_statuses": `"404"`, "headers": `{"x-mine":"1"}`,
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
	return fmt.Sprint(job.WorkerPoolCapacity, job.RatePerSecond, job.RateBurst, job.MaxPerKey, job.OrderedByKey, job.RatePerKey, job.BurstPerKey, c.Limits(), c.Rules, c.Headers, c.TimeoutOf(&task.Content{}), retry.Waits, retry.Attempts())
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
		if field == "per_key_burst" {
			without, with = `{"per_key_rate":6}`, `{"per_key_rate":6,"per_key_burst":7}`
		}
		if before, after := effect(t, without), effect(t, with); before == after {
			t.Errorf("%s has no effect: %s", with, after)
		}
	}
}

// extremes are small and large values of the limits of a configuration.
var extremes = map[string][2]string{
	"rate": {"0.001", "1000000"}, "burst": {"1", "1000000"}, "concurrency": {"1", "10000"}, "per_destination": {"1", "10000"}, "per_key": {"1", "10000"}, "per_destination_rate": {"0.001", "1000000"},
	"per_key_rate": {"0.001", "1000000"}, "per_key_burst": {"1", "100000"},
}

// A limit that another limit makes pointless is refused by its name: in pairs, whatever the configuration takes limits something. The pairs of
// rates are left out: each lets tasks in that have gathered, and the other one spreads those.
func TestALimitThatAnotherOneMakesPointlessIsRefused(t *testing.T) {
	numbers := 0
	for n := range reflect.TypeFor[written]().NumField() {
		field := reflect.TypeFor[written]().Field(n)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if kind := field.Type.Kind(); kind != reflect.Int && kind != reflect.Float64 {
			continue
		}
		if numbers++; extremes[name] == [2]string{} {
			t.Errorf("what are small and large values of %s? extremes needs them", name)
		}
	}
	if numbers != len(extremes) {
		t.Errorf("there are %d limits, and %d in extremes", numbers, len(extremes))
	}
	inFlight := []string{"concurrency", "per_destination", "per_key"}
	for _, one := range inFlight {
		for _, other := range inFlight {
			for _, a := range extremes[one] {
				for _, b := range extremes[other] {
					if one == other {
						continue
					}
					text := fmt.Sprintf(`{%q:%s,%q:%s}`, one, a, other, b)
					both, bad := ParseConfig([]byte(text))
					if bad != nil {
						if at := bad.Fields[0].Pointer; at != "/"+one && at != "/"+other {
							t.Errorf("%s: %v", text, bad)
						}
						continue
					}
					if most := both.AtATime(); both.Limits().InFlight > most || both.PerKey > most {
						t.Errorf("%s is taken, and a part of it limits nothing", text)
					}
				}
			}
		}
	}
}
