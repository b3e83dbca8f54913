package persistent_queue_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheExamplesThatTheDocumentsNameAreThere(t *testing.T) {
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\[(\w+)\]\(([^)#]+_test\.go)\)`).FindAllStringSubmatch(string(text), -1) {
			name, file := link[1], filepath.Join("docs", link[2])
			code, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(code), "func "+name+"() {") {
				t.Errorf("%s names %s, which is not in %s: %v", document, name, file, err)
			}
		}
	}
}

func TestTheDocumentsSayTheDefaultOfEachOption(t *testing.T) {
	document, err := os.ReadFile("docs/configuration.md")
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
		row := regexp.MustCompile(`(?m)^\| .` + f.Name.Name + `\([^)]*\). \| ([^ |:]+)`).FindSubmatch(document)
		if row == nil {
			t.Errorf("docs/configuration.md has no row for %s", f.Name.Name)
			continue
		}
		if _, default_, says := strings.Cut(f.Doc.Text(), "Default "); says && !strings.HasPrefix(default_, string(row[1])) {
			t.Errorf("%s: docs/configuration.md says %q, and the comment %q", f.Name.Name, row[1], default_[:min(len(default_), 20)])
		}
	}
	if options == 0 {
		t.Error("no options were found")
	}
}
