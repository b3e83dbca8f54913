package persistent_queue_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// publicModules have packages that users import.
var publicModules = []string{".", "cron", "metrics", "otelqueue", "pgxqueue", "queuetest", "service"}

// What users may name stands in a file, so that each change of it is seen in a diff. A name that README.md or a document has shown stays,
// with a Deprecated: comment if a better one takes its place.
func TestThePublicNamesAreThoseOfTheList(t *testing.T) {
	const file = "testdata/api.txt"
	list := apiOf(t)
	if *update {
		if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list == string(want) {
		return
	}
	old, now := strings.Split(string(want), "\n"), strings.Split(list, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			t.Errorf("it is gone: %s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			t.Errorf("it is new: %s", line)
		}
	}
	t.Errorf("if this is meant, bring %s up to date: go test -run ThePublicNames . -update", file)
}

// apiOf lists the exported names of all public packages, and how many each has: constants, variables, functions, types and methods.
// Fields are listed, too.
func apiOf(t *testing.T) string {
	t.Helper()
	packages := parsedPackages(t)
	var list strings.Builder
	all := 0
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if slices.Contains(strings.Split(name, "/"), "internal") {
			continue
		}
		lines := packages[name].api(packages)
		names := 0
		for _, line := range lines {
			if !strings.HasPrefix(line, "field ") {
				names++
			}
		}
		if all += names; names > 0 {
			fmt.Fprintf(&list, "%s: %d names\n\t%s\n\n", name, names, strings.Join(lines, "\n\t"))
		}
	}
	fmt.Fprintf(&list, "all: %d names\n", all)
	return list.String()
}

// parsedPackage is a package by its path in the repository.
type parsedPackage struct {
	types   map[string]*ast.TypeSpec
	methods map[string][]*ast.FuncDecl // by the receiver's type
	decls   []ast.Decl
	imports map[string]string // paths in the repository, by the last element
}

func parsedPackages(t *testing.T) map[string]*parsedPackage {
	t.Helper()
	packages := map[string]*parsedPackage{}
	for _, m := range publicModules {
		files, err := goFiles(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Name.Name == "main" {
				continue
			}
			name := path.Dir(filepath.ToSlash(file))
			p := packages[name]
			if p == nil {
				p = &parsedPackage{types: map[string]*ast.TypeSpec{}, methods: map[string][]*ast.FuncDecl{}, imports: map[string]string{}}
				packages[name] = p
			}
			p.add(parsed)
		}
	}
	return packages
}

func (p *parsedPackage) add(file *ast.File) {
	for _, spec := range file.Imports {
		if own, ok := within(strings.Trim(spec.Path.Value, `"`), module); ok {
			p.imports[path.Base(own)] = own
		}
	}
	p.decls = append(p.decls, file.Decls...)
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				of := strings.TrimLeft(typed(d.Recv.List[0].Type), "*")
				of, _, _ = strings.Cut(of, "[")
				p.methods[of] = append(p.methods[of], d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					p.types[s.Name.Name] = s
				}
			}
		}
	}
}

// api is a line for each exported name of a package, in the order of the names.
func (p *parsedPackage) api(packages map[string]*parsedPackage) (lines []string) {
	for _, decl := range p.decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				lines = append(lines, "func "+d.Name.Name+typeParams(d.Type.TypeParams)+signature(d.Type))
			}
		case *ast.GenDecl:
			lines = append(lines, values(d)...)
		}
	}
	for name, spec := range p.types {
		if ast.IsExported(name) {
			lines = append(lines, "type "+name+typeParams(spec.TypeParams)+kind(spec))
			lines = append(lines, p.members(name, name, packages)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines) // what differs between platforms has its names in several files
}

// members are the fields and methods of a type of p, which users know under a name. If that is an alias of what stands in an internal
// package, the alias is where they find it.
func (p *parsedPackage) members(name, known string, packages map[string]*parsedPackage) (lines []string) {
	spec := p.types[name]
	if spec == nil {
		return nil
	}
	for _, m := range p.methods[name] {
		if m.Name.IsExported() {
			receiver := strings.Replace(typed(m.Recv.List[0].Type), name, known, 1)
			lines = append(lines, "method ("+receiver+") "+m.Name.Name+signature(m.Type))
		}
	}
	switch of := spec.Type.(type) {
	case *ast.StructType:
		for _, f := range of.Fields.List {
			if len(f.Names) == 0 && ast.IsExported(lastName(f.Type)) {
				lines = append(lines, "field "+known+"."+typed(f.Type)+", embedded")
			}
			for _, n := range f.Names {
				if n.IsExported() {
					lines = append(lines, "field "+known+"."+n.Name+" "+typed(f.Type))
				}
			}
		}
	case *ast.InterfaceType:
		for _, f := range of.Methods.List {
			for _, n := range f.Names {
				lines = append(lines, "method ("+known+") "+n.Name+signature(f.Type.(*ast.FuncType)))
			}
		}
	case *ast.Ident:
		if spec.Assign.IsValid() && !ast.IsExported(of.Name) {
			lines = append(lines, p.members(of.Name, known, packages)...)
		}
	case *ast.SelectorExpr:
		in := p.imports[typed(of.X)]
		if other := packages[in]; spec.Assign.IsValid() && other != nil && strings.Contains(in, "internal/") {
			lines = append(lines, other.members(of.Sel.Name, known, packages)...)
		}
	}
	return lines
}

// values lists the constants and variables of a declaration. A constant without a type and a value has those of the one before.
func values(d *ast.GenDecl) (lines []string) {
	of := ""
	for _, spec := range d.Specs {
		s, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if s.Type != nil || len(s.Values) > 0 {
			of = ""
		}
		if s.Type != nil {
			of = " " + typed(s.Type)
		}
		for i, n := range s.Names {
			if !n.IsExported() {
				continue
			}
			line := d.Tok.String() + " " + n.Name + of
			if d.Tok == token.CONST && i < len(s.Values) {
				line += " = " + typed(s.Values[i])
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func kind(spec *ast.TypeSpec) string {
	switch spec.Type.(type) {
	case *ast.StructType:
		return " struct"
	case *ast.InterfaceType:
		return " interface"
	}
	if spec.Assign.IsValid() {
		return " = " + typed(spec.Type)
	}
	return " " + typed(spec.Type)
}

// signature is what a function takes and returns, without the names of its parameters.
func signature(f *ast.FuncType) string {
	results := typesOf(f.Results)
	text := "(" + strings.Join(typesOf(f.Params), ", ") + ")"
	switch len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	}
	return text + " (" + strings.Join(results, ", ") + ")"
}

func typesOf(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			names = append(names, typed(f.Type))
		}
	}
	return names
}

func typeParams(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var params []string
	for _, f := range list.List {
		for _, n := range f.Names {
			params = append(params, n.Name+" "+typed(f.Type))
		}
	}
	return "[" + strings.Join(params, ", ") + "]"
}

// typed is an expression of types on one line; in types of functions, too, names of parameters are left out.
func typed(e ast.Expr) string {
	if f, ok := e.(*ast.FuncType); ok {
		return "func" + signature(f)
	}
	var text strings.Builder
	if err := printer.Fprint(&text, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

func lastName(e ast.Expr) string {
	name := typed(e)
	return cmp.Or(name[strings.LastIndexAny(name, ".*")+1:], name)
}
