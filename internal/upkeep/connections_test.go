package upkeep

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

func TestTheLogHearsOnceAnHourThatThePoolOpensConnectionsAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var closed atomic.Int64
		b, _ := baseOf(t, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))})
		closed.Store(1_000_000) // before the Runner started
		ctx, cancel := context.WithCancel(t.Context())
		go Connections(b, closed.Load).Run(ctx)
		warnings := func(minutes int, eachMinute int64) int {
			for range minutes {
				closed.Add(eachMinute)
				time.Sleep(closedEvery)
			}
			synctest.Wait()
			return strings.Count(text.String(), "SetMaxIdleConns")
		}
		time.Sleep(time.Second)
		if n := warnings(120, closedMany-1); n != 0 {
			t.Errorf("%d warnings of few connections", n)
		}
		if n := warnings(59, closedMany); n != 1 {
			t.Errorf("%d warnings within an hour, want one", n)
		}
		if n := warnings(600, closedMany); n != 11 {
			t.Errorf("%d warnings in eleven hours, want one an hour", n)
		}
		cancel()
	})
}
