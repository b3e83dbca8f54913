// Package logger is how the library speaks to its host: a [Logger] has five methods that any logging library can fill,
// and [QueueLog] fills them with log/slog.
//
// What a message is about (service, job id, type, attempt, term) travels in the context as slog attributes, so a message
// stays one plain sentence. QueueLog writes the attributes; a Logger of your own reads them with [Attrs]. [Handler] puts
// them on what your job handlers log with log/slog.
//
// The library logs no job parameters, for they hold personal data; an error that is logged may quote some.
package logger

import (
	"context"
	"log/slog"
	"slices"
)

// Logger is what the library needs of a log. Its methods are called from many goroutines at once.
type Logger interface {
	// GetNewContext returns the context that a handler's context takes its values from: the place for a trace id. It is
	// called for each run (once for a batch), and again for each message about a run that did not succeed, so an id that is
	// made here is not the same in both. The deadline and the cancellation of the context are ignored.
	GetNewContext(serviceName string) context.Context
	Info(ctx context.Context, msg string)
	Warn(ctx context.Context, msg string)
	Error(ctx context.Context, msg string)
	Debug(ctx context.Context, msg string)
}

// QueueLog writes to log/slog, with every attribute of the context. The zero value writes to slog.Default().
type QueueLog struct {
	Slog *slog.Logger
}

// GetNewContext returns a context that has the service's name as an attribute.
func (q QueueLog) GetNewContext(serviceName string) context.Context {
	return &serviceContext{context.Background(), [1]slog.Attr{slog.String("service", serviceName)}}
}

// serviceContext is [With] for one attribute, in one piece, because every run of a job has one.
type serviceContext struct {
	context.Context
	attrs [1]slog.Attr
}

func (c *serviceContext) Value(key any) any {
	if key == (attrsKey{}) {
		return c.attrs[:]
	}
	return c.Context.Value(key)
}

func (q QueueLog) Info(ctx context.Context, msg string)  { q.write(ctx, slog.LevelInfo, msg) }
func (q QueueLog) Warn(ctx context.Context, msg string)  { q.write(ctx, slog.LevelWarn, msg) }
func (q QueueLog) Error(ctx context.Context, msg string) { q.write(ctx, slog.LevelError, msg) }
func (q QueueLog) Debug(ctx context.Context, msg string) { q.write(ctx, slog.LevelDebug, msg) }

func (q QueueLog) write(ctx context.Context, level slog.Level, msg string) {
	to := q.Slog
	if to == nil {
		to = slog.Default()
	}
	if !to.Enabled(ctx, level) {
		return
	}
	to.LogAttrs(written{ctx}, level, msg, Attrs(ctx)...)
}

type attrsKey struct{}

// With returns a context that has the attributes beside those it already has. [Attrs] returns them all.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	return context.WithValue(ctx, attrsKey{}, append(slices.Clip(Attrs(ctx)), attrs...))
}

// WithLater is [With] for a context whose attributes are mostly not read: it takes them from the group that about
// returns, and asks for that each time they are read.
func WithLater(ctx context.Context, about slog.LogValuer) context.Context {
	return &laterContext{ctx, about}
}

type laterContext struct {
	context.Context
	about slog.LogValuer
}

func (c *laterContext) Value(key any) any {
	if key == (attrsKey{}) {
		return append(slices.Clip(Attrs(c.Context)), c.about.LogValue().Group()...)
	}
	return c.Context.Value(key)
}

// Attrs returns the attributes that [With] and [WithLater] have put on the context, the oldest first. Read them in a
// [Logger] of your own to learn which job a message is about.
func Attrs(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}
