package persistent_queue_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheReadmesCodeIsTheExampleThatCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(readme), "```go\n")
	code, _, found := strings.Cut(code, "```")
	if !found {
		t.Fatal("README.md shows no Go code")
	}
	// Alignment differs with the indentation; words do not.
	if words := func(s string) string { return strings.Join(strings.Fields(s), " ") }; !strings.Contains(words(string(example)), words(code)) {
		t.Errorf("README.md shows code that is not in example_test.go:\n%s", code)
	}
}
