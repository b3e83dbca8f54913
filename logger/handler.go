package logger

import (
	"context"
	"log/slog"
)

// Handler puts the attributes of the context (service, job_id, job_type, attempt, term; in a batch service, job_type,
// jobs, term) on every record that is logged with that context, at the top level, and hands the record on. Then
// slog.InfoContext(ctx, ...) in a job's handler says which job it is about:
//
//	slog.SetDefault(slog.New(logger.Handler(slog.NewJSONHandler(os.Stderr, nil))))
//
// Records of other contexts pass as they are. So do the records of a [QueueLog], which has put the attributes on them
// already. The attributes are made when a record is written, so runs that log nothing pay nothing.
func Handler(next slog.Handler) slog.Handler { return &handler{outside: next, next: next} }

type handler struct {
	next slog.Handler // with all groups and attributes

	// The handler before the first group, and the steps since then: the attributes belong outside the groups.
	outside slog.Handler
	inside  []func(slog.Handler) slog.Handler
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	attrs := Attrs(ctx)
	if len(attrs) == 0 || ctx.Value(writtenKey{}) != nil {
		return h.next.Handle(ctx, record)
	}
	next := h.outside.WithAttrs(attrs)
	for _, step := range h.inside {
		next = step(next)
	}
	return next.Handle(written{ctx}, record)
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
	if !inside {
		next := step(h.next)
		return &handler{outside: next, next: next}
	}
	return &handler{outside: h.outside, next: step(h.next), inside: append(h.inside[:len(h.inside):len(h.inside)], step)}
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
