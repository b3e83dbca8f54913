package cli

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	answerMax   = time.Second // then the database is away
	answerHolds = time.Second // for all who ask: anybody may
)

// alone is what /livez and /readyz ask if the console is served alone. Otherwise they ask the service, which hears of its database anyway.
type alone struct {
	db      *sql.DB
	log     *slog.Logger
	leaving atomic.Bool

	mu    sync.Mutex
	asked time.Time
	away  bool
}

// live is always well: nothing runs that could be stuck, and that the database is away is no reason for a new process.
func (c *alone) live() error { return nil }

// ready returns an error if the console is about to stop or its database does not answer. Why not is the log's: here, anybody may ask.
func (c *alone) ready() error {
	if c.leaving.Load() {
		return errors.New("the console is about to stop")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) > answerHolds {
		c.ask()
	}
	if c.away {
		return errors.New("the database does not answer")
	}
	return nil
}

func (c *alone) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), answerMax) // the answer is not only for who asks now
	defer cancel()
	err := c.db.PingContext(ctx)
	if err != nil && !c.away {
		c.log.Error("readiness is red until the database answers", "error", err)
	}
	c.asked, c.away = time.Now(), err != nil
}

// leave turns readiness red.
func (c *alone) leave() { c.leaving.Store(true) }
