package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idle: workers of so many job types wait, and no job comes.
var idles = []workload{idle(1), idle(50), idle(200)}

const (
	perSecond    = "statements/s"
	clientOfCore = "client, % of a core"
	serverOfCore = "server, % of a core"
)

func idle(types int) workload {
	return workload{
		name:    fmt.Sprintf("idle-%d", types),
		says:    fmt.Sprintf("workers of %d job types have nothing to do for 20 s", types),
		columns: []string{perSecond, clientOfCore, serverOfCore},
		kinds:   []kind{oursKind},
		run:     func(ctx context.Context, r *round) error { return r.idle(ctx, types) },
	}
}

func (r *round) idle(ctx context.Context, types int) error {
	stop, handled, err := r.start(ctx, staff{types: types, handle: nothing})
	if err != nil {
		return err
	}
	return errors.Join(r.watchIdle(ctx), stop(), r.verify(ctx, handled, 0, 0))
}

// watchIdle measures what workers cost that have nothing to do.
func (r *round) watchIdle(ctx context.Context) error {
	settle, watch := 5*time.Second, 20*time.Second
	if r.quick {
		settle, watch = time.Second, time.Second
	}
	if err := wait(ctx, settle); err != nil {
		return err
	}
	statements, err := r.statements(ctx)
	if err != nil {
		return err
	}
	client, _, clientKnown := statOf("self")
	server, serverSeen := r.serverCPU(ctx)
	began := time.Now()
	if err := wait(ctx, watch); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	clientNow, _, _ := statOf("self")
	serverNow, serverKnown := r.serverCPU(ctx)
	statementsNow, err := r.statements(ctx)
	r.figures[perSecond] = float64(statementsNow-statements) / took
	if clientKnown {
		r.figures[clientOfCore] = 100 * (clientNow - client).Seconds() / took
	}
	if serverSeen && serverKnown {
		r.figures[serverOfCore] = 100 * (serverNow - server).Seconds() / took
	}
	return err
}
