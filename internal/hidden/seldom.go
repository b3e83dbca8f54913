package hidden

import (
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

// SickOnceIn is how long an answer about the database's sickness lasts. The lists that it is read from are the whole server's, and what they say
// grows over minutes.
const SickOnceIn = time.Minute

// Seldom keeps the last answer of what is asked for seldom.
type Seldom struct {
	mu     sync.Mutex
	asked  time.Time
	answer *record.Sickness
}

// Ask returns the last answer, or asks for another if that is too old. Who comes while somebody else asks gets the last one, or nil, and does not
// wait.
func (s *Seldom) Ask(now time.Time, ask func() *record.Sickness) *record.Sickness {
	s.mu.Lock()
	if !s.asked.IsZero() && now.Sub(s.asked) < SickOnceIn {
		defer s.mu.Unlock()
		return s.answer
	}
	s.asked = now
	s.mu.Unlock()
	answer := ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	return answer
}
