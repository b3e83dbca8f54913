package tests

import (
	"database/sql"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// pauseUntil pauses type 1, and checks whether that is said to have changed anything.
func pauseUntil(t *testing.T, db *sql.DB, until time.Time, want bool) {
	t.Helper()
	if changed, err := open(t, db).PauseUntil(t.Context(), db, 1, until); err != nil || changed != want {
		t.Fatalf("PauseUntil(%v): %t, %v; want %t", until, changed, err, want)
	}
}

// typeOne is type 1 as the database knows it.
func typeOne(t *testing.T, db *sql.DB) queue_job.Type {
	t.Helper()
	types, err := open(t, db).Types(t.Context(), db)
	if err != nil || len(types) != 1 || types[0].JobType != 1 {
		t.Fatalf("%+v, %v", types, err)
	}
	return types[0]
}

// inSeconds is a whole second of the database's clock, this many from now or up to one more.
func inSeconds(t *testing.T, db *sql.DB, n int64) time.Time {
	t.Helper()
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	_, now, err := st.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(int64(now)+n+1, 0)
}

// soon is so far that a machine that stands still for a moment does not miss it: a pause until a time that has passed is refused.
const soon = 6

// wantFirstRun waits for the first run, and expects it from a moment on, and within two seconds of it.
func wantFirstRun(t *testing.T, p *pulse, ran *runs, end time.Time) {
	t.Helper()
	const rounding = 5 * time.Millisecond // the clocks of this process and of a server in a container
	at := awaitRuns(t, ran, 1)[0].started
	if late, most := at.Sub(end), p.allows(2*time.Second*slack, end, at); late < -rounding || late > most {
		t.Errorf("the first job started %v after the end of the pause, want %v at most", late, most)
	}
}

func TestAPauseEndsAtItsTimeWithinTwoSecondsAndNotBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		pulse, end := feelPulse(t, d), inSeconds(t, d.DB, soon)
		pauseUntil(t, d.DB, end, true)
		pauseUntil(t, d.DB, end, false)
		if k := typeOne(t, d.DB); k.Paused.IsZero() || !k.PausedUntil.Equal(end) {
			t.Errorf("paused at %v until %v, want %v", k.Paused, k.PausedUntil, end)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 3, 0)
		wantFirstRun(t, pulse, &ran, end)
		if k := typeOne(t, d.DB); !k.Paused.IsZero() || !k.PausedUntil.IsZero() {
			t.Errorf("paused at %v until %v, after the end", k.Paused, k.PausedUntil)
		}
		awaitRuns(t, &ran, 3)
	})
}

// An instance of this version ends the pauses of all types: those who run a type may know nothing of ends.
func TestAPauseOfATypeThatRunsElsewhereEndsToo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{JobType: 2, HandleJobFunc: ran.handler})
		pauseUntil(t, d.DB, inSeconds(t, d.DB, soon), true)
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at IS NOT NULL")
	})
}

func TestASecondPauseLengthensTheFirst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		pulse := feelPulse(t, d)
		pauseUntil(t, d.DB, inSeconds(t, d.DB, soon), true)
		since, end := typeOne(t, d.DB).Paused, inSeconds(t, d.DB, soon+2)
		pauseUntil(t, d.DB, end, true)
		if k := typeOne(t, d.DB); !k.Paused.Equal(since) || !k.PausedUntil.Equal(end) {
			t.Errorf("paused at %v until %v, want %v until %v", k.Paused, k.PausedUntil, since, end)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		add(t, d.DB, 3, 0)
		wantFirstRun(t, pulse, &ran, end)
	})
}

func TestATypeThatIsResumedBeforeTheEndOfItsPauseRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		pauseUntil(t, d.DB, time.Now().Add(time.Hour), true)
		resume(t, d.DB, 1)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at IS NOT NULL OR paused_until IS NOT NULL"); n != 0 {
			t.Error("the table still has the pause, or its end")
		}
		add(t, d.DB, 3, 0)
		awaitRuns(t, &ran, 3)
	})
}

func TestAPauseWithoutAnEndTakesTheEndOfTheFirstBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran, other runs
		pulse := feelPulse(t, d)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler}, queue_job.Config{JobType: 2, HandleJobFunc: other.handler})
		end := inSeconds(t, d.DB, soon)
		pauseUntil(t, d.DB, end, true)
		for _, want := range []bool{true, false} {
			if changed, err := open(t, d.DB).Pause(t.Context(), d.DB, 1); err != nil || changed != want {
				t.Fatalf("Pause: %t, %v; want %t", changed, err, want)
			}
		}
		pulse.wait(time.Second * slack) // until the pause is heeded
		add(t, d.DB, 3, 0)
		time.Sleep(time.Until(end.Add(2 * time.Second)))
		addType(t, d.DB, 2, 1, 0)
		awaitRuns(t, &other, 1)
		if n := len(ran.all()); n > 0 {
			t.Errorf("%d jobs have run after the end that was taken back", n)
		}
	})
}

