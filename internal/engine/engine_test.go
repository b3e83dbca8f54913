package engine

import (
	"slices"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

// uncomparable is a handle that cannot be a map's key.
type uncomparable struct {
	queue_job.DB
	_ []string
}

func TestConfigurationsAreGroupedByTheirDatabase(t *testing.T) {
	a, b, odd := &struct{ queue_job.DB }{}, &struct{ queue_job.DB }{}, uncomparable{}
	var configs []queue_job.Config
	for i, db := range []queue_job.DB{a, b, a, odd, odd} {
		configs = append(configs, queue_job.Config{JobType: int32(i), Db: db})
	}
	var got [][]int32
	for _, group := range ByDatabase(configs) {
		var types []int32
		for _, cfg := range group {
			types = append(types, cfg.JobType)
		}
		got = append(got, types)
	}
	want := [][]int32{{0, 2}, {1}, {3}, {4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%v, want %v", got, want)
	}
}
