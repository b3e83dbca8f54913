package cli

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// textsIn are the texts in the Go files below a folder, each with its place: what errors, helps and answers are made of.
func textsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					texts[text] = set.Position(literal.Pos()).String()
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// whatThereIs are the flags, the commands and the variables of the command line.
func whatThereIs() (flags, commands, variables map[string]bool) {
	flags, commands, variables = map[string]bool{"help": true, "version": true}, map[string]bool{"pqueue": true}, map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		commands[cmd.CommandPath()] = true
		add := func(f *pflag.Flag) {
			flags[f.Name] = true
			variables[variableOf(f.Name)] = true
		}
		cmd.Flags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	root := newRoot(Streams{})
	root.InitDefaultHelpCmd()
	walk(root)
	return flags, commands, variables
}

// Whoever is told to set something, to run a command or to send a request finds it: each flag, variable, command and route that a text of the
// service, of the console or of the command line names is there.
func TestWhatTheTextsNameIsThere(t *testing.T) {
	flags, commands, variables := whatThereIs()
	described, err := os.ReadFile("../../../../service/internal/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(described, &api); err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	for path, methods := range api.Paths {
		for method := range methods {
			routes.Handle(strings.ToUpper(method)+" "+path, http.NotFoundHandler())
		}
	}
	flag, variable := regexp.MustCompile(`(?:^|[\s(,;:"'`+"`"+`])--([a-z][a-z-]*[a-z])`), regexp.MustCompile(`PQUEUE_[A-Z_]*[A-Z]`)
	command, route := regexp.MustCompile(`\bpqueue((?: [a-z][a-z-]+){1,2})`), regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) (/v1/[^\s,;)]*)`)
	others := map[string]bool{"json": true} // of curl
	found := map[string]int{}
	for _, folder := range []string{"../../../../service", "../../../../cmd/pqueue", "../../../../console", "../../../../operate"} {
		for text, at := range textsIn(t, folder) {
			for _, f := range flag.FindAllStringSubmatch(text, -1) {
				if found["flags"]++; !flags[f[1]] && !others[f[1]] {
					t.Errorf("%s: there is no flag --%s", at, f[1])
				}
			}
			for name := range flags { // egress.allow, for --egress-allow
				if dotted := strings.ReplaceAll(name, "-", "."); dotted != name && strings.Contains(text, dotted) {
					t.Errorf("%s: %s is called --%s", at, dotted, name)
				}
			}
			for _, name := range variable.FindAllString(text, -1) {
				if found["variables"]++; !variables[name] {
					t.Errorf("%s: there is no variable %s", at, name)
				}
			}
			for _, c := range command.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(c[1])
				if first := "pqueue " + words[0]; !commands[first] {
					continue // a sentence about pqueue
				} else if found["commands"]++; len(words) > 1 && isGroup(first, commands) && !commands[first+" "+words[1]] {
					t.Errorf("%s: there is no command %s %s", at, first, words[1])
				}
			}
			for _, r := range route.FindAllStringSubmatch(text, -1) {
				path, _, _ := strings.Cut(strings.TrimRight(r[2], "."), "?")
				found["routes"]++
				if _, pattern := routes.Handler(&http.Request{Method: r[1], URL: &url.URL{Path: strings.NewReplacer("{", "", "}", "").Replace(path)}}); pattern == "" {
					t.Errorf("%s: there is no %s %s", at, r[1], path)
				}
			}
		}
	}
	t.Log(found)
	for what, least := range map[string]int{"flags": 40, "variables": 8, "commands": 30, "routes": 30} {
		if found[what] < least {
			t.Errorf("only %d %s were found", found[what], what)
		}
	}
}

// isGroup reports whether a command has commands below it.
func isGroup(name string, commands map[string]bool) bool {
	for other := range commands {
		if strings.HasPrefix(other, name+" ") {
			return true
		}
	}
	return false
}
