package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	moby "github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	engineWait = 30 * time.Second // for an engine's first answer
	engineSlow = 3 * time.Second  // after which it is said that the engine takes its time
)

// engine is a Docker engine that has answered.
type engine struct {
	endpoint
	*moby.Client
	testcontainers *testcontainers.DockerProvider
}

// endpoint is where an engine may be.
type endpoint struct {
	host    string // as in DOCKER_HOST
	named   string // what names it; empty: it is one of the usual places
	tls     string // the folder of a context's certificates, if it has some
	fromEnv bool   // certificates are those that the environment names
}

// noEngine tells why there is no engine, and what to do.
type noEngine struct {
	cause  error
	remedy string
	wanted bool // by the user, who has Docker or names an engine: it is said even if another way works
}

func (e *noEngine) Error() string { return "no Docker engine: " + e.cause.Error() }

// theEngine is asked once for all databases.
func theEngine(ctx context.Context) (engine, error) {
	asked.Do(func() {
		home, _ := os.UserHomeDir()
		p := patience{engineSlow, engineWait}
		asked.engine, asked.err = findEngine(ctx, os.Getenv, home, p)
		if asked.err == nil {
			asked.engine, asked.err = asked.engine.introduce(ctx, p)
		}
		if asked.err == nil {
			asked.engine.sweep(ctx)
		}
	})
	return asked.engine, asked.err
}

type askedOnce struct {
	sync.Once
	engine engine
	err    error
}

var asked = new(askedOnce)

func findEngine(ctx context.Context, getenv func(string) string, home string, p patience) (engine, error) {
	places, err := endpoints(getenv, home)
	if err == nil {
		var e engine
		if e, err = firstThatAnswers(ctx, places, p); err == nil {
			return e, nil
		}
	}
	var none *noEngine
	if errors.As(err, &none) && none.wanted {
		say("%s", oneLine(none))
	}
	return engine{}, err
}

// endpoints are the places where to ask, one after the other: what is named, as Docker's own command understands it, or
// the usual ones. DOCKER_HOST comes before DOCKER_CONTEXT, and that before "docker context use".
func endpoints(getenv func(string) string, home string) ([]endpoint, error) {
	if host := getenv("DOCKER_HOST"); host != "" {
		return []endpoint{{host: host, named: "DOCKER_HOST", fromEnv: true}}, nil
	}
	folder := cmp.Or(getenv("DOCKER_CONFIG"), filepath.Join(home, ".docker"))
	name, namedBy := getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		name, namedBy = currentContext(folder), "docker context use"
	}
	if name == "" || name == "default" {
		return usualPlaces(getenv, home), nil
	}
	place, err := contextEndpoint(folder, name)
	if err != nil {
		return nil, &noEngine{
			fmt.Errorf("the Docker context %q (%s): %w", name, namedBy, err),
			`choose another context (docker context ls, docker context use)`, true,
		}
	}
	return []endpoint{place}, nil
}

// currentContext is the one that "docker context use" has chosen. A file that cannot be read chooses none.
func currentContext(folder string) string {
	text, _ := os.ReadFile(filepath.Join(folder, "config.json"))
	var config struct{ CurrentContext string }
	json.Unmarshal(text, &config)
	return config.CurrentContext
}

func contextEndpoint(folder, name string) (endpoint, error) {
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	text, err := os.ReadFile(filepath.Join(folder, "contexts", "meta", id, "meta.json"))
	if errors.Is(err, os.ErrNotExist) {
		return endpoint{}, errors.New("there is no such context")
	}
	if err != nil {
		return endpoint{}, err
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return endpoint{}, fmt.Errorf("its description: %w", err)
	}
	place := endpoint{host: meta.Endpoints["docker"].Host, named: fmt.Sprintf("the Docker context %q", name)}
	if place.host == "" {
		return endpoint{}, errors.New("its description names no engine")
	}
	certificates := filepath.Join(folder, "contexts", "tls", id, "docker")
	if _, err := os.Stat(certificates); err == nil {
		place.tls = certificates
	}
	return place, nil
}

// usualPlaces are those where the programs that bring an engine put its socket, if there is one.
func usualPlaces(getenv func(string) string, home string) (places []endpoint) {
	if runtime.GOOS == "windows" {
		return []endpoint{{host: moby.DefaultDockerHost}}
	}
	sockets := []string{
		defaultSocket,
		filepath.Join(getenv("XDG_RUNTIME_DIR"), "docker.sock"),  // without root
		filepath.Join(home, ".docker", "run", "docker.sock"),     // Docker Desktop, on macOS
		filepath.Join(home, ".docker", "desktop", "docker.sock"), // and on Linux
		filepath.Join(home, ".colima", "default", "docker.sock"),
		filepath.Join(home, ".config", "colima", "default", "docker.sock"),
		filepath.Join(home, ".rd", "docker.sock"), // Rancher Desktop
		filepath.Join(home, ".orbstack", "run", "docker.sock"),
	}
	for _, socket := range sockets {
		if _, err := os.Stat(socket); err == nil && filepath.IsAbs(socket) {
			places = append(places, endpoint{host: "unix://" + socket})
		}
	}
	return places
}

