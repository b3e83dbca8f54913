package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

// endLongest is how long a statement that ends pauses may wait for whoever else writes into the rows of the types.
const endLongest = 10 * time.Second

// heedOver ends the pauses of which a look has shown that they are over: of all types, since those who run them may be older versions. The
// look does not wait for it. If it fails, the next look shows the same pauses.
func (s *standBy) heedOver(types []int32) {
	if len(types) == 0 || s.ending.Swap(true) {
		return
	}
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.working.Err() != nil {
		s.ending.Store(false)
		return
	}
	s.loops.Go(func() {
		defer s.ending.Store(false)
		ctx, cancel := context.WithTimeout(s.working, endLongest)
		defer cancel()
		ended, err := s.tables.Jobs.EndPauses(ctx, types)
		if s.errlog.On(s.working, "end pauses", err) || ended == 0 { // somebody else has ended them
			return
		}
		for _, jobType := range types {
			s.log.Info(s.about, fmt.Sprintf("the pause of job type %d is over", jobType))
		}
		ground.Signal(s.wakePauses)
	})
}
