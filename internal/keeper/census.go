package keeper

import (
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// BeatCounts is for how long a beat counts at least.
const BeatCounts = beatCounts

// Census is what a keeper knows of the lives of the instances, without asking the table: for whoever watches the process.
type Census struct {
	Heard, Silent, Buried int           // instances, this one among them, as the last look has shown them
	Burials               uint64        // that this instance has carried out
	Died                  uint64        // how often others have buried this instance
	SinceBeat             time.Duration // since when the last beat of this instance was answered; only if it Lives
	Lives                 bool          // it says each second that it is alive
}

type census struct {
	heard, silent, buried atomic.Int64
	burials, died         atomic.Uint64
}

// count counts the lives that a look has shown. Own beats need no look.
func (c *census) count(seen []store.Seen, of *silence) {
	var heard, silent, buried int64
	for i := range seen {
		row := &seen[i]
		switch id, is := share.ParseLife(row.Name); {
		case !is || row.Free:
		case share.IsOver(row.Running):
			buried++
		case of.of[id].counted >= suspectIn:
			silent++
		default:
			heard++
		}
	}
	c.heard.Store(heard)
	c.silent.Store(silent)
	c.buried.Store(buried)
}

// Census returns what the keeper knows of the lives of the instances. The row of an instance that needs no life is not there.
func (k *Keeper) Census() Census {
	c := &k.census
	is := Census{
		Heard: int(c.heard.Load()), Silent: int(c.silent.Load()), Buried: int(c.buried.Load()),
		Burials: c.burials.Load(), Died: c.died.Load(), Lives: k.Lives(),
	}
	if is.Lives {
		is.SinceBeat = time.Since(epoch) - time.Duration(k.pulse.latest.Load())
	}
	return is
}
