package conn

import (
	"context"
	"database/sql"
	"testing"
)

// resolver has the methods of bxcodec/dbresolver's DB that matter here: its reads go to a replica.
type resolver struct {
	primaries []*sql.DB
	replica   *sql.DB
}

func (r *resolver) PrimaryDBs() []*sql.DB { return r.primaries }

func (r *resolver) Exec(query string, args ...any) (sql.Result, error) {
	return r.primaries[0].Exec(query, args...)
}

func (r *resolver) Query(query string, args ...any) (*sql.Rows, error) {
	return r.replica.Query(query, args...)
}

func (r *resolver) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.primaries[0].ExecContext(ctx, query, args...)
}

func (r *resolver) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.replica.QueryContext(ctx, query, args...)
}

func TestOfAHandleThatReadsFromReplicasThePrimaryIsUsed(t *testing.T) {
	primary, replica := &server{}, &server{}
	r := &resolver{[]*sql.DB{sql.OpenDB(primary)}, sql.OpenDB(replica)}
	defer r.replica.Close()
	defer r.primaries[0].Close()
	if Primary(r) != DB(r.primaries[0]) {
		t.Error("the handle itself is used")
	}
	through := senderOn(poolOf(t)).Through(r)
	if _, err := Read(t.Context(), through, Column[uint64], "SELECT id"); err != nil {
		t.Error(err)
	}
	if primary.opened.Load() != 1 || replica.opened.Load() != 0 {
		t.Errorf("%d connections to the primary, %d to the replica", primary.opened.Load(), replica.opened.Load())
	}
	for _, same := range []DB{poolOf(t), &resolver{}, (*resolver)(nil)} {
		if Primary(same) != same {
			t.Errorf("%T is not used itself", same)
		}
	}
}
