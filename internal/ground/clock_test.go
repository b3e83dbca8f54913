package ground

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// world is a database's clock beside ours.
type world struct {
	local  time.Time
	offset time.Duration // the database's unix time at the local moment Epoch
}

func newWorld() *world {
	return &world{local: Epoch, offset: time.Duration(1_700_000_000_123_456_000)}
}

// ask reads the database's clock: the statement takes there to arrive, and the answer back.
func (w *world) ask(c *Clock, there, back time.Duration) {
	sent := w.local
	looked := w.database(sent.Add(there))
	w.local = sent.Add(there + back)
	c.Reading(float64(looked.Microseconds())/1e6, sent, w.local)
}

func (w *world) database(moment time.Time) time.Duration { return w.offset + moment.Sub(Epoch) }

// behind is how far the estimate lags. Whole milliseconds of the estimate, and a reading in a float64, cost a little.
func (w *world) behind(c *Clock) time.Duration {
	return w.database(w.local) - time.Duration(c.At(w.local))*time.Millisecond
}

const floatCosts = time.Microsecond

func (w *world) expect(t *testing.T, c *Clock, behindAtMost time.Duration) {
	t.Helper()
	if behind := w.behind(c); behind < -floatCosts || behind > behindAtMost+time.Millisecond+2*floatCosts {
		t.Fatalf("behind by %v; want 0 to %v", behind, behindAtMost)
	}
	if latest := time.Duration(c.LatestAt(w.local)) * time.Millisecond; latest < w.database(w.local)-floatCosts {
		t.Fatalf("at the latest, it is %v before the database's time", w.database(w.local)-latest)
	}
}

func TestTheClockIsNeverAheadAndBehindByNoMoreThanTheFastestAnswer(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		w, c, fastest := newWorld(), &Clock{}, time.Hour
		for range 50 {
			there, back := randomly(random), randomly(random)
			w.ask(c, there, back)
			fastest = min(fastest, back)
			w.expect(t, c, fastest)
			w.local = w.local.Add(randomly(random))
		}
	}
}

func TestTheClockFollowsAStepOfEitherClock(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		w, c := newWorld(), &Clock{}
		for range 20 {
			// A database clock that jumps ahead and a machine of ours that was suspended look alike.
			step := time.Hour + time.Duration(random.Int64N(int64(time.Hour)))
			if random.IntN(2) == 0 {
				step = -step
			}
			w.offset += step
			there, back := randomly(random), randomly(random)
			w.ask(c, there, back)
			w.expect(t, c, back)
		}
	}
}

func TestTheClockGoesOnBetweenReadings(t *testing.T) {
	w, c := newWorld(), &Clock{}
	w.ask(c, 0, 0)
	w.local = w.local.Add(time.Hour)
	w.expect(t, c, 0)
}

// randomly returns anything up to a minute. No statement travels faster than the database's clock ticks.
func randomly(random *rand.Rand) time.Duration {
	return 2*floatCosts + time.Duration(random.Int64N(int64(1)<<random.IntN(36)))
}

func TestASlowReadingDoesNotSpoilTheEstimateOnADatabaseWithACoarseClock(t *testing.T) {
	c := &Clock{}
	at := func(d time.Duration) time.Time { return Epoch.Add(d) }
	// SQLite's unixepoch('subsec') has whole milliseconds. True offset: 1.7e9 s.
	c.Reading(1_700_000_000.001, at(time.Millisecond), at(time.Millisecond+50*time.Microsecond))
	// Sent at 2.900 ms, looked at 2.910 (reads 2 ms), the process pauses, answered a second later.
	c.Reading(1_700_000_000.002, at(2900*time.Microsecond), at(1002900*time.Microsecond))
	if behind := 1_700_000_001_100 - c.At(at(1100*time.Millisecond)); behind > 2 {
		t.Errorf("behind by %d ms after a good reading before", behind)
	}
}

func TestNothingIsOldByAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Clock{}
		read := func(off time.Duration) {
			now := time.Now()
			c.Reading(float64(now.Add(off).UnixMicro())/1e6, now, now)
		}
		want := func(what string, off time.Duration) {
			t.Helper()
			if got := time.Duration(c.Surely()-time.Now().UnixMilli()) * time.Millisecond; got < off-time.Second || got > off {
				t.Errorf("%s: %v from this process's clock, want %v", what, got, off)
			}
		}
		read(24 * time.Hour)
		want("the process begins while the database's clock is a day ahead", 0)
		read(-time.Minute)
		want("it is put right", -time.Minute)
		read(365 * 24 * time.Hour)
		want("it is a year ahead", -time.Minute)
		for range 3 * 60 {
			read(-time.Second)
			time.Sleep(time.Minute)
		}
		want("it has been faster for three hours", -time.Second)
		if back := c.WasSetBack(); back < 365*24*time.Hour || c.WasSetBack() != 0 {
			t.Errorf("it was set back by %v", back)
		}
		for range 100 { // it drifts
			read(-time.Second - time.Millisecond)
			read(-time.Second)
		}
		if back := c.WasSetBack(); back != 0 {
			t.Errorf("it drifts, and was set back by %v", back)
		}
	})
}
