package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	moby "github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

const (
	containerWait = 5 * time.Minute  // for the container's start, once the image is there
	createWait    = time.Minute      // for the engine to make it
	removeWait    = 30 * time.Second // for the engine to remove it
	dockerSecret  = "secret"
	dockerLabel   = "persistent-queue.testenv"
)

// containerRecipe is what to ask of an image beyond its name.
type containerRecipe struct {
	port        string            // that the server listens on
	environment map[string]string // for the image's entrypoint
	arguments   []string          // for the server
	dsn         string            // at {address}
}

// containerFailed tells that an engine answered and its container is of no use. That is said even if another way works.
type containerFailed struct{ error }

func (e containerFailed) Unwrap() error { return e.error }

func fromDocker(ctx context.Context, d database) (server, error) {
	e, err := theEngine(ctx)
	if err != nil {
		return server{}, err
	}
	s, err := e.run(ctx, d, usualPullPace)
	if err != nil && ctx.Err() == nil {
		err = containerFailed{fmt.Errorf("the Docker engine at %s: %w", e.host, err)}
	}
	return s, err
}

// run starts a container that answers.
func (e engine) run(ctx context.Context, d database, pace pullPace) (_ server, err error) {
	entrypoint, err := e.entrypoint(ctx, d, pace)
	if err != nil {
		return server{}, err
	}
	say("%s: starting a container of %s", d.name, d.image)
	ctx, cancel := context.WithTimeoutCause(ctx, containerWait, fmt.Errorf("it did not start within %v", containerWait))
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			err = fmt.Errorf("container of %s: %w", d.image, withoutPreface(err))
		}
	}()

	c, err := e.create(ctx, d, entrypoint)
	if err != nil {
		return server{}, err
	}
	stop := func() {
		if err := e.remove(c); err != nil {
			say("%s: the container %s stays: %v; remove it with docker rm -f", d.name, c.GetContainerID()[:12], withoutPreface(err))
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	l, err := e.leash(ctx, c.GetContainerID())
	if err != nil {
		return server{}, err
	}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if err := c.Start(ctx); err != nil {
		return server{}, err
	}
	var dsn, version string
	address, err := c.PortEndpoint(ctx, d.inDocker.port, "")
	if err == nil {
		dsn = strings.ReplaceAll(d.inDocker.dsn, "{address}", address)
		version, err = awaitVersion(ctx, d, dsn, l.ended)
	}
	if err != nil {
		return server{}, fmt.Errorf("%w%s", withoutPreface(err), l.tail())
	}
	release := func() { stop(); l.release() }
	return server{d, dsn, version, "Docker container of " + d.image, recipe{}, release}, nil
}

// entrypoint is what the image runs. The image is pulled if the engine does not have it.
func (e engine) entrypoint(ctx context.Context, d database, pace pullPace) ([]string, error) {
	image, err := e.ImageInspect(ctx, d.image)
	if errdefs.IsNotFound(err) {
		if err := pull(ctx, e.Client, d, pace); err != nil {
			return nil, err
		}
		image, err = e.ImageInspect(ctx, d.image)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", d.image, withoutPreface(err))
	}
	if image.Config == nil || len(image.Config.Entrypoint) == 0 {
		return nil, fmt.Errorf("image %s has no entrypoint, so it is not the official one", d.image)
	}
	return image.Config.Entrypoint, nil
}

// leashScript runs a server until standard input ends. The engine ends it when the connection of the only one who is
// attached breaks, whatever has become of him; and the end of a container's first process is the end of all of them.
const leashScript = `exec 3<&0
"$@" 3<&- </dev/null & server=$!
(cat <&3 >/dev/null; kill -KILL $server) &
exec 3<&-
trap 'kill $server' TERM INT
wait $server`

// clientForTestcontainers does not cut the making of a container short: the engine would make it nonetheless, and nobody
// would know its id.
type clientForTestcontainers struct{ *moby.Client }

func (c clientForTestcontainers) ContainerCreate(ctx context.Context, o moby.ContainerCreateOptions) (moby.ContainerCreateResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createWait)
	defer cancel()
	return c.Client.ContainerCreate(ctx, o)
}

func (e engine) create(ctx context.Context, d database, entrypoint []string) (testcontainers.Container, error) {
	port, err := network.ParsePort(d.inDocker.port)
	if err != nil {
		return nil, err
	}
	return e.testcontainers.CreateContainer(ctx, testcontainers.ContainerRequest{
		Name:         "persistent-queue-testenv-" + strings.ToLower(d.name) + "-" + rand.Text()[:8],
		Image:        d.image,
		Env:          d.inDocker.environment,
		Entrypoint:   slices.Concat([]string{"sh", "-c", leashScript, "sh"}, entrypoint),
		Cmd:          d.inDocker.arguments,
		Labels:       map[string]string{dockerLabel: d.name},
		ExposedPorts: []string{d.inDocker.port},
		ConfigModifier: func(c *container.Config) {
			c.AttachStdin, c.OpenStdin, c.StdinOnce = true, true, true
		},
		HostConfigModifier: func(c *container.HostConfig) {
			c.AutoRemove = true
			// Whichever is free, and of IPv4 alone: some engines give IPv6 a port of its own.
			c.PortBindings = network.PortMap{port: {{HostIP: netip.IPv4Unspecified()}}}
		},
	})
}

// remove also takes the data away, and returns when both have gone.
func (e engine) remove(c testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeWait)
	defer cancel()
	err := c.Terminate(ctx, testcontainers.StopTimeout(0))
	if errdefs.IsConflict(err) { // the engine is removing it of its own accord
		gone := e.ContainerWait(ctx, c.GetContainerID(), moby.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-gone.Result:
			return nil
		case err = <-gone.Error:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// sweep removes what a run left behind that was killed between a container's making and its start. One that another run
// is about to start is younger.
func (e engine) sweep(ctx context.Context) {
	const neverStarted = time.Hour
	filters := make(moby.Filters).Add("label", dockerLabel).Add("status", "created")
	found, err := e.ContainerList(ctx, moby.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		if time.Since(time.Unix(c.Created, 0)) > neverStarted {
			e.ContainerRemove(ctx, c.ID, moby.ContainerRemoveOptions{RemoveVolumes: true})
		}
	}
}

// leash is the connection that a container lives as long as. It also hears what the container says.
type leash struct {
	ended   chan struct{} // closed when the container has ended
	release func()

	mu   sync.Mutex
	said bytes.Buffer
}

func (e engine) leash(ctx context.Context, id string) (*leash, error) {
	attached, err := e.ContainerAttach(ctx, id, moby.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, withoutPreface(err)
	}
	l := &leash{ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		stdcopy.StdCopy(l, l, attached.Reader)
	}()
	l.release = func() {
		attached.Close()
		<-l.ended
	}
	return l, nil
}

// Write keeps the end of what the container says.
func (l *leash) Write(text []byte) (int, error) {
	const bytesMax = 64 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.Write(text)
	l.said.Next(max(0, l.said.Len()-bytesMax))
	return len(text), nil
}

func (l *leash) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tail(l.said.String())
}
