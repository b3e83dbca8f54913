package tests

import (
	"fmt"
	"maps"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestLateJobsAreCountedHoweverTheyWereAdded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const moment = 1_000_000
		add := func(jobType int32, status, start string, created, priority int) {
			t.Helper()
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority) VALUES ('{}', %d, %s, %s, %d, %d, %d)",
				jobType, status, start, created, created, priority))
		}
		for _, status := range []string{"0", "3", "4", "NULL"} { // type 1: late
			add(1, status, "0", moment-1, 0)
			add(1, status, "NULL", moment-1, -1)
			add(1, status, fmt.Sprint(moment-1), 1, 2)
		}
		for _, status := range []string{"0", "NULL"} { // type 2: not late
			add(2, status, "0", moment, 0)
			add(2, status, "NULL", moment, 0)
			add(2, status, fmt.Sprint(moment), 1, 1)
		}
		for _, status := range []string{"1", "2", "5"} { // type 3: over
			add(3, status, "0", 1, 0)
			add(3, status, "1", 1, 0)
		}
		add(4, "0", "0", 1, 0) // nobody asks for it
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		for most, want := range map[int]struct {
			late int64
			more bool
		}{100: {12, false}, 4: {12, false}, 2: {9, true}} {
			late, more, err := st.CountLate(t.Context(), []int32{1, 2, 3}, moment, most, nil)
			if err != nil || !maps.Equal(late, map[int32]int64{1: want.late}) || more != want.more {
				t.Errorf("at most %d of each kind: %v, %t, %v; want %d, %t", most, late, more, err, want.late, want.more)
			}
		}
		execute(t, d.DB, "UPDATE async_job_tab SET term = 4 WHERE job_type IN (1, 2) AND job_status = 0")
		execute(t, d.DB, "UPDATE async_job_tab SET term = 5 WHERE job_type = 1 AND job_status = 4")
		for _, c := range []struct {
			running map[int32][]int64
			late    int64
		}{{map[int32][]int64{1: {4}}, 9}, {map[int32][]int64{1: {5, 4}, 2: {4}}, 6}, {map[int32][]int64{1: {6}, 2: {4}}, 12}} {
			late, more, err := st.CountLate(t.Context(), []int32{1, 2, 3}, moment, 100, c.running)
			if err != nil || late[1] != c.late || more {
				t.Errorf("while jobs run under the terms %v: %v, %t, %v; want %d", c.running, late, more, err, c.late)
			}
		}
		if late, more, err := st.CountLate(t.Context(), nil, moment, 9, nil); len(late) > 0 || more || err != nil {
			t.Errorf("of no types: %v, %t, %v", late, more, err)
		}
	})
}
