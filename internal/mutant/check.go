package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Check says which mutants do not find their line, do not compile, or have a test that is not there. So whoever changes one of these hears of
// it at once, and not when the mutants are run. With -short, none is compiled.
func Check(root string, mutants ...Mutant) error { return check(root, !testing.Short(), mutants) }

func check(root string, compiling bool, mutants []Mutant) (all error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var c *compiler
	if compiling {
		if c, err = newCompiler(root, mutants); err != nil {
			return err
		}
	}
	for _, m := range mutants {
		text, err := m.changed(root)
		if err == nil && c != nil {
			err = c.compile(filepath.Join(root, filepath.FromSlash(m.File)), text)
		}
		if err == nil {
			err = m.hasTest(root)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("mutant %q: %w", m.Name, err))
		}
	}
	return all
}

// changed is the file with the failure.
func (m Mutant) changed(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("its text stands %d times in %s, want once; follow the change that was made there:\n%s", n, m.File, m.Old)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}

func (m Mutant) hasTest(root string) error {
	if m.Test == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m.Folder), "*_test.go"))
	for i := 0; i < len(files) && err == nil; i++ {
		text, errRead := os.ReadFile(files[i])
		if strings.Contains(string(text), "func "+m.Test+"(t *testing.T)") {
			return nil
		}
		err = errRead
	}
	return errors.Join(err, fmt.Errorf("%s has no test %s", m.Folder, m.Test))
}

// compiler checks the types of a package with one file changed. It is much faster than a build, and finds the same errors; but it does not
// look at the packages that import the changed one.
type compiler struct {
	packages map[string]listed // by their folders
	set      *token.FileSet
	files    map[string]*ast.File // as they are, by their paths
	imports  types.Importer       // of compiled packages
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Export          string // the file with what it exports, compiled
}

// newCompiler has the go command list and compile what the mutants change, and all that this imports.
func newCompiler(root string, mutants []Mutant) (*compiler, error) {
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}
	for _, m := range mutants {
		if folder := "./" + path.Dir(m.File); !slices.Contains(arguments, folder) {
			arguments = append(arguments, folder)
		}
	}
	var said bytes.Buffer
	cmd := exec.Command("go", arguments...)
	cmd.Dir, cmd.Stderr = root, &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages that mutants change: %w\n%s", err, &said)
	}
	c := &compiler{packages: map[string]listed{}, set: token.NewFileSet(), files: map[string]*ast.File{}}
	exports := map[string]string{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := list.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		c.packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	c.imports = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c, nil
}

func (c *compiler) compile(changed string, text []byte) error {
	p, files := c.packages[filepath.Dir(changed)], []*ast.File{}
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		f, err := c.parse(name, changed, text)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := (&types.Config{Importer: c.imports}).Check(p.ImportPath, c.set, files, nil)
	return err
}

func (c *compiler) parse(name, changed string, text []byte) (f *ast.File, err error) {
	if name == changed {
		return parser.ParseFile(c.set, name, text, parser.SkipObjectResolution)
	}
	if c.files[name] == nil {
		c.files[name], err = parser.ParseFile(c.set, name, nil, parser.SkipObjectResolution)
	}
	return c.files[name], err
}
