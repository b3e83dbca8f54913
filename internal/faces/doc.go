// Package faces is what the console and the command line both show, and nobody else asks for: what other limits would have done, what runs
// ended with lately, and for how long rows are kept. What an application may ask, too, is in package operate.
package faces

import (
	"context"
	"math"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// newest is the largest id that there is, and the time by the database's clock: by the clock of whoever looks, the last hour may be
// another one.
func newest(ctx context.Context, st *store.Store) (id uint64, now time.Time, err error) {
	id, second, err := st.Newest(ctx)
	return id, time.UnixMilli(int64(math.Round(second * 1000))), err
}
