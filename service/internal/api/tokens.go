package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// tokenView is a token as the API shows it. The text, which has the secret, is in the answer to its making only.
type tokenView struct {
	ID      string   `json:"id"`
	Token   string   `json:"token,omitempty"`
	Note    string   `json:"note,omitempty"`
	Scopes  []string `json:"scopes"`
	Topics  []string `json:"topics"`
	Expires string   `json:"expires,omitempty"`
	Created string   `json:"created"`
}

func viewOfToken(t tables.Token, text string) tokenView {
	return tokenView{t.ID, text, t.Note, strings.Fields(t.Scopes), strings.Fields(t.Topics), stamp(t.Expires), stamp(t.Created)}
}

func (a *api) listTokens(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	rows, err := a.Tables.Tokens(ctx)
	if err != nil {
		return err
	}
	list := make([]tokenView, len(rows))
	for i, row := range rows {
		list[i] = viewOfToken(row, "")
	}
	return c.say(http.StatusOK, struct {
		Tokens []tokenView `json:"tokens"`
	}{list})
}

func (a *api) addToken(c *call) error {
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return err
	}
	defer release()
	var given struct {
		Note    string          `json:"note"`
		Scopes  []tokens.Scope  `json:"scopes"`
		Topics  []string        `json:"topics"`
		Expires json.RawMessage `json:"expires"`
	}
	if err := decode(text, &given); err != nil {
		return err
	}
	var expires time.Time
	if given.Expires != nil {
		if expires, err = task.ParseTimeJSON(given.Expires); err != nil {
			return problem.OfField("/expires", "%v", err)
		}
		if expires.Unix() == 0 { // in the table, that is never
			return problem.OfField("/expires", "it is 1970; use a later time, or leave it out for a token that does not expire")
		}
	}
	if err := checkWords("/note", given.Note); err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	now, err := a.now(ctx)
	if err != nil {
		return err
	}
	row, secret, err := tokens.New(given.Note, given.Scopes, given.Topics, expires, now)
	if err != nil {
		return problem.OfField("", "%v", err)
	}
	if err := a.Tables.AddToken(ctx, row); err != nil {
		return err
	}
	a.learn(ctx)
	return c.say(http.StatusCreated, viewOfToken(row, secret))
}

func (a *api) dropToken(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	id, there := c.PathValue("id"), false
	if task.CanBeKey(id) { // else the database may not even take it to look for
		var err error
		if there, err = a.Tables.DropToken(ctx, id); err != nil {
			return err
		}
	}
	if !there {
		return problem.New(problem.NotFound, "there is no such token")
	}
	a.learn(ctx)
	c.WriteHeader(http.StatusNoContent)
	return nil
}
