package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

// losses tells the log which leases were lost, those of a moment in one line: they are renewed together, and lost together.
type losses struct {
	log   logger.Logger
	about context.Context

	mu    sync.Mutex
	names []string
	cause error
	timer *time.Timer
}

// losesTogether is how far apart the losses of a line may be.
const losesTogether = 200 * time.Millisecond

func (l *losses) add(name string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names, l.cause = append(l.names, name), cause
	if len(l.names) == 1 {
		l.timer = time.AfterFunc(losesTogether, l.tell)
	}
}

// tell tells at once.
func (l *losses) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 5
	if len(l.names) == 0 {
		return
	}
	l.timer.Stop()
	slices.Sort(l.names)
	text := strings.Join(l.names[:min(len(l.names), most)], ", ")
	if more := len(l.names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	l.log.Warn(l.about, fmt.Sprintf("lost leases %s: %v; another instance may take over", text, l.cause))
	l.names = nil
}
