package logger

import (
	"context"
	"log/slog"
	"slices"

	"github.com/create-info/persistent-queue/internal/attributes"
)

// Handler puts the attributes of the context (service, job_id, job_type, attempt, term; in a batch service, job_type,
// jobs, term) on every record that is logged with that context, at the top level, and hands the record on. Then
// slog.InfoContext(ctx, ...) in a job's handler says which job it is about:
//
//	slog.SetDefault(slog.New(logger.Handler(slog.NewJSONHandler(os.Stderr, nil))))
//
// Records of other contexts pass as they are. So do the records of a [QueueLog], which has put the attributes on them
// already. The attributes are made when a record is written, so runs that log nothing pay nothing.
//
// If the type of the job has [github.com/create-info/persistent-queue/queue_job.Config.KeepLog], the record is kept with the job as well: as
// a line of text, without the attributes of the context. Records below the level of next are not written, and not kept.
func Handler(next slog.Handler) slog.Handler { return &handler{outside: next, next: next} }

type handler struct {
	next slog.Handler // with all groups and attributes

	// The handler before the first group, and the steps since then: the attributes belong outside the groups.
	outside slog.Handler
	inside  []func(slog.Handler) slog.Handler

	steps []func(slog.Handler) slog.Handler // all, for lines that are kept with a job
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	if ctx.Value(writtenKey{}) != nil {
		return h.next.Handle(ctx, record)
	}
	if lines := attributes.LinesOf(ctx); lines != nil {
		h.keep(ctx, lines, record)
	}
	attrs := Attrs(ctx)
	if len(attrs) == 0 {
		return h.next.Handle(ctx, record)
	}
	next := h.outside.WithAttrs(attrs)
	for _, step := range h.inside {
		next = step(next)
	}
	return next.Handle(written{ctx}, record)
}

// keep writes a record to the lines of its run.
func (h *handler) keep(ctx context.Context, lines *attributes.Lines, record slog.Record) {
	to := slog.Handler(slog.NewTextHandler(lines, nil)) // its level is not asked: h.next was
	for _, step := range h.steps {
		to = step(to)
	}
	_ = to.Handle(ctx, record) // lines take everything
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(len(h.inside) > 0, func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(true, func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *handler) with(inside bool, step func(slog.Handler) slog.Handler) slog.Handler {
	steps := append(slices.Clip(h.steps), step)
	if !inside {
		next := step(h.next)
		return &handler{outside: next, next: next, steps: steps}
	}
	return &handler{outside: h.outside, next: step(h.next), inside: append(slices.Clip(h.inside), step), steps: steps}
}

// written is the context of a record that has the context's attributes already.
type written struct{ context.Context }

type writtenKey struct{}

func (c written) Value(key any) any {
	if key == (writtenKey{}) {
		return true
	}
	return c.Context.Value(key)
}
