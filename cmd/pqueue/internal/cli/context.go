package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// namedDatabase is a context: a database that has a name in the file of contexts.
type namedDatabase struct {
	DSN       string `yaml:"dsn"`
	DSNFile   string `yaml:"dsn_file"`
	Driver    string `yaml:"driver"`
	Prefix    string `yaml:"prefix"`
	Protected bool   `yaml:"protected"`
}

// contextsFile is where contexts are.
func contextsFile() (string, error) {
	if file := os.Getenv("PQUEUE_CONTEXTS"); file != "" {
		return file, nil
	}
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "pqueue", "contexts.yaml"), err
}

// contexts reads the file of contexts. Without a file, there are none.
func contexts() (all map[string]namedDatabase, file string, err error) {
	if file, err = contextsFile(); err != nil {
		return nil, "", exitf(exitUsage, "contexts: %w", err)
	}
	text, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, file, nil
	}
	if err != nil {
		return nil, file, exitf(exitUsage, "contexts: %w", err)
	}
	defer text.Close()
	read := yaml.NewDecoder(text)
	read.KnownFields(true)
	if err := read.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, file, exitf(exitUsage, "%s: %w", file, err)
	}
	for name, c := range all {
		if (c.DSN == "") == (c.DSNFile == "") {
			return nil, file, exitf(exitUsage, "%s: %s needs either dsn or dsn_file", file, name)
		}
	}
	return all, file, nil
}

// useContext sets the flags that name a database as the context says that --context or PQUEUE_CONTEXT names. It returns that name.
// Empty: there is none.
func (a *app) useContext(cmd *cobra.Command) (name string, protected bool, err error) {
	flags := cmd.Flags()
	named := flags.Changed("dsn") || flags.Changed("dsn-file")
	switch {
	case a.context != "" && named:
		return "", false, exitf(exitUsage, "--context and --dsn both name a database; leave one out")
	case named:
		return "", false, nil
	}
	if name = cmp.Or(a.context, os.Getenv("PQUEUE_CONTEXT")); name == "" {
		return "", false, nil
	}
	all, file, err := contexts()
	if err != nil {
		return "", false, err
	}
	c, found := all[name]
	if !found {
		return "", false, exitf(exitUsage, "no context is called %q; %s has: %s", name, file, cmp.Or(strings.Join(slices.Sorted(maps.Keys(all)), ", "), "none"))
	}
	for flag, value := range map[string]string{"dsn": c.DSN, "dsn-file": c.DSNFile, "driver": c.Driver, "prefix": c.Prefix} {
		if value != "" && !flags.Changed(flag) {
			if err := flags.Set(flag, value); err != nil {
				return "", false, exitf(exitUsage, "%s: %s: %w", file, name, err)
			}
		}
	}
	return name, c.Protected, nil
}

// changing lists the commands that change something. In a protected context, they ask first.
var changing = []string{
	"job add", "job cancel", "job retry", "job run-now", "job reschedule", "job set-params", "job set-priority", "job delete",
	"type pause", "type rename", "type resume", "type set", "type unset", "type set-shards", "lease yield", "lease break", "host drain", "host undrain", "op run", "op stop", "op resume", "keep run", "keep restore", "schema migrate",
	"token create", "token revoke", "user create", "user password", "user drop", "serve",
}

// changes reports whether a command will change something.
func changes(cmd *cobra.Command) bool {
	if dry, err := cmd.Flags().GetBool("dry-run"); err == nil && dry {
		return false
	}
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return slices.Contains(changing, path)
}

// confirmContext asks for the name of a protected context, unless --confirm has it.
func (a *app) confirmContext(name string) error {
	switch {
	case a.confirmed == name:
		return nil
	case a.confirmed != "":
		return exitf(exitRefused, "--confirm %s: the context is %s; nothing was changed", a.confirmed, name)
	case !isTerminal(a.In):
		return exitf(exitRefused, "%s is protected, and nobody can be asked here: pass --confirm %s", name, name)
	}
	fmt.Fprintf(a.Err, "%s is protected. Type its name to go on: ", name)
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	if strings.TrimSpace(answer) != name {
		return exitf(exitRefused, "nothing was changed")
	}
	return nil
}

func (a *app) contextCommand() *cobra.Command {
	return noun("context", "See the databases that have a name", &cobra.Command{
		Use:   "list",
		Short: "List the contexts, without passwords",
		Long: `List the contexts: databases that have a name, so that --context prod or PQUEUE_CONTEXT=prod is all it takes. They stand in the file
pqueue/contexts.yaml of the user's configuration folder (~/.config on Linux), or in the one that PQUEUE_CONTEXTS names:

  prod:
    dsn_file: /run/secrets/pqueue-dsn     # or dsn
    prefix: shop_                         # of the tables, if they have one
    protected: true
  staging:
    dsn: mysql://me:secret@staging:3306/shop

A command that changes something in a protected context asks for the context's name first; a script passes --confirm prod.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			found, file, err := contexts()
			if err != nil {
				return err
			}
			if len(found) == 0 {
				a.sayf("no context is in %s", file)
			}
			names := slices.Sorted(maps.Keys(found))
			_, err = list(a, all(names), "contexts", []column[string]{
				{"name", func(name string) string { return name }},
				{"database", func(name string) string { return found[name].address() }},
				{"prefix", func(name string) string { return found[name].Prefix }},
				{"protected", func(name string) string { return strconv.FormatBool(found[name].Protected) }},
			}, func(name string) any {
				c := found[name]
				return map[string]any{"name": name, "database": c.address(), "prefix": c.Prefix, "protected": c.Protected}
			})
			return err
		},
	})
}

// address says where the database is, without a password.
func (c namedDatabase) address() string {
	if c.DSNFile != "" {
		return "as " + c.DSNFile + " says"
	}
	at, err := url.Parse(c.DSN)
	if c.Driver != "" || err != nil || at.Host == "" && at.Path == "" {
		return cmp.Or(c.Driver, "not a URL")
	}
	plain := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}
	if user := at.User.Username(); user != "" {
		plain.User = url.User(user)
	}
	return plain.String()
}

func (a *app) contextsToComplete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, _, _ := contexts()
	return slices.Sorted(maps.Keys(found)), cobra.ShellCompDirectiveNoFileComp
}
