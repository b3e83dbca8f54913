package engine

import (
	"maps"
	"sync"

	"github.com/create-info/persistent-queue/internal/store"
)

// errorCounts counts the runs of a line that did not succeed, by their errors. They are entered into the stats of a minute. Until
// these are written, the snapshot tells them.
type errorCounts struct {
	mu      sync.Mutex
	current minute // into which what comes will be entered; without a beginning, the stats do not know the line yet
	news    store.ErrorTally
	lost    int64 // of the news, runs that were lost
	entered map[minute]store.Errors
}

// minute is a minute of a term, in which the line's errors are counted.
type minute struct{ begin, term int64 }

// note counts runs that the log has, or will have.
func (c *errorCounts) note(a *store.Attempt) {
	e := store.ErrorOf(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news.Note(&e)
	if a.Outcome == lostOutcome {
		c.lost++
	}
}

const lostOutcome = "lost"

// enter takes what has come, for the stats of a minute, and says into which ones the next will go.
func (c *errorCounts) enter(name, next minute) (news store.Errors, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news, lost = c.news.Errors(), c.lost
	c.news, c.lost, c.current = store.ErrorTally{}, 0, next
	if len(news.Errors) > 0 {
		if c.entered == nil {
			c.entered = map[minute]store.Errors{}
		}
		all := c.entered[name]
		all.Add(&news)
		c.entered[name] = all
	}
	const kept = 60 // seconds
	maps.DeleteFunc(c.entered, func(of minute, _ store.Errors) bool { return of.begin < next.begin-kept })
	return news, lost
}

// minutes are the errors of this minute and of the one before, under a term.
func (c *errorCounts) minutes(term int64) (told []store.MinuteErrors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.begin == 0 || c.current.term != term {
		return nil
	}
	for _, begin := range []int64{c.current.begin - 60, c.current.begin} {
		name := c.current
		name.begin = begin
		all := c.entered[name]
		if begin == c.current.begin {
			news := c.news.Errors()
			all.Add(&news)
		}
		if len(all.Errors) > 0 {
			told = append(told, store.MinuteErrors{Begin: begin, Errors: all})
		}
	}
	return told
}
