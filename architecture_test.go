package persistent_queue_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/create-info/persistent-queue"

// floors is the building, from the top down. A package imports from the floors below its own, and from no other.
var floors = []struct {
	reason   string
	packages []string
}{
	{"for tests: the engine in a world of memory, which nothing needs", []string{"internal/simulator"}},
	{"what an application starts, and what it shows: each joins the rest, and nothing needs it", []string{".", "console"}},
	{"what both faces show, the console and the command line, and how people search in both", []string{"internal/faces", "internal/query"}},
	{"the parts of that story, none of which knows another: loops, the lock on its own, tables, what operators ask", []string{"internal/engine", "shedlock", "schema", "operate", "aesgcm"}},
	{"the engine's rooms, none of which knows another: the engine joins them", []string{"internal/cluster", "internal/find", "internal/flow", "internal/pipeline", "internal/upkeep"}},
	{"a lease that is held; the engine and the lock both stand on it", []string{"internal/keeper"}},
	{"what queue_job hides from users, for those above it", []string{"internal/bridge"}},
	{"what a job is: its meaning, and no loops; and what loops stand on: the clock, how to wait, what to do with an error", []string{"queue_job", "internal/ground"}},
	{"what the log says of a job, what queue_job and those above it have in common, and how many jobs are changed", []string{"logger", "internal/hidden", "internal/bulk"}},
	{"what is noted beside the jobs, and what people read and change", []string{"internal/record"}},
	{"whether an instance lives, for those who say that it is gone", []string{"internal/witness"}},
	{"what the engine sends", []string{"internal/store"}},
	{"each alone: the way to the database, attributes of a context, the arithmetic of trust, the names and fair shares of leases, the wake-up call, who is on this machine, how long a body may take, how counts and spans are written", []string{"internal/attributes", "internal/bodies", "internal/conn", "internal/lease", "internal/nearby", "internal/share", "internal/wake", "internal/words"}},
	{"for tests: a library with a known failure", []string{"internal/mutant"}},
}

// outside lists what the library imports from other modules, each in one package. A user's go.mod gets these modules.
var outside = []struct{ reason, dependency, user string }{
	{"conn alone sends statements", "github.com/jmoiron/sqlx", "internal/conn"},
	{"the engine alone has the goroutines of workers", "github.com/panjf2000/ants/v2", "internal/engine"},
	{"the pipeline alone says when a job may start", "golang.org/x/time", "internal/pipeline"},
}

func TestArchitecture_ImportsPointDown(t *testing.T) {
	floorOf := map[string]int{}
	for i, f := range floors {
		for _, p := range f.packages {
			floorOf[p] = i
		}
	}
	imports := importsOfLibrary(t)
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		from, placed := floorOf[p]
		if !placed {
			t.Errorf("package %s stands on no floor: put it on one in architecture_test.go, or where it belongs", p)
			continue
		}
		for _, imported := range imports[p] {
			own, ok := within(imported, module)
			if !ok {
				continue
			}
			if to, placed := floorOf[own]; placed && to <= from {
				t.Errorf("%s imports %s, which does not stand below it.\n%s: %s\n%s: %s",
					p, own, p, floors[from].reason, own, floors[to].reason)
			}
		}
	}
	for p := range floorOf {
		if imports[p] == nil {
			t.Errorf("floor without its package: %s is in architecture_test.go and not in the module", p)
		}
	}
}

func TestArchitecture_OutsideIsSqlxAntsAndTimeEachAtOnePlace(t *testing.T) {
	imports := importsOfLibrary(t)
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		for _, imported := range imports[p] {
			if _, ok := within(imported, module); ok || isStandard(imported) {
				continue
			}
			known := false
			for _, o := range outside {
				if _, ok := within(imported, o.dependency); ok {
					known = true
					if p != o.user {
						t.Errorf("%s imports %s, which belongs in %s: %s", p, imported, o.user, o.reason)
					}
				}
			}
			if !known {
				t.Errorf("%s imports %s: a library's user gets each dependency too; drivers and tools are for tests, examples and commands", p, imported)
			}
		}
	}
}

