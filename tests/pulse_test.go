package tests

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// pulse measures, beside a test, what one small write costs at the moment. On a quiet machine that is some milliseconds; on
// one that others keep busy it may be a second, and then the library cannot start a job in less.
type pulse struct {
	mu       sync.Mutex
	beats    []beat
	underWay time.Time // when the beat began that is not in the list yet; zero: there is none
}

// beat is one write, with the wait before it: a machine that is busy is late for that too.
type beat struct {
	began time.Time
	took  time.Duration
}

const (
	pulsePace = 50 * time.Millisecond
	// A start takes no more statements than that, one after the other: the old holder's release and the new one's term, the
	// sweep, the mark, what is read back.
	statementsOfAStart = 5
)

// feelPulse measures until the test ends. On SQLite, where one write waits for another, it reads.
func feelPulse(t *testing.T, d dbtest.Database) *pulse {
	t.Helper()
	db := dbtest.Open(t, d.Driver, d.DSN)
	statement := "UPDATE pulse SET n = n + 1"
	if d.Name == "SQLite" {
		statement = "SELECT 1"
	} else {
		execute(t, db, "CREATE TABLE pulse (n INT NOT NULL)")
		execute(t, db, "INSERT INTO pulse VALUES (0)")
	}
	p := &pulse{}
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		for ctx.Err() == nil {
			began := p.begin()
			sleep(ctx, pulsePace)
			if _, err := db.ExecContext(ctx, statement); err != nil && ctx.Err() == nil {
				t.Errorf("the pulse: %v", err)
				return
			}
			p.add(beat{began, time.Since(began) - pulsePace})
		}
	})
	t.Cleanup(func() {
		cancel()
		beating.Wait()
	})
	return p
}

func (p *pulse) begin() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay = time.Now()
	return p.underWay
}

func (p *pulse) add(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats, p.underWay = append(p.beats, b), time.Time{}
}

// allows is the time that the promise gives, and what the machine takes for a start at its worst in that span. The beat that is
// under way counts as well: when a machine that stood still goes on, the job may start before that beat ends.
func (p *pulse) allows(promise time.Duration, from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst time.Duration
	if !p.underWay.IsZero() && p.underWay.Before(to) {
		worst = max(0, time.Since(p.underWay)-pulsePace)
	}
	for _, b := range slices.Backward(p.beats) {
		if ended := b.began.Add(pulsePace + b.took); ended.Before(from) {
			break
		} else if b.began.Before(to) {
			worst = max(worst, b.took)
		}
	}
	return promise + statementsOfAStart*worst
}

// wait waits for as long as a promise may take.
func (p *pulse) wait(promise time.Duration) {
	for began := time.Now(); time.Since(began) < p.allows(promise, began, time.Now()); time.Sleep(time.Millisecond) {
	}
}

func TestPulse_AllowsWhatTheMachineTookInThatSpan(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := &pulse{beats: []beat{{at(0), 300 * time.Millisecond}, {at(1000), 2 * time.Millisecond}, {at(2000), 100 * time.Millisecond}, {at(5000), time.Second}}}
	for _, test := range []struct{ from, to, worst int }{{1000, 3000, 100}, {500, 1500, 2}, {100, 1500, 300}, {3000, 4000, 0}} {
		want := time.Second + statementsOfAStart*time.Duration(test.worst)*time.Millisecond
		if got := p.allows(time.Second, at(test.from), at(test.to)); got != want {
			t.Errorf("from %d to %d ms: %v, want %v", test.from, test.to, got, want)
		}
	}
	p.underWay = time.Now().Add(-time.Hour)
	if got := p.allows(time.Second, start, time.Now()); got < time.Hour {
		t.Errorf("%v, though a write has been under way for an hour", got)
	}
}
