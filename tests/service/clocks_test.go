package service

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// setClocks has sessions of PostgreSQL that look for names in the schema public first go by clocks that can be set.
const setClocks = `
CREATE TABLE clock_off (seconds double precision NOT NULL);
INSERT INTO clock_off VALUES (0);
CREATE FUNCTION statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  'SELECT pg_catalog.statement_timestamp() + seconds * interval ''1 second'' FROM clock_off';
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM clock_off'`

// withClock runs a service whose database has a clock that can be set.
func withClock(t *testing.T, test func(t *testing.T, api *instance, set func(off time.Duration))) {
	t.Parallel()
	dbtest.PostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		execute := func(statement string) {
			t.Helper()
			if _, err := d.DB.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		execute(setClocks)
		joint := map[bool]string{true: "&", false: "?"}[strings.Contains(d.DSN, "?")]
		own := d
		own.DB = dbtest.Open(t, d.Driver, d.DSN+joint+"search_path="+strings.ReplaceAll(url.QueryEscape("public, pg_catalog"), "+", "%20"))
		test(t, start(t, own, func(c *service.Config) { c.Aliases.DelayQueue = "delay_queue" }), func(off time.Duration) { execute(fmt.Sprintf("UPDATE clock_off SET seconds = %f", off.Seconds())) })
	})
}

func timeOf(t *testing.T, text any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, fmt.Sprint(text))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// While the database's clock is a day ahead, the times of that day have come, as far as anybody can tell. One task is made for them, not one
// for each, and when the clock is right, the schedule goes on from there.
func TestASchedulesNextTimeIsNotADayAwayAfterTheDatabasesClockWasADayAhead(t *testing.T) {
	withClock(t, func(t *testing.T, api *instance, set func(time.Duration)) {
		to := receive(t, nil)
		for name, cron := range map[string]string{"minutely": "* * * * *", "often": "@every 2s", "yearly": "@yearly"} {
			api.send(http.StatusCreated, "PUT", "/v1/schedules/"+name, fmt.Sprintf(`{"cron":%q,"topic":"reports","task":{"url":%q}}`, cron, to.URL+"/"+name))
		}
		count := func(name string) (n int) {
			for _, c := range to.all() {
				if c.path == "/"+name {
					n++
				}
			}
			return n
		}
		await(t, "a task has come", func() bool { return count("often") > 0 })
		before := count("minutely")
		set(24 * time.Hour)
		time.Sleep(3 * time.Second) // as long as the clock is wrong
		set(0)
		ahead, often := count("minutely")-before, count("often")
		next := func(name string) time.Duration {
			return time.Until(timeOf(t, api.send(http.StatusOK, "GET", "/v1/schedules/"+name, "").json("next")))
		}
		t.Logf("while the clock was ahead, %d tasks came; the next times are in %v and %v", ahead, next("minutely"), next("often"))
		if ahead > 2 { // and a minute may have ended
			t.Errorf("%d tasks came of a schedule that has one each minute", ahead)
		}
		await(t, "the schedules go on", func() bool { return next("minutely") < 61*time.Second && count("often") > often+1 })
		if in := next("yearly"); in < 24*time.Hour && time.Now().YearDay() < 360 {
			t.Errorf("the yearly one comes in %v", in)
		}
	})
}