// Whoever has a store could send anything through it. So statements are sent by functions of package conn, which the SQL alone calls.
func TestArchitecture_OnlyTheStoreAndTheRecordSendStatements(t *testing.T) {
	sends, sending := regexp.MustCompile(`^conn\.(Exec|Execute|Read|Together|OnOneSession|UndoAlone)$`), map[string]int{}
	walkLibrary(t, 0, func(file string, parsed *ast.File) {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && sends.MatchString(types.ExprString(s)) {
				sending[path.Dir(file)]++
			}
			return true
		})
	})
	if got := slices.Sorted(maps.Keys(sending)); !slices.Equal(got, []string{"internal/record", "internal/store"}) {
		t.Errorf("statements are sent in %q: a statement is a verb of the store or of the record, which says what it needs and is shown in testdata", got)
	}
}

func TestArchitecture_LeaseIsArithmeticOnly(t *testing.T) {
	for _, imported := range importsOfLibrary(t)["internal/lease"] {
		if imported != "time" {
			t.Errorf("internal/lease imports %s: it holds values and now, with nothing to wait for and nothing to ask", imported)
		}
	}
}

// modules are the modules in go.work.
var modules = append(slices.Clone(publicModules), "cmd/pqueue", "examples", "site", "tests")

const lineMost, functionMost = 150, 60 // characters; lines

func TestArchitecture_LinesAndFunctionsAreShort(t *testing.T) {
	for _, m := range modules {
		files, err := goFiles(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, where := range longIn(t, file) {
				t.Error(where)
			}
		}
	}
}

// longIn says which lines and functions of a file are too long. What a program has written may be as long as it likes.
func longIn(t *testing.T, file string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > lineMost {
			list = append(list, fmt.Sprintf("%s:%d has %d characters; at most %d", file, number, n, lineMost))
		}
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			from, to := set.Position(f.Pos()).Line, set.Position(f.End()).Line
			if n := to - from + 1; n > functionMost {
				list = append(list, fmt.Sprintf("%s:%d: %s has %d lines; at most %d", file, from, f.Name.Name, n, functionMost))
			}
		}
	}
	return list
}

// In ARCHITECTURE's picture, each line is a room, what it imports of ours, and what for, with at least two spaces between.
func TestArchitecture_ThePictureShowsWhatIsImported(t *testing.T) {
	document, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(document), "\nroom  ")
	picture, _, _ = strings.Cut(picture, "```")
	gap, word := regexp.MustCompile(` {2,}`), regexp.MustCompile(`\w+`)
	shown := map[string][]string{}
	for line := range strings.Lines(picture) {
		if cells := gap.Split(line, 3); len(cells) == 3 {
			shown[path.Base(cells[0])] = word.FindAllString(strings.TrimSuffix(cells[1], "sqlx, from outside"), -1)
		}
	}
	for p, imports := range importsOfLibrary(t) {
		room := path.Base(p)
		if p == "." {
			room = path.Base(strings.ReplaceAll(module, "-", "_"))
		}
		seen := map[string]bool{}
		for _, imported := range imports {
			if own, ok := within(imported, module); ok {
				seen[path.Base(own)] = true
			}
		}
		want, got := slices.Sorted(maps.Keys(seen)), slices.Sorted(slices.Values(shown[room]))
		if _, there := shown[room]; !there || !slices.Equal(want, got) {
			t.Errorf("%s imports %q, and ARCHITECTURE.md shows %q", room, want, got)
		}
	}
}

// Whoever wants to know the library reads ARCHITECTURE.md, and then the doc.go of a room: ten minutes each.
func TestArchitecture_TheEssaysAreShort(t *testing.T) {
	rooms, err := filepath.Glob("internal/*/doc.go")
	if err != nil || len(rooms) == 0 {
		t.Fatal(rooms, err)
	}
	most := map[string]int{"ARCHITECTURE.md": 120, "queue_job/doc.go": 60}
	for _, room := range rooms {
		most[room] = 60
	}
	for file, lines := range most {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > lines {
			t.Errorf("%s has %d lines; at most %d", file, n, lines)
		}
	}
}

