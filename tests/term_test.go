package tests

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Rows bear a term and no lease's name, so the term alone says under which shard they were marked: of one layout or several, taken by one
// statement or in one millisecond.
func TestNoTwoLeasesOfATypeEverBearOneTerm(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		whole := share.TypeLease(7) // open with none of the others; a later layout begins above all terms
		all := append([]string{whole}, share.Layout(share.MostShards).Leases(7)...)
		if err := st.MakeLeases(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		last, bears := map[string]int64{}, map[int64]string{}
		take := func(names []string) {
			owner := fmt.Sprint("owner ", rand.Uint64())
			terms, err := st.TakeLeases(t.Context(), names, owner, int64(share.Undivided), 60, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(terms) != len(names) {
				t.Fatalf("%d of %d leases were taken", len(terms), len(names))
			}
			_, now, err := st.Newest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for name, term := range terms {
				if other, taken := bears[term]; taken && other != name && other != whole && name != whole {
					t.Errorf("%s and %s both had the term %d", other, name, term)
				}
				if least, most := last[name]+1, max(last[name]+1, int64(now*1000)+1)+share.MostShards; term < least || term > most {
					t.Errorf("%s has the term %d, want %d to %d", name, term, least, most)
				}
				last[name], bears[term] = term, name
			}
			if err := st.AbandonLeases(t.Context(), names, owner); err != nil {
				t.Fatal(err)
			}
		}
		take(all)
		for range 30 {
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			take(all[:1+rand.IntN(len(all))])
		}
	})
}
