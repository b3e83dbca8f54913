package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
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

const passwordHelp = "Without --password-stdin, a password is made up, and shown once: the database has its hash only."

// password reads a password, or makes one and tells it.
func (a *app) password(cmd *cobra.Command, fromInput bool) (password string, tell func() error, err error) {
	if fromInput {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", nil, exitf(exitUsage, "--password-stdin: no password came in: %w", err)
		}
		return line, func() error { return nil }, nil
	}
	password = rand.Text()
	return password, func() error { _, err := fmt.Fprintln(a.Out, password); return err }, nil
}

func (a *app) userCreate() *cobra.Command {
	var role string
	var fromInput bool
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a user",
		Long:    "Make a user. " + passwordHelp,
		Example: "  pqueue user create ann\n  pqueue user create bob --role read --password-stdin",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, tell, err := a.password(cmd, fromInput)
			if err != nil {
				return err
			}
			return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
				if err := users.Create(ctx, args[0], password, service.Role(role)); err != nil {
					return err
				}
				return tell()
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", string(service.Operator), "read: may look; operate: may change things, too")
	cmd.Flags().BoolVar(&fromInput, "password-stdin", false, "read the password from standard input")
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
	var fromInput bool
	cmd := &cobra.Command{
		Use:   "password NAME",
		Short: "Give a user another password, and end their sessions",
		Long:  "Give a user another password, and end their sessions, within ten seconds. " + passwordHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, tell, err := a.password(cmd, fromInput)
			if err != nil {
				return err
			}
			return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
				there, err := users.SetPassword(ctx, args[0], password)
				if err != nil {
					return err
				}
				if !there {
					return exitf(exitNothing, "there is no user %s", args[0])
				}
				return tell()
			})
		},
	}
	cmd.Flags().BoolVar(&fromInput, "password-stdin", false, "read the password from standard input")
	return cmd
}

func (a *app) userDrop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop NAME",
		Short: "Delete a user, and end their sessions",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUsers(cmd.Context(), func(ctx context.Context, users *service.Users) error {
				there, err := users.Drop(ctx, args[0])
				if err == nil && !there {
					return exitf(exitNothing, "there is no user %s", args[0])
				}
				return err
			})
		},
	}
}
