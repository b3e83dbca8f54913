package main

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// memory: more jobs wait in the table than the library takes into memory, and the one worker is busy.
var memory = workload{
	name: "memory",
	says: "100,000 jobs wait in the table, 50,000 of them in memory (Config.QueueMaxSize); what the heap holds more than before the start, for " +
		"each of the 50,000",
	columns: []string{bytesPerJob, heapMore},
	kinds:   []kind{oursKind},
	run:     func(ctx context.Context, r *round) error { return r.memory(ctx) },
}

const (
	bytesPerJob = "bytes per job in memory"
	heapMore    = "heap more than before, MB"

	queuedMost = 50_000 // the default of Config.QueueMaxSize
)

func (r *round) memory(ctx context.Context) error {
	if err := r.addNow(ctx, 2*queuedMost); err != nil {
		return err
	}
	before := heapInUse()
	release := make(chan struct{})
	stop, _, err := r.start(ctx, staff{workers: 1, handle: func(context.Context, task) error {
		<-release
		return nil // what becomes of the rest is of no interest
	}})
	if err != nil {
		return err
	}
	full, err := r.heapAtRest(ctx)
	close(release)
	r.figures[heapMore] = float64(full-before) / 1e6
	r.figures[bytesPerJob] = float64(full-before) / queuedMost
	return errors.Join(err, stop())
}

// heapAtRest waits until the heap has stopped to grow.
func (r *round) heapAtRest(ctx context.Context) (bytes int64, err error) {
	const rest = 2 * time.Second
	for last := int64(0); ; last = bytes {
		if err := wait(ctx, rest); err != nil {
			return 0, err
		}
		if bytes = heapInUse(); bytes-last < queuedMost { // less than a byte for each
			return bytes, nil
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first one found in pools goes with the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
