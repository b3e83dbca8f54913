package persistent_queue_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownClock lists where those who ask, show and serve read this machine's clock, by what they read it for. All that the tables say of times is by
// the database's clock, and this one may be minutes off: a laptop's, or a pod's. So whoever counts from now what the database decides, or how
// long ago something was, asks the database.
var ownClock = map[string][]string{
	"what was not read from a database, as in somebody's own test": {"queue_job/state.go readAt"},
	"how long something takes or lasts here, or when this process does it again: both ends are readings of this clock": {
		"cmd/pqueue/internal/cli/archive.go restore", "cmd/pqueue/internal/cli/fleet.go drain", "cmd/pqueue/internal/cli/fleet.go yield",
		"cmd/pqueue/internal/cli/keep.go delete", "cmd/pqueue/internal/cli/op.go carryOut", "cmd/pqueue/internal/cli/probe.go ask",
		"cmd/pqueue/internal/cli/probe.go ready", "console/clock.go heard", "console/clock.go now", "console/shared.go get", "console/static/chart.js", "console/static/keys.js", "console/static/live.js", "console/static/palette.js",
		"internal/query/search.go walk",
		"metrics/flows.go read", "metrics/metrics.go Collect", "queue_job/hidden.go Sickness", "queue_job/wait.go after", "queue_job/wait.go lead", "queue_job/wait.go read", "service/health.go tryWrites", "service/internal/api/api.go note", "service/internal/api/api.go writeWithin",
		"service/internal/api/read.go end", "service/internal/api/read.go passOver", "service/internal/api/read.go problem",
		"service/internal/api/read.go reader", "service/internal/api/read.go room", "service/internal/api/read.go still",
		"service/internal/api/stream.go addStream", "service/internal/api/stream.go waitForTaker", "service/internal/deliver/deliverer.go tidyNowAndThen",
		"service/internal/deliver/dial.go dial", "service/internal/deliver/dial.go firstOf", "service/internal/deliver/dial.go keep",
		"service/internal/deliver/dial.go resolve", "service/internal/deliver/dns.go addresses", "service/internal/deliver/dns.go answer",
		"service/internal/deliver/lanes.go await", "service/internal/deliver/lanes.go enter", "service/internal/deliver/lanes.go leave",
		"service/internal/deliver/send.go send", "service/internal/deliver/traces.go follow", "service/internal/logins/shared.go Shared",
		"service/internal/topics/registry.go isNow", "service/internal/topics/registry.go since", "service/internal/topics/registry.go tell",
		"service/internal/topics/registry.go tellRefused",
	},
	"a line of a log, or of a screen while the database is away: when this process saw it": {
		"cmd/pqueue/internal/cli/demo.go ServeHTTP", "cmd/pqueue/internal/cli/job.go watch", "cmd/pqueue/internal/cli/top.go top",
	},
	"what is refused before anything is asked: days or years ago by any clock": {
		"internal/query/moment.go parseLimit", "cmd/pqueue/internal/cli/types.go pauseEnd",
	},
	"a token or a session ends by the clock of the process that lets its holder in, as logins do; so it does when one is made": {
		"service/internal/api/aliases.go caller", "service/internal/api/api.go answer", "service/internal/logins/guard.go login",
		"service/internal/logins/guard.go logout", "service/internal/logins/guard.go user", "service/internal/tokens/tokens.go New",
		"cmd/pqueue/internal/cli/token.go tokenCreate",
	},
	"a signature's time, which the receiver holds against its own clock, or a receiver's Retry-After as a date": {
		"service/internal/deliver/deliverer.go deliver",
	},
	"what is given up for good, is mended, or counts as passed, only if both clocks say so": {
		"service/internal/api/add.go isOver", "service/internal/api/aliases.go delayQueueTask", "service/housekeeping.go surely", "service/service.go New",
		"service/internal/callback/callback.go Handler", "service/internal/schedules/schedules.go Mend",
	},
	"until when a destination gets no calls of this process: its breakers, rates and pauses go by its own clock, and so does the time that it shows": {
		"service/internal/deliver/deliverer.go Deliver", "service/internal/deliver/destinations.go Destinations",
	},
	"when a job was created is by the clock of the program that added it, which may be this one": {
		"otelqueue/otelqueue.go isChild",
	},
	"a moment of a run goes through the Runner's clock, which follows the database's": {
		"queue_job/run.go endTx", "queue_job/step.go sleep", "queue_job/step.go step", "queue_job/step.go waitUntil",
		"queue_job/signal.go await",
	},
}

// askers are the folders of those who ask, show and serve. Those who run jobs have a clock that follows the database's (internal/ground).
var askers = []string{"cmd", "console", "internal/faces", "internal/query", "metrics", "operate", "otelqueue", "queue_job", "service"}

func TestEachReadingOfThisMachinesClockHasItsReason(t *testing.T) {
	reasons := map[string]string{}
	for reason, places := range ownClock {
		for _, place := range places {
			if reasons[place] != "" {
				t.Errorf("%s has two reasons", place)
			}
			reasons[place] = reason
		}
	}
	read := map[string]bool{}
	for _, dir := range askers {
		for _, place := range readingsIn(t, dir) {
			read[place] = true
			if reasons[place] == "" {
				t.Errorf("%s reads this machine's clock: ask the database's, as faces.Newest does, or say in ownClock why this one is right", place)
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(reasons)) {
		if !read[place] {
			t.Errorf("%s does not read this machine's clock any more: take it off the list", place)
		}
	}
}

// scriptClock is how a page's script reads the clock of the viewer's machine.
var scriptClock = regexp.MustCompile(`\bDate\b|performance\.now`)

// readingsIn lists the functions below a folder that read this machine's clock, as "folder/file.go function", and the scripts.
func readingsIn(t *testing.T, dir string) (places []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go"):
			return err
		case strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".html"):
			text, err := os.ReadFile(name)
			if scriptClock.Match(text) {
				places = append(places, filepath.ToSlash(name))
			}
			return err
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			what := "variables"
			if f, ok := decl.(*ast.FuncDecl); ok {
				what = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				from, ok := s.X.(*ast.Ident)
				if ok && from.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
					places = append(places, fmt.Sprint(filepath.ToSlash(name), " ", what))
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(places)
	return slices.Compact(places)
}
