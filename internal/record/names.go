package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// NameMax is how many characters the name of a job type has at most.
const NameMax = 255

// TypeName is a job type and what it is called.
type TypeName struct {
	JobType int32
	Name    string
}

// namesTogether is how many types one statement of [Store.NameTypes] is about.
const namesTogether = 500

// TypeNames reads the names of these job types. If a type is missing, it has none. It may be asked of a replica.
func (s *Store) TypeNames(ctx context.Context, types []int32) (map[int32]string, error) {
	return s.typeNames(ctx, types, func(query string) string { return query })
}

// NameTypes gives job types their names, if they have none yet: a name that is there stays. It returns the names that
// stayed and are not the given ones. If all are there, it only reads. Sent again, it changes nothing.
func (s *Store) NameTypes(ctx context.Context, given []TypeName) (others []TypeName, err error) {
	for some := range slices.Chunk(given, namesTogether) {
		types := make([]int32, len(some))
		for i, t := range some {
			types[i] = t.JobType
		}
		there, err := s.typeNames(ctx, types, s.FromPrimary)
		if err != nil {
			return others, err
		}
		if lacking := slices.DeleteFunc(slices.Clone(some), func(t TypeName) bool { return there[t.JobType] != "" }); len(lacking) > 0 {
			if err = s.writeNames(ctx, lacking); err == nil {
				there, err = s.typeNames(ctx, types, s.FromPrimary)
			}
			if err != nil {
				return others, err
			}
		}
		for _, t := range some {
			if name := there[t.JobType]; name != "" && name != t.Name {
				others = append(others, TypeName{t.JobType, name})
			}
		}
	}
	return others, nil
}

// RenameType gives a job type another name, if it has the one that is given. False: it has another one, or none. Sent again, it changes
// nothing.
func (s *Store) RenameType(ctx context.Context, jobType int32, from, to string) (renamed bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET name = ? WHERE job_type = %d AND name = ?", s.ByKeyOf(s.Tables.Types), jobType), to, from)
	return n > 0, conn.Wrap("rename a job type", err)
}

func (s *Store) typeNames(ctx context.Context, types []int32, from func(query string) string) (map[int32]string, error) {
	if len(types) == 0 {
		return nil, nil
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *TypeName) []any { return []any{&t.JobType, &t.Name} }),
		from(fmt.Sprintf("SELECT job_type, name FROM %s WHERE job_type IN (%s) AND name IS NOT NULL", s.Tables.Types, conn.Numbers(types))))
	names := make(map[int32]string, len(rows))
	for _, row := range rows {
		names[row.JobType] = row.Name
	}
	return names, conn.Wrap("names of job types", err)
}

// writeNames makes the rows that are missing, and names the rows that have no name.
func (s *Store) writeNames(ctx context.Context, names []TypeName) error {
	var rows, cases []string
	var types []int32
	var args []any
	// As in MakeLeases.
	for _, t := range slices.SortedFunc(slices.Values(names), func(a, b TypeName) int { return cmp.Compare(a.JobType, b.JobType) }) {
		rows, cases = append(rows, fmt.Sprintf("(%d, ?)", t.JobType)), append(cases, fmt.Sprintf("WHEN %d THEN ?", t.JobType))
		types, args = append(types, t.JobType), append(args, t.Name)
	}
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("INSERT INTO %s (job_type, name) VALUES %s%s", s.Tables.Types, strings.Join(rows, ", "), s.UnlessRow("job_type")),
		args...)
	if err == nil {
		_, err = conn.Exec(ctx, s, fmt.Sprintf("%s %s %s SET name = CASE job_type %s END WHERE %s AND name IS NULL",
			s.Updates, s.Tables.Types, s.ByPrimary, strings.Join(cases, " "), s.RowsOf(types)), args...)
	}
	return conn.Wrap("name job types", err)
}