// What a request counts from now is counted by the clock that decides what is due.
func TestATimeFromNowOnIsCountedByTheDatabasesClock(t *testing.T) {
	withClock(t, func(t *testing.T, api *instance, set func(time.Duration)) {
		to := receive(t, nil)
		add := func() string {
			return api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","at":"2100-01-01T00:00:00Z"}`).id()
		}
		for _, off := range []time.Duration{time.Hour, -time.Hour} {
			set(off)
			now := func() time.Time { return time.Now().Add(off) }
			due := timeOf(t, api.send(http.StatusOK, "PATCH", "/v1/tasks/"+add(), `{"delay":"10m"}`).json("due"))
			if in := due.Sub(now()); in < 9*time.Minute || in > 11*time.Minute {
				t.Errorf("with a clock that is off by %v, a task whose delay is ten minutes is due in %v", off, in)
			}
			next := timeOf(t, api.send(http.StatusCreated, "PUT", fmt.Sprint("/v1/schedules/s", int(off.Hours())+1), `{"cron":"@every 10m","topic":"orders","task":{"url":"`+to.URL+`"}}`).json("next"))
			if in := next.Sub(now()); in < 0 || in > 11*time.Minute {
				t.Errorf("with a clock that is off by %v, a schedule of ten minutes begins in %v", off, in)
			}
			until := timeOf(t, api.send(http.StatusOK, "POST", "/v1/topics/orders/pause", `{"for":"10m"}`).json("paused_until"))
			if in := until.Sub(now()); in < 9*time.Minute || in > 11*time.Minute {
				t.Errorf("with a clock that is off by %v, a pause of ten minutes ends in %v", off, in)
			}
			api.send(http.StatusOK, "POST", "/v1/topics/orders/resume", "")
			id := add()
			api.send(http.StatusOK, "POST", "/v1/tasks/"+id+"/run", "")
			api.awaitStatus(id, "succeeded")
		}
	})
}

// A time that is to come by the database's clock, by which tasks fall due, and has passed by the clock of the process that is asked.
func TestATimeThatIsToComeByTheDatabasesClockIsTaken(t *testing.T) {
	withClock(t, func(t *testing.T, api *instance, set func(time.Duration)) {
		to := receive(t, nil)
		set(-time.Hour)
		soon := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
		task := fmt.Sprintf(`{"topic":"orders","url":%q,"delay":"10m","expires":%d}`, to.URL, soon.Unix())
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", task).id()
		api.send(http.StatusOK, "POST", "/v1/batch", `{"tasks":[`+task+`]}`)
		api.send(http.StatusOK, "POST", "/v1/tasks/"+id+"/run", "")
		if made := timeOf(t, api.send(http.StatusOK, "GET", "/v1/topics/orders", "").json("created")); soon.Sub(made) < 29*time.Minute || soon.Sub(made) > 31*time.Minute {
			t.Errorf("the topic was made at %v, half an hour before %v", made, soon)
		}
		api.ask(http.StatusOK, "/api/task/save", "application/x-www-form-urlencoded", fmt.Sprint("notify_url=", url.QueryEscape(to.URL+"/planned"), "&plan_time=", soon.Unix()), "")
		if due := timeOf(t, api.send(http.StatusOK, "GET", "/v1/tasks/"+api.newest("delay_queue"), "").json("due")); !due.Equal(soon) {
			t.Errorf("what is planned for %v is due at %v", soon, due)
		}
	})
}

// ownClock is a way to SQLite whose clock can be set, and which counts how often somebody asks for the clock alone.
type ownClock struct {
	*faulty
	off, asked atomic.Int64 // seconds, and how often
}

func (o *ownClock) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := o.faulty.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return ownClockConn{conn.(faultyConn), o}, nil
}

type ownClockConn struct {
	faultyConn
	o *ownClock
}

func (c ownClockConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	const now = "unixepoch('subsec')"
	if query == "SELECT "+now {
		c.o.asked.Add(1)
	}
	return c.faultyConn.QueryContext(ctx, strings.ReplaceAll(query, now, fmt.Sprintf("(%s + %d)", now, c.o.off.Load())), args)
}

// withOwnClock runs a service that sends nothing, so that only requests ask for the clock.
func withOwnClock(t *testing.T, test func(api *instance, clock *ownClock)) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		clock := &ownClock{faulty: &faulty{from: d.DB.Driver(), dsn: d.DSN}}
		d.DB = sql.OpenDB(clock)
		t.Cleanup(func() { d.DB.Close() }) // after the service has stopped
		test(start(t, d, func(c *service.Config) { c.Aliases.DelayQueue, c.WithoutDelivery = "delay_queue", true }), clock)
	})
}

