package cron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// times returns the times of a schedule in a stretch, as clocks in its zone show them.
func times(t *testing.T, spec, from string, span time.Duration) (list []string) {
	t.Helper()
	s, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	start, err := time.ParseInLocation("2006-01-02 15:04:05", from, s.zone)
	if err != nil {
		t.Fatal(err)
	}
	for at := s.Next(start.Add(-time.Second)); at.Before(start.Add(span)); at = s.Next(at) {
		list = append(list, at.In(s.zone).Format("01-02 15:04 MST"))
	}
	return list
}

const day = 24 * time.Hour

func TestWhichRunHappensWhenTheClocksAreSet(t *testing.T) {
	const spring, autumn = "2027-03-27 12:00:00", "2027-10-30 12:00:00"
	for _, c := range []struct {
		what, spec, from string
		want             []string
	}{
		{"forward over the time: once, in that moment", "30 2 * * *", spring, []string{"03-28 03:00 CEST"}},
		{"forward over several: once", "*/20 2 * * *", spring, []string{"03-28 03:00 CEST"}},
		{"forward over one, and the next in that moment: once", "0 2,3 * * *", spring, []string{"03-28 03:00 CEST"}},
		{"forward beside the time: nothing special", "30 1,3 * * *", spring, []string{"03-28 01:30 CET", "03-28 03:30 CEST"}},
		{"forward, with a star: none is made up for", "30 * * * *", "2027-03-28 01:00:00", []string{"03-28 01:30 CET", "03-28 03:30 CEST", "03-28 04:30 CEST"}},
		{"back over the time: the first of both", "30 2 * * *", autumn, []string{"10-31 02:30 CEST"}},
		{"back over several: the first ones", "15,45 2 * * *", autumn, []string{"10-31 02:15 CEST", "10-31 02:45 CEST"}},
		{"back to the time: the first of both", "0 2 * * *", autumn, []string{"10-31 02:00 CEST"}},
		{"back beside the time: nothing special", "0 3 * * *", autumn, []string{"10-31 03:00 CET"}},
		{"back, with a star: both", "30 */1 * * *", "2027-10-31 01:00:00", []string{"10-31 01:30 CEST", "10-31 02:30 CEST", "10-31 02:30 CET"}},
	} {
		span := day
		if strings.Contains(c.what, "star") {
			span = time.Duration(len(c.want)) * time.Hour
		}
		if got := times(t, "CRON_TZ=Europe/Berlin "+c.spec, c.from, span); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s runs at %q, want %q", c.what, c.spec, got, c.want)
		}
	}
}

func TestMidnightThatDoesNotExistIsTheFirstMomentOfTheDay(t *testing.T) {
	if got, want := times(t, "CRON_TZ=America/Sao_Paulo @daily", "2018-11-03 12:00:00", 2*day), []string{"11-04 01:00 -02", "11-05 00:00 -02"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAScheduleThatGoesByTheTimeThatPassesIsEvenInEveryNight(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "UTC"} {
		s := MustParse("CRON_TZ=" + zone + " */15 * * * *")
		at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		for at.Year() == 2027 {
			next := s.Next(at)
			if next.Sub(at) != 15*time.Minute {
				t.Fatalf("%s: %v after %v", zone, next, at)
			}
			at = next
		}
	}
}

// TestTheTimesAreThoseThatALookAtEachMinuteFinds compares Next with a slow and simple reading of the same text.
func TestTheTimesAreThoseThatALookAtEachMinuteFinds(t *testing.T) {
	nights := map[string][]string{
		"Europe/Berlin":       {"2027-03-28", "2027-10-31", "2027-06-30"},
		"America/New_York":    {"2027-03-14", "2027-11-07"},
		"Australia/Lord_Howe": {"2027-04-04", "2027-10-03"}, // by half an hour
		"Africa/Cairo":        {"2027-04-30", "2027-10-29"}, // at midnight
		"Asia/Kolkata":        {"2027-01-01"},
	}
	dice := rand.New(rand.NewPCG(1, 2))
	field := func(low, high int) string {
		one := func() int { return low + dice.IntN(high-low+1) }
		a, b := one(), one()
		switch dice.IntN(5) {
		case 0:
			return "*"
		case 1:
			return "*/" + strconv.Itoa(1+dice.IntN(high-low))
		case 2:
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 3:
			return fmt.Sprintf("%d,%d", a, b)
		}
		return strconv.Itoa(a)
	}
	for zone, dates := range nights {
		for _, date := range dates {
			for range 60 {
				weekday := "*"
				if dice.IntN(4) == 0 {
					weekday = field(0, 6)
				}
				fields := []string{field(0, 59), field(0, 4), "*", "*", weekday}
				s := MustParse("CRON_TZ=" + zone + " " + strings.Join(fields, " "))
				night, _ := time.ParseInLocation("2006-01-02", date, s.zone)
				from, to := night.Add(-3*time.Hour), night.Add(9*time.Hour)
				var got []time.Time
				for at := s.Next(from.Add(-time.Second)); at.Before(to); at = s.Next(at) {
					got = append(got, at)
				}
				if want := minuteByMinute(fields, s.zone, from, to); !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Fatalf("%s around %s: %v, want %v", s, date, got, want)
				}
			}
		}
	}
}

