package deliver

import "time"

// speed estimates how long a call takes.
type speed struct {
	took  time.Duration // by the calls that ended: a new one counts an eighth
	moved time.Time     // when the last call ended or, if none ran before, began
}

// begin counts a call before which others ran, or none.
func (s *speed) begin(others int, now time.Time) {
	if others == 0 {
		s.moved = now
	}
}

func (s *speed) end(took time.Duration, now time.Time) {
	s.moved = now
	if s.took == 0 {
		s.took = took
	}
	s.took += (took - s.took) / 8
}

// perSecond is how many calls a second these places make, while calls run. They take as long as none has ended, at least: so a new lane is
// taken for fast, and sooner or later for slow.
func (s *speed) perSecond(places int, now time.Time) float64 {
	return float64(places) / max(s.took, now.Sub(s.moved), time.Millisecond).Seconds()
}
