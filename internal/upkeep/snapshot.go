package upkeep

import (
	"context"
	"reflect"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	snapshotEvery = 10 * time.Second // what has changed
	snapshotAgain = time.Minute      // what has not: then a reader knows that it is still so
	linesKept     = 24 * time.Hour   // of types that nobody holds any more

	failingMax = 300 // characters of an error
)

// Lines is what a snapshot needs of the tables. *store.Store has it.
type Lines interface {
	WriteLines(ctx context.Context, lines []store.Line) error
	DropLines(ctx context.Context, before int64) error
}

// snapshot writes, every now and then, what the held lines have in memory and what they run, for those who look at the database from
// outside. Nothing waits for it, and nothing hangs on what it writes. A row has the term of its lease: so a reader knows whether the holder
// has lost the lease since, and an earlier holder never overwrites the row of a later one. (The rows of rests, in the same table, are read by
// the next holder: internal/cluster/rest_runs.go.)
type snapshot struct {
	*Base
	table  Lines
	looks  ground.Looks
	told   map[string]lineTold // by lease
	tidied bool
}

// lineTold is what a line told last.
type lineTold struct {
	term  int64
	state store.LineState
	at    time.Time
}

// Snapshot is the task that tells what waits and runs.
func Snapshot(b *Base, table Lines) *Task {
	s := &snapshot{Base: b, table: table, told: map[string]lineTold{}}
	return &Task{Base: b, doing: "tell what waits and runs", first: time.Second, every: snapshotEvery, do: s.write}
}

func (s *snapshot) write(context.Context, Turn) (time.Duration, error) {
	news, told := s.news(time.Now())
	if len(news) == 0 && s.tidied {
		s.told = told
		return 0, errIdle
	}
	if len(news) > 0 {
		if err := s.look(func(ctx context.Context) error { return s.table.WriteLines(ctx, news) }); err != nil {
			return 0, err
		}
	}
	s.told = told
	if s.tidied {
		return 0, nil
	}
	err := s.look(func(ctx context.Context) error {
		return s.table.DropLines(ctx, s.Clock.Surely()/1000-int64(linesKept/time.Second))
	})
	s.tidied = err == nil
	return 0, err
}

// news are the lines that are otherwise than they were, or were not told for long, and what is told of all when these are written.
func (s *snapshot) news(now time.Time) (news []store.Line, told map[string]lineTold) {
	told = map[string]lineTold{}
	since, latest := s.failing()
	for _, h := range s.Held() {
		next := lineTold{h.Term, h.State(s.Clock.Now(), h.Term), now}
		next.state.FailingSince, next.state.Failing = since, latest
		last, known := s.told[h.Lease()]
		if known && last.term == next.term && now.Sub(last.at) < snapshotAgain && reflect.DeepEqual(last.state, next.state) {
			told[h.Lease()] = last
			continue
		}
		told[h.Lease()] = next
		news = append(news, store.Line{Lease: h.Lease(), Term: next.term, LineState: next.state})
	}
	return news, told
}

// failing says since when statements fail, in unix seconds, and how the last of them did.
func (s *snapshot) failing() (since int64, latest string) {
	lasts, latest := s.Errlog.Failing()
	if lasts == 0 {
		return 0, ""
	}
	return (s.Clock.Now() - lasts.Milliseconds()) / 1000, ground.Cut(latest, failingMax)
}

func (s *snapshot) look(statement func(context.Context) error) error {
	holding := s.Holding()
	return ground.UnlessOver(holding, s.looks.Look(holding, statement))
}
