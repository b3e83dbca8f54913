package conn

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// nap is about how long a write to SQLite sleeps before it looks again whether another connection's is done.
const nap = time.Millisecond

// awaitWriter sends a write through a connection. To SQLite it sends it until no other connection is writing, for as long as
// the connection's busy_timeout says.
//
// SQLite itself waits so too, but sleeps longer after each look, in the end a tenth of a second, while those that come often
// take each gap. Of three processes that write all the time, each waits for up to four seconds: longer than a lease may last.
// By equal naps, none waits for more than some tenths of a second, and together they write as much.
func (s *Sender) awaitWriter(ctx context.Context, conn *sql.Conn, write func() error) (err error) {
	if !s.oneWriter {
		return write()
	}
	var patience int64
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&patience); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	defer func() {
		again := fmt.Sprintf("PRAGMA busy_timeout = %d", patience)
		if _, failed := conn.ExecContext(context.WithoutCancel(ctx), again); failed != nil {
			discard(conn)
		}
	}()
	until := time.Now().Add(time.Duration(patience) * time.Millisecond)
	for {
		err = write()
		if err == nil || !strings.Contains(err.Error(), "database is locked") || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(nap/2 + rand.N(nap)):
		}
	}
}
