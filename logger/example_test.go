package logger_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// What a job's handler logs with its context says which job it is about. Set this once, when the application starts.
func ExampleHandler() {
	withoutTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	slog.SetDefault(slog.New(logger.Handler(slog.NewTextHandler(os.Stdout, withoutTime))))

	sendMail := func(ctx context.Context, job *queue_job.Job) error {
		slog.InfoContext(ctx, "mail sent", "to", "anna")
		return nil
	}

	// A runner makes such a context for each run.
	ctx := logger.With(context.Background(), slog.String("service", "shop"), slog.Uint64("job_id", 4711), slog.Int("job_type", 7), slog.Int("attempt", 1))
	sendMail(ctx, &queue_job.Job{Id: 4711})
	// Output: level=INFO msg="mail sent" service=shop job_id=4711 job_type=7 attempt=1 to=anna
}
