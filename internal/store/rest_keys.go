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

// A holder that gives its lease away says which keys its handlers still have, in rows of the table of lines under the name of the rest,
// since the rows of its jobs do not always tell: a handler may run on when its job is final, or deleted. A key is written as a hash of
// four bytes. If two keys have the same one, jobs of the one wait for handlers of the other.

// RestKeysTogether is how many keys one row holds: a TEXT of MySQL has room for some more.
const RestKeysTogether = 10_000

// restKeys is the JSON of such a row.
type restKeys struct {
	Rows int    `json:"rows"` // of this rest; the hash of a key says which of them has it
	Keys string `json:"keys"` // base64 of hashes, each as often as handlers have the key
}

// HashOfKey is what stands for a key in [Store.RestKeys].
func HashOfKey(key string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return h.Sum32()
}

// WriteRestKeys writes which keys handlers have under a rest, each key as often as handlers have it. The number of rows is the same at
// each call for a rest, and the turn is larger than at the call before: a statement that comes late changes nothing.
func (s *Store) WriteRestKeys(ctx context.Context, rest string, rows int, turn int64, keys []string) error {
	hashes := make([][]byte, rows)
	for _, key := range keys {
		h := HashOfKey(key)
		i := h % uint32(rows)
		hashes[i] = binary.BigEndian.AppendUint32(hashes[i], h)
	}
	lines := make([]Line, rows)
	states := make([]any, rows)
	for i, name := range restRows(rest, rows) {
		lines[i], states[i] = Line{Lease: name, Term: turn}, restKeys{rows, base64.RawStdEncoding.EncodeToString(hashes[i])}
	}
	return conn.Wrap("tell the keys of a rest", s.writeLines(ctx, lines, states))
}

// restRows are the names of the rows of a rest.
func restRows(rest string, rows int) []string {
	names := []string{rest}
	for i := 1; i < rows; i++ {
		names = append(names, fmt.Sprintf("%s+%d", rest, i))
	}
	return names
}

// RestKeys reads how many handlers have each key under each of these rests, by [HashOfKey]. The numbers may be too large, never too
// small: no handler starts under a rest. If a rest is missing, nobody has told.
func (s *Store) RestKeys(ctx context.Context, rests []string) (map[string]map[uint32]int, error) {
	of, more := map[string]map[uint32]int{}, []string(nil)
	err := s.readRestKeys(ctx, rests, func(name string, hashes []byte, rows int) {
		of[name] = map[uint32]int{}
		more = append(more, restRows(name, rows)[1:]...)
		count(of[name], hashes)
	})
	if err == nil && len(more) > 0 {
		err = s.readRestKeys(ctx, more, func(name string, hashes []byte, _ int) {
			rest, _, _ := strings.Cut(name, "+")
			count(of[rest], hashes)
		})
	}
	return of, conn.Wrap("keys of rests", err)
}

func count(numbers map[uint32]int, hashes []byte) {
	for h := range slices.Chunk(hashes, 4) {
		numbers[binary.BigEndian.Uint32(h)]++
	}
}

// readRestKeys reads rows of rests. A row that a later version has written in another way does not count.
func (s *Store) readRestKeys(ctx context.Context, names []string, take func(name string, hashes []byte, rows int)) error {
	type told struct{ name, state string }
	query, args, err := conn.In(s.FromPrimary(fmt.Sprintf("SELECT lock_name, state FROM %s WHERE lock_name IN (?)", s.Tables.Lines)), names)
	if err != nil {
		return err
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *told) []any { return []any{&t.name, &t.state} }), query, args...)
	for _, r := range rows {
		var row restKeys
		if json.Unmarshal([]byte(r.state), &row) != nil {
			continue
		}
		if hashes, err := base64.RawStdEncoding.DecodeString(row.Keys); err == nil && len(hashes)%4 == 0 && row.Rows > 0 {
			take(r.name, hashes, row.Rows)
		}
	}
	return err
}

// DropRestKeys deletes what was told about the keys of a rest.
func (s *Store) DropRestKeys(ctx context.Context, rest string, rows int) error {
	query, args, err := conn.In(fmt.Sprintf("%s FROM %s WHERE lock_name IN (?)", s.Deletes, s.Tables.Lines), restRows(rest, rows))
	if err == nil {
		_, err = conn.Exec(ctx, s, query, args...)
	}
	return conn.Wrap("drop the keys of a rest", err)
}
