package persistent_queue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a test leaves out or shortens when it is asked to be short, it has to do at full length in make test-all, on each database.
func TestMakeTestAllRunsAtLengthWhateverMakeTestShortens(t *testing.T) {
	commands := commandsOfTestAll(t)
	for _, folder := range []string{"tests", "tests/service"} {
		shortened := testsThatReach(t, folder, "testing", "Short")
		if len(shortened) < 5 {
			t.Errorf("%s: only %q are shortened", folder, shortened)
		}
		for _, test := range shortened {
			for _, database := range []string{"SQLite", "MariaDB", "MySQL", "PostgreSQL"} {
				atLength := func(c goTest) bool { return !c.short && c.runs("./"+folder, test, database) }
				if !slices.ContainsFunc(commands, atLength) {
					t.Errorf("make test-all does not run %s of %s at full length on %s", test, folder, database)
				}
			}
		}
	}
}

// Of the patterns that leave something out, go test takes the first that a name matches so far. So a test that stands behind a database is
// not left out.
func TestWhatMakeLeavesOutIsLeftOut(t *testing.T) {
	for _, c := range commandsOfTestAll(t) {
		for _, alternative := range split(c.skip, '|') {
			if test := strings.NewReplacer("^", "", "$", "", "(", "", ")", "").Replace(alternative); strings.HasPrefix(test, "Test") {
				for _, name := range strings.Split(test, "|") {
					if !c.skips(name) {
						t.Errorf("make test-all runs %s in a command that says -skip %q", name, c.skip)
					}
				}
			}
		}
	}
}

// goTest is a command "go test" as far as it says what runs.
type goTest struct {
	short     bool
	run, skip string
	packages  []string
}

// runs says whether the command runs a test of a package on a database.
func (c goTest) runs(pkg, test, database string) bool {
	return slices.Contains(c.packages, pkg) && regexp.MustCompile(c.run).MatchString(test) && !c.skips(test) && !c.skips(test, database)
}

// skips says, as go test does, whether a name is left out: the first alternative that matches it as far as it goes decides, and an
// alternative that goes further than the name leaves nothing out yet.
func (c goTest) skips(name ...string) bool {
	for _, alternative := range split(c.skip, '|') {
		levels := split(alternative, '/')
		matches := alternative != ""
		for i := range min(len(levels), len(name)) {
			matches = matches && regexp.MustCompile(levels[i]).MatchString(name[i])
		}
		if matches {
			return len(levels) <= len(name)
		}
	}
	return false
}

// split splits a pattern at what stands in no brackets.
func split(pattern string, at rune) (list []string) {
	depth, from := 0, 0
	for i, r := range pattern {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == at && depth == 0:
			list, from = append(list, pattern[from:i]), i+1
		}
	}
	return append(list, pattern[from:])
}

// Where a shell looks at how ( ) ends, it heeds no -e within: of commands that a semicolon joins, all but the last might be red.
func TestACommandThatIsRedIsNotForgotten(t *testing.T) {
	said, pairs := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(madeBy(t, "test", "test-all"), ""), 0
	for _, group := range regexp.MustCompile(`\([^()]*\)`).FindAllString(said, -1) {
		if strings.Contains(group, ";") {
			t.Errorf("make joins by a semicolon, want &&: %s", group)
		}
		if strings.Contains(group, "go test ") {
			pairs++
		}
	}
	if pairs < 4 {
		t.Errorf("%d groups of commands, want those that run side by side", pairs)
	}
}

// madeBy is what make would run.
func madeBy(t *testing.T, targets ...string) string {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("left out: there is no make here")
	}
	dry := exec.Command("make", append([]string{"--no-print-directory", "-n"}, targets...)...)
	dry.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	said, err := dry.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return string(said)
}

// commandsOfTestAll are those of "go test".
func commandsOfTestAll(t *testing.T) (list []goTest) {
	t.Helper()
	flag := regexp.MustCompile(`-(run|skip) ["']([^"']*)["']`)
	for _, command := range strings.Split(madeBy(t, "test-all"), "go test ")[1:] {
		command, _, _ = strings.Cut(command, ";")
		var c goTest
		for _, f := range flag.FindAllStringSubmatch(command, -1) {
			if f[1] == "run" {
				c.run = f[2]
			} else {
				c.skip = f[2]
			}
		}
		for _, word := range strings.Fields(flag.ReplaceAllString(command, "")) {
			c.short = c.short || word == "-short"
			c.packages = append(c.packages, strings.Trim(word, `'")`))
		}
		list = append(list, c)
	}
	return list
}

// testsThatReach are a folder's tests that call a function of a package, themselves or through others of the folder.
func testsThatReach(t *testing.T, folder, pkg, function string) (tests []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names, reach := map[string]map[string]bool{}, map[string]bool{} // what each function names
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names[f.Name.Name] = namedIn(f)
		}
	}
	for more := true; more; {
		more = false
		for name, named := range names {
			for other := range named {
				if !reach[name] && (reach[other] || other == path.Join(pkg, function)) {
					reach[name], more = true, true
				}
			}
		}
	}
	for name := range reach {
		if strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
		}
	}
	return tests
}

// namedIn are the functions, methods and variables of others that a function names, and what it names of packages: "testing/Short".
func namedIn(f *ast.FuncDecl) map[string]bool {
	named, own := map[string]bool{}, map[string]bool{f.Name.Name: true}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if x, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					own[x.Name] = true
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				named[path.Join(x.Name, n.Sel.Name)] = true
			}
		case *ast.Ident:
			named[n.Name] = true
		}
		return true
	})
	maps.DeleteFunc(named, func(name string, _ bool) bool { return own[name] })
	return named
}
