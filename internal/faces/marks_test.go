package faces

import (
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

func TestInstancesThatComeWithinAMinuteOfAMarkAreItsDeploy(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	deploys := []Deploy{{At: at(1000), Hosts: []string{"web-1/7"}}, {At: at(2000), Hosts: []string{"web-2/8"}}}
	marks := []record.Act{
		{ID: 5, At: 3000, Actor: "ci", Verb: record.Deployed, Detail: `{"after":"v3"}`},
		{ID: 4, At: 1955, Actor: "ci", Verb: record.Deployed, Detail: `{"after":"v2"}`},
		{ID: 3, At: 1900, Actor: "ci", Verb: record.Muted, Detail: `{"after":{"error":"x","until":9999}}`},
		{ID: 2, At: 900, Actor: "ci", Verb: record.Deployed, Detail: `{"after":"before the span"}`},
		{ID: 1, At: 1500, Actor: "ci", Verb: record.Deployed, Detail: `of a later version`},
	}
	got := ""
	for _, d := range versioned(deploys, marks, at(950)) {
		got += fmt.Sprintf("%d %q by %q: %v; ", d.At.Unix(), d.Version, d.By, d.Hosts)
	}
	if want := `1000 "" by "": [web-1/7]; 2000 "v2" by "ci": [web-2/8]; 3000 "v3" by "ci": []; `; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestTheLastMarkOfAnErrorSaysWhetherItIsMuted(t *testing.T) {
	mark := func(id uint64, verb, err string, until int64) record.Act {
		return record.Act{ID: id, Actor: "anna", Why: "known", Verb: verb, Detail: fmt.Sprintf(`{"after":{"error":%q,"text":"t","until":%d}}`, err, until)}
	}
	mutes := mutesOf([]record.Act{
		mark(9, record.Muted, "muted", 101), mark(8, record.Unmuted, "muted", 0), mark(7, record.Unmuted, "unmuted", 0), mark(6, record.Muted, "unmuted", 200),
		mark(5, record.Muted, "over", 100), mark(4, record.Muted, "over", 300), {ID: 3, Verb: record.Deployed, Detail: `{"after":"v1"}`},
	}, 100)
	if m := mutes["muted"]; len(mutes) != 1 || m == nil || *m != (Mute{time.Unix(101, 0), "anna", "known"}) {
		t.Errorf("%+v", mutes)
	}
}
