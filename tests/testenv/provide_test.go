package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestProvide_AServerThatIsNamedAndDoesNotAnswerIsAnErrorAndNotReplaced(t *testing.T) {
	for _, d := range databases {
		t.Setenv(d.variable, strings.ReplaceAll(d.dsn, "{port}", "1"))
		_, err := provide(t.Context(), d, false)
		if err == nil || !strings.Contains(err.Error(), d.variable) {
			t.Errorf("%s: the error is %v", d.name, err)
		}
	}
}

func TestProvide_APrivateServerIsAProgramOfThisMachineWhateverElseThereIs(t *testing.T) {
	d := database{name: "NoSuchDB", variable: "PQ_TEST_NO_SUCH_DSN", remedy: "invent it"}
	d.fromApt = func(context.Context, database) (installation, error) {
		return installation{}, errors.New("not packaged")
	}
	t.Setenv(d.variable, "root@tcp(127.0.0.1:1)/")
	_, err := provide(t.Context(), d, true)
	if err == nil {
		t.Fatal("there is a server")
	}
	said := err.Error()
	if !strings.Contains(said, "no NoSuchDB server on the PATH") || !strings.Contains(said, d.remedy) {
		t.Errorf("it does not say what is missing: %v", err)
	}
	if strings.Contains(said, "Docker") || strings.Contains(said, "127.0.0.1:1") || strings.Contains(said, "set "+d.variable) {
		t.Errorf("it speaks of a way that does not count: %v", err)
	}
}

func TestProvide_AnErrorOfSeveralLinesStaysInItsEntry(t *testing.T) {
	none := &unavailable{"MySQL", "not set", []error{errors.New("one\n two\n    | three"), errors.New("four")}, "Do this"}
	const want = "no MySQL for the tests:\n  - not set\n  - one\n     two\n    | three\n  - four\nDo this"
	if none.Error() != want {
		t.Errorf("it says\n%s\nwant\n%s", none, want)
	}
	if got := oneLine(none.reasons[0]); got != "one; two; | three" {
		t.Errorf("in one line: %q", got)
	}
}

func TestLeaveOut_WhatThisMachineCannotHaveIsNamedAndNoError(t *testing.T) {
	hear(t)
	withoutDocker(t)
	d := database{name: "NoSuchDB", variable: "PQ_TEST_NO_SUCH_DSN", recipeVariable: "PQ_TEST_NO_SUCH_SERVER", remedy: "invent it"}
	tests := []struct {
		name     string
		apt      error
		leaveOut bool
		isError  bool
	}{
		{"no such program, and no apt", notHere{errors.New("no apt-get")}, true, false},
		{"that is an error where it is wanted", notHere{errors.New("no apt-get")}, false, true},
		{"apt could have given it", errors.New("no network"), true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d.fromApt = func(context.Context, database) (installation, error) { return installation{}, test.apt }
			got, err := provideAll(t.Context(), []database{d}, manner{private: true, leaveOut: test.leaveOut})
			if (err != nil) != test.isError {
				t.Fatalf("the error is %v", err)
			}
			if test.isError {
				return
			}
			if line := strings.Join(got.leftOut, "\n"); !strings.Contains(line, "left out: every test on NoSuchDB (no NoSuchDB server on the PATH") || !strings.HasSuffix(line, "To have them, invent it") {
				t.Errorf("it says %q", line)
			}
			defer func(before []string) { given = before }(given)
			given = append(slices.Clone(given), d.recipeVariable+"={}", "PQ_TEST_ALL=1")
			last := map[string]string{}
			for _, pair := range got.environment([]database{d}, true) {
				name, value, _ := strings.Cut(pair, "=")
				last[name] = value
			}
			if last["PQ_TEST_ALL"] != "" || last[d.recipeVariable] != "" {
				t.Errorf("the command would miss it: PQ_TEST_ALL=%s %s=%s", last["PQ_TEST_ALL"], d.recipeVariable, last[d.recipeVariable])
			}
		})
	}
}

func TestLeaveOut_NothingIsWhereNobodyWouldMissIt(t *testing.T) {
	for _, test := range []struct {
		ci, all string
		want    bool
	}{{"", "", false}, {"false", "", false}, {"0", "", false}, {"true", "", true}, {"1", "", true}, {"", "1", true}} {
		getenv := func(name string) string { return map[string]string{"CI": test.ci, "PQ_TEST_ALL": test.all}[name] }
		if got := everythingIsWanted(getenv); got != test.want {
			t.Errorf("CI=%s PQ_TEST_ALL=%s: %v", test.ci, test.all, got)
		}
	}
}

func TestRun_ACommandThatIsNotThereIsNoticedBeforeAnyServer(t *testing.T) {
	heard := hear(t)
	for _, d := range databases {
		t.Setenv(d.variable, strings.ReplaceAll(d.dsn, "{port}", "1"))
	}
	if code := run([]string{"--", "no-such-command"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if said := heard(); !strings.Contains(said, "no-such-command") || strings.Contains(said, "PQ_TEST") {
		t.Errorf("it says %q", said)
	}
}

func TestEnvironment_RecipesAreForThoseWhoAskForPrivateServers(t *testing.T) {
	p := provided{servers: []server{{database: mySQL, dsn: "dsn", recipe: recipe{Serve: []string{"mysqld"}}}}}
	for _, private := range []bool{false, true} {
		environment := p.environment(databases, private)
		if got := slices.Contains(environment, mySQL.recipeVariable+"="+p.servers[0].recipe.String()); got != private {
			t.Errorf("private %v: the recipe is there: %v", private, got)
		}
		if !slices.Contains(environment, mySQL.variable+"=dsn") || !slices.Contains(environment, "PQ_TEST_ALL=1") {
			t.Errorf("private %v: %q", private, environment)
		}
	}
}

func TestEnvironment_TiDBIsForThoseWhoAskForItAndTheyGetNoOther(t *testing.T) {
	defer func(before []string) { given = before }(given)
	given = []string{mySQL.variable + "=mine", tiDB.variable + "=mine"}
	for d, other := range map[*database]database{&mySQL: tiDB, &tiDB: mySQL} {
		p := provided{servers: []server{{database: *d, dsn: "dsn"}}}
		last := map[string]string{}
		for _, pair := range p.environment([]database{*d}, false) {
			name, value, _ := strings.Cut(pair, "=")
			last[name] = value
		}
		if all := last["PQ_TEST_ALL"] == "1"; last[d.variable] != "dsn" || last[other.variable] != "" || all != (d == &mySQL) {
			t.Errorf("%s: %q", d.name, last)
		}
	}
}

// withoutDocker lets nobody answer.
func withoutDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	asked = new(askedOnce)
	t.Cleanup(func() { asked = new(askedOnce) })
}
