// Package cli is the command line of persistent-queue: a tree of commands over the verbs of queue_job. It has no SQL of its own.
//
// Each command is in the file of its noun (job.go, flow.go, explain.go, steer.go, op.go, deploy.go, audit.go, types.go, schedule.go, fleet.go,
// keep.go, schema.go, check.go, top.go, serve.go, settings.go, token.go, user.go, context.go). Below them are connect.go, which
// makes a database handle of a DSN,
// query.go, which reads "type:7 status:failed", moment.go, which reads when, and output.go, which writes a list as a table, JSON, CSV or ids.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// What the process exits with. A script can tell from it what to do next.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitNothing     = 3 // nothing matched, or nothing was left to do
	exitPartly      = 4 // some jobs were changed, and others were not
	exitRefused     = 5 // not confirmed, or more jobs than --limit
	exitUnreachable = 6 // the database does not answer
	exitOutdated    = 7 // the tables are missing or not up to date
	exitInterrupted = 130
)

// Streams are what a command reads from and writes to: data goes to Out, everything else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// exit is an error that says what the process exits with.
type exit struct {
	code int
	err  error // nil: everything was said already
}

func (e *exit) Error() string { return fmt.Sprint(e.err) }
func (e *exit) Unwrap() error { return e.err }

func exitf(code int, format string, args ...any) error {
	return &exit{code, fmt.Errorf(format, args...)}
}

// Run runs the command that the arguments name, and returns what the process is to exit with.
func Run(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code := codeOf(ctx, err)
	if said := (*exit)(nil); err != nil && !(errors.As(err, &said) && said.err == nil) {
		fmt.Fprintf(streams.Err, "pqueue: %s\n", inWordsOfThisTool(err))
	}
	return code
}

// inWordsOfThisTool names the command where the library's error names its functions.
func inWordsOfThisTool(err error) string {
	return strings.ReplaceAll(err.Error(), queue_job.ErrNoTables.Error(),
		"the tables are missing in this database, or not up to date: pqueue schema migrate makes them, with the same --prefix if there is one")
}

func codeOf(ctx context.Context, err error) int {
	var said *exit
	var outdated *schema.OutdatedError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &said):
		return said.code
	case errors.Is(err, queue_job.ErrNoTables), errors.As(err, &outdated):
		return exitOutdated
	case errors.Is(err, queue_job.ErrNoJob):
		return exitNothing
	}
	return exitError
}

// app is what the commands share: the flags that all of them have.
type app struct {
	Streams
	dsn, dsnFile   string
	makesFile      bool // a file of SQLite that is not there is made
	driver, prefix string
	timeout        time.Duration
	output         string
	noHeaders      bool
	actor, why     string
	codec          queue_job.Codec // of tasks; nil: they are in clear
}

func newRoot(streams Streams) *cobra.Command {
	a := &app{Streams: streams}
	root := &cobra.Command{
		Use:   "pqueue",
		Short: "See and steer the jobs of persistent-queue",
		Long: `pqueue shows and steers the jobs that persistent-queue keeps in a database.

It reads the database's address from --dsn or PQUEUE_DSN, or from the file that --dsn-file or PQUEUE_DSN_FILE names:

  mysql://user:password@host:3306/database        MySQL, MariaDB, TiDB
  postgres://user:password@host:5432/database     PostgreSQL
  sqlite:///var/lib/app/jobs.db                   a file of SQLite

A password in --dsn can be seen in the machine's list of processes; the other ways hide it. If you work with several databases, keep
a file for each: --dsn-file ~/.config/pqueue/shop names one for a command, PQUEUE_DSN_FILE for a shell or a script. If several of the four are
set, the first that is set in this order counts: --dsn, --dsn-file, PQUEUE_DSN, PQUEUE_DSN_FILE.

Exit codes: 0 done, 1 error, 2 usage, 3 nothing matched, 4 some jobs were not changed, 5 refused, 6 the database does not answer,
7 the tables are missing or not up to date, 130 interrupted.`,
		Example: `  pqueue type list
  pqueue job list type:7 status:failed since:2h
  pqueue job get 4711
  pqueue job retry type:7 status:failed since:2h --dry-run`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exitf(exitUsage, "%w; see %s --help", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.dsn, "dsn", "", "address of the database (default: PQUEUE_DSN)")
	flags.StringVar(&a.dsnFile, "dsn-file", "", "file with that address (default: PQUEUE_DSN_FILE)")
	flags.StringVar(&a.driver, "driver", "", "mysql, pgx or sqlite: the DSN is in this driver's own form, and no URL")
	flags.StringVar(&a.prefix, "prefix", os.Getenv("PQUEUE_PREFIX"), "prefix of the tables' names (default: PQUEUE_PREFIX)")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Second, "how long the database may take to answer; listing jobs may take longer")
	flags.StringVarP(&a.output, "output", "o", "table", "table, json, jsonl, csv or id")
	flags.StringVar(&a.actor, "as", "", "who acts, as pqueue audit list shows it (default: PQUEUE_AS, or the user and the machine)")
	flags.StringVar(&a.why, "why", "", "why, as pqueue audit list shows it")
	flags.BoolVar(&a.noHeaders, "no-headers", false, "leave out the line with the columns' names")
	root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	root.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions(drivers, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.jobCommand(), a.flowCommand(), a.typeCommand(), a.scheduleCommand(), a.leaseCommand(),
		a.hostCommand(), a.opCommand(), a.deployCommand(), a.auditCommand(), a.keepCommand(), a.schemaCommand(),
		a.checkCommand(), a.topCommand(), a.serveCommand(), a.checkConfigCommand(), a.tokenCommand(), a.userCommand(), a.versionCommand())
	refuseBadArguments(root)
	return root
}

// refuseBadArguments makes an error about a command's arguments an error of usage, and a noun without its verb show the noun's help.
func refuseBadArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return exitf(exitUsage, "%w; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		refuseBadArguments(sub)
	}
}

// prepare looks at what all commands have in common, before one runs.
func (a *app) prepare(cmd *cobra.Command) error {
	if !slices.Contains(outputs, a.output) {
		return badOutput(a.output)
	}
	if err := refuseNegative(cmd); err != nil {
		return err
	}
	actor := cmp.Or(a.actor, os.Getenv("PQUEUE_AS"), whoami())
	cmd.SetContext(queue_job.WithActor(cmd.Context(), actor, a.why))
	return nil
}

// refuseNegative refuses numbers and times below zero. Of the flags, one has a meaning for -1.
func refuseNegative(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		isNumber := slices.Contains([]string{"int", "float64", "duration"}, f.Value.Type())
		if value := f.Value.String(); isNumber && strings.HasPrefix(value, "-") && (f.Name != "max-retries" || value != "-1") {
			errs = append(errs, exitf(exitUsage, "--%s %s: it is to be 0 or more; see %s --help", f.Name, value, cmd.CommandPath()))
		}
	})
	return errors.Join(errs...)
}

// noun is a command that only has others below it.
func noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(verbs...)
	return cmd
}

// within gives one call its time.
func (a *app) within(ctx context.Context, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	err := call(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("no answer within %v (--timeout): %w", a.timeout, err)
	}
	return err
}

func (a *app) sayf(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }
