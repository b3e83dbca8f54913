package ground

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/create-info/persistent-queue/logger"
)

// Guarded calls a function of the application that is told of something. A panic in it does no harm.
func Guarded(ctx context.Context, log logger.Logger, name string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			log.Error(ctx, fmt.Sprintf("%s: panic: %v\n%s", name, p, debug.Stack()))
		}
	}()
	call()
}