// doubles lists what doubles and is no wait: file and variable.
var doubles = map[string]string{
	"internal/pipeline/attempts.go a.rows":   "rows of a statement",
	"internal/pipeline/dispatcher.go d.rows": "rows of a statement",
	"internal/pipeline/settler.go s.rows":    "rows of a statement",
	"internal/faces/whatif.go above":         "a number of workers that is tried",
	"internal/keeper/life.go counts":         "for how long a beat counts",
	"queue_job/wait.go p.step":               "how seldom those look who wait for jobs; queue_job does not know ground",
	"queue_job/retry.go longest":             "what a job's own retries say, of which handlers hear",
}

// A loop that doubles its wait by hand does so a little differently from the next one, and forgets to tell, or to begin anew.
func TestArchitecture_EveryBackoffIsThatOfGround(t *testing.T) {
	found := map[string]bool{}
	walkLibrary(t, 0, func(file string, parsed *ast.File) {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if assign, ok := n.(*ast.AssignStmt); ok && !strings.HasPrefix(file, "internal/ground/") && !strings.HasPrefix(file, "internal/simulator/") {
				if name, ok := doubled(assign); ok {
					found[file+" "+name] = true
				}
			}
			return true
		})
	})
	for place := range found {
		if doubles[place] == "" {
			t.Errorf("%s is doubled by hand: use ground.Backoff or ground.Retry; if it is no wait, add it to doubles", place)
		}
	}
	for place := range doubles {
		if !found[place] {
			t.Errorf("%s is in doubles, and nothing doubles there", place)
		}
	}
}

// doubled reports whether a statement makes a variable twice as large, and which: wait *= 2, or wait = min(2*wait, most).
func doubled(assign *ast.AssignStmt) (name string, ok bool) {
	isTwo := func(e ast.Expr) bool { l, ok := e.(*ast.BasicLit); return ok && l.Value == "2" }
	if assign.Tok == token.MUL_ASSIGN {
		return types.ExprString(assign.Lhs[0]), isTwo(assign.Rhs[0])
	}
	for i, right := range assign.Rhs {
		if assign.Tok != token.ASSIGN || i >= len(assign.Lhs) {
			break
		}
		left := types.ExprString(assign.Lhs[i])
		uses := func(e ast.Expr) bool {
			return regexp.MustCompile(`(^|[^\w.])` + regexp.QuoteMeta(left) + `\b`).MatchString(types.ExprString(e))
		}
		ast.Inspect(right, func(n ast.Node) bool {
			if product, is := n.(*ast.BinaryExpr); is && product.Op == token.MUL && (isTwo(product.X) && uses(product.Y) || isTwo(product.Y) && uses(product.X)) {
				name, ok = left, true
			}
			return true
		})
	}
	return name, ok
}

// importsOfLibrary reads what each package of this module imports.
func importsOfLibrary(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	walkLibrary(t, parser.ImportsOnly, func(file string, parsed *ast.File) {
		p := path.Dir(file)
		if imports[p] == nil {
			imports[p] = []string{} // a package without imports is one too
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports[p] = append(imports[p], imported)
		}
	})
	return imports
}

// walkLibrary parses the files of this module, its tests left out and every platform's files read.
func walkLibrary(t *testing.T, mode parser.Mode, visit func(file string, parsed *ast.File)) {
	t.Helper()
	files, err := goFiles(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		visit(filepath.ToSlash(file), parsed)
	}
}

// goFiles lists the files of the module in a folder, tests left out and those of every platform among them. Folders with a go.mod are
// modules of their own.
func goFiles(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); file != root && (err == nil || isIgnored(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !isIgnored(name) {
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

// isIgnored reports whether the go command ignores files and folders of this name.
func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata"
}

// within returns the rest of the import path, "." for the root itself.
func within(imported, root string) (rest string, ok bool) {
	if imported == root {
		return ".", true
	}
	return strings.CutPrefix(imported, root+"/")
}

// isStandard looks at the first element: outside of the standard library it is a domain, which has a dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
