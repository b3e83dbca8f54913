package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// lineAfter is how long a test may take without a line of its own, and how often what goes on is named.
const lineAfter = 5 * time.Second

var databases = []string{"SQLite", "MariaDB", "MySQL", "PostgreSQL", tidb}

// tidb has a column only in a run that is about it.
const tidb = "TiDB"

// noDatabase is the column of tests that name none.
const noDatabase = "no database"

// event is a line of "go test -json"; go doc test2json says what the actions mean.
type event struct {
	Action, Package, Test, Output string  // alone, which runs go test, has two actions more: doubt and beside
	Elapsed                       float64 // in seconds
	Code                          int     // of "exit", which is none of go test's: how the commands ended that were to run
}

// test is a test, a subtest, or a package if it has no name.
type test struct{ pkg, name string }

func (t test) String() string {
	if t.name == "" {
		return path.Base(t.pkg)
	}
	return path.Base(t.pkg) + ": " + t.name
}

// top is the test that a subtest is a part of.
func (t test) top() test {
	t.name, _, _ = strings.Cut(t.name, "/")
	return t
}

func (t test) database() string {
	for part := range strings.SplitSeq(t.name, "/") {
		if slices.Contains(databases, part) {
			return part
		}
	}
	return ""
}

type summary struct {
	out          io.Writer
	now          func() time.Time
	began, spoke time.Time // spoke: the latest line
	said         map[test][]string
	running      map[test]time.Time // since when
	hasParts     map[test]bool      // tests that wait for subtests, most of the time
	onDatabases  map[test]bool      // tests that name databases, by their tops
	passed       map[test]string    // with its database, or noDatabase
	leftOut      map[string]int     // by reason
	again        []string           // what was measured again, for it was late the first time
	beside       []test             // what failed beside others and held by itself
	failed       []test
	code         int // of the commands; a test that failed is one reason for it
}

func newSummary(out io.Writer, now func() time.Time) *summary {
	return &summary{out: out, now: now, began: now(), spoke: now(), said: map[test][]string{}, running: map[test]time.Time{}, hasParts: map[test]bool{},
		onDatabases: map[test]bool{}, passed: map[test]string{}, leftOut: map[string]int{}}
}

func (s *summary) say(format string, values ...any) {
	fmt.Fprintf(s.out, format+"\n", values...)
	s.spoke = s.now()
}

// take takes a line. What is no event is passed on.
func (s *summary) take(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		s.say("%s", line)
		return
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "run", "cont":
		s.running[t] = s.now()
		if parent := path.Dir(t.name); parent != "." {
			s.hasParts[test{t.pkg, parent}] = true
		}
	case "pause":
		delete(s.running, t)
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			s.said[t] = append(s.said[t], e.Output)
		}
	case "doubt":
		s.say("FAILED beside others, and is run again by itself when they are through:  %s\n%s", t, strings.Join(s.said[t], ""))
		delete(s.running, t)
		delete(s.said, t)
	case "beside":
		s.beside = append(s.beside, t)
	case "pass", "fail", "skip":
		s.ended(t, e)
	case "exit":
		s.code = e.Code
	}
}

func (s *summary) ended(t test, e event) {
	switch {
	case e.Action == "fail":
		s.fail(t)
	case e.Action == "skip" && t.name != "":
		s.leftOut[reason(s.said[t])]++
	case t.name != "":
		s.noteAgain(t)
		s.pass(t)
		if took := seconds(e.Elapsed); took >= lineAfter && t == t.top() {
			s.say("%6s  %s", round(took), t)
		}
	}
	delete(s.running, t)
	delete(s.said, t)
}

// fail shows all that a test said; of a package, if it is no test that failed.
func (s *summary) fail(t test) {
	if t.name == "" && slices.ContainsFunc(s.failed, func(f test) bool { return f.pkg == t.pkg }) {
		return
	}
	s.failed = append(s.failed, t)
	delete(s.passed, t) // the first time
	s.say("FAILED  %s\n%s", t, strings.Join(s.said[t], ""))
}

func (s *summary) pass(t test) {
	on := t.database()
	switch {
	case on != "":
		s.onDatabases[t.top()] = true
		if parent := (test{t.pkg, path.Dir(t.name)}); parent.database() != "" {
			return // a part of a test on a database
		}
	case t != t.top() || s.onDatabases[t]:
		return
	default:
		on = noDatabase
	}
	s.passed[t] = on
}

// noteAgain keeps what a test that passed says of a promise about time that did not hold at once.
func (s *summary) noteAgain(t test) {
	for _, line := range s.said[t] {
		if strings.Contains(line, "measured again: ") {
			s.again = append(s.again, fmt.Sprintf("%s: %s", t, strings.TrimSpace(line)))
		}
	}
}

// reason is why a test was left out, as it says.
func reason(said []string) string {
	for _, line := range said {
		if _, why, ok := strings.Cut(line, "left out: "); ok {
			return strings.TrimSpace(why)
		}
	}
	return "without a reason"
}

// tick says what goes on, if nothing has been said for a while.
func (s *summary) tick() {
	if s.now().Sub(s.spoke) < lineAfter {
		return
	}
	const most = 3
	at := slices.SortedFunc(maps.Keys(s.running), func(a, b test) int {
		return cmp.Or(s.running[a].Compare(s.running[b]), cmp.Compare(a.name, b.name))
	})
	at = slices.DeleteFunc(at, func(t test) bool { return s.hasParts[t] })
	var texts []string
	for _, t := range at[:min(len(at), most)] {
		texts = append(texts, fmt.Sprintf("%s (%s)", t, round(s.now().Sub(s.running[t]))))
	}
	s.say("%6s  … %s", round(s.now().Sub(s.began)), cmp.Or(strings.Join(texts, ", "), "building, and starting servers"))
}

// end says what it all came to, and returns the exit code.
func (s *summary) end(rest string) int {
	s.table()
	for _, why := range slices.Sorted(maps.Keys(s.leftOut)) {
		s.say("left out: %d × %s", s.leftOut[why], why)
	}
	for _, what := range s.again {
		s.say("%s", what)
	}
	for _, t := range s.beside {
		s.say("failed beside others, and held by itself, twice: %s", t)
	}
	if rest != "" {
		s.say("%s", rest)
	}
	took := round(s.now().Sub(s.began))
	switch {
	case len(s.failed) > 0:
	case s.code != 0:
		s.say("after %s, a command ended with exit status %d; what it said stands above", took, s.code)
		return 1
	case len(s.passed) == 0:
		s.say("after %s, not one test has passed", took)
		return 1
	default:
		s.say("all green after %s", took)
		return 0
	}
	s.say("after %s, FAILED:", took)
	for _, t := range s.failed {
		s.say("  %s", t)
	}
	return 1
}

// table says how many tests passed, by package and database.
func (s *summary) table() {
	columns, passed := append(slices.Clone(databases), noDatabase), map[string]map[string]int{} // by package and database
	for t, on := range s.passed {
		p := path.Base(t.pkg)
		if passed[p] == nil {
			passed[p] = map[string]int{}
		}
		passed[p][on]++
	}
	columns = slices.DeleteFunc(columns, func(c string) bool {
		return c == tidb && !slices.Contains(slices.Collect(maps.Values(s.passed)), c)
	})
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\npassed\t%s\t\n", strings.Join(columns, "\t"))
	for _, p := range slices.Sorted(maps.Keys(passed)) {
		fmt.Fprintf(t, "%s\t", p)
		for _, c := range columns {
			if n := passed[p][c]; n > 0 {
				fmt.Fprint(t, n)
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
