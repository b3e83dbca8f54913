// Package logger connects the library to the application's log: a [Logger] has five methods, which any logging library
// can implement, and [QueueLog] implements them with log/slog.
//
// The context says which job a message is about (service, job id, type, attempt, term), as slog attributes, so a
// message stays one plain sentence. QueueLog writes the attributes; a Logger of your own reads them with [Attrs].
// [Handler] puts them on the records that your job handlers log with log/slog.
//
// The library logs no job parameters, because they may hold personal data. But an error that is logged may quote some.
package logger

import (
	"context"
	"log/slog"

	"github.com/create-info/persistent-queue/internal/attributes"
)

// Logger is the log that the library writes to. Its methods are called from many goroutines at once.
type Logger interface {
	// GetNewContext returns the context from which a handler's context takes its values: put a trace id there. It is called
	// for each run (once for a batch), and again for each message about a run that did not succeed, so an id that is made
	// here is not the same in both. The deadline and the cancellation of the context are ignored. It is also called for each hook
	// (WithOnSettled, WithOnDead), with an empty name: what a hook is told is of jobs of several types.
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

// GetNewContext returns a context that has the service's name as an attribute, unless it is empty.
func (q QueueLog) GetNewContext(serviceName string) context.Context {
	if serviceName == "" {
		return context.Background()
	}
	return &serviceContext{context.Background(), [1]slog.Attr{slog.String("service", serviceName)}}
}

// serviceContext is [With] for one attribute in a single allocation, because every run of a job makes one.
type serviceContext struct {
	context.Context
	attrs [1]slog.Attr
}

func (c *serviceContext) Value(key any) any {
	if key == (attributes.Key{}) {
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

// With returns a context with the attributes of ctx and these. [Attrs] returns all of them.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	return attributes.With(ctx, attrs...)
}

// Attrs returns the attributes of the context, the oldest first. [With] puts some there, and the context of a handler also has the
// job's. Read them in a [Logger] of your own.
func Attrs(ctx context.Context) []slog.Attr { return attributes.Of(ctx) }
