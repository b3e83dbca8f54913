package tests

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/shedlock"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// clocks are those of a zone in the season in which they change.
type clocks struct {
	zone   string
	season season
}

type season string

const (
	spring season = "spring" // an hour is left out
	autumn season = "autumn" // an hour is repeated
)

// change is when the clocks changed last year.
func (c clocks) change(t *testing.T) time.Time {
	t.Helper()
	_, inSpring, inAutumn := changesOf(t, c.zone)
	if c.season == spring {
		return inSpring
	}
	return inAutumn
}

// changesOf returns when winter time began before last year, and when summer time began and ended in it.
func changesOf(t *testing.T, zone string) (winter, inSpring, inAutumn time.Time) {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	winter, inSpring = time.Date(time.Now().Year()-1, time.January, 1, 0, 0, 0, 0, location).ZoneBounds()
	_, inAutumn = inSpring.ZoneBounds()
	return winter, inSpring, inAutumn
}

// setClock sets the session's clock to two seconds before the clocks change. It goes on from there.
func (s *stage) setClock(t *testing.T) {
	t.Helper()
	if s.clocks.zone == "" {
		return
	}
	s.ahead = time.Until(s.clocks.change(t).Add(-2 * time.Second))
	if s.Name != "PostgreSQL" {
		return
	}
	for function, volatility := range map[string]string{"clock_timestamp": "VOLATILE", "statement_timestamp": "STABLE"} {
		execute(t, s.DB, fmt.Sprintf("CREATE OR REPLACE FUNCTION public.%[1]s() RETURNS timestamptz LANGUAGE sql %[2]s AS 'SELECT pg_catalog.%[1]s() + interval ''%[3]f seconds'''",
			function, volatility, s.ahead.Seconds()))
	}
}

// startClock sets the session's clock, and returns its minutesFromUTC, read while the change is still to come.
func (s *stage) startClock(t *testing.T, db *sql.DB) (minutes int64) {
	t.Helper()
	await(t, func() string { return "the clocks change before they are read" }, func() bool {
		began := time.Now()
		s.setClock(t)
		minutes = s.minutesFromUTC(t, db)
		return time.Since(began) < time.Second
	})
	return minutes
}

// withZone adds to the parameters what sets the session's zone, and lets it see the clock that setClock sets.
func (s *stage) withZone(t *testing.T, params map[string]string) map[string]string {
	t.Helper()
	params = maps.Clone(params)
	if s.Name == "PostgreSQL" {
		params["TimeZone"] = s.clocks.zone
		params["search_path"] = "public,pg_catalog" // what is not named there comes first
	} else {
		params["time_zone"] = "'" + zoneOn(t, s.Database, s.clocks.zone) + "'"
	}
	return params
}

// tellTime sets the clock of a session of MySQL, which stands still until it is set again.
func (s *stage) tellTime(ctx context.Context, conn mysqlConn, _ string) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("SET timestamp = %.6f", float64(s.now().UnixMicro())/1e6), nil)
	return err
}

// now is the time by the session's clock.
func (s *stage) now() time.Time { return time.Now().Add(s.ahead) }

// minutesFromUTC is by how much the session's local time is ahead. TiDB rounds UTC_TIMESTAMP(), and not NOW().
func (s *stage) minutesFromUTC(t *testing.T, db *sql.DB) int64 {
	t.Helper()
	switch s.Name {
	case "SQLite":
		return 0
	case "PostgreSQL":
		return number(t, db, "SELECT CAST(EXTRACT(timezone FROM clock_timestamp()) / 60 AS int)")
	default:
		return number(t, db, "SELECT ROUND(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()) / 60)")
	}
}

// minutes is by how much local time is put forward.
func (c clocks) minutes() int64 { return map[season]int64{spring: 60, autumn: -60}[c.season] }

