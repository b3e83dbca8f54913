package tests

import (
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A hundred thousand jobs for nine o'clock are a hundred pages, and each begins where the one before ended.
func TestAPageBehindManyRowsOfOneSecondTakesNoLongerThanTheFirst(t *testing.T) {
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const second, page, rows = 1000, 1000, 128_000
		migrate(t, d)
		addRows(t, d.DB, page, func(int) row { return row{at: second} })
		for n := page; n < rows; n *= 2 {
			execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) SELECT params, job_type, job_status, start_time, create_time, update_time FROM async_job_tab")
		}
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		behind := func(id uint64) (rows []store.Row, took time.Duration) {
			place := store.Place{Lane: store.Lane{Start: store.AtATime}, StartTime: second, ID: id}
			began := time.Now()
			pages, err := st.Page(t.Context(), 1, store.Shard{}, []store.Place{place}, 3, page)
			if err != nil {
				t.Fatal(err)
			}
			return pages[0], time.Since(began)
		}
		most := uint64(number(t, d.DB, "SELECT MAX(id) FROM async_job_tab"))
		places := []uint64{0, most - 2*page}
		took := make([][]time.Duration, len(places))
		for range 25 { // by turns, and the shortest counts: what else the machine does only makes one longer
			for i, id := range places {
				rows, d := behind(id)
				if len(rows) != page || rows[0].ID <= id || !slices.IsSortedFunc(rows, func(a, b store.Row) int { return int(a.ID) - int(b.ID) }) {
					t.Fatalf("%d rows behind %d", len(rows), id)
				}
				took[i] = append(took[i], d)
			}
		}
		first, last := slices.Min(took[0]), slices.Min(took[1])
		t.Logf("the first page takes %v, one behind %d rows %v", first, rows, last)
		if last > 3*first {
			t.Errorf("the first page takes %v, one behind %d rows %v", first, rows, last)
		}
	})
}

// A new holder waits for this look before it loads anything. SQLite went through ten million finished rows for two seconds.
func TestLookingForPrioritiesThatAreNonePassesFinishedRowsBy(t *testing.T) {
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const few, many = 1000, 256_000
		const columns = "params, job_type, job_status, start_time, create_time, update_time"
		if err := schema.Migrate(t.Context(), d.DB, schema.WithTablePrefix("few_")); err != nil {
			t.Fatal(err)
		}
		addRows(t, d.DB, few, func(int) row { return row{} })
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		execute(t, d.DB, "INSERT INTO few_async_job_tab ("+columns+") SELECT "+columns+" FROM async_job_tab")
		for n := few; n < many; n *= 2 {
			execute(t, d.DB, "INSERT INTO async_job_tab ("+columns+") SELECT "+columns+" FROM async_job_tab")
		}
		prefixes := []string{"few_", ""}
		took := make([][]time.Duration, len(prefixes))
		for range 25 { // by turns, and the shortest counts, as above
			for i, prefix := range prefixes {
				st, err := record.Open(t.Context(), d.DB, prefix)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := st.ClampPriorities(t.Context(), []int32{1}); err != nil {
					t.Fatal(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
		beside, besideMany := slices.Min(took[0]), slices.Min(took[1])
		t.Logf("a look takes %v beside %d finished rows, %v beside %d", beside, few, besideMany, many)
		if besideMany > 5*beside+5*time.Millisecond {
			t.Errorf("a look takes %v beside %d finished rows, %v beside %d", beside, few, besideMany, many)
		}
	})
}
