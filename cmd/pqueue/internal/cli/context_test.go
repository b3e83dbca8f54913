package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// newContexts writes a file of contexts and has commands use it.
func newContexts(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PQUEUE_CONTEXTS", file)
}

func TestAContextNamesADatabase(t *testing.T) {
	sh, _, _ := newTables(t)
	dsn := sh.dsn
	sh.dsn = ""
	secret := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(secret, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	newContexts(t, fmt.Sprintf("here:\n  dsn: %s\nprod:\n  dsn_file: %s\n  protected: true\nfar:\n  dsn: mysql://me:secret@db:3306/shop?tls=true\n  prefix: shop_\n", dsn, secret))
	t.Setenv("PQUEUE_DSN", "sqlite:///no/such/file")

	out := sh.want("context list", exitDone, "mysql://me@db:3306/shop", "shop_", "as "+secret+" says", "true")
	if strings.Contains(out, "secret@") {
		t.Error(out)
	}
	sh.want("job add 7 {} --context here", exitDone)
	sh.want("job list --context prod -o id", exitDone, "1")
	sh.want("job list --context nowhere", exitUsage, `no context is called "nowhere"`, "far, here, prod")
	sh.want("job list --context here --dsn sqlite://x", exitUsage, "both name a database")
	t.Setenv("PQUEUE_CONTEXT", "here")
	sh.want("job list -o id", exitDone, "1")
	sh.want("job list --dsn "+dsn+" -o id", exitDone, "1")

	sh.want("job cancel 1 --context prod", exitRefused, "prod is protected", "--confirm prod")
	sh.want("job cancel 1 --context prod --confirm here", exitRefused, "the context is prod")
	sh.want("job cancel 1 --context prod --dry-run", exitDone)
	if out := sh.want("job get 1 -o json", exitDone); strings.Contains(out, "cancelled") {
		t.Errorf("it was cancelled: %s", out)
	}
	sh.want("job cancel 1 --context prod --confirm prod", exitDone, "cancelled 1 job")
}

func TestAFileOfContextsThatIsWrongSaysWhere(t *testing.T) {
	sh := &shell{T: t}
	for text, says := range map[string]string{
		"prod:\n  dns: x\n":                 "dns",
		"prod:\n  prefix: x\n":              "prod needs either dsn or dsn_file",
		"prod:\n  dsn: x\n  dsn_file: y\n":  "prod needs either dsn or dsn_file",
		"- prod\n":                          "contexts.yaml",
		"prod:\n  dsn: x\n  protected: 7\n": "contexts.yaml",
	} {
		newContexts(t, text)
		sh.want("job list --context prod", exitUsage, says)
	}
	newContexts(t, "")
	sh.want("context list", exitDone, "no context is in")
	t.Setenv("PQUEUE_CONTEXTS", filepath.Join(t.TempDir(), "none.yaml"))
	sh.want("context list", exitDone, "no context is in")
}

// Whoever adds a command says whether it changes something.
func TestEachCommandIsKnownToChangeSomethingOrNot(t *testing.T) {
	looking := []string{
		"audit list", "check", "check-config", "context list", "host list", "job errors", "job explain", "job get", "job list", "job watch", "keep status", "lease history",
		"lease list", "op get", "op list", "schema check", "schema print", "token list", "top", "type get", "type history", "type list", "type what-if", "user list",
		"version",
	}
	var all []string
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.HasSubCommands() {
				visit(sub)
				continue
			}
			_, path, _ := strings.Cut(sub.CommandPath(), " ")
			all = append(all, path)
		}
	}
	visit(newRoot(Streams{}))
	for _, path := range all {
		if slices.Contains(looking, path) == slices.Contains(changing, path) {
			t.Errorf("%s is in both lists, or in none", path)
		}
	}
	for _, path := range append(looking, changing...) {
		if !slices.Contains(all, path) {
			t.Errorf("there is no command %s", path)
		}
	}
}
