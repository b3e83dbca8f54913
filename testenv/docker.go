package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	moby "github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	dockerWait    = 3 * time.Second // for the engine to answer
	containerWait = 5 * time.Minute // for the image and the container's start
	dockerSecret  = "secret"
)

// container is what the containers of all databases have in common.
type container interface {
	testcontainers.Container
	ConnectionString(ctx context.Context, options ...string) (string, error)
}

// fromDocker leaves testcontainers' reaper on: it removes the containers when testenv is killed.
func fromDocker(ctx context.Context, d database) (server, error) {
	if err := dockerAnswers(); err != nil {
		return server{}, err
	}
	say("%s: starting a container of %s", d.name, d.image)
	ctx, cancel := context.WithTimeout(ctx, containerWait)
	defer cancel()

	c, err := d.container(ctx, d.image)
	stop := func() {
		if err := testcontainers.TerminateContainer(c); err != nil {
			say("%s: the container's end: %v", d.name, err)
		}
	}
	if err != nil {
		stop()
		return server{}, fmt.Errorf("container of %s: %w", d.image, err)
	}
	dsn, err := c.ConnectionString(ctx, d.dsnOptions...)
	if err != nil {
		stop()
		return server{}, fmt.Errorf("address of the container of %s: %w", d.image, err)
	}
	version, err := awaitVersion(ctx, d, dsn, nil)
	if err != nil {
		stop()
		return server{}, fmt.Errorf("container of %s: %w", d.image, err)
	}
	return server{d, dsn, version, "Docker container of " + d.image, recipe{}, stop}, nil
}

// dockerAnswers asks once for all databases.
var dockerAnswers = sync.OnceValue(func() error {
	log.SetDefault(log.NewNoopLogger())
	ctx, cancel := context.WithTimeout(context.Background(), dockerWait)
	defer cancel()
	client, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return fmt.Errorf("no Docker engine: %w", err)
	}
	defer client.Close()
	if _, err := client.Info(ctx, moby.InfoOptions{}); err != nil {
		return fmt.Errorf("no Docker engine: %w", err)
	}
	return nil
})
