package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosSystem is DBOS for Go on PostgreSQL. It knows workflows and their steps, and no jobs without.
type dbosSystem struct {
	*database // for what this program asks
	pool      *pgxpool.Pool
	dbos      dbos.Context
}

// partsConnections are the most that DBOS has as it comes, and what this library gets beside it.
const partsConnections = 20

func openDBOS(ctx context.Context, address string) (_ system, err error) {
	d, err := openDatabase(ctx, postgreSQL, address)
	if err != nil {
		return nil, errors.Join(err, closed(d))
	}
	s := &dbosSystem{database: d}
	if err := s.dial(ctx); err != nil {
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *dbosSystem) dial(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return err
	}
	config.MaxConns = partsConnections
	config.ConnConfig.Tracer = (*tracer)(&s.sent)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	s.dbos, err = dbos.NewContext(ctx, dbos.Config{AppName: "bench", ApplicationVersion: "1", SystemDBPool: s.pool, Logger: errorsOnly()})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(s.dbos, threeSteps)
	return dbos.Launch(s.dbos)
}

func threeSteps(ctx dbos.Context, n int) (int, error) {
	for range partsOfWork {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return n, nil }); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// workflow runs one, and waits for its result.
func (s *dbosSystem) workflow(n int) error {
	handle, err := dbos.RunWorkflow(s.dbos, threeSteps, n)
	if err != nil {
		return err
	}
	got, err := handle.GetResult()
	if err == nil && got != n {
		err = fmt.Errorf("workflow %d returned %d", n, got)
	}
	return err
}

func (s *dbosSystem) counts(ctx context.Context) (c counts, err error) {
	var all, steps int
	err = s.ask(ctx,
		"SELECT COUNT(*), COUNT(*) FILTER (WHERE status = 'SUCCESS'), (SELECT COUNT(*) FROM dbos.operation_outputs) "+
			"FROM dbos.workflow_status",
		&all, &c.succeeded, &steps)
	if err == nil && steps != partsOfWork*all {
		err = fmt.Errorf("%d workflows have %d steps in the table, not %d each", all, steps, partsOfWork)
	}
	c.other = all - c.succeeded
	return c, err
}

func (s *dbosSystem) versions() map[string]string {
	return map[string]string{s.name: s.number, "DBOS": strings.TrimPrefix(moduleVersion("github.com/dbos-inc/dbos-transact-golang"), "v")}
}

func (s *dbosSystem) close(ctx context.Context) (err error) {
	if s.dbos != nil {
		err = dbos.Shutdown(s.dbos, stopWait)
	}
	if s.pool != nil {
		s.pool.Close()
	}
	return errors.Join(err, s.database.close(ctx))
}

// What jobs are asked for.
var errNoJobs = errors.New("DBOS has workflows, and no jobs without steps")

func (s *dbosSystem) add(context.Context, int, time.Time) error { return errNoJobs }
func (s *dbosSystem) connect(context.Context, int) error        { return errNoJobs }
func (s *dbosSystem) addOne(context.Context) error              { return errNoJobs }
func (s *dbosSystem) pending(context.Context) (bool, error)     { return false, errNoJobs }
func (s *dbosSystem) work(context.Context, staff, func(error)) (func() error, error) {
	return nil, errNoJobs
}
