package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// story lets a summary hear of events, a second apart, and returns what it said.
func story(t *testing.T, events ...event) (said string, exitCode int) {
	t.Helper()
	var out strings.Builder
	now := time.Unix(0, 0)
	s := newSummary(&out, func() time.Time { return now })
	for _, e := range events {
		now = now.Add(time.Second)
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		s.take(string(line))
		s.tick()
	}
	code := s.end("make test-all has the rest")
	return out.String(), code
}

const pkg = "example.com/x/tests"

func TestSummary_CountsByDatabaseAndSaysWhatWasLeftOut(t *testing.T) {
	said, code := story(t,
		event{Action: "pass", Package: pkg, Test: "TestA/SQLite/a part"},
		event{Action: "pass", Package: pkg, Test: "TestA/SQLite"},
		event{Action: "pass", Package: pkg, Test: "TestA/MySQL"},
		event{Action: "pass", Package: pkg, Test: "TestA"},
		event{Action: "pass", Package: pkg, Test: "TestB/one case"},
		event{Action: "pass", Package: pkg, Test: "TestB"},
		event{Action: "output", Package: pkg, Test: "TestC", Output: "    c_test.go:7: left out: it takes long\n"},
		event{Action: "skip", Package: pkg, Test: "TestC"},
		event{Action: "pass", Package: pkg},
	)
	for _, want := range []string{
		"passed  SQLite  MariaDB  MySQL  PostgreSQL  no database",
		" tests       1               1                        1",
		"left out: 1 × it takes long", "make test-all has the rest", "all green after 9s",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestSummary_HasAColumnForTiDBInARunThatIsAboutIt(t *testing.T) {
	said, _ := story(t, event{Action: "pass", Package: pkg, Test: "TestA/TiDB"}, event{Action: "pass", Package: pkg, Test: "TestA"})
	if want := "passed  SQLite  MariaDB  MySQL  PostgreSQL  TiDB  no database"; !strings.Contains(said, want) {
		t.Errorf("no %q in:\n%s", want, said)
	}
}

func TestSummary_ShowsWhatATestThatFailedSaidAndNoOther(t *testing.T) {
	said, code := story(t,
		event{Action: "output", Package: pkg, Test: "TestA", Output: "quiet\n"},
		event{Action: "pass", Package: pkg, Test: "TestA"},
		event{Action: "output", Package: pkg, Test: "TestB/MySQL", Output: "b_test.go:9: 3, want 4\n"},
		event{Action: "fail", Package: pkg, Test: "TestB/MySQL"},
		event{Action: "fail", Package: pkg, Test: "TestB"},
		event{Action: "fail", Package: pkg},
		event{Action: "output", Package: "example.com/x/broken", Output: "a goroutine is left\n"},
		event{Action: "fail", Package: "example.com/x/broken"},
	)
	for _, want := range []string{"FAILED  tests: TestB/MySQL\nb_test.go:9: 3, want 4", "FAILED  broken\na goroutine is left", "after 8s, FAILED:\n  tests: TestB/MySQL\n  tests: TestB\n  broken\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "quiet") || code != 1 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

func TestSummary_NamesWhatWasMeasuredAgain(t *testing.T) {
	said, code := story(t,
		event{Action: "output", Package: pkg, Test: "TestA/MySQL", Output: "    a_test.go:9: measured again: a start after 1.4s, want at most 1s\n"},
		event{Action: "output", Package: pkg, Test: "TestA/MySQL", Output: "    a_test.go:9: quiet\n"},
		event{Action: "pass", Package: pkg, Test: "TestA/MySQL"},
		event{Action: "pass", Package: pkg, Test: "TestA/MySQL"}, // the second time
	)
	if want := " tests                       1 "; !strings.Contains(said, want) {
		t.Errorf("no %q in:\n%s", want, said)
	}
	if want := "\ntests: TestA/MySQL: a_test.go:9: measured again: a start after 1.4s, want at most 1s\n"; !strings.Contains(said, want) || strings.Contains(said, "quiet") || code != 0 {
		t.Errorf("exit code %d, want 0 and %q, and no more of it:\n%s", code, want, said)
	}
}

func TestSummary_NamesWhatTakesLong(t *testing.T) {
	quiet := event{Action: "output", Package: pkg, Test: "TestA", Output: "x\n"}
	said, _ := story(t,
		event{Action: "run", Package: pkg, Test: "TestA"},
		event{Action: "run", Package: pkg, Test: "TestA/MySQL"},
		quiet, quiet, quiet, quiet,
		event{Action: "pass", Package: pkg, Test: "TestA", Elapsed: 6.2},
	)
	for _, want := range []string{"    5s  … tests: TestA/MySQL (3s)\n", "    6s  tests: TestA\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
}

func TestSummary_IsNotGreenIfACommandFailedOrNothingRan(t *testing.T) {
	passed := event{Action: "pass", Package: pkg, Test: "TestA"}
	for want, events := range map[string][]event{
		"a command ended with exit status 2": {passed, {Action: "exit", Code: 2}},
		"not one test has passed":            {{Action: "exit"}},
	} {
		if said, code := story(t, events...); code != 1 || !strings.Contains(said, want) || strings.Contains(said, "green") {
			t.Errorf("exit code %d, no %q in:\n%s", code, want, said)
		}
	}
}

func TestSummary_ShowsWhatFailedBesideOthersThoughItHeldByItself(t *testing.T) {
	said, code := story(t,
		event{Action: "run", Package: pkg, Test: "TestLate"},
		event{Action: "output", Package: pkg, Test: "TestLate", Output: "    late_test.go:7: after 3s\n"},
		event{Action: "doubt", Package: pkg, Test: "TestLate"},
		event{Action: "run", Package: pkg, Test: "TestLate"},
		event{Action: "pass", Package: pkg, Test: "TestLate"},
		event{Action: "beside", Package: pkg, Test: "TestLate"},
	)
	for _, want := range []string{"late_test.go:7: after 3s", "failed beside others, and held by itself, twice: tests: TestLate", "all green after 6s"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}
