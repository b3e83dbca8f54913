package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// repository is a work tree of git.
type repository struct{ dir string }

func (r repository) git(ctx context.Context, args ...string) (string, error) {
	return r.gitWith(ctx, "", args...)
}

// gitWith runs git with something to read.
func (r repository) gitWith(ctx context.Context, in string, args ...string) (string, error) {
	return command{"git", r.dir, nil, in}.run(ctx, args...)
}

// clone copies HEAD, and who commits; no tags and no hooks.
func (r repository) clone(ctx context.Context, to string) (repository, error) {
	from, err := r.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return repository{}, err
	}
	clone := repository{to}
	if _, err := r.git(ctx, "clone", "--quiet", "--no-tags", "--shared", from, to); err != nil {
		return repository{}, err
	}
	for _, setting := range []string{"user.name", "user.email"} {
		if value, err := r.git(ctx, "config", "--get", setting); err == nil {
			if _, err := clone.git(ctx, "config", setting, value); err != nil {
				return repository{}, err
			}
		}
	}
	return clone, nil
}

func (r repository) commit(ctx context.Context, message string) error {
	_, err := r.git(ctx, "commit", "--quiet", "--all", "--message", message)
	return err
}

func (r repository) tag(ctx context.Context, tags []string) error {
	for _, tag := range tags {
		if _, err := r.git(ctx, "tag", "--annotate", "--message", tag, tag); err != nil {
			return err
		}
	}
	return nil
}

// command is a program, in a directory.
type command struct {
	name, dir string
	env       []string
	in        string
}

// run returns what the program says to its standard output, without the space around it.
func (c command) run(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, append(os.Environ(), c.env...), strings.NewReader(c.in)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		said := strings.TrimSpace(out.String() + errs.String())
		return "", fmt.Errorf("%s %s: %w\n%s", c.name, strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(out.String()), nil
}
