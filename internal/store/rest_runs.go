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

// restRowMax is how many bytes a row of a rest has at most. A TEXT of MySQL has room for 65,535; if the session is lax, it cuts off what is longer.
const restRowMax = 60_000

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

// restRuns is the JSON of such a row. Which row has a hash depends on nothing but the hash and the number of rows, so that whoever reads one row
// before a turn and another one after it misses nothing.
type restRuns struct {
	Rows int    `json:"rows"`           // of this rest
	Keys string `json:"keys"`           // base64 of hashes
	Jobs string `json:"jobs,omitempty"` // the same; an older version writes none
}

// placed is a hash, and in which row it stands: its place is counted round and round.
type placed struct{ hash, place uint32 }

// placesOf places what handlers have. Equal hashes stand in different rows, one behind the other: all handlers may have one key. If one of them
// ends, it is the last of these that is not written any more.
func placesOf[T any](list []T, hashOf func(T) uint32) []placed {
	places, before := make([]placed, len(list)), make(map[uint32]uint32, len(list))
	for i, one := range list {
		h := hashOf(one)
		places[i] = placed{h, h + before[h]}
		before[h]++
	}
	return places
}

// RestRows is how many rows [Store.WriteRestRuns] needs for what handlers have, and for all that they have later. It is one for some 11,000
// jobs or keys. It depends on where the hashes fall: if all ids are even, two rows do as little as one.
func RestRows(runs Runs) int {
	const room = restRowMax - len(`{"rows":1000000,"keys":"","jobs":""}`) - len("====")
	all := slices.Concat(placesOf(runs.Jobs, HashOfJob), placesOf(runs.Keys, HashOfKey))
	rows := 1 + base64.RawStdEncoding.EncodedLen(4*len(all))/room
	for ; rows < len(all); rows++ {
		in := make([]int, rows)
		for _, p := range all {
			in[p.place%uint32(rows)]++
		}
		if base64.RawStdEncoding.EncodedLen(4*slices.Max(in)) <= room {
			break
		}
	}
	return rows
}

// WriteRestRuns writes what handlers have under a rest. The number of rows is the same at each call for a rest, see [RestRows], and the turn is
// larger than at the call before: a statement that comes late changes nothing.
func (s *Store) WriteRestRuns(ctx context.Context, rest string, rows int, turn int64, runs Runs) error {
	lines, states := make([]Line, rows), make([]any, rows)
	told := restStates(rows, runs)
	for i, name := range restRows(rest, rows) {
		lines[i], states[i] = Line{Lease: name, Term: turn}, told[i]
	}
	return conn.Wrap("tell the runs of a rest", s.writeLines(ctx, lines, states))
}

// restStates is what a number of rows say of what handlers have.
func restStates(rows int, runs Runs) []restRuns {
	jobs, keys := divided(placesOf(runs.Jobs, HashOfJob), rows), divided(placesOf(runs.Keys, HashOfKey), rows)
	states := make([]restRuns, rows)
	for i := range states {
		states[i] = restRuns{rows, keys[i], jobs[i]}
	}
	return states
}

// divided writes hashes for a number of rows.
func divided(places []placed, rows int) []string {
	hashes, texts := make([][]byte, rows), make([]string, rows)
	for _, p := range places {
		i := p.place % uint32(rows)
		hashes[i] = binary.BigEndian.AppendUint32(hashes[i], p.hash)
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
