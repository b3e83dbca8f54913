package queue_job

import (
	"context"
	"database/sql"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const bad = "rapport-\xe9t\xe9.pdf"

type aText struct{ b string }

func (a aText) MarshalText() ([]byte, error) { return []byte(a.b), nil }

type aJSON struct{ Inner string }

func (a aJSON) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"x": a.Inner}) }

type pointerJSON struct{ inner string }

func (p *pointerJSON) MarshalJSON() ([]byte, error) { return json.Marshal(p.inner) }

type ring struct{ next *ring }

func (r *ring) MarshalJSON() ([]byte, error) { return []byte(`"\ufffd"`), nil }

type sanitized string

func (s sanitized) MarshalJSON() ([]byte, error) {
	return json.Marshal(strings.ToValidUTF8(string(s), "\uFFFD"))
}

func TestParametersThatJSONWouldChangeAreRefusedWithTheirPlace(t *testing.T) {
	type file struct{ Name string }
	type nested struct {
		Files []file
		Any   any
		Texts map[aText]string
		P     *pointerJSON `json:"p"`
	}
	for where, value := range map[string]any{
		"the text has the byte 0xe9 at 8":              bad,
		"Name has the byte 0xe9":                       file{bad},
		"Files[1].Name has the byte 0xe9":              nested{Files: []file{{"ok"}, {bad}}},
		`Any["a"].Inner has the byte`:                  nested{Any: map[string]any{"a": &aJSON{bad}}},
		"a key of the text has the byte":               map[string]int{bad: 1},
		`["a"][0] has the byte`:                        map[string]any{"a": []any{bad}},
		"a key of Texts has the byte":                  nested{Texts: map[aText]string{{bad}: ""}},
		"P.inner has the byte":                         &nested{P: &pointerJSON{bad}},
		"[0] has the byte":                             []aText{{bad}},
		"[1].Name has the byte":                        [2]*file{nil, {bad}},
		`["k"][1].Name has the byte`:                   map[string][]any{"k": {"\uFFFD", file{bad}}},
		"job parameters are not UTF-8":                 json.RawMessage(`"` + bad + `"`),
		"job parameters are not UTF-8, as JSON itself": JSON(`"` + bad + `"`),
	} {
		where, _, _ = strings.Cut(where, ", as")
		if text, err := marshal(value); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%#v: %s, %v; want: %s", value, text, err, where)
		}
	}
	for _, value := range []any{
		nil, "\uFFFD", file{"\uFFFD"}, `\ufffd`, JSON(`"\ufffd"`), json.RawMessage(`{"a":"\ufffd"}`), []byte(bad), struct{ Raw json.RawMessage }{json.RawMessage(`"\ufffd"`)},
		map[string][]byte{"a": []byte(bad)}, time.Now(), sanitized(bad), func() any { r := &ring{}; r.next = r; return r }(),
		struct {
			Hidden string `json:"-"`
			Raw    JSON
		}{bad, `"\ufffd"`},
	} {
		if _, err := marshal(value); err != nil {
			t.Errorf("%#v: %v", value, err)
		}
	}
}

// The kind: what comes back is what went in, or nothing went in.
func TestTextsComeBackAsTheyWereAddedOrAreRefused(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", `\`, `\u`, "fffd", `\ufffd`, "\uFFFD", "\xff", "\xed\xa0\x80", "\xc3", "é", "\x00", `"`, "\u2028", "😀", "<"}
	refused := 0
	for range 5000 {
		var text strings.Builder
		for range dice.IntN(6) {
			text.WriteString(pieces[dice.IntN(len(pieces))])
		}
		value := map[string]string{text.String(): text.String()}
		encoded, err := marshal(value)
		if valid := utf8.ValidString(text.String()); valid != (err == nil) {
			t.Fatalf("%q: %s, %v", text.String(), encoded, err)
		}
		if err != nil {
			refused++
			continue
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(encoded), &back); err != nil || back[text.String()] != text.String() {
			t.Fatalf("%q comes back as %q, %v", value, back, err)
		}
	}
	if refused == 0 || refused == 5000 {
		t.Errorf("%d of 5000 are refused", refused)
	}
}

type hourly struct{}

func (hourly) Next(t time.Time) time.Time { return t.Add(time.Hour) }
func (hourly) String() string             { return "hourly" }

func TestASchedulesParametersThatJSONWouldChangeAreRefused(t *testing.T) {
	cfg := Config{ServiceName: "a", JobType: 1, Db: &sql.DB{}, Schedule: hourly{}, ScheduleParams: bad, HandleJobFunc: func(context.Context, *Job) error { return nil }}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Error(err)
	}
}
