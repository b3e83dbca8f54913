package aesgcm_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/queue_job"
)

var (
	old    = aesgcm.Key{ID: "2025-05", Secret: bytes.Repeat([]byte{5}, 32)}
	newest = aesgcm.Key{ID: "2026-11", Secret: bytes.Repeat([]byte{11}, 16)}
	place  = queue_job.CodecValue{Column: queue_job.ColumnParams, JobType: 7, Key: "order-1"}
)

func made(t *testing.T, newest aesgcm.Key, others ...aesgcm.Key) *aesgcm.Codec {
	t.Helper()
	codec, err := aesgcm.New(newest, others...)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

func TestEachValueIsDecryptedWithTheKeyThatEncryptedIt(t *testing.T) {
	before, after := made(t, old), made(t, newest, old)
	for _, plain := range []string{"null", `{"to":"anna"}`, strings.Repeat("long", 100_000)} {
		for codec, want := range map[*aesgcm.Codec]string{before: "2025-05", after: "2026-11"} {
			key, text, err := codec.Encode([]byte(plain), place)
			if err != nil || key != want || bytes.Contains(text, []byte(plain)) {
				t.Fatalf("key %q, %v", key, err)
			}
			if got, err := after.Decode(key, text, place); err != nil || string(got) != plain {
				t.Errorf("%q, %v", got, err)
			}
			if _, other, _ := codec.Encode([]byte(plain), place); bytes.Equal(text, other) {
				t.Error("one value is encrypted twice in the same way")
			}
		}
	}
	key, text, _ := after.Encode([]byte("{}"), place)
	if _, err := before.Decode(key, text, place); err == nil {
		t.Error("a key was not needed")
	}
}

func TestAValueThatWasChangedOrMovedIsNotDecrypted(t *testing.T) {
	codec := made(t, newest)
	of := queue_job.CodecValue{Column: queue_job.ColumnResult, JobType: 7, Key: "order-1", JobID: 9}
	key, text, err := codec.Encode([]byte("done"), of)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if _, err := codec.Decode(key, changed, of); err == nil {
			t.Errorf("byte %d was changed", i)
		}
		if _, err := codec.Decode(key, text[:i], of); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
	for _, elsewhere := range []queue_job.CodecValue{
		{Column: queue_job.ColumnProgress, JobType: 7, Key: "order-1", JobID: 9}, {Column: queue_job.ColumnResult, JobType: 8, Key: "order-1", JobID: 9},
		{Column: queue_job.ColumnResult, JobType: 7, Key: "order-2", JobID: 9}, {Column: queue_job.ColumnResult, JobType: 7, Key: "order-1", JobID: 8},
	} {
		if _, err := codec.Decode(key, text, elsewhere); err == nil {
			t.Errorf("it was moved to %+v", elsewhere)
		}
	}
	if other := made(t, aesgcm.Key{ID: newest.ID, Secret: old.Secret}); other != nil {
		if _, err := other.Decode(key, text, of); err == nil {
			t.Error("another secret of the same name does")
		}
	}
}

func TestKeysThatCannotBeUsedAreRefused(t *testing.T) {
	for want, keys := range map[string][]aesgcm.Key{
		"no ID": {{Secret: old.Secret}}, "has 5 bytes": {{ID: "a", Secret: []byte("short")}}, `two keys have the ID "2025-05"`: {old, old},
		`the ID "mai 2025"`: {{ID: "mai 2025", Secret: old.Secret}}, `use 1 to 32`: {old, {ID: strings.Repeat("a", 33), Secret: old.Secret}},
	} {
		if _, err := aesgcm.New(keys[0], keys[1:]...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if codec := made(t, old); codec.RefusesPlain() || !codec.RefusePlain().RefusesPlain() || codec.RefusesPlain() {
		t.Error("plain text is refused exactly if that was asked for")
	}
}

func BenchmarkEncodeAndDecode(b *testing.B) {
	codec, err := aesgcm.New(newest)
	if err != nil {
		b.Fatal(err)
	}
	plain := bytes.Repeat([]byte("x"), 300)
	b.ReportAllocs()
	for b.Loop() {
		key, text, err := codec.Encode(plain, place)
		if err == nil {
			_, err = codec.Decode(key, text, place)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