// What the store's verbs do at the border of an end, without the seconds between.
func TestOnlyAPauseThatIsOverIsEnded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		over := func() int {
			t.Helper()
			fleet, err := st.Fleet(t.Context(), share.Prefixes)
			if err != nil || len(fleet.Over) > len(fleet.Paused) {
				t.Fatalf("%+v, %v", fleet, err)
			}
			return len(fleet.Over)
		}
		ended := func() int {
			t.Helper()
			n, err := st.EndPauses(t.Context(), []int32{1, 2})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		past := inSeconds(t, d.DB, -10)
		for _, c := range []struct {
			what string
			do   func()
			over int
		}{
			{"paused until a time that the database's clock has passed", func() { _, _ = st.PauseUntil(t.Context(), 1, past.Unix()) }, 1},
			{"paused, and then until a time that has passed", func() {
				_, _ = st.Pause(t.Context(), 1)
				_, _ = st.PauseUntil(t.Context(), 1, past.Unix())
			}, 1},
			{"over, and somebody gives it another end", func() {
				_, _ = st.PauseUntil(t.Context(), 1, past.Unix())
				pauseUntil(t, d.DB, time.Now().Add(time.Hour), true)
			}, 0},
			{"over, and somebody takes the end back", func() {
				_, _ = st.PauseUntil(t.Context(), 1, past.Unix())
				pause(t, d.DB, 1)
			}, 0},
			{"an end that a version left there that knows no ends, and a later pause", func() {
				execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, paused_until, paused_at) VALUES (1, 100, 200)")
				if k := typeOne(t, d.DB); k.Paused.IsZero() || !k.PausedUntil.IsZero() {
					t.Errorf("paused at %v until %v", k.Paused, k.PausedUntil)
				}
			}, 0},
			{"the clock was set back since it was paused", func() {
				execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, paused_at) VALUES (1, 4000000000)")
				_, _ = st.PauseUntil(t.Context(), 1, past.Unix())
			}, 1},
		} {
			execute(t, d.DB, "DELETE FROM async_job_type_tab")
			c.do()
			if n := over(); n != c.over {
				t.Errorf("%s: %d pauses are over, want %d", c.what, n, c.over)
			}
			if n := ended(); n != c.over {
				t.Errorf("%s: %d were ended, want %d", c.what, n, c.over)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at IS NOT NULL"); n != int64(1-c.over) {
				t.Errorf("%s: %d types are paused", c.what, n)
			}
			if n := ended() + over(); n > 0 {
				t.Errorf("%s: %d ended once more", c.what, n)
			}
		}
	})
}

func TestAPauseIsNotedWithItsEndAndOnlyIfItChangesAnything(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx, end := open(t, d.DB), asMary(t.Context()), inSeconds(t, d.DB, 3600)
		for range 2 {
			if _, err := jobs.PauseUntil(ctx, d.DB, 1, end); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := jobs.Pause(ctx, d.DB, 1); err != nil {
				t.Fatal(err)
			}
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{})
		if err != nil || len(acts) != 2 || acts[0].Verb != "pause" || acts[1].Verb != "pause" || acts[0].Detail != "" || acts[1].Detail != `{"after":"`+end.UTC().Format(time.RFC3339)+`"}` {
			t.Errorf("%+v, %v", acts, err)
		}
	})
}

func TestWhoPausedATypeIsToldIfThePauseWasNoted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, mary := open(t, d.DB), asMary(t.Context())
		by := func() string {
			t.Helper()
			k := typeOne(t, d.DB)
			return k.PausedBy + ": " + k.PausedWhy
		}
		if _, err := jobs.Pause(mary, d.DB, 2); err != nil { // another type
			t.Fatal(err)
		}
		execute(t, d.DB, "DELETE FROM async_job_type_tab")
		pause(t, d.DB, 1)
		if text := by(); text != ": " {
			t.Errorf("%q, and nobody has noted the pause", text)
		}
		if _, err := jobs.PauseUntil(mary, d.DB, 1, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.SetLimits(mary, d.DB, 1, queue_job.Limits{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		if text := by(); text != "mary@ops: the receiver was down" {
			t.Errorf("%q, want the pause of mary@ops", text)
		}
		job := addOne(t, jobs, d.DB, ofType(1)).Id
		e := explained(t, jobs, d.DB, job, "No instance has ever run job type 1.", operate.NoInstance, operate.Paused)
		if r := e.Reasons[1]; r.Text != "Job type 1 is paused by mary@ops (the receiver was down)." || r.Until.Before(time.Now().Add(50*time.Minute)) {
			t.Errorf("%+v", r)
		}
		resume(t, d.DB, 1)
		if text := by(); text != ": " {
			t.Errorf("%q, of a type that is not paused", text)
		}
		execute(t, d.DB, "UPDATE async_job_act_tab SET acted_at = acted_at - 10")
		pause(t, d.DB, 1)
		if text := by(); text != ": " {
			t.Errorf("%q, of an earlier pause", text)
		}
	})
}
