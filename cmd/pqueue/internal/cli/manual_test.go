package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/operate/cli.md anew")

func TestTheManualSaysWhatTheCommandsSay(t *testing.T) {
	file := filepath.Join("..", "..", "..", "..", "docs", "operate", "cli.md")
	text := manual()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(file); err != nil || string(there) != text {
		t.Errorf("docs/operate/cli.md is not what the commands say (%v); write it anew: go test ./cmd/pqueue/... -run Manual -update", err)
	}
}

// manual is docs/operate/cli.md: what --help says of each command, in the order of the tree.
func manual() string {
	root := newRoot(Streams{})
	root.InitDefaultHelpCmd()
	var text strings.Builder
	text.WriteString("# The command line\n\n" +
		"`go run ./cmd/pqueue --help` in a clone, or `go install github.com/create-info/persistent-queue/cmd/pqueue@latest`. This page is what the commands\n" +
		"say of themselves, written by `go test ./cmd/pqueue/... -run Manual -update`.\n")
	write(&text, root)
	return text.String()
}

func write(text *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	if cmd.HasParent() && !cmd.HasSubCommands() || !cmd.HasParent() {
		long := cmd.Long
		if long == "" {
			long = cmd.Short + "."
		}
		fmt.Fprintf(text, "\n## %s\n\n```text\n%s\n", cmd.CommandPath(), long)
		if cmd.HasParent() {
			fmt.Fprintf(text, "\nUsage: %s\n", cmd.UseLine())
		}
		if cmd.Example != "" {
			fmt.Fprintf(text, "\nExamples:\n%s\n", cmd.Example)
		}
		flags := cmd.LocalFlags()
		if !cmd.HasParent() {
			flags = cmd.PersistentFlags()
		}
		if flags.HasAvailableFlags() {
			fmt.Fprintf(text, "\nFlags:\n%s", flags.FlagUsages())
		}
		text.WriteString("```\n")
	}
	for _, sub := range cmd.Commands() {
		write(text, sub)
	}
}
