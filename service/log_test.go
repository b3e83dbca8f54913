package service

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/logger"
)

func TestATaskThatFailsWritesNoLine(t *testing.T) {
	var text strings.Builder
	log := quiet{logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}}
	of := logger.With(context.Background(), slog.Uint64("job_id", 7))
	log.Warn(of, "job runs again")
	log.Error(of, "job failed")
	if text.Len() > 0 {
		t.Errorf("%s", &text)
	}
	log.Warn(context.Background(), "lease lost")
	log.Error(context.Background(), "database away")
	if n := strings.Count(text.String(), "\n"); n != 2 {
		t.Errorf("%s", &text)
	}
}
