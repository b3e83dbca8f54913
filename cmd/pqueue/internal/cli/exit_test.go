package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/create-info/persistent-queue/queue_job"
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
	"deploy mark":       {args: "v1.2.3"},
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

// A number below zero would have no effect, or an odd one: -5 jobs of a list were all of them.
func TestANumberBelowZeroIsRefused(t *testing.T) {
	t.Parallel()
	flags := 0
	for _, name := range commandNames(newRoot(Streams{}), "") {
		line := strings.Fields(name + " " + leaves[name].args)
		cmd, _, err := newRoot(Streams{}).Find(line)
		if err != nil {
			t.Fatal(err)
		}
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			value := map[string]string{"int": "-2", "float64": "-0.5", "duration": "-1s"}[f.Value.Type()]
			if value == "" {
				return
			}
			flags++
			var said bytes.Buffer
			args := append(slices.Clone(line), "--"+f.Name+"="+value, "--dsn", "sqlite:///nowhere/jobs.db")
			code := Run(t.Context(), args, Streams{strings.NewReader(""), io.Discard, &said})
			if code != exitUsage || !strings.Contains(said.String(), f.Name) {
				t.Errorf("pqueue %s: %d, %s", strings.Join(args, " "), code, said.String())
			}
		})
	}
	if flags < 25 {
		t.Errorf("%d flags were tried", flags)
	}
}

// A time in JSON is read by programs, which may run elsewhere.
func TestATimeInJSONHasItsZone(t *testing.T) {
	t.Parallel()
	sh, _, _ := newTables(t)
	for _, line := range []string{"job add 7 {}", "job cancel 1", "schedule put nightly @daily 7", "type pause 7", "token create --scope tasks:add --valid 8h", "user create ann"} {
		sh.want(line, exitDone)
	}
	bare := regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2} [^"]*"`)
	for _, line := range []string{
		"audit list", "flow list", "host list", "job list", "job get 1", "job explain 1", "job errors", "keep status", "lease list", "lease history", "op list",
		"schedule list", "schedule next nightly", "token list", "type list", "type get 7", "type history 7", "user list",
	} {
		out := sh.want(line+" -o json", exitDone)
		if found := bare.FindString(out); found != "" || !json.Valid([]byte(out)) {
			t.Errorf("pqueue %s -o json has the time %s: %s", line, found, out)
		}
	}
	for _, name := range []string{"token list", "user list"} { // as the names of the fields in JSON
		if out := sh.want(name+" -o csv", exitDone); !strings.HasPrefix(out, strings.ToLower(strings.SplitN(out, "\n", 2)[0])) {
			t.Errorf("pqueue %s -o csv: %s", name, out)
		}
	}
}

// What would have no effect is refused.
func TestAFlagThatMeansNothingBesideOthersIsRefused(t *testing.T) {
	t.Parallel()
	sh, _, _ := newTables(t)
	for _, c := range []struct{ line, says string }{
		{"job cancel 1 2 --rate 5", "--rate is for jobs that a query chooses"},
		{"op list --limit 0", "--limit 0: say how many to show"},
		{"audit list --limit 0", "--limit 0: say how many to show"},
		{"serve --listen 127.0.0.1:0 --topics 0", "--topics is 0"},
		{"serve --listen 127.0.0.1:0 --alias-from 10.0.0.0/8", "--alias-from is for clients of"},
		{"serve --listen 127.0.0.1:0 --delay-queue No/topic", "a topic's name has"},
		{"serve --listen 127.0.0.1:0 --metrics-listen nine", "--metrics-listen nine"},
	} {
		sh.want(c.line, exitUsage, c.says)
	}
}

func TestAListThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	sh, _, _ := newTables(t)
	for range 3 {
		sh.want("type pause 7", exitDone)
		sh.want("type resume 7", exitDone)
	}
	sh.want("audit list -n 5", exitDone, "there may be more")
	if code, _, said := sh.run("audit", "list", "-n", "7"); code != exitDone || said != "" {
		t.Errorf("%d, %q", code, said)
	}
	if out := sh.want("audit list -n 20000 -o id", exitDone); strings.Count(out, "\n") != 6 {
		t.Errorf("%s", out)
	}
}

func TestACheckIsForProgramsToo(t *testing.T) {
	t.Parallel()
	sh, db, jobs := newTables(t)
	if out := sh.want("check -o json", exitDone, `"findings": []`); !json.Valid([]byte(out)) {
		t.Errorf("%s", out)
	}
	if _, err := jobs.Add(t.Context(), db, queue_job.AddModelJob{JobType: 7, StartTime: 1}); err != nil {
		t.Fatal(err)
	}
	out := sh.want("check -o json", exitError, `"kind": "nobody runs it"`, `"severity": "critical"`, `"type": 7`, `"remedy": "Start an instance`)
	if !json.Valid([]byte(out)) {
		t.Errorf("%s", out)
	}
	sh.want("check -o csv", exitError, "kind,severity,type,text,remedy\nnobody runs it,critical,7,")
	sh.want("check --nagios -o json", exitUsage, "leave --output out")
}
