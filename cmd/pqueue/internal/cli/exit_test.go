package cli

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// leaves are the commands that do something, each with arguments that are as they should be.
var leaves = map[string]struct {
	args string
	// elsewhere: it needs no database. makesTables: it makes the tables that are missing.
	elsewhere, makesTables bool
}{
	"audit list":        {},
	"check":             {},
	"check-config":      {elsewhere: true},
	"flow cancel":       {args: "1"},
	"flow explain":      {args: "1"},
	"flow get":          {args: "1"},
	"flow list":         {},
	"flow retry":        {args: "1"},
	"host bury":         {args: "0123456789ab --yes"},
	"host drain":        {args: "0123456789ab"},
	"host list":         {},
	"host undrain":      {args: "0123456789ab"},
	"job add":           {args: "7 {}"},
	"job cancel":        {args: "1"},
	"job delete":        {args: "1 --yes"},
	"job errors":        {},
	"job explain":       {args: "1"},
	"job get":           {args: "1"},
	"job list":          {},
	"job log":           {args: "1"},
	"job reschedule":    {args: "+2h 1"},
	"job retry":         {args: "1"},
	"job run-now":       {args: "1"},
	"job set-params":    {args: "1 {}"},
	"job set-priority":  {args: "high 1"},
	"job signal":        {args: "1 approval"},
	"job watch":         {args: "1"},
	"keep restore":      {args: "testdata/archive.jsonl"},
	"keep run":          {args: "30d --yes"},
	"keep status":       {},
	"lease break":       {args: "job-7"},
	"lease history":     {},
	"lease list":        {},
	"lease yield":       {args: "job-7"},
	"op get":            {args: "1"},
	"op list":           {},
	"op resume":         {args: "1"},
	"op run":            {args: "1"},
	"op stop":           {args: "1"},
	"schedule backfill": {args: "nightly 2h.."},
	"schedule delete":   {args: "nightly"},
	"schedule list":     {},
	"schedule next":     {args: "nightly"},
	"schedule pause":    {args: "nightly"},
	"schedule put":      {args: "nightly @daily 7"},
	"schedule resume":   {args: "nightly"},
	"schedule run":      {args: "nightly"},
	"schema check":      {},
	"schema migrate":    {makesTables: true},
	"schema print":      {elsewhere: true},
	"serve":             {args: "--listen 127.0.0.1:0", makesTables: true},
	"token create":      {args: "--scope tasks:add", makesTables: true},
	"token list":        {makesTables: true},
	"token revoke":      {args: "1", makesTables: true},
	"top":               {},
	"type get":          {args: "7"},
	"type history":      {args: "7"},
	"type list":         {},
	"type pause":        {args: "7"},
	"type rename":       {args: "7 invoices"},
	"type resume":       {args: "7"},
	"type set":          {args: "7 --workers 1"},
	"type unset":        {args: "7"},
	"type set-shards":   {args: "7 2"},
	"type what-if":      {args: "7"},
	"user create":       {args: "mary", makesTables: true},
	"user drop":         {args: "mary", makesTables: true},
	"user list":         {makesTables: true},
	"user password":     {args: "mary", makesTables: true},
	"version":           {elsewhere: true},
}

func TestEachCommandExitsWithACodeThatSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	sh, _ := newShell(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range commandNames(newRoot(Streams{}), "") {
		leaf, known := leaves[name]
		if !known {
			t.Errorf("pqueue %s is not in the list", name)
			continue
		}
		line := strings.Fields(name + " " + leaf.args)
		exits := func(ctx context.Context, what string, want int, more ...string) {
			t.Helper()
			var said bytes.Buffer
			args := slices.Concat(line, more)
			if got := Run(ctx, args, Streams{strings.NewReader("a long password\n"), io.Discard, &said}); got != want {
				t.Errorf("%s: pqueue %s exits with %d, want %d: %s", what, strings.Join(args, " "), got, want, said.String())
			}
		}
		exits(t.Context(), "a flag that is not there", exitUsage, "--no-such-flag")
		if leaf.elsewhere {
			continue
		}
		exits(t.Context(), "a DSN that is none", exitUsage, "--dsn", "nothing")
		exits(t.Context(), "a server that is not there", exitUnreachable, "--dsn", "mysql://me:secret@127.0.0.1:1/jobs")
		exits(over, "Ctrl-C", exitInterrupted, "--dsn", sh.dsn)
		if !leaf.makesTables {
			exits(t.Context(), "no tables", exitOutdated, "--dsn", sh.dsn)
		}
	}
}

// commandNames are the names of the commands that do something.
func commandNames(cmd *cobra.Command, above string) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		name := strings.TrimSpace(above + " " + sub.Name())
		if sub.HasSubCommands() {
			names = append(names, commandNames(sub, name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}
