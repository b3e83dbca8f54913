package object

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWhatIsWrongWithAnObjectIsSaidAllAtOnce(t *testing.T) {
	type target struct {
		Text  string            `json:"text"`
		Count int               `json:"count,omitempty"`
		Rate  float64           `json:"rate"`
		Is    bool              `json:"is"`
		List  []string          `json:"list"`
		Texts map[string]string `json:"texts"`
		Raw   json.RawMessage   `json:"raw"`
	}
	for text, want := range map[string]string{
		`{}`: "", `{"text":"a","count":1,"rate":0.5,"is":true,"list":["a"],"texts":{"a":"b"},"raw":[1]}`: "", `{"text":null,"raw":null}`: "", " {\"raw\":{\"a\":1,\"a\":2}} ": "",
		`{"text":1,"count":1.5,"rate":"1","is":0,"list":"a","texts":[],"other":1}`: "/text: a text; /count: a whole number; /rate: a number; /is: true or false; /list: a list of texts; /texts: an object of texts; /other: no such field",
		`{"text":"a","text":"b"}`: "/text: twice", `{"text":"a","t\u0065xt":"b"}`: "/text: twice", `{"Text":"a"}`: "/Text: no such field", `{"a/b":1}`: "/a~1b: no such field",
		`{"texts":{"a":"b","\u0061":"c"}}`: "/texts/a: twice", `{"texts":{"a":null,"b/c":null}}`: "/texts/a: null; /texts/b~1c: null", `{"texts":{"a":1}}`: "/texts: an object of texts",
		`{"text":"\ud83d"}`: "/text: surrogate", `{"text":"\ude00\ud83d"}`: "/text: surrogate", `{"list":["\uD83D\u0041"]}`: "/list: surrogate", `{"texts":{"\udc00":"a"}}`: "/texts: surrogate",
		`{"text":"\ud83d\ude00\ud83d\ude00 \\ud83d \\\" \ufffd","texts":{"a":"\ud83d\ude00"},"raw":{"a":"\ud83d"}}`: "",
		`[]`: ": another kind", `null`: ": another kind", ``: ": too early", `{"text":`: ": too early", `{"text":"a"} {}`: ": behind it", `{"text" "a"}`: ": colon", "\ufeff{}": ": byte order mark", "{\"text\":\"\xe9\"}": ": UTF-8",
	} {
		var into target
		var got []string
		for _, f := range Read([]byte(text), "", &into) {
			got = append(got, f.Pointer+": "+f.Detail)
		}
		parts := strings.Split(want, "; ")
		if want == "" {
			parts = nil
		}
		if len(got) != len(parts) {
			t.Errorf("%s: %q, want %q", text, got, want)
			continue
		}
		for n := range parts {
			pointer, word, _ := strings.Cut(parts[n], ": ")
			if !strings.HasPrefix(got[n], pointer+": ") || !strings.Contains(got[n], word) {
				t.Errorf("%s: %q, want %q", text, got[n], parts[n])
			}
		}
	}
}

func TestANameThatComesTwiceIsFound(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "", `{"a":1,"b":{"a":1,"a":2},"c":[{"a":":"}]}`: "", `{"a":"\":\\","b":"{"}`: "", `{"a":1,"a":2}`: "a", `{"a":1,"\u0061":2}`: "a", `{"x":{},"a":"}","x":":"}`: "x",
	} {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatal(err)
		}
		if name, twice := Twice([]byte(text), len(members)); name != want || twice != (want != "") {
			t.Errorf("%s: %q, %t", text, name, twice)
		}
	}
}
