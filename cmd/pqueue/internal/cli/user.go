package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/service"
)

func (a *app) userCommand() *cobra.Command {
	return noun("user", "Who may log in to the console of pqueue serve --login", a.userCreate(), a.userList(), a.userPassword(), a.userDrop())
}

// withUsers opens the users for as long as an act takes.
func (a *app) withUsers(ctx context.Context, act func(context.Context, *service.Users) error) error {
	a.useOwnFile()
	return a.with(ctx, func(db *database) error {
		return a.within(ctx, func(ctx context.Context) error {
			users, err := service.OpenUsers(ctx, db.DB, a.prefix)
			if err != nil {
				return err
			}
			return act(ctx, users)
		})
	})
}

// setsPassword makes a command of one that gives the user in its argument a password, which it reads, or makes up and shows.
func (a *app) setsPassword(cmd *cobra.Command, set func(ctx context.Context, users *service.Users, name, password string) error) *cobra.Command {
	var fromInput bool
	cmd.Long = cmd.Short + ". Without --password-stdin, pqueue makes up a password and shows it once: the database has its hash only."
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		password := rand.Text()
		if fromInput {
			line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
			if err != nil && err != io.EOF {
				return fmt.Errorf("--password-stdin: %w", err)
			}
			password = strings.TrimRight(line, "\r\n")
		}
		a.useOwnFile()
		if err := a.makeTables(cmd.Context()); err != nil { // this may be the first that anybody does with the database
			return err
		}
		return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
			err := set(ctx, users, args[0], password)
			if err == nil && !fromInput {
				_, err = fmt.Fprintln(a.Out, password)
			}
			return err
		})
	}
	cmd.Flags().BoolVar(&fromInput, "password-stdin", false, "read the password from standard input")
	return cmd
}

func (a *app) userCreate() *cobra.Command {
	var role string
	cmd := a.setsPassword(&cobra.Command{
		Use:     "create NAME",
		Short:   "Make a user",
		Example: "  pqueue user create ann\n  pqueue user create bob --role read --password-stdin",
	}, func(ctx context.Context, users *service.Users, name, password string) error {
		return users.Create(ctx, name, password, service.Role(role))
	})
	cmd.Flags().StringVar(&role, "role", string(service.Operator), "read: may look; operate: may change things, too")
	return cmd
}

func (a *app) userList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the users",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
				there, err := users.List(ctx)
				if err != nil {
					return err
				}
				_, err = list(a, all(there), "users", []column[service.User]{
					{"name", func(u service.User) string { return u.Name }},
					{"role", func(u service.User) string { return string(u.Role) }},
					{"created", func(u service.User) string { return clock(u.Created) }},
				}, func(u service.User) any {
					return map[string]any{"name": u.Name, "role": u.Role, "created": stamp(u.Created)}
				})
				return err
			})
		},
	}
}

func (a *app) userPassword() *cobra.Command {
	return a.setsPassword(&cobra.Command{
		Use:   "password NAME",
		Short: "Give a user another password, and end their sessions within ten seconds",
	}, func(ctx context.Context, users *service.Users, name, password string) error {
		return thereIs(name)(users.SetPassword(ctx, name, password))
	})
}

// thereIs makes an error of what found no user.
func thereIs(name string) func(there bool, err error) error {
	return func(there bool, err error) error {
		if err == nil && !there {
			return exitf(exitNothing, "there is no user %s", name)
		}
		return err
	}
}

func (a *app) userDrop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop NAME",
		Short: "Delete a user, and end their sessions",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
				return thereIs(args[0])(users.Drop(ctx, args[0]))
			})
		},
	}
}