// A process lets the holder of a token in by its own clock. So that one decides also whether a new token is over already.
func TestATokenIsOverByTheClockOfTheProcessThatIsCalled(t *testing.T) {
	withOwnClock(t, func(api *instance, clock *ownClock) {
		create := func(want int, expires time.Time) answer {
			return api.send(want, "POST", "/v1/tokens", fmt.Sprintf(`{"scopes":["admin"],"topics":["*"],"expires":%d}`, expires.Unix()))
		}
		for _, off := range []time.Duration{time.Hour, -time.Hour} {
			clock.off.Store(int64(off / time.Second))
			made := create(http.StatusCreated, time.Now().Add(30*time.Minute))
			if ago := time.Now().Add(off).Sub(timeOf(api.t, made.json("created"))); ago.Abs() > time.Minute {
				api.t.Errorf("with a clock of the database that is off by %v, the token was created %v ago by that clock", off, ago)
			}
			api.token = made.json("token").(string)
			api.send(http.StatusOK, "GET", "/v1/tokens", "")
			create(http.StatusUnprocessableEntity, time.Now().Add(-30*time.Minute))
		}
	})
}

// Each statement more is one that all of them wait for. The clock is asked when an answer depends on it, and once for what comes together.
func TestRequestsAskForTheClockSeldom(t *testing.T) {
	withOwnClock(t, func(api *instance, clock *ownClock) {
		asked := func(what string, least, most int64, do func()) {
			api.t.Helper()
			clock.asked.Store(0)
			do()
			if n := clock.asked.Load(); n < least || n > most {
				api.t.Errorf("%s asks for the clock %d times, want %d to %d", what, n, least, most)
			}
		}
		plan := func(at time.Time) {
			api.ask(http.StatusOK, "/api/task/save", "application/x-www-form-urlencoded", fmt.Sprint("notify_url=http://127.0.0.1/&plan_time=", at.Unix()), "")
		}
		plan(time.Now().Add(time.Hour)) // its topic is made
		asked("a task that is planned", 0, 0, func() { plan(time.Now().Add(time.Hour)) })
		asked("a task whose time has passed", 1, 1, func() { plan(time.Now().Add(-time.Hour)) })
		asked("the figures of a topic in which nothing is put off", 0, 0, func() { api.send(http.StatusOK, "GET", "/v1/topics/delay_queue/stats", "") })
		line := fmt.Sprintf(`{"topic":"orders","url":"http://127.0.0.1/","delay":"10m","expires":%d}`+"\n", time.Now().Add(-time.Hour).Unix())
		asked("a stream of lines that have expired", 1, 10, func() { // it is cut into a few groups, if the machine is slow
			api.send(http.StatusOK, "POST", "/v1/batch", strings.Repeat(line, 100), "Content-Type: application/x-ndjson")
		})
	})
}

// What has expired is gone for good. So one clock that is ahead must not say so alone.
func TestATaskExpiresWhenBothClocksSaySo(t *testing.T) {
	withClock(t, func(t *testing.T, api *instance, set func(time.Duration)) {
		to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		set(-time.Hour)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":%q,"expires":%d,"retry":{"waits":["1s"],"max_attempts":1000}}`, to.URL, time.Now().Unix()+2)).id()
		waits := api.awaitStatus(id, "deferred")
		came := len(to.all())
		time.Sleep(time.Until(timeOf(t, waits.json("due")).Add(time.Hour + 2*time.Second))) // it has run again by then
		if after := api.send(http.StatusOK, "GET", "/v1/tasks/"+id, ""); after.json("status") != "deferred" && after.json("status") != "in_flight" || len(to.all()) != came {
			t.Errorf("%s, and %d calls came, of which %d while it had expired by one clock", after.text, len(to.all()), len(to.all())-came)
		}
		set(0)
		api.awaitStatus(id, "expired")
	})
}
