package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// idle counts the statements of a runner that has nothing to do.
func idle(b *bench) error {
	const types, settle, watch = 50, 3 * time.Second, 10 * time.Second
	stop, err := start(b.DB, types, func(context.Context, *queue_job.Job) error { return nil })
	if err != nil {
		return err
	}
	time.Sleep(settle)
	before, err := b.questions(b.DB)
	if err != nil {
		return err
	}
	cpu := cpuTime()
	time.Sleep(watch)
	cpu = cpuTime() - cpu
	after, err := b.questions(b.DB)
	if err != nil {
		return err
	}
	fmt.Printf("- idle, %d job types: %.1f statements/s, %.1f %% of a core in the client\n",
		types, float64(after-before-1)/watch.Seconds(), 100*cpu.Seconds()/watch.Seconds())
	return stop()
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
