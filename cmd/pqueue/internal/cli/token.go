package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/service"
)

func (a *app) tokenCommand() *cobra.Command {
	return noun("token", "Who may call the API of pqueue serve", a.tokenCreate(), a.tokenList(), a.tokenRevoke())
}

// withTokens opens the tokens for as long as an act takes.
func (a *app) withTokens(ctx context.Context, act func(context.Context, *service.Tokens) error) error {
	a.useOwnFile()
	return a.with(ctx, func(db *database) error {
		return a.within(ctx, func(ctx context.Context) error {
			tokens, err := service.OpenTokens(ctx, db.DB, a.prefix)
			if err != nil {
				return err
			}
			return act(ctx, tokens)
		})
	})
}

func (a *app) tokenCreate() *cobra.Command {
	var t service.Token
	var valid string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and show it once",
		Long: `Make a token, and show it once: the database has its hash only. A running service takes it within a second. pqueue serve makes the first
token itself. Whether a token has expired is by the clock of the service that checks it.

Scopes: tasks:add, tasks:read, bodies:read, tasks:manage, topics:manage, admin; admin may do everything.`,
		Example: "  pqueue token create --scope tasks:add,tasks:read --topic 'shop.*' --note 'the shop'\n  pqueue token create --scope admin --valid 8h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if valid != "" {
				span, err := words.ParseSpan(valid)
				if err != nil || span <= 0 {
					return exitf(exitUsage, "--valid %s: use a duration such as 8h or 90d", valid)
				}
				t.Expires = time.Now().Add(span)
			}
			a.useOwnFile()
			if err := a.makeTables(cmd.Context()); err != nil { // this may be the first that anybody does with the database
				return err
			}
			return a.withTokens(cmd.Context(), func(ctx context.Context, tokens *service.Tokens) error {
				id, text, err := tokens.Create(ctx, t)
				if err != nil {
					return err
				}
				a.sayf("token %s:", id)
				_, err = fmt.Fprintln(a.Out, text)
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&t.Scopes, "scope", nil, "what it may do")
	cmd.Flags().StringSliceVar(&t.Topics, "topic", []string{"*"}, "with which topics; * stands for any characters")
	cmd.Flags().StringVar(&t.Note, "note", "", "what it is for")
	cmd.Flags().StringVar(&valid, "valid", "", "when the token expires, such as 8h or 90d from now by this machine's clock (default: never)")
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTokens(cmd.Context(), func(ctx context.Context, tokens *service.Tokens) error {
				there, err := tokens.List(ctx)
				if err != nil {
					return err
				}
				_, err = list(a, all(there), "tokens", []column[service.Token]{
					{"id", func(t service.Token) string { return t.ID }},
					{"scopes", func(t service.Token) string { return strings.Join(t.Scopes, ",") }},
					{"topics", func(t service.Token) string { return strings.Join(t.Topics, ",") }},
					{"expires", func(t service.Token) string { return clock(t.Expires) }},
					{"created", func(t service.Token) string { return clock(t.Created) }},
					{"note", func(t service.Token) string { return t.Note }},
				}, func(t service.Token) any {
					return map[string]any{"id": t.ID, "scopes": t.Scopes,
						"topics": t.Topics, "expires": stamp(t.Expires), "created": stamp(t.Created), "note": t.Note}
				})
				return err
			})
		},
	}
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke <id>",
		Short: "Delete a token: within a second, nobody can call with it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTokens(cmd.Context(), func(ctx context.Context, tokens *service.Tokens) error {
				there, err := tokens.Revoke(ctx, args[0])
				if err == nil && !there {
					return exitf(exitNothing, "there is no token %s", args[0])
				}
				return err
			})
		},
	}
}
