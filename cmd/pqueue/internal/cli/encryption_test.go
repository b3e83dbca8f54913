package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheFirstKeyOfTheFileEncryptsAndEachDecrypts(t *testing.T) {
	const keyA, keyB = "1+lABmvTCXZqjzeBefIOoVDN3yF5oWwSJD9xHaVHtZU=", "j1DvaAfUxVIFSW1qA5IEU4iRTTA0AQ6K5TK3oIUOhFg="
	file := filepath.Join(t.TempDir(), "keys")
	read := func(text string) (queue_job.Codec, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return (&server{encryptionFile: file}).codec()
	}
	before, err := read("2025 " + keyA + "\n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := read("# since May\n2026\t" + keyB + "\n\n2025 " + keyA)
	if err != nil {
		t.Fatal(err)
	}
	of := queue_job.CodecValue{Column: queue_job.ColumnParams, JobType: 1_000_000}
	for codec, want := range map[queue_job.Codec]string{before: "2025", after: "2026"} {
		key, text, err := codec.Encode([]byte("{}"), of)
		if err != nil || key != want {
			t.Fatalf("key %q, %v", key, err)
		}
		if plain, err := after.Decode(key, text, of); err != nil || string(plain) != "{}" {
			t.Errorf("%q, %v", plain, err)
		}
	}
	if codec, err := (&server{}).codec(); codec != nil || err != nil {
		t.Errorf("without a file, there is %v, %v", codec, err)
	}
	for text, want := range map[string]string{
		"": "has no key", "# nothing\n": "has no key", keyA: "line 1 has 1 words", "\n2026 " + keyA + " 2025": "line 2 has 3 words",
		"2026 c2hvcnQ=": "has 5 bytes", "2026 c2hvcnQ": "line 1: the second word is no base64", "20:26 " + keyA: `the ID "20:26"`,
		"2026 " + keyA + "\n2026 " + keyB: `two keys have the ID "2026"`,
	} {
		if codec, err := read(text); codec != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c2hvcnQ") || strings.Contains(err.Error(), keyA) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
