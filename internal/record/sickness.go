package record

import (
	"context"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Sign is something in the database that keeps old versions of rows, or that says how many there are.
type Sign struct {
	Kind      string
	ID        string // of a session, a prepared transaction or a replication slot
	User      string
	Place     string // where the session comes from
	Seconds   int64  // how long it has been so; of dead rows, since when the table was vacuumed, and -1 if it never was
	State     string // of a session: idle … or active; of a slot: active, or nothing; of dead rows: off, if nobody takes them away
	Statement string // what the session runs, or ran last. Its beginning
	Amount    int64  // of history and dead rows: how many; else how many transactions there were since then, if the database says so
	More      int64  // of a slot: bytes of WAL that it keeps; of dead rows: how many live ones there are
}

// The kinds of signs.
const (
	SignSession  = "session"  // has a transaction open
	SignPrepared = "prepared" // a prepared transaction that nobody has ended
	SignSlot     = "slot"     // a replication slot
	SignStandby  = "standby"  // a standby has a query open, and asks for its rows to be kept
	SignHistory  = "history"  // transactions that InnoDB has not purged
	SignDead     = "dead"     // dead rows of the table of jobs
	SignHidden   = "hidden"   // sessions that the user may not look into
	signListed   = "listed"   // how many of the things are switched on that the list of sessions takes, and of how many
)

// Sickness is what there is to say of what a database cannot clean up.
type Sickness struct {
	Signs []Sign
	Table string // the table of jobs
	Lacks string // the privilege that the user lacks to know more; empty: none
	Err   error  // why nothing is known, unless a privilege is missing
}

// Sickness reads who keeps old versions of rows: the three sessions with the oldest snapshots, prepared transactions, replication slots; and how
// many versions there are. It reads lists of the server, and of no table. What the user may not see is a result. It returns nil if the
// database does not say such things.
func (s *Store) Sickness(ctx context.Context) *Sickness {
	if s.Dialect.Sickness == "" {
		return nil
	}
	sick := &Sickness{Table: s.Tables.Jobs}
	sick.Signs, sick.Err = s.signs(ctx, s.Dialect.Sickness)
	if isUnreadable(sick.Err) && s.SicknessElsewhere != "" {
		if signs, err := s.signs(ctx, s.SicknessElsewhere); err == nil && areListed(signs) { // else the first error says more
			sick.Signs, sick.Err = signs[:len(signs)-1], nil
		}
	}
	switch err := sick.Err; {
	case err == nil:
		for _, g := range sick.Signs {
			if g.Kind == SignHidden {
				sick.Lacks = "pg_read_all_stats"
			}
		}
	case strings.Contains(err.Error(), "Error 1227 "):
		sick.Lacks, sick.Err = "PROCESS", nil
	case isUnreadable(err):
		sick.Err = fmt.Errorf("what the database cannot clean up is not known now: MySQL lists no sessions while one of them runs a statement with a "+
			"character of four bytes, such as an emoji; look again when it has ended, or let the user read performance_schema: %w", err)
	default:
		sick.Err = fmt.Errorf("what the database cannot clean up: %w", err)
	}
	return sick
}

// signs reads what there is in lists of the server.
func (s *Store) signs(ctx context.Context, query string) (signs []Sign, err error) {
	err = conn.MayFail(ctx, s, func() (err error) {
		signs, err = conn.Read(ctx, s, conn.Each(func(g *Sign) []any {
			return []any{conn.Text(&g.Kind), conn.Text(&g.ID), conn.Text(&g.User), conn.Text(&g.Place), conn.Whole(&g.Seconds),
				conn.Text(&g.State), conn.Text(&g.Statement), conn.Whole(&g.Amount), conn.Whole(&g.More)}
		}), query)
		return err
	})
	return signs, err
}

// isUnreadable reports whether MySQL cannot show a list in its character set: then, all of the list is an error.
func isUnreadable(err error) bool { return err != nil && strings.Contains(err.Error(), "Error 3854 ") }

// areListed reports whether the server keeps the list that the signs were read from: at the end, they say so.
func areListed(signs []Sign) bool {
	last := len(signs) - 1
	return last >= 0 && signs[last].Kind == signListed && signs[last].Amount == signs[last].More
}
