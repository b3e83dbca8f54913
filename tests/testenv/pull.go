package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cpuguy83/dockercfg"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	moby "github.com/moby/moby/client"
)

// pullPace says how often a pull reports, and after how long without a word from the engine it is given up. However long
// it takes otherwise is the line's business.
type pullPace struct{ report, silence time.Duration }

var usualPullPace = pullPace{report: 10 * time.Second, silence: time.Minute}

// pull fetches an image. It asks once: a registry that is busy says so, and the caller passes its words on.
func pull(ctx context.Context, client *moby.Client, d database, pace pullPace) error {
	say("%s: pulling the image %s", d.name, d.image)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPullProgress(d.image)
	silence := time.AfterFunc(pace.silence, func() {
		cancel(fmt.Errorf("no word for %v; until then, %s", pace.silence, p))
	})
	defer silence.Stop()

	var reports sync.WaitGroup
	defer reports.Wait()
	done := make(chan struct{})
	defer close(done)
	reports.Go(func() {
		tick := time.NewTicker(pace.report)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				say("%s: pulling %s", d.name, p)
			}
		}
	})

	err := p.follow(ctx, client, func() { silence.Reset(pace.silence) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("pull of %s: %w", d.image, withoutPreface(err))
	}
	return nil
}

// withoutPreface takes away what the client and testcontainers put before each word of the engine.
func withoutPreface(err error) error {
	if _, text, found := strings.Cut(err.Error(), "Error response from daemon: "); found {
		return errors.New(text)
	}
	return err
}

// hubCredentials are the user's own, if there are any: the registry serves those who log in more often.
func hubCredentials() string {
	user, secret, err := dockercfg.GetRegistryCredentials("https://index.docker.io/v1/")
	if err != nil || secret == "" {
		return ""
	}
	auth := registry.AuthConfig{Username: user, Password: secret}
	if user == "" {
		auth = registry.AuthConfig{IdentityToken: secret}
	}
	encoded, err := authconfig.Encode(auth)
	if err != nil {
		return ""
	}
	return encoded
}

// pullProgress is how far a pull is.
type pullProgress struct {
	image string

	mu     sync.Mutex
	layers map[string]*pullLayer
	status string // the engine's last words
}

// pullLayer counts bytes. A layer that was there before has none.
type pullLayer struct {
	downloaded, size int64
	waits, done      bool
}

func newPullProgress(image string) *pullProgress {
	return &pullProgress{image: image, layers: map[string]*pullLayer{}}
}

func (p *pullProgress) follow(ctx context.Context, client *moby.Client, alive func()) error {
	stream, err := client.ImagePull(ctx, p.image, moby.ImagePullOptions{RegistryAuth: hubCredentials()})
	if err != nil {
		return err
	}
	for m, err := range stream.JSONMessages(ctx) {
		switch {
		case err != nil:
			return err
		case m.Error != nil:
			return m.Error
		}
		alive()
		p.add(m)
	}
	return ctx.Err()
}

func (p *pullProgress) add(m jsonstream.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = m.Status
	if m.ID == "" {
		return
	}
	layer := p.layers[m.ID]
	switch m.Status {
	case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
		if layer == nil {
			layer = &pullLayer{waits: true}
			p.layers[m.ID] = layer
		}
	default: // the tag has an id too
		return
	}
	switch m.Status {
	case "Downloading":
		if m.Progress != nil {
			layer.downloaded, layer.waits = m.Progress.Current, false
			layer.size = max(layer.size, m.Progress.Total)
		}
	case "Download complete", "Extracting":
		layer.downloaded, layer.waits = layer.size, false
	case "Pull complete", "Already exists":
		layer.downloaded, layer.waits, layer.done = layer.size, false, true
	}
}

// String is how far the pull is: the size of a layer is known when its download begins.
func (p *pullProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var downloaded, size int64
	done, unknown := 0, false
	for _, layer := range p.layers {
		downloaded += layer.downloaded
		size += layer.size
		unknown = unknown || layer.waits
		if layer.done {
			done++
		}
	}
	atLeast := ""
	if unknown {
		atLeast = "at least "
	}
	switch {
	case size == 0 && p.status == "":
		return p.image + ": the registry has not answered yet"
	case size == 0:
		return fmt.Sprintf("%s: %s", p.image, p.status)
	}
	return fmt.Sprintf("%s: %s of %s%s downloaded, %d of %d layers in place",
		p.image, megabytes(downloaded), atLeast, megabytes(size), done, len(p.layers))
}

func megabytes(bytes int64) string {
	if bytes < 10e6 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
}
