package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LeasePrefix stands before a job type in the name of its lease.
const LeasePrefix = "job-"

// shardsMost is how many shards a job type may have. The same number stands in share.MostShards.
const shardsMost = 64

// NextTerm is the next term of a lease whose last one was this, at a moment of the database's clock, in milliseconds. It is the
// smallest number that is at least the last term plus one, at least the clock, and of which the shard in the lease's name is the
// remainder after division by 64. So rows, which bear a term and not the name of a lease, tell by it under which shard they were
// marked, even if two shards are taken in one millisecond or by one statement. Terms keep growing even if somebody deletes the lease's
// row, unless that was taken within the last 64 milliseconds.
//
// A lease that is of no job type has no shards. Its next term is the last one plus one, or the clock, whichever is more.
//
// Earlier versions take the last term plus one or the clock, whichever is more; the next term here is larger than theirs, and theirs
// is larger than the one here.
func NextTerm(name string, last, millis int64) int64 {
	if !isOfType(name) {
		return max(last+1, millis)
	}
	shard := shardOf(name)
	return (max(last+1, millis)-shard+shardsMost-1)/shardsMost*shardsMost + shard
}

// nextTerm writes NextTerm for the row of one of these leases. The clock may tell another time whenever it is read, so it stands
// there once.
func (s *Store) nextTerm(names []string) (expression string, args []any) {
	if len(names) == 0 {
		return "term", nil
	}
	if !slices.ContainsFunc(names, isOfType) {
		return fmt.Sprintf("%s(term + 1, %s)", s.Greatest, s.LeaseMillis), nil
	}
	first := shardOf(names[0])
	up, to := strconv.FormatInt(shardsMost-1-first, 10), strconv.FormatInt(first, 10)
	if slices.ContainsFunc(names, func(name string) bool { return shardOf(name) != first }) {
		to = "CASE lock_name"
		for _, name := range slices.Sorted(slices.Values(names)) {
			to, args = fmt.Sprintf("%s WHEN ? THEN %d", to, shardOf(name)), append(args, name)
		}
		to += " ELSE 0 END"
		up, args = fmt.Sprintf("%d - %s", shardsMost-1, to), slices.Concat(args, args)
	}
	return fmt.Sprintf("(%s(term + 1, %s) + %s) %s %d * %[5]d + %[6]s", s.Greatest, s.LeaseMillis, up, s.Quotient, shardsMost, to), args
}

// isOfType reports whether a name is that of a lease of a job type.
func isOfType(name string) bool { return strings.HasPrefix(name, LeasePrefix) }

// shardOf is the shard in the name of the lease of a job type; other names count as shard 0.
func shardOf(name string) int64 {
	_, number, _ := strings.Cut(strings.TrimPrefix(name, LeasePrefix), "/")
	shard, err := strconv.ParseUint(number, 10, 8)
	if err != nil || !isOfType(name) {
		return 0
	}
	return int64(shard % shardsMost)
}
