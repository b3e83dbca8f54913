package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// order is what a producer, a process that adds jobs while another one works them, is told.
type order struct {
	System    string `json:"system"`
	Address   string `json:"address"`
	Jobs      int    `json:"jobs"`
	PerSecond int    `json:"per_second"`
}

// produceElsewhere has a process of its own add jobs, and returns how long that took it.
func (r *round) produceElsewhere(ctx context.Context, jobs, perSecond int) (took time.Duration, err error) {
	text, err := json.Marshal(order{r.name, r.address(), jobs, perSecond})
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, os.Args[0], "-produce", string(text))
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("producer: %w", err)
	}
	_, err = fmt.Sscan(said.String(), (*int64)(&took))
	return took, err
}

// producers is how many of a producer's jobs may be on their way at a time.
const producers = 16

// produce adds jobs at their times, also when those before them are not done, and prints how long it took.
func produce(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == o.System })
	if i < 0 {
		return fmt.Errorf("no system %q", o.System)
	}
	s, err := entries[i].open(ctx, o.Address)
	if err != nil {
		return err
	}
	defer s.close(context.WithoutCancel(ctx))
	if err := s.connect(ctx, producers); err != nil {
		return err
	}
	began := time.Now()
	err = addAtTimes(ctx, s, o.Jobs, time.Second/time.Duration(o.PerSecond))
	fmt.Println(int64(time.Since(began)))
	return err
}

func addAtTimes(ctx context.Context, s system, jobs int, every time.Duration) error {
	began := time.Now()
	times := make(chan time.Time)
	errs := make([]error, producers)
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			for at := range times {
				time.Sleep(time.Until(at))
				if errs[i] == nil {
					errs[i] = s.addOne(ctx)
				}
			}
		})
	}
	for n := range jobs {
		times <- began.Add(time.Duration(n) * every)
	}
	close(times)
	all.Wait()
	time.Sleep(time.Until(began.Add(time.Duration(jobs) * every)))
	return errors.Join(errs...)
}
