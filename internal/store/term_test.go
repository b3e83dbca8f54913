package store

import "testing"

func TestTwoShardsNeverHaveOneTerm(t *testing.T) {
	for _, name := range []string{"job-7", "job--7", "job-7/0", "job-7/1", "job-7/63"} {
		shard := map[string]int64{"job-7/1": 1, "job-7/63": 63}[name]
		for last := range int64(200) {
			for millis := range int64(200) {
				least := max(last+1, millis)
				if term := NextTerm(name, last, millis); term < least || term >= least+64 || term%64 != shard {
					t.Fatalf("%s after %d, at %d: %d", name, last, millis, term)
				}
			}
		}
	}
}

// The names of leases that are no job type's may contain anything.
func TestOnlyTheLeaseOfAShardHasAShard(t *testing.T) {
	for name, want := range map[string]int64{"job-7": 0, "job-7/2": 2, "reports/3": 0, "want-7/2": 0, "rest-7/2-64": 0, "job-7/x": 0, "job-7/-1": 0, "": 0} {
		if got := shardOf(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}
