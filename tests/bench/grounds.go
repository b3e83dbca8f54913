package main

import (
	"context"
	"errors"
)

// grounds are what the rounds of a workload begin with, where it takes long to make: the tables of each system, by its
// name. This process makes them, and those of the rounds use them one after the other.
type grounds map[string]system

// run runs a round on the ground that its workload prepares, if it does.
func (g grounds) run(ctx context.Context, a assignment) outcome {
	w, _ := workloadNamed(a.Workload)
	if w.prepare != nil {
		if err := g.prepare(ctx, w, a); err != nil {
			return outcome{Workload: a.Workload, System: a.System, Round: a.Round, Error: "prepare: " + err.Error()}
		}
		a.Ground = g[a.System].address()
	}
	return runApart(ctx, a)
}

// prepare makes the system's tables, unless a round before this one had them.
func (g grounds) prepare(ctx context.Context, w workload, a assignment) error {
	if _, there := g[a.System]; there {
		return nil
	}
	e, err := entryNamed(a.System)
	if err != nil {
		return err
	}
	r := &round{name: e.name, kind: e.kind, quick: a.Quick}
	if r.system, err = e.open(ctx, ""); err != nil {
		return err
	}
	if err := w.prepare(ctx, r); err != nil {
		return errors.Join(err, closeSystem(ctx, r.system))
	}
	g[a.System] = r.system
	return nil
}

// close removes the tables, also when the run was interrupted.
func (g grounds) close(ctx context.Context) (err error) {
	for name, s := range g {
		err = errors.Join(err, closeSystem(ctx, s))
		delete(g, name)
	}
	return err
}

func closeSystem(ctx context.Context, s system) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	return s.close(ctx)
}
