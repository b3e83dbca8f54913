package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/schema"
)

func (a *app) schemaCommand() *cobra.Command {
	return noun("schema", "Check, print and make the tables", a.schemaCheck(), a.schemaPrint(), a.schemaMigrate())
}

func (a *app) schemaCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether the tables are up to date, and print the SQL that they lack",
		Long:  "Say whether the tables are up to date, and print the SQL that they lack. It changes nothing, and exits with 7 if they lack something.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.handle(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			err = a.within(cmd.Context(), func(ctx context.Context) error { return schema.Check(ctx, db, a.schemaOptions()...) })
			var outdated *schema.OutdatedError
			if errors.As(err, &outdated) {
				for _, statement := range outdated.SQL {
					fmt.Fprintln(a.Out, strings.TrimSuffix(strings.TrimSpace(statement), ";")+";")
				}
				return exitf(exitOutdated, "the tables in this %s are missing or not up to date; run the SQL above, or pqueue schema migrate", outdated.Database)
			}
			if err == nil {
				a.sayf("the tables are up to date")
			}
			return err
		},
	}
}

func (a *app) schemaPrint() *cobra.Command {
	databases := []string{schema.MySQL, schema.MariaDB, schema.TiDB, schema.PostgreSQL, schema.SQLite}
	return &cobra.Command{
		Use:       "print <database>",
		Short:     "Print the SQL that makes all tables, without a database",
		Long:      "Print the SQL that makes all tables, without a database: " + strings.Join(databases, ", ") + ".",
		Args:      cobra.ExactArgs(1),
		ValidArgs: databases,
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			for _, known := range databases {
				if strings.EqualFold(known, name) {
					name = known
				}
			}
			statements, err := schema.SQL(name, a.schemaOptions()...)
			if err != nil {
				return &exit{exitUsage, err}
			}
			for _, statement := range statements {
				fmt.Fprintln(a.Out, strings.TrimSuffix(strings.TrimSpace(statement), ";")+";\n")
			}
			return nil
		},
	}
}

func (a *app) schemaMigrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables, or add what they lack",
		Long: `Make the tables, or add what they lack; rows stay as they are. Where a table is in use, it waits for a second at a time and tries
again, until Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.makesFile = true
			db, err := a.handle(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := schema.Migrate(cmd.Context(), db, a.schemaOptions()...); err != nil {
				return err
			}
			a.sayf("the tables are up to date")
			return nil
		},
	}
}
