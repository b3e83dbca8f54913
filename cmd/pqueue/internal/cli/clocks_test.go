package cli

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service"
)

// SQLite's clock is clockOff nanoseconds ahead of this machine's. If clockAway is set, a program cannot read it to parts of a second.
var (
	clockOff  atomic.Int64
	clockAway atomic.Bool
)

// setClock has the connections that are opened from now on go by a clock that is off by what clockOff says.
var setClock = sync.OnceFunc(func() {
	now := func() time.Time { return time.Now().Add(time.Duration(clockOff.Load())) }
	sqlite.MustRegisterScalarFunction("current_timestamp", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return now().UTC().Format(time.DateTime), nil
	})
	sqlite.MustRegisterScalarFunction("unixepoch", -1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		switch {
		case len(args) == 0:
			return now().Unix(), nil
		case args[0] == nil:
			return nil, nil
		case args[0] == "subsec" && clockAway.Load():
			return nil, errors.New("the clock is away")
		case args[0] == "subsec":
			return float64(now().UnixMicro()) / 1e6, nil
		}
		at, err := time.Parse(time.DateTime, fmt.Sprint(args[0]))
		return at.Unix(), err
	})
})

// told is what a command or a page says: its words, and the times and spans in between, as they lie from the database's clock.
type told struct {
	words string
	times []time.Duration
}