// defaultSocket is a variable for tests.
var defaultSocket = "/var/run/docker.sock"

// patience is when to say that one waits, and when to stop waiting.
type patience struct{ slow, wait time.Duration }

func firstThatAnswers(ctx context.Context, places []endpoint, p patience) (engine, error) {
	none := &noEngine{errors.New("no socket in the usual places, and neither DOCKER_HOST nor a Docker context names one"), "start Docker", false}
	for _, place := range places {
		client, err := place.ask(ctx, p)
		if err == nil {
			return engine{endpoint: place, Client: client}, nil
		}
		if ctx.Err() != nil {
			return engine{}, context.Cause(ctx)
		}
		// What is said last is about the first place that the user has to do with.
		if failed := place.why(err); !none.wanted {
			none = failed
		}
	}
	return engine{}, none
}

// ask returns when the engine has answered.
func (e endpoint) ask(ctx context.Context, p patience) (*moby.Client, error) {
	client, err := e.client()
	if err != nil {
		return nil, err
	}
	err = p.await(ctx, e.host, func(ctx context.Context) error {
		_, err := client.Ping(ctx, moby.PingOptions{NegotiateAPIVersion: true})
		return err
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// await is for an engine under load, or one that is starting, which may need seconds. It does not wait for an act that
// takes no context.
func (p patience) await(ctx context.Context, host string, act func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.wait, fmt.Errorf("no answer within %v", p.wait))
	defer cancel()
	slow := time.AfterFunc(p.slow, func() {
		say("the Docker engine at %s takes its time; waiting up to %v for its answer", host, p.wait)
	})
	defer slow.Stop()
	done := make(chan error, 1)
	go func() { done <- act(ctx) }()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// introduce makes the engine known to testcontainers, which looks for one of its own accord, and in the environment
// first.
func (e engine) introduce(ctx context.Context, p patience) (engine, error) {
	for name, value := range e.forTestcontainers() {
		os.Setenv(name, value)
	}
	log.SetDefault(log.NewNoopLogger())
	var provider testcontainers.GenericProvider
	err := p.await(ctx, e.host, func(context.Context) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("testcontainers: %v", cause)
			}
		}()
		provider, err = testcontainers.ProviderDefault.GetProvider()
		return err
	})
	if err != nil {
		return engine{}, containerFailed{fmt.Errorf("the Docker engine at %s: %w", e.host, withoutPreface(err))}
	}
	e.testcontainers = provider.(*testcontainers.DockerProvider)
	e.testcontainers.SetClient(clientForTestcontainers{e.Client})
	return e, nil
}

// forTestcontainers leaves its reaper off: one that does not reach the engine costs minutes, and the leash does its work.
// The socket is the reaper's too; without a name for it, testcontainers asks the engine, and panics if that fails.
func (e endpoint) forTestcontainers() map[string]string {
	environment := map[string]string{
		"DOCKER_HOST":                           e.host,
		"TESTCONTAINERS_RYUK_DISABLED":          "true",
		"TESTCONTAINERS_DOCKER_SOCKET_OVERRIDE": e.host,
	}
	if !e.fromEnv {
		environment["DOCKER_CERT_PATH"], environment["DOCKER_TLS_VERIFY"] = e.tls, "1"
	}
	return environment
}

func (e endpoint) client() (*moby.Client, error) {
	options := []moby.Opt{moby.WithHost(e.host), moby.WithAPIVersionFromEnv()}
	switch {
	case strings.HasPrefix(e.host, "ssh://"):
		return nil, errors.New("it is reached by ssh, which takes no connections to containers")
	case e.fromEnv:
		options = append(options, moby.WithTLSClientConfigFromEnv())
	case e.tls != "":
		options = append(options, moby.WithTLSClientConfig(
			ifThere(e.tls, "ca.pem"), ifThere(e.tls, "cert.pem"), ifThere(e.tls, "key.pem")))
	}
	return moby.New(options...)
}

func ifThere(folder, name string) string {
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// why puts the place before the cause, and finds the remedy.
func (e endpoint) why(cause error) *noEngine {
	where := e.host
	if e.named != "" {
		where = fmt.Sprintf("%s, which %s names", e.host, e.named)
	}
	// The client has words of its own instead of os.ErrPermission and syscall.ECONNREFUSED.
	if strings.Contains(cause.Error(), "permission denied") {
		return &noEngine{
			fmt.Errorf("you may not use %s: permission denied", where),
			"let yourself use Docker (sudo usermod -aG docker $USER, then log in anew; or install Docker without root)", true,
		}
	}
	none := &noEngine{fmt.Errorf("nobody answers at %s: %w", where, cause), "start Docker", e.named != ""}
	if strings.HasPrefix(cause.Error(), "Cannot connect to the Docker daemon") {
		none.cause = errors.New("nobody answers at " + where)
	}
	switch e.named {
	case "":
	case "DOCKER_HOST":
		none.remedy = "start the engine at " + e.host + " or unset DOCKER_HOST"
	default:
		none.remedy = "start that engine or choose another (docker context use default)"
	}
	return none
}
