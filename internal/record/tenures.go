package record

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Tenure is the time in which a holder had a lease.
type Tenure struct {
	Lease string
	Term  int64
	Owner string // as in locked_by
	Taken int64  // unix milliseconds
	Ended int64  // unix milliseconds; 0: it has not
	How   string // it ended; empty: it has not
}

// The ways in which a tenure ends. Whoever has it says so, unless it expired: then a later holder says so, and the earlier one, if it
// comes back, may know better.
const (
	Released = "released" // it was given back, and nobody had asked for it
	Asked    = "asked"    // it was given to an instance that asked for it
	Lost     = "lost"     // its holder came to know that somebody else may have it
	Expired  = "expired"  // its holder has not said that it ended

	// Buried: another instance has declared this one dead, because it had heard no beat of it. Each burial has a row of its own: its lease and term
	// are those of the dead instance's life, its holder is the instance that buried it, and it lasts from the last beat to the burial.
	Buried = "buried"
)

// tenuresTogether is how many tenures one statement is about.
const tenuresTogether = 100

// WriteTenures writes tenures, each of another lease or term. A tenure that has ended stays so, unless a later holder said that it has
// expired; so a statement may be sent again, or late.
func (s *Store) WriteTenures(ctx context.Context, tenures []Tenure) error {
	orNull := func(known bool, v any) any {
		if known {
			return v
		}
		return nil
	}
	for some := range slices.Chunk(tenures, tenuresTogether) {
		args := make([]any, 0, 6*len(some))
		for _, t := range some {
			args = append(args, t.Lease, t.Term, t.Owner, t.Taken, orNull(t.Ended > 0, t.Ended), orNull(t.How != "", t.How))
		}
		if _, err := conn.Exec(ctx, s, fmt.Sprintf("INSERT INTO %s (lock_name, term, holder, taken_at, ended_at, how) VALUES (?, ?, ?, ?, ?, ?)%s%s",
			s.Tables.Tenures, strings.Repeat(", (?, ?, ?, ?, ?, ?)", len(some)-1), s.IfKnown), args...); err != nil {
			return conn.Wrap("tell who had the leases", err)
		}
	}
	return nil
}

// ExpireTenures writes, of each lease, that the terms before this one have expired when it was taken, unless their holders have said how
// they ended. Sent again, or late, it changes nothing.
func (s *Store) ExpireTenures(ctx context.Context, taken []Tenure) error {
	for some := range slices.Chunk(taken, tenuresTogether) {
		var moments, earlier strings.Builder
		args, terms := make([]any, 0, 4*len(some)), make([]any, 0, 2*len(some))
		for i, t := range some {
			moments.WriteString(" WHEN ? THEN CAST(? AS " + s.BigInt + ")")
			args = append(args, t.Lease, t.Taken)
			if i > 0 {
				earlier.WriteString(" OR ")
			}
			earlier.WriteString("lock_name = ? AND term < ?")
			terms = append(terms, t.Lease, t.Term)
		}
		if _, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s SET ended_at = CASE lock_name%s END, how = '%s' WHERE how IS NULL AND (%s)",
			s.Updates, s.Tables.Tenures, moments.String(), Expired, earlier.String()), append(args, terms...)...); err != nil {
			return conn.Wrap("tell which leases have expired", err)
		}
	}
	return nil
}

// TenureFilter says which tenures [Store.Tenures] reads.
type TenureFilter struct {
	Types        []int32  // their leases; none: all leases …
	Buried       []string // … but if instances are named, their burials
	From, Before int64    // unix milliseconds: tenures of which some part lies in this span
	Most         int      // the last of them
}

// Tenures reads tenures, the latest first. It may be asked of a replica.
func (s *Store) Tenures(ctx context.Context, f TenureFilter) ([]Tenure, error) {
	args := s.Arguments()
	condition := fmt.Sprintf("taken_at < %s AND (ended_at IS NULL OR ended_at >= %s)", args.Number(f.Before), args.Number(f.From))
	switch {
	case len(f.Buried) > 0:
		var names []string
		for _, instance := range f.Buried {
			names = append(names, args.Value("live-"+instance))
		}
		condition += " AND lock_name IN (" + strings.Join(names, ", ") + ")"
	case len(f.Types) == 0:
		condition += " AND lock_name LIKE 'job-%'"
	default:
		var names []string
		for _, t := range f.Types {
			name := fmt.Sprintf("job-%d", t)
			names = append(names, fmt.Sprintf("lock_name = %s OR lock_name LIKE %s", args.Value(name), args.Value(name+"/%")))
		}
		condition += " AND (" + strings.Join(names, " OR ") + ")"
	}
	list, err := conn.Read(ctx, s, conn.Each(func(t *Tenure) []any {
		return []any{&t.Lease, &t.Term, &t.Owner, &t.Taken, conn.Whole(&t.Ended), &t.How}
	}), fmt.Sprintf("SELECT lock_name, term, holder, taken_at, ended_at, COALESCE(how, '') "+
		"FROM %s "+
		"WHERE %s "+
		"ORDER BY taken_at DESC, lock_name, term DESC LIMIT %d",
		s.Tables.Tenures, condition, f.Most), args.List...)
	return list, conn.Wrap("tenures", err)
}

// DropTenures deletes the tenures that ended before a moment, in unix milliseconds.
func (s *Store) DropTenures(ctx context.Context, before int64) error {
	args := s.Arguments()
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s FROM %s WHERE ended_at < %s", s.Deletes, s.Tables.Tenures, args.Number(before)), args.List...)
	return conn.Wrap("drop old tenures", err)
}