var (
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?( UTC)?|\b\d\d:\d\d(:\d\d)?( UTC)?<|\b\d+(\.\d+)?(d|h|ms|m|s)( ?\d+(\.\d+)?(h|ms|m|s))*\b`)
	places = regexp.MustCompile(`\bx[12]="(\d+(?:\.\d+)?)%"`) // of marks in a chart
	// The space between two columns of a table is as wide as the spans in them leave it.
	columns = regexp.MustCompile(` {2,}`)
	parts   = regexp.MustCompile(`(\d+(?:\.\d+)?)(d|h|ms|m|s)`)
	// What two runs have not in common: drawings, whose columns begin with whole minutes, names that are drawn, and empty steps. And when a
	// job was created: that is by the clock of the program that adds it.
	varies = regexp.MustCompile(`(?m)<svg aria-hidden="true">.*?</svg>| (d|x|width|datetime)="[^"]*"|\b([0-9a-z]{12}|\d{13})\b|^.*,0,0,0,0,0,0,,,,\n|^pq_.*|^created  .*|"created": "[^"]*"|<dt>Added</dt>.*`)
)

// toldBy reads a text. Commands show times where the reader is: all of them lie as many hours further off.
func toldBy(text string, now time.Time) (t told) {
	text = varies.ReplaceAllString(text, "")
	for _, part := range places.FindAllStringSubmatch(text, -1) { // as if the chart were an hour long; none is shorter, and they begin with whole minutes
		percent, _ := strconv.ParseFloat(part[1], 64)
		t.times = append(t.times, time.Duration(percent/100*float64(time.Hour)))
	}
	text = places.ReplaceAllString(text, "@")
	at := 0
	for _, found := range times.FindAllStringIndex(text, -1) {
		one := text[found[0]:found[1]]
		t.words += text[at:found[0]] + "@"
		at = found[1]
		switch plain := strings.TrimSuffix(strings.TrimSuffix(one, "<"), " UTC"); {
		case strings.HasSuffix(one, "<"): // a time of day, below a chart or in a job's timeline
			seconds := 0
			clock, err := time.Parse("15:04", plain)
			if err != nil {
				clock, _ = time.Parse(time.TimeOnly, plain)
				seconds = now.UTC().Second()
			}
			off := clock.Sub(time.Date(0, 1, 1, now.UTC().Hour(), now.UTC().Minute(), seconds, 0, time.UTC))
			t.times = append(t.times, time.Duration(math.Remainder(float64(off), float64(day))))
		case len(plain) >= len(time.DateTime) && plain[4] == '-':
			shown, err := time.Parse(time.RFC3339, plain)
			if err != nil {
				shown, _ = time.Parse(time.DateTime, plain)
			}
			t.times = append(t.times, shown.Sub(now))
		default:
			var span time.Duration
			for _, part := range parts.FindAllStringSubmatch(one, -1) {
				d, _ := time.ParseDuration(strings.Replace(part[0], "d", "h", 1))
				if part[2] == "d" {
					d *= 24
				}
				span += d
			}
			t.times = append(t.times, span)
		}
	}
	t.words = columns.ReplaceAllString(t.words+text[at:], "  ")
	return t
}

// A table's columns are as wide as what stands in them, and "1s" is shorter than "1.1s".
func TestASpanThatIsWrittenShorterIsToldInTheSameWords(t *testing.T) {
	now := time.Now()
	line := func(span string) told {
		return toldBy(fmt.Sprintf("LEASE  HELD FOR  TERM\njob-9  %-8s  3\n", span), now)
	}
	for _, span := range []string{"1s", "345ms", "1m0s"} {
		if err := line("1.1s").sameAs(line(span)); err != nil {
			t.Errorf("%q: %v", span, err)
		}
	}
}

// sameAs says in what two differ. What is shown may be a few minutes older, since it is in whole steps.
func (t told) sameAs(other told) error {
	if t.words != other.words || len(t.times) != len(other.times) {
		return errors.New("the words are others")
	}
	for i := range t.times {
		if d := t.times[i] - other.times[i]; d.Abs() > 5*time.Minute {
			return fmt.Errorf("the time no. %d lies %v from the database's clock instead of %v", i+1, other.times[i].Round(time.Second), t.times[i].Round(time.Second))
		}
	}
	return nil
}

// everyHalfHour is a schedule whose times lie as far from any moment as from any other.
type everyHalfHour struct{}

func (everyHalfHour) Next(after time.Time) time.Time { return after.Add(30 * time.Minute) }
func (everyHalfHour) String() string                 { return "every half hour" }

// clocked has jobs of all kinds, whose times lie around the database's clock, and a type that runs.
func clocked(t *testing.T, off time.Duration) (sh *shell, db *sql.DB, jobs *queue_job.Jobs, now func() time.Time) {
	t.Helper()
	clockOff.Store(int64(off))
	sh, db, jobs = newTables(t)
	now = func() time.Time { return time.Now().Add(off) }
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	minutes := func(n int) int64 { return now().Add(time.Duration(n) * time.Minute).Unix() }
	for _, job := range []struct {
		status                queue_job.JobStatus
		created, due, updated int // minutes from now
	}{{0, -90, -75, -90}, {0, -30, -15, -30}, {0, -30, 15, -30}, {0, -90, 75, -90}, {5, -90, -90, -75}, {5, -90, -90, -15}, {1, -90, -90, -75}, {1, -90, -90, -15}, {0, -1, 900, -1}} {
		if _, err := db.Exec("INSERT INTO async_job_tab (params, job_type, job_status, create_time, start_time, update_time) VALUES ('{}', 7, ?, ?, ?, ?)",
			int(job.status), minutes(job.created), minutes(job.due), minutes(job.updated)); err != nil {
			t.Fatal(err)
		}
	}
	delay := make([]int64, 12)
	delay[2] = 100
	ran := record.Stat{JobType: 7, Begin: minutes(-30) / 60 * 60, Lease: "job-7", Term: 3, Seconds: 60, StatState: record.StatState{Runs: map[string]int64{"success": 100}, Delay: delay, Took: delay}}
	scheduled := ran
	scheduled.JobType, scheduled.Lease = 9, "job-9"
	if err := errors.Join(
		st.WriteStats(t.Context(), []record.Stat{ran, scheduled}),
		st.WriteTenures(t.Context(), []record.Tenure{
			{Lease: "job-7", Term: 3, Owner: "mail@web-1/77#aaaaaaaaaaaa.1", Taken: minutes(-75) * 1000, Ended: minutes(-15) * 1000, How: record.Expired},
			{Lease: "job-7", Term: 5, Owner: "mail@web-2/78#bbbbbbbbbbbb.1", Taken: minutes(-15) * 1000},
		}),
	); err != nil {
		t.Fatal(err)
	}
	start(t, db, queue_job.Config{
		JobType: 9, ServiceName: "report", LockSecond: 60, // a busy machine is no reason to lose the lease, which each page would show
		Schedule: everyHalfHour{}, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil },
	})
	await(t, "what waits for the holder is told, and that it has the lease", func() bool {
		var told int
		err := db.QueryRow(`SELECT COUNT(*) FROM async_job_now_tab JOIN async_job_lease_log_tab USING (lock_name) WHERE lock_name = 'job-9'`).Scan(&told)
		return err == nil && told == 1
	})
	await(t, "the type is told, and its next job is there", func() bool {
		types, err := jobs.Types(t.Context(), db)
		return err == nil && slices.ContainsFunc(types, func(known queue_job.Type) bool {
			return known.JobType == 9 && !known.Told.IsZero() && !known.Scheduled.IsZero()
		})
	})
	return sh, db, jobs, now
}

// The clock of a laptop or a pod may be wrong, and the database's clock decides what is due. If the machine's clock is an hour ahead or behind,
// each command and each page does and says the same.
func TestTheClockOfThisMachineChangesNothing(t *testing.T) {
	setClock()
	defer clockOff.Store(0)
	was := map[string]told{}
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			sh, db, jobs, now := clocked(t, off)
			is := map[string]told{}
			for n, line := range linesOf(now()) {
				code, out, said := sh.run(strings.Fields(line)...)
				is[fmt.Sprint(n)+" "+strings.SplitAfter(line, "--until ")[0]] = toldBy(fmt.Sprintf("%d\n%s\n%s", code, out, said), now())
			}
			if _, err := db.Exec("DELETE FROM async_job_tab WHERE job_type = 8"); err != nil { // which a program with another clock has added
				t.Fatal(err)
			}
			handler := console.Handler(jobs, console.WithSchedules(func(text string) (queue_job.Schedule, error) { return everyHalfHour{}, nil }))
			for _, page := range []string{"/", "/queues/7", "/queues/9", "/queues/9/simulate", "/jobs", "/jobs?status=init", "/jobs/1", "/jobs/4", "/errors", "/leases", "/workers",
				"/schedules", "/health", "/retention", "/audit", "/operations/1", "/operations/new?verb=cancel&type=7"} {
				w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
				r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
				shows := handler
				if page == "/leases" { // also if a console shows this one first
					shows = console.Handler(jobs)
				}
				shows.ServeHTTP(w, r)
				is[page] = toldBy(fmt.Sprintf("%d\n%s", w.Code, w.Body), now())
			}
			if off == 0 {
				was = is
			}
			for what := range was {
				if err := was[what].sameAs(is[what]); err != nil {
					t.Errorf("%s: %v\n%s\nwith a clock that is right:\n%s", what, err, is[what].words, was[what].words)
				}
			}
		})
	}
}

// linesOf are the commands to which it matters what time it is.
func linesOf(now time.Time) []string {
	in := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	return []string{
		"job list due:..30m", "job list due:..-30m", "job list due:-30m..", "job list created:1h..", "job list created:..1h -o json", "job list since:1h -o csv", "job list updated:..1h",
		"job add 8 {} --at +2h", "job add 8 {} --after 2h", "job list type:8 due:-105m..-135m -o id", "job reschedule +3h 10", "job get 10 -o json", "job reschedule +3h type:8 -y", "job get 11",
		"job explain 11", "job explain 4 -o json", "job cancel due:..1h type:7 --dry-run", "job retry since:1h --dry-run", "job retry since:1h -y", "job delete updated:..1h --dry-run", "job errors",
		"keep status", "keep run 1h --dry-run", "keep run 1h -y", "job list type:7 status:final",
		"type pause 7 --for 45m", "type get 7", "type pause 7 --until +50m", "type get 7 -o json", "type pause 7 --until " + in(30*time.Minute), "type list",
		"type pause 7 --until " + in(-30*time.Minute), "type history 7 --last 45m --step 1m -o csv", "type history 7 --last 15m --step 1m -o csv", "type what-if 9 --last 1h",
		"lease history", "lease history 7 -o json", "lease history --last 5m", "lease list", "host list", "check", "op list", "audit list -o json", "top",
		"job list type:9",
	}
}

// A service lets the holder of a token in by its own clock, so that one says how long the token is valid. The database's may be another.
func TestATokenIsValidByTheClockThatChecksIt(t *testing.T) {
	setClock()
	defer clockOff.Store(0)
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		clockOff.Store(int64(off))
		sh, db, _ := newTables(t)
		sh.want("token create --scope admin --valid 45m", exitDone)
		tokens, err := service.OpenTokens(t.Context(), db, "")
		if err != nil {
			t.Fatal(err)
		}
		list, err := tokens.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if in := time.Until(list[0].Expires); in < 44*time.Minute || in > 45*time.Minute {
			t.Errorf("with a clock of the database that is off by %v, a token for 45 minutes expires in %v", off, in)
		}
		if ago := time.Now().Add(off).Sub(list[0].Created); ago.Abs() > time.Minute {
			t.Errorf("with a clock of the database that is off by %v, it was created %v ago by that clock", off, ago)
		}
	}
}

func TestAWatchedJobsEndIsSaidIfTheClockIsAway(t *testing.T) {
	setClock()
	defer clockAway.Store(false)
	sh, db, _ := newTables(t)
	sh.want("job add 7 {}", exitDone)
	if _, err := db.Exec("UPDATE async_job_tab SET job_status = ?", int(queue_job.JobStatusSuccess)); err != nil {
		t.Fatal(err)
	}
	clockAway.Store(true)
	sh.want("job watch 1", exitDone, "completed")
}
