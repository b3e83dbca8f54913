package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// meter measures what a drain takes from client and server.
type meter struct {
	r          *round
	began      time.Time
	statements int64
	client     time.Duration
	server     time.Duration
	serverSeen bool
	mallocs    uint64
	peak       bool // could be reset
}

// begin lets what the preparation left behind be no part of the figures.
func (r *round) begin(ctx context.Context) (m *meter, err error) {
	m = &meter{r: r}
	debug.FreeOSMemory()
	m.peak = resetPeak()
	if m.statements, err = r.statements(ctx); err != nil {
		return nil, fmt.Errorf("statements so far: %w", err)
	}
	m.server, m.serverSeen = r.serverCPU(ctx)
	m.client, _, _ = statOf("self")
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	m.mallocs = memory.Mallocs
	m.began = time.Now()
	return m, nil
}

// end writes the figures for so many jobs. Those that cannot be known here are left out.
func (m *meter) end(ctx context.Context, jobs int) error {
	took := time.Since(m.began)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	client, _, clientKnown := statOf("self")
	server, serverKnown := m.r.serverCPU(ctx)
	statements, err := m.r.statements(ctx)
	if err != nil {
		return fmt.Errorf("statements so far: %w", err)
	}
	f := m.r.figures
	f[jobsPerSecond] = float64(jobs) / took.Seconds()
	f[perThousand] = float64(statements-m.statements) / float64(jobs) * 1000
	f[allocations] = float64(memory.Mallocs-m.mallocs) / float64(jobs)
	if clientKnown {
		f[clientCPU] = (client - m.client).Seconds() / float64(jobs) * 100_000
	}
	if m.serverSeen && serverKnown {
		f[serverCPU] = (server - m.server).Seconds() / float64(jobs) * 100_000
	}
	if peak, known := peakBytes(); known && m.peak {
		f[peakMemory] = float64(peak) / 1e6
	}
	return nil
}
