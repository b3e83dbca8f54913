package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// CountLate counts, by type, the pending rows of these types that fell due before a second of unix time. It goes along the due index, and
// past the rows that fall due later without reading them. A row without a start time fell due when it was created; that stands in the row
// alone. So it counts most of each of six kinds of rows, and more says that there may be others. Rows whose priority is none of
// the [store.Priorities] do not count: there are none of a type that an instance runs. Nor do rows that bear one of these terms of their type,
// under which jobs run: they have started, however long ago they fell due.
func (s *Store) CountLate(
	ctx context.Context, types []int32, before int64, most int, running map[int32][]int64,
) (late map[int32]int64, more bool, err error) {
	late = map[int32]int64{}
	if len(types) == 0 {
		return late, false, nil
	}
	var parts []string
	waits := waitsUnless(running)
	for _, status := range []string{"job_status IN (" + conn.PendingStatuses + ")", "job_status IS NULL"} {
		for _, start := range []string{
			fmt.Sprintf("start_time > 0 AND start_time < %d", before),
			fmt.Sprintf("start_time = 0 AND create_time < %d", before),
			fmt.Sprintf("start_time IS NULL AND create_time < %d", before),
		} {
			parts = append(parts,
				fmt.Sprintf("SELECT * FROM (SELECT %d AS part, job_type FROM %s %s WHERE job_type IN (%s) AND %s AND priority IN (%s) AND %s%s LIMIT %d) AS part",
					len(parts), s.Tables.Jobs, s.ByDue, conn.Numbers(types), status, conn.Numbers(store.Priorities), start, waits, most))
		}
	}
	type counted struct {
		part    int
		jobType int32
		rows    int64
	}
	counts, err := conn.Read(ctx, s, conn.Each(func(c *counted) []any { return []any{&c.part, &c.jobType, &c.rows} }),
		fmt.Sprintf("SELECT part, job_type, COUNT(*) FROM (%s) AS late GROUP BY part, job_type", strings.Join(parts, " UNION ALL ")))
	ofPart := make([]int64, len(parts))
	for _, c := range counts {
		late[c.jobType] += c.rows
		ofPart[c.part] += c.rows
		more = more || ofPart[c.part] == int64(most)
	}
	return late, more, conn.Wrap("count late jobs", err)
}

// waitsUnless is a condition that rows with one of these terms of their type do not meet. It is empty if nothing runs: then the index may
// have all that is asked for.
func waitsUnless(running map[int32][]int64) string {
	if len(running) == 0 {
		return ""
	}
	run := make([]string, 0, len(running))
	for _, jobType := range slices.Sorted(maps.Keys(running)) {
		run = append(run, fmt.Sprintf("job_type = %d AND term IN (%s)", jobType, conn.Numbers(running[jobType])))
	}
	return fmt.Sprintf(" AND (term = 0 OR NOT (%s))", strings.Join(run, " OR "))
}
