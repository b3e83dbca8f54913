package persistent_queue_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheProgramInEachReadmeIsTheOneInExamples(t *testing.T) {
	const file = "examples/start/main.go"
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(source), "\npackage main\n")
	if !found {
		t.Fatalf("%s is no program", file)
	}
	program = "package main\n" + program
	for _, readme := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(text), "```go\n")
		code, _, found := strings.Cut(code, "```")
		if !found {
			t.Fatalf("%s shows no Go code", readme)
		}
		if code != program {
			t.Errorf("the first Go code of %s is not %s from \"package main\" on:\n%s", readme, file, code)
		}
	}
}
