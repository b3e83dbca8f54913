package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// notSettings are flags of pqueue serve that say what one call shall do, and not how a service is set up.
var notSettings = []string{"config", "demo", "help", "output", "no-headers", "as", "why"}

// settle gives flags that are not on the command line the values that PQUEUE_… or the file has for them, and returns where each
// setting comes from. Each flag can be set there by its name. The environment is stronger than the file. The error has all that is wrong.
func settle(cmd *cobra.Command, file string) (from map[string]string, err error) {
	flags := cmd.Flags()
	inFile, err := settingsIn(flags, file)
	errs := []error{err}
	from = map[string]string{}
	set := func(f *pflag.Flag, source string, value func() error) {
		if other := flags.Lookup(instead[f.Name]); f.Changed || other != nil && other.Changed {
			return
		}
		if err := value(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, readable(f, err)))
			_ = f.Value.Set(f.DefValue) // where that cannot be read, nothing was set
		}
		f.Changed, from[f.Name] = true, source
	}
	eachSetting(flags, func(f *pflag.Flag) {
		from[f.Name] = "default"
		if f.Changed {
			from[f.Name] = "--" + f.Name
		}
	})
	eachSetting(flags, func(f *pflag.Flag) {
		if text := os.Getenv(variableOf(f.Name)); text != "" {
			set(f, variableOf(f.Name), func() error { return f.Value.Set(text) })
		}
	})
	eachSetting(flags, func(f *pflag.Flag) {
		if line, found := inFile[f.Name]; found {
			set(f, fmt.Sprintf("%s:%d", file, line.number), func() error { return line.set(f) })
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, &exit{exitUsage, err}
	}
	return from, nil
}

// readable says which setting has a value that cannot be read, and what it takes, where the parser says only what it has called.
func readable(f *pflag.Flag, err error) error {
	var number *strconv.NumError
	switch {
	case !errors.As(err, &number):
		return err
	case f.Value.Type() == "bool":
		return fmt.Errorf("%s is %q; it is to be true or false", f.Name, number.Num)
	}
	return fmt.Errorf("%s is %q; it is to be a whole number", f.Name, number.Num)
}

// instead are settings of which one stands for the other, wherever it was set.
var instead = map[string]string{"dsn": "dsn-file", "dsn-file": "dsn"}

// variableOf is the environment's name for a flag: PQUEUE_EGRESS_ALLOW for --egress-allow.
func variableOf(flag string) string {
	return "PQUEUE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func eachSetting(flags *pflag.FlagSet, do func(*pflag.Flag)) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notSettings, f.Name) {
			do(f)
		}
	})
}

// settingLine is a line of a file with settings.
type settingLine struct {
	number int
	values []string
	list   bool
}

func (l settingLine) set(f *pflag.Flag) error {
	if several, ok := f.Value.(pflag.SliceValue); ok {
		return several.Replace(l.values)
	}
	if l.list && f.Value.Type() != "stringToString" {
		return errors.New("it takes one value, and no list")
	}
	for _, value := range l.values { // of an object, each Set adds one
		if err := f.Value.Set(value); err != nil {
			return err
		}
	}
	return nil
}

// settingsIn reads a file of YAML in which each setting is a line, with the name of its flag. Without a file, there are none.
func settingsIn(flags *pflag.FlagSet, file string) (map[string]settingLine, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if document.Kind == 0 { // it is empty, or has only comments
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: write a setting a line, such as \"listen: 127.0.0.1:8080\"", file, root.Line)
	}
	known := map[string]bool{}
	eachSetting(flags, func(f *pflag.Flag) { known[f.Name] = true })
	found := map[string]settingLine{}
	var errs []error
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i].Value, root.Content[i+1]
		line := settingLine{number: root.Content[i].Line}
		err := line.read(value)
		switch earlier, twice := found[name]; {
		case !known[name]:
			err = fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case twice:
			err = fmt.Errorf("%s was set in line %d already", name, earlier.number)
		case err != nil:
			err = fmt.Errorf("%s %w", name, err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, line.number, err))
			continue
		}
		found[name] = line
	}
	return found, errors.Join(errs...)
}

var errNoValue = errors.New("has no value; give it one, or take the line out")

func (l *settingLine) read(value *yaml.Node) error {
	nodes := []*yaml.Node{value}
	if value.Kind != yaml.ScalarNode {
		nodes, l.list = value.Content, true
	}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return errNoValue
		}
		l.values = append(l.values, n.Value)
	}
	if len(l.values) == 0 && value.Kind != yaml.SequenceNode {
		return errNoValue
	}
	if value.Kind == yaml.MappingNode { // shop: http://… is what the flag calls shop=http://…
		pairs := l.values
		l.values = nil
		for pair := range slices.Chunk(pairs, 2) {
			l.values = append(l.values, pair[0]+"="+pair[1])
		}
	}
	return nil
}

// setting is a setting as pqueue check-config shows it.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func (a *app) checkConfigCommand() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check the settings of pqueue serve, and show where each comes from",
		Long: `Check the settings of pqueue serve, and start nothing. The command takes the same flags, file and environment as pqueue
serve, reads the files with secrets, and reports all mistakes at once. It does not ask the database; pqueue check does.`,
		Example: "  pqueue check-config --config pqueue.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := settle(cmd, s.config)
			if err := errors.Join(err, a.checkServer(cmd, &s)); err != nil {
				return &exit{exitUsage, err}
			}
			s.topicsOfOne = cmp.Or(s.topicsOfOne, (s.topics+1)/2)
			var settings []setting
			eachSetting(cmd.Flags(), func(f *pflag.Flag) {
				value := f.Value.String()
				if f.Name == "dsn" && from["dsn"] != "default" {
					value = "(set)" // it may have a password
				}
				settings = append(settings, setting{f.Name, value, from[f.Name]})
			})
			_, err = list(a, all(settings), "settings", []column[setting]{
				{"setting", func(s setting) string { return s.Name }},
				{"value", func(s setting) string { return cmp.Or(s.Value, "-") }},
				{"from", func(s setting) string { return s.From }},
			}, func(s setting) any { return s })
			return err
		},
	}
	s.flags(cmd.Flags())
	return cmd
}

// checkServer returns all that is wrong with settings and can be seen without the database.
func (a *app) checkServer(cmd *cobra.Command, s *server) error {
	_, errPassword := s.password()
	_, errSigners := s.signers()
	_, errCodec := s.codec()
	_, errGuard := s.guard(nil)
	_, errAliases := s.aliases()
	_, errProxies := s.proxies()
	a.useOwnFile()
	_, _, errAddress := a.address()
	if err := errors.Join(s.parts(cmd), s.checkPlaces(), errPassword, errSigners, errCodec, errGuard, errAliases, errProxies, errAddress); err != nil {
		return &exit{exitUsage, err}
	}
	return nil
}
