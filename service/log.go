package service

import (
	"context"
	"log/slog"
	"slices"

	"github.com/create-info/persistent-queue/logger"
)

// quiet is the runner's log. What it says of a single task is for debugging: the table has it, and a receiver that fails a million times shall
// not write a million lines.
type quiet struct{ logger.QueueLog }

// Warn writes a warning, unless it is about a task.
func (q quiet) Warn(ctx context.Context, msg string) {
	if isAboutTask(ctx) {
		q.Debug(ctx, msg)
		return
	}
	q.QueueLog.Warn(ctx, msg)
}

// Error writes an error, unless it is about a task.
func (q quiet) Error(ctx context.Context, msg string) {
	if isAboutTask(ctx) {
		q.Debug(ctx, msg)
		return
	}
	q.QueueLog.Error(ctx, msg)
}

func isAboutTask(ctx context.Context) bool {
	return slices.ContainsFunc(logger.Attrs(ctx), func(a slog.Attr) bool { return a.Key == "job_id" })
}