func minuteByMinute(fields []string, zone *time.Location, from, to time.Time) (list []time.Time) {
	matches := func(local time.Time) bool {
		for i, n := range []int{local.Minute(), local.Hour(), 0, 0, int(local.Weekday())} {
			if fields[i] != "*" && !contains(fields[i], n) {
				return false
			}
		}
		return true
	}
	shown := map[string]bool{}
	offset := func(at time.Time) time.Duration { _, s := at.In(zone).Zone(); return time.Duration(s) * time.Second }
	for at := from.Add(-3 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
		local := at.UTC().Add(offset(at))
		due := matches(local)
		if !strings.HasPrefix(fields[1], "*") {
			due = due && !shown[local.String()]
			for skipped := at.Add(-time.Minute).UTC().Add(offset(at.Add(-time.Minute)) + time.Minute); skipped.Before(local); skipped = skipped.Add(time.Minute) {
				due = due || matches(skipped)
			}
		}
		shown[local.String()] = true
		if due && !at.Before(from) {
			list = append(list, at)
		}
	}
	return list
}

func contains(field string, n int) bool {
	var a, b int
	switch {
	case strings.HasPrefix(field, "*/"):
		fmt.Sscanf(field, "*/%d", &a)
		return n%a == 0
	case strings.Contains(field, "-"):
		fmt.Sscanf(field, "%d-%d", &a, &b)
		return a <= n && n <= b
	default:
		return slices.Contains(strings.Split(field, ","), strconv.Itoa(n))
	}
}

func TestEveryIsAtMultiplesOfItsDurationWhereverOneLooks(t *testing.T) {
	for spec, step := range map[string]int64{"@every 1s": 1, "@every 90s": 90, "@every 1h30m": 5400} {
		s := MustParse(spec)
		for _, from := range []int64{0, -7, 1_800_000_000, 1_800_000_001, 1_800_005_399} {
			if next := s.Next(time.Unix(from, 999)).Unix(); next%step != 0 || next <= from || next > from+step {
				t.Errorf("%s: %d after %d", spec, next, from)
			}
		}
	}
}

func TestASchedulesTextReadsAsTheSameSchedule(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		" 30  4 * * * ":                   "CRON_TZ=Europe/Berlin 30 4 * * *",
		"TZ=Asia/Tokyo 0 0 * * SUN":       "CRON_TZ=Asia/Tokyo 0 0 * * SUN",
		"CRON_TZ=America/New_York @daily": "CRON_TZ=America/New_York 0 0 * * *",
		"@every 90s":                      "@every 1m30s",
		"@Hourly":                         "CRON_TZ=Europe/Berlin 0 * * * *",
	} {
		s, err := ParseIn(spec, berlin)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(s.String())
		if err != nil || s.String() != want || again.String() != want {
			t.Errorf("%q is %q, and that is %v: %v", spec, s, again, err)
		}
	}
}

