package store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// A holder that gives its lease away says which jobs its handlers still run, and which keys they have, in rows of the table of lines under
// the name of the rest. The rows of the jobs do not always tell: a handler may run on when its job is final, deleted, or to run again, since
// somebody has cancelled and retried it. A key is written as a hash of four bytes, and a job as the last four bytes of its id. If two have
// the same ones, the one waits for a handler of the other.

// RestRunsTogether is how many runs one row holds: a TEXT of MySQL has room for some more.
const RestRunsTogether = 5_000

// Runs are what handlers have under a lease.
type Runs struct {
	Jobs []uint64
	Keys []string // each as often as handlers have it
}

// RestRuns are the [Runs] under a rest, as the table has them: how many handlers have a job, by [HashOfJob], and a key, by [HashOfKey].
type RestRuns struct{ Jobs, Keys map[uint32]int }

// HashOfJob is what stands for a job in [RestRuns].
func HashOfJob(id uint64) uint32 { return uint32(id) }

// HashOfKey is what stands for a key in [RestRuns].
func HashOfKey(key string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return h.Sum32()
}

// restRuns is the JSON of such a row. A hash says which of the rows has it.
type restRuns struct {
	Rows int    `json:"rows"`           // of this rest
	Keys string `json:"keys"`           // base64 of hashes
	Jobs string `json:"jobs,omitempty"` // the same; an older version writes none
}

// WriteRestRuns writes what handlers have under a rest. The number of rows is the same at each call for a rest, and the turn is larger than
// at the call before: a statement that comes late changes nothing.
func (s *Store) WriteRestRuns(ctx context.Context, rest string, rows int, turn int64, runs Runs) error {
	jobs, keys := divided(runs.Jobs, HashOfJob, rows), divided(runs.Keys, HashOfKey, rows)
	lines := make([]Line, rows)
	states := make([]any, rows)
	for i, name := range restRows(rest, rows) {
		lines[i], states[i] = Line{Lease: name, Term: turn}, restRuns{rows, keys[i], jobs[i]}
	}
	return conn.Wrap("tell the runs of a rest", s.writeLines(ctx, lines, states))
}

// divided writes hashes for a number of rows.
func divided[T any](list []T, hashOf func(T) uint32, rows int) []string {
	hashes, texts := make([][]byte, rows), make([]string, rows)
	for _, one := range list {
		h := hashOf(one)
		i := h % uint32(rows)
		hashes[i] = binary.BigEndian.AppendUint32(hashes[i], h)
	}
	for i := range hashes {
		texts[i] = base64.RawStdEncoding.EncodeToString(hashes[i])
	}
	return texts
}

// restRows are the names of the rows of a rest.
func restRows(rest string, rows int) []string {
	names := []string{rest}
	for i := 1; i < rows; i++ {
		names = append(names, fmt.Sprintf("%s+%d", rest, i))
	}
	return names
}

// RestRuns reads what handlers have under each of these rests. It may be too much, never too little: no handler starts under a rest. If a
// rest is missing, nobody has told.
func (s *Store) RestRuns(ctx context.Context, rests []string) (map[string]RestRuns, error) {
	of, more := map[string]RestRuns{}, []string(nil)
	err := s.readRestRuns(ctx, rests, func(name string, row restRuns) {
		of[name] = RestRuns{map[uint32]int{}, map[uint32]int{}}
		more = append(more, restRows(name, row.Rows)[1:]...)
		of[name].add(row)
	})
	if err == nil && len(more) > 0 {
		err = s.readRestRuns(ctx, more, func(name string, row restRuns) {
			rest, _, _ := strings.Cut(name, "+")
			of[rest].add(row)
		})
	}
	return of, conn.Wrap("runs of rests", err)
}

// add adds what a row has. What a later version has written in another way does not count.
func (r RestRuns) add(row restRuns) {
	count(r.Jobs, row.Jobs)
	count(r.Keys, row.Keys)
}

func count(numbers map[uint32]int, text string) {
	hashes, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(hashes)%4 != 0 {
		return
	}
	for h := range slices.Chunk(hashes, 4) {
		numbers[binary.BigEndian.Uint32(h)]++
	}
}

// readRestRuns reads rows of rests. A row that a later version has written in another way does not count.
func (s *Store) readRestRuns(ctx context.Context, names []string, take func(name string, row restRuns)) error {
	type told struct{ name, state string }
	query, args, err := conn.In(s.FromPrimary(fmt.Sprintf("SELECT lock_name, state FROM %s WHERE lock_name IN (?)", s.Tables.Lines)), names)
	if err != nil {
		return err
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any { return []any{&t.name, &t.state} }), query, args...)
	for _, r := range rows {
		var row restRuns
		if json.Unmarshal([]byte(r.state), &row) == nil && row.Rows > 0 {
			take(r.name, row)
		}
	}
	return err
}

// DropRestRuns deletes what was told about a rest.
func (s *Store) DropRestRuns(ctx context.Context, rest string, rows int) error {
	query, args, err := conn.In(fmt.Sprintf("%s FROM %s WHERE lock_name IN (?)", s.Deletes, s.Tables.Lines), restRows(rest, rows))
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("drop the runs of a rest", err)
}
