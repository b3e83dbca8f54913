package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func heard(t *testing.T, events ...event) *try {
	t.Helper()
	y := newTry()
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		want := string(line) + "\n"
		if e.Action == "fail" && e.Test == "" {
			want = ""
		} else if e.Action == "fail" {
			want = strings.Replace(want, "fail", "doubt", 1)
		}
		if got := string(y.take(append(line, '\n'))); got != want {
			t.Errorf("%+v: says %q, want %q", e, got, want)
		}
	}
	return y
}

const pkg = "example.com/tests"

// failure is a test on one of two databases that failed, as go test tells it.
var failure = []event{
	{Action: "output", Package: pkg, Test: "TestLate/SQLite", Output: "late_test.go:7: after 3s\n"},
	{Action: "fail", Package: pkg, Test: "TestLate/SQLite"},
	{Action: "fail", Package: pkg, Test: "TestLate"},
	{Action: "pass", Package: pkg, Test: "TestGood"},
	{Action: "fail", Package: pkg},
}

func TestWhatFailedIsRunAgainByItselfTwiceWithAllItsSubtests(t *testing.T) {
	want := []string{"-run", "^(TestLate)$", "-count", "2", "-parallel", "1", "-p", "1"}
	if got := heard(t, failure...).again(); !slices.Equal(got, want) {
		t.Errorf("run again with %q", got)
	}
}

func TestWhatHoldsByItselfHasFailedBesideOthers(t *testing.T) {
	passes := event{Action: "pass", Package: pkg, Test: "TestLate"}
	fails := event{Action: "fail", Package: pkg, Test: "TestLate"}
	for name, c := range map[string]struct {
		second []event
		want   string
	}{
		"twice":      {[]event{passes, passes}, "beside TestLate/SQLite, beside TestLate"},
		"only once":  {[]event{passes, fails, {Action: "fail", Package: pkg}}, "fail TestLate/SQLite, fail TestLate, fail"},
		"not at all": {[]event{fails, fails, {Action: "fail", Package: pkg}}, "fail TestLate/SQLite, fail TestLate, fail"},
		"not run":    {nil, "fail TestLate/SQLite, fail TestLate, fail"},
	} {
		var out strings.Builder
		heard(t, failure...).end(heard(t, c.second...), &out)
		if got := actions(t, out.String()); got != c.want {
			t.Errorf("held %s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNothingIsRunAgainThatIsNoMatterOfTime(t *testing.T) {
	said := func(what string) []event {
		return append([]event{{Action: "output", Package: pkg, Test: "TestLate", Output: what}}, failure...)
	}
	var many []event
	for _, name := range strings.Split("ABCDEFGHI", "") {
		many = append(many, event{Action: "fail", Package: pkg, Test: "Test" + name})
	}
	for name, events := range map[string][]event{
		"a race":                    said("    testing.go:1617: race detected during execution of test\n"),
		"a panic":                   said("panic: test timed out after 20m0s\n"),
		"an error of the runtime":   said("fatal error: all goroutines are asleep - deadlock!\n"),
		"a package without a test":  {{Action: "fail", Package: pkg}},
		"what did not build beside": append([]event{{Action: "build-fail"}}, failure...),
		"nine tests":                many,
		"nothing that failed":       {{Action: "pass", Package: pkg, Test: "TestGood"}},
	} {
		y := heard(t, events...)
		if got := y.again(); got != nil {
			t.Errorf("%s: run again with %q", name, got)
		}
		var out strings.Builder
		y.end(nil, &out)
		if got, want := strings.Count(out.String(), "\n"), len(y.failed); got != want {
			t.Errorf("%s: %d lines of failures, want %d", name, got, want)
		}
	}
}

// A command that fails and holds by itself has the exit code 0, and one that never holds has go test's.
func TestTheExitCodeIsTheLastTrys(t *testing.T) {
	var lines []string
	take := func(line []byte) []byte { lines = append(lines, string(line)); return nil }
	if code := run([]string{"sh", "-c", `printf '{"Action":"pass"}\nwithout an end'; exit 3`}, take); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if want := []string{"{\"Action\":\"pass\"}\n", "without an end"}; !slices.Equal(lines, want) {
		t.Errorf("heard %q", lines)
	}
	if code := run([]string{"/there/is/no/such/program"}, take); code != 1 {
		t.Errorf("exit code %d of a command that does not exist", code)
	}
}

func actions(t *testing.T, lines string) string {
	t.Helper()
	var said []string
	for line := range strings.Lines(lines) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		said = append(said, strings.TrimSpace(e.Action+" "+e.Test))
	}
	return strings.Join(said, ", ")
}