func TestBothDaysLimitedCountsEither(t *testing.T) {
	got := times(t, "0 12 13 * 5", "2026-11-01 00:00:00", 21*day)
	if want := []string{"11-06 12:00 UTC", "11-13 12:00 UTC", "11-20 12:00 UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if a, b := times(t, "0 12 * * 7", "2026-11-01 00:00:00", 21*day), times(t, "0 12 * * SUN", "2026-11-01 00:00:00", 21*day); len(a) != 3 || !slices.Equal(a, b) {
		t.Errorf("Sunday is %q and %q", a, b)
	}
}

func TestWhatIsNoScheduleIsRefusedWithTheRemedy(t *testing.T) {
	for spec, remedy := range map[string]string{
		"":                            "five fields",
		"* * * *":                     "has 4 fields",
		"0 * * * * *":                 "has 6 fields",
		"60 * * * *":                  "60",
		"0 0 30 2 *":                  "no such day",
		"a b c d e":                   "a",
		"@sometimes":                  "@hourly",
		"@daily 3":                    "@hourly",
		"@every":                      "90s",
		"@every 0s":                   "whole seconds",
		"@every -1h":                  "whole seconds",
		"@every 1.5s":                 "whole seconds",
		"CRON_TZ=Mars/Olympus @daily": "Europe/Berlin",
		"CRON_TZ= @daily":             "Europe/Berlin",
		"CRON_TZ=UTC":                 "five fields",
	} {
		if s, err := Parse(spec); err == nil || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), strconv.Quote(spec)) {
			t.Errorf("%q: %v, %v", spec, s, err)
		}
	}
	if _, err := ParseIn("@daily", nil); err == nil {
		t.Error("a zone that is nil was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("CRON_TZ=Europe/Berlin */15 8-18 * * MON-FRI")
	f.Add("@every 90s")
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := Parse(spec)
		if err != nil {
			return
		}
		at := time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)
		for range 5 {
			next := s.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: %v after %v", spec, next, at)
			}
			at = next
		}
	})
}

func TestTheTextOfAScheduleReadsBackWithTheSameTimesWhateverItsZoneIsCalled(t *testing.T) {
	load := func(name string) *time.Location {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return zone
	}
	for want, zone := range map[string]*time.Location{
		"UTC": time.UTC, "Europe/Berlin": load("Europe/Berlin"), "Local": time.Local, "CET": load("CET"), "Etc/GMT-8": load("Etc/GMT-8"),
		"+08:00": time.FixedZone("CST", 8*3600), "+01:00": time.FixedZone("CET", 3600), "-09:30": time.FixedZone("", -(9*3600 + 1800)),
		"+02:00": time.FixedZone("my own", 2*3600), "+00:00:30": time.FixedZone("UTC", 30),
	} {
		s, err := ParseIn("30 4 * * *", zone)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if s.String() != "CRON_TZ="+want+" 30 4 * * *" {
			t.Errorf("%s", s)
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%s: read back as %s, %v", s, again, err)
			continue
		}
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2027; at = s.Next(at) {
			if got, want := again.Next(at), s.Next(at); !got.Equal(want) {
				t.Fatalf("%s: read back, %v after %v, and it was %v", s, got, at, want)
			}
		}
	}
	data, err := time.LoadLocationFromTZData("no such place", centralEurope())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ParseIn("30 4 * * *", data); err == nil || !strings.Contains(err.Error(), "no such place") {
		t.Errorf("a zone that nobody could read back: %v, %v", s, err)
	}
}

// centralEurope is the data of a zone without a list of changes: its rule is all there is.
func centralEurope() (data []byte) {
	block := slices.Concat([]byte("TZif2"), make([]byte, 15), make([]byte, 4*4), []byte{0, 0, 0, 1, 0, 0, 0, 4}, // counts: one kind of time, four characters
		[]byte{0, 0, 14, 16, 0, 0}, []byte("CET\x00")) // 3600 seconds
	return slices.Concat(block, block, []byte("\nCET-1CEST,M3.5.0,M10.5.0/3\n"))
}
