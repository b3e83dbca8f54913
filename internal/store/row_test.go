package store

import (
	"maps"
	"testing"
)

func TestATallyIsReadAsItIsWritten(t *testing.T) {
	for _, value := range []any{"1,-2,3,4,5,6,7", []byte("1,-2,3,4,5,6,7")} {
		var r Row
		if err := (tally{&r}).Scan(value); err != nil || r.Version() != (Version{1, -2, 5}) || r.Retries != 3 || r.Lost != 4 || r.Deferred != 6 || r.MaxRetries != 7 {
			t.Errorf("%T is read as %+v, %v", value, r, err)
		}
		if err := (tally{&r}).Scan(nil); err != nil || r != (Row{MaxRetries: NotSet}) {
			t.Errorf("NULL after that is read as %+v, %v", r, err)
		}
	}
}

func TestMetadataStandsBehindTheTally(t *testing.T) {
	var r Row
	const meta = `{"a":"1,2","b":""}`
	for _, value := range []any{"0,0,0,0,0,0,-2," + meta, []byte("0,0,0,0,0,0,-2," + meta)} {
		if err := (tally{&r}).Scan(value); err != nil || r.Extra == nil || *r.Extra != (Extra{Meta: meta}) || !maps.Equal(r.Metadata(), map[string]string{"a": "1,2", "b": ""}) {
			t.Errorf("%T is read as %+v, %v, %v", value, r, r.Metadata(), err)
		}
		if err := (tally{&r}).Scan(nil); err != nil || r != (Row{MaxRetries: NotSet}) || r.Metadata() != nil {
			t.Errorf("NULL after that is read as %+v, %v", r, err)
		}
	}
	for _, text := range []string{"x", "[]", `{"a":1}`, `{"a":"1"`, "null"} {
		if r := (Row{Extra: &Extra{Meta: text}}); r.Metadata() != nil {
			t.Errorf("%s is read as %v", text, r.Metadata())
		}
	}
}

func TestWhatIsNoTallyIsAnError(t *testing.T) {
	for _, value := range []any{"", "1,2,3,4,5,6", "1,2,3,4,5,6,x", "1,2,3,4,x,6,7,8", int64(5)} {
		if err := (tally{new(Row)}).Scan(value); err == nil {
			t.Errorf("%q is read", value)
		}
	}
}

func TestAnEndIsAddedToMetadata(t *testing.T) {
	for meta, want := range map[string]string{
		"":                 `{"pqueue.expires":"2030-01-01T00:00:00.250Z"}`,
		"{}":               `{"pqueue.expires":"2030-01-01T00:00:00.250Z"}`,
		`{"tenant":"a,}"}`: `{"pqueue.expires":"2030-01-01T00:00:00.250Z","tenant":"a,}"}`,
	} {
		got := WithEnd(meta, 1893456000250)
		if extra := ExtraOf(got); got != want || extra.Expires != 1893456000250 {
			t.Errorf("%q: %s, %+v", meta, got, extra)
		}
	}
}