// The sessions' clock stands still here, so each renewal writes what the row has already.
func TestALockIsAsLongAsEverWhenTheClocksChange(t *testing.T) {
	t.Parallel()
	const length, least = 10, 25
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		type held struct {
			when       string
			moment     time.Time
			one, other *shedlock.Lock
		}
		var all []held
		for zone, found := range map[string]string{"Europe/Berlin": "true", "America/New_York": "false"} {
			_, inSpring, inAutumn := changesOf(t, zone)
			for when, moment := range map[string]time.Time{
				"before the hour that is left out":    inSpring.Add(-time.Second),
				"after the hour that is left out":     inSpring,
				"at half past, for the first time":    inAutumn.Add(-30 * time.Minute),
				"at the end of an hour that repeats":  inAutumn.Add(-time.Second),
				"when the hour begins for the second": inAutumn,
				"at half past, for the second time":   inAutumn.Add(30 * time.Minute),
				"when its second time ends":           inAutumn.Add(time.Hour - time.Second),
			} {
				pool := dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{
					"time_zone": "'" + zoneOn(t, d, zone) + "'", "timestamp": fmt.Sprint(moment.Unix()), "clientFoundRows": found,
				}))
				cfg := shedlock.Config{ServiceName: when + " in " + zone, LockSecond: length, MinLockSecond: least}
				h := held{cfg.ServiceName, moment, newLock(t, pool, cfg), newLock(t, pool, cfg)}
				all = append(all, h)
				wantTryLock(t, h.one, true)
			}
		}
		wantAhead := func(after string, seconds int64) {
			t.Helper()
			for _, h := range all {
				var ahead int64
				// If a renewal was under way when the lock was given back, it is given back once more.
				await(t, func() string {
					return fmt.Sprintf("%s, a lock that was %s ends in %d s, want %d, or one more by rounding", h.when, after, ahead, seconds)
				}, func() bool {
					ahead = number(t, d.DB, "SELECT UNIX_TIMESTAMP(lock_until) - ? FROM shedlock_tab WHERE lock_name = ?", h.moment.Unix(), h.when)
					return ahead == seconds || ahead == seconds+1
				})
				wantTryLock(t, h.other, false)
			}
		}
		wantAhead("taken", length)
		sleep(t.Context(), 4*time.Second) // a renewal later
		wantAhead("renewed", length)
		for _, h := range all {
			if h.one.Context().Err() != nil {
				t.Errorf("%s: %v", h.when, context.Cause(h.one.Context()))
			}
			unlock(t, h.one)
		}
		wantAhead("given back and is to last some time", least)
	})
}

var tellingZones sync.Mutex

// zoneOn returns the name by which a server knows a time zone. A server that was installed without zones is told of it.
func zoneOn(t *testing.T, d dbtest.Database, zone string) string {
	t.Helper()
	tellingZones.Lock()
	defer tellingZones.Unlock()
	winter, inSpring, inAutumn := changesOf(t, zone)
	knows := func(name string) bool {
		return number(t, d.DB, "SELECT CONVERT_TZ('2025-07-01 12:00:00', '+00:00', ?) IS NOT NULL", name) == 1
	}
	ours := fmt.Sprintf("pq/%d/%s", inSpring.Year(), zone)
	for _, name := range []string{zone, ours} {
		if knows(name) {
			return name
		}
	}
	result, err := d.DB.Exec("INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')")
	if err != nil {
		t.Skipf("left out: the server knows no time zones by name, and tells us of none: %v", err)
	}
	id, err := result.LastInsertId()
	if err != nil {
		t.Fatal(err)
	}
	_, standard := winter.Zone()
	_, summer := inSpring.Zone()
	execute(t, d.DB, fmt.Sprintf("INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation) VALUES (%[1]d, 0, %[2]d, 0, ''), (%[1]d, 1, %[3]d, 1, '')", id, standard, summer))
	execute(t, d.DB, fmt.Sprintf("INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES (%[1]d, %[2]d, 0), (%[1]d, %[3]d, 1), (%[1]d, %[4]d, 0)", id, winter.Unix(), inSpring.Unix(), inAutumn.Unix()))
	execute(t, d.DB, fmt.Sprintf("INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('%s', %d)", ours, id))
	if !knows(ours) {
		t.Fatalf("the server does not know the time zone %s that it was told of", ours)
	}
	return ours
}
