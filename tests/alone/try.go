package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// mostAgain is how many tests of a run may be run again: where more failed, something is wrong that no second look explains.
const mostAgain = 8

// event is what is read of a line of "go test -json"; go doc test2json says what the actions mean.
type event struct {
	Action, Package string
	Test, Output    string `json:",omitempty"`
}

type test struct{ pkg, name string }

// top is the test that a subtest is a part of.
func (t test) top() test {
	t.name, _, _ = strings.Cut(t.name, "/")
	return t
}

// try is what one run of the command said.
type try struct {
	failed []test          // tests and packages, in the order in which they ended
	lines  map[test][]byte // what says that they failed, which is kept back
	tops   map[test]bool   // the tests that failed, or a subtest of which did
	passed map[test]bool   // tests that passed, without subtests
	beyond bool            // what failed is no matter of time
}

func newTry() *try {
	return &try{lines: map[test][]byte{}, tops: map[test]bool{}, passed: map[test]bool{}}
}

// take reads a line, and returns what to print in its place.
func (y *try) take(line []byte) []byte {
	var e event
	if json.Unmarshal(line, &e) != nil {
		return line
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		y.beyond = y.beyond || noMatterOfTime(e.Output)
	case "build-fail":
		y.beyond = true
	case "pass":
		y.passed[t] = true
	case "fail":
		y.failed = append(y.failed, t)
		y.lines[t] = slices.Clone(line)
		if t.name == "" {
			y.beyond = y.beyond || len(y.testsOf(t.pkg)) == 0
			return nil
		}
		y.tops[t.top()] = true
		return lineOf("doubt", t)
	}
	return line
}

// testsOf returns the tests of a package that failed.
func (y *try) testsOf(pkg string) (tests []test) {
	for t := range y.tops {
		if t.pkg == pkg {
			tests = append(tests, t)
		}
	}
	return tests
}

func lineOf(action string, t test) []byte {
	line, err := json.Marshal(event{Action: action, Package: t.pkg, Test: t.name})
	if err != nil {
		panic(err) // there is nothing in it that could not be written
	}
	return append(line, '\n')
}

// noMatterOfTime says whether a line of output is of a test that must not be tried again.
func noMatterOfTime(line string) bool {
	for _, sign := range []string{"race detected during execution", "DATA RACE"} {
		if strings.Contains(line, sign) {
			return true
		}
	}
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// again returns what to append to the command so that it runs by itself what failed; nil if nothing is to be run again. Of flags that are
// said twice, go test heeds the later.
func (y *try) again() []string {
	if y.beyond || len(y.tops) == 0 || len(y.tops) > mostAgain {
		return nil
	}
	var names []string
	for t := range y.tops {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return []string{"-run", "^(" + strings.Join(slices.Compact(names), "|") + ")$", "-count", "2", "-parallel", "1", "-p", "1"}
}

// end prints what the first try comes to after a second one, which is nil if there was none: what held has failed beside others. What failed
// again, or was not run again, has failed.
func (y *try) end(second *try, out io.Writer) {
	held := func(t test) bool {
		return second != nil && second.passed[t.top()] && !second.tops[t.top()]
	}
	for _, t := range y.failed {
		switch {
		case t.name != "" && held(t):
			out.Write(lineOf("beside", t))
		case t.name == "" && !y.beyond && !slices.ContainsFunc(y.testsOf(t.pkg), func(of test) bool { return !held(of) }):
		default:
			out.Write(y.lines[t])
		}
	}
}
