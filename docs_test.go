package persistent_queue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
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

func TestTheExamplesThatTheDocumentsNameAreThere(t *testing.T) {
	for document, text := range documents(t) {
		for _, link := range regexp.MustCompile(`\[(\w+)\]\(([^)#]+_test\.go)\)`).FindAllStringSubmatch(text, -1) {
			name, file := link[1], filepath.Join(filepath.Dir(document), link[2])
			code, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(code), "func "+name+"() {") {
				t.Errorf("%s names %s, which is not in %s: %v", document, name, file, err)
			}
		}
	}
}

func TestTheListOfDocumentsHasEach(t *testing.T) {
	list, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for document := range documents(t) {
		name, in := strings.CutPrefix(document, "docs/")
		if folder := path.Dir(name); !in || folder == "." {
			continue // a README, or an old address
		} else if !slices.Contains([]string{"guide", "operate", "service", "inside", "zh"}, folder) {
			t.Errorf("%s is in none of the folders", document)
		}
		if !strings.Contains(string(list), "]("+name+"): ") {
			t.Errorf("docs/README.md does not say what %s is about", document)
		}
	}
}

// The pages stood in docs itself. Links from elsewhere find a line there that leads on.
func TestAnOldAddressLeadsOn(t *testing.T) {
	old := 0
	for document, text := range documents(t) {
		if path.Dir(document) != "docs" || document == "docs/README.md" {
			continue
		}
		old++
		to := regexp.MustCompile(`^This page has moved: \[(.+)\]\((\w+/` + path.Base(document) + `)\)\.\n$`).FindStringSubmatch(text)
		if to == nil {
			t.Errorf("%s does not lead on, or says more than that", document)
		} else if moved, err := os.ReadFile(filepath.Join("docs", to[2])); err != nil || !strings.HasPrefix(string(moved), "# "+to[1]+"\n") {
			t.Errorf("%s leads to %q, which is not there: %v", document, to[1], err)
		}
	}
	if old != 20 {
		t.Errorf("%d old addresses, want 20", old)
	}
}

