package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiled writes profiles of what happens until end is called: <path>.cpu.pprof, and <path>.heap.pprof as of then. An empty
// path means none.
func profiled(path string) (end func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), writeHeap(path+".heap.pprof"))
	}, nil
}

func writeHeap(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC() // the profile is as of the last one
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