// What is in the repository names a page where it is.
func TestNothingLinksToAnOldAddress(t *testing.T) {
	address := regexp.MustCompile(`docs/([a-z-]+\.md)`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case err != nil || d.IsDir() || d.Name() == "docs_test.go" || filepath.Ext(path) == ".png":
			return err
		}
		text, err := os.ReadFile(path)
		for _, named := range address.FindAllStringSubmatch(string(text), -1) {
			if named[1] != "README.md" {
				t.Errorf("%s names %s, which has moved", path, named[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// documents reads both READMEs, and what stands in docs, by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	read := map[string]string{"README.md": "", "README.zh-CN.md": ""}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			read[filepath.ToSlash(path)] = ""
		}
		return err
	})
	if err != nil || len(read) < 20 {
		t.Fatal(len(read), err)
	}
	for path := range read {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		read[path] = string(text)
	}
	return read
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// What is shown stands in a Go file, which is compiled, line by line but for its indentation. A line of "…" leaves something out.
func TestTheCodeOfTheDocumentsIsCompiled(t *testing.T) {
	var compiled strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		code, err := os.ReadFile(path)
		compiled.WriteString(withoutIndents(string(code)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for document, text := range documents(t) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			if strings.Contains(block[1], "riverpgxv5.New(") {
				continue // what a program of River's looked like before
			}
			for part := range strings.SplitSeq(withoutIndents(block[1]), "\n…\n") {
				shown++
				if !strings.Contains(compiled.String(), "\n"+strings.Trim(part, "\n")+"\n") {
					t.Errorf("%s shows what is in no Go file:\n%s", document, part)
				}
			}
		}
	}
	if shown < 40 {
		t.Errorf("%d pieces of code were looked at", shown)
	}
}

// withoutIndents leaves the indentation of each line out.
func withoutIndents(code string) string {
	var b strings.Builder
	for line := range strings.Lines("\n" + code) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}

// A newcomer reads it to its end. What is no line to read: blank ones, fences, brackets alone.
func TestTheReadmesAreShortAndShowTheSame(t *testing.T) {
	documents := documents(t)
	code := func(name string) []string {
		return regexp.MustCompile("(?s)```\\w+\n.*?```").FindAllString(documents[name], -1)
	}
	english, chinese := code("README.md"), code("README.zh-CN.md")
	if !slices.Equal(english, chinese) || len(english) < 9 {
		t.Errorf("the code of README.md and README.zh-CN.md is not the same: %d and %d pieces", len(english), len(chinese))
	}
	if first, _, _ := strings.Cut(documents["README.md"][strings.Index(documents["README.md"], "```sh\n"):], "\n\n"); first != "```sh\ngo run ./examples/quickstart\nmake test\n```" {
		t.Errorf("the first commands for a clone are\n%s", first)
	}
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		lines := 0
		for line := range strings.Lines(documents[name]) {
			if strings.ContainsFunc(line, unicode.IsLetter) && !strings.HasPrefix(line, "```") {
				lines++
			}
			for cell := range strings.SplitSeq(line, "|") {
				if n := utf8.RuneCountInString(cell); strings.HasPrefix(line, "|") && n > 250 {
					t.Errorf("%s has a cell of %d characters: %s", name, n, cell)
				}
			}
		}
		if lines > 150 {
			t.Errorf("%s has %d lines to read; at most 150", name, lines)
		}
	}
}

// A reader of either language finds the same things under the same headings. Drawings in words are no code.
func TestAChinesePageHasTheHeadingsAndTheCodeOfItsEnglishTwin(t *testing.T) {
	read := documents(t)
	levels := regexp.MustCompile(`(?m)^#+ `)
	code := regexp.MustCompile("(?ms)^ *```(\\w+|\nwhsec_|\nPOST ).*?```")
	twins := 0
	for chinese, text := range read {
		name := path.Base(chinese)
		if path.Dir(chinese) != "docs/zh" || name == "README.md" || chinese == glossaryPage {
			continue
		}
		english := englishTwin(read, chinese)
		twins++
		without := func(text string) string { return codeBlock.ReplaceAllString(text, "") }
		if want, got := levels.FindAllString(without(english), -1), levels.FindAllString(without(text), -1); !slices.Equal(want, got) {
			t.Errorf("%s has headings of other levels than its English twin:\n%q\n%q", chinese, got, want)
		}
		if want, got := code.FindAllString(english, -1), code.FindAllString(text, -1); !slices.Equal(want, got) {
			t.Errorf("%s shows other code than its English twin:\n%q\n%q", chinese, got, want)
		}
	}
	if twins < 4 {
		t.Errorf("%d Chinese pages", twins)
	}
}

func TestTheDocumentsSayTheDefaultOfEachOption(t *testing.T) {
	document, err := os.ReadFile("docs/operate/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := parser.ParseFile(token.NewFileSet(), "options.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, d := range code.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "With") {
			continue
		}
		options++
		row := regexp.MustCompile(`(?m)^- \*\*.` + f.Name.Name + `\([^)]*\).\*\* \(([^ ):]+)`).FindSubmatch(document)
		if row == nil {
			t.Errorf("docs/operate/configuration.md has no entry for %s", f.Name.Name)
			continue
		}
		if _, default_, says := strings.Cut(f.Doc.Text(), "Default "); says && !strings.HasPrefix(default_, string(row[1])) {
			t.Errorf("%s: docs/operate/configuration.md says %q, and the comment %q", f.Name.Name, row[1], default_[:min(len(default_), 20)])
		}
	}
	if options == 0 {
		t.Error("no options were found")
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// anchorOf is the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestTheLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	anchors := map[string]map[string]bool{}
	links := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		plain := codeBlock.ReplaceAllString(string(text), "")
		anchors[path] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(plain, -1) {
			anchors[path][anchorOf(h[1])] = true
		}
		for _, l := range markdownLink.FindAllStringSubmatch(plain, -1) {
			links[path] = append(links[path], l[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, list := range links {
		for _, link := range list {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			n++
			file, anchor, _ := strings.Cut(link, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: there is no %s", path, link)
			} else if anchor != "" && filepath.Ext(to) == ".md" && !anchors[to][anchor] {
				t.Errorf("%s: %s has no heading for #%s", path, to, anchor)
			} else if filepath.Dir(to) == "docs" && filepath.Ext(to) == ".md" && filepath.Base(to) != "README.md" {
				t.Errorf("%s: %s is an old address", path, link)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d links were looked at", n)
	}
}

// A folder with many tests has a table that leads from a claim to its file.
func TestEachFileOfTheTestsStandsInTheReadmeOfItsFolder(t *testing.T) {
	for _, folder := range []string{"tests", "tests/faults"} {
		text, err := os.ReadFile(filepath.Join(folder, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) < 50 {
			t.Fatal(len(files), err)
		}
		for _, file := range files {
			if n := strings.Count(string(text), "]("+filepath.Base(file)+")"); n != 1 {
				t.Errorf("%s/README.md names %s %d times, want once", folder, filepath.Base(file), n)
			}
		}
	}
}
