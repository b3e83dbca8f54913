package tests

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/simulator"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The simulator is worth as much as its tables are like the real ones: here both get the same statements.
func TestTheSimulatorsTablesDoWhatTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		statements := unlessShort(1500, 250) / slack // one after the other, so the race detector finds nothing
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		s, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		p := &pair{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), db: d.DB, real: s}
		p.table = simulator.NewTable(func() time.Time { return p.now })
		p.exec("INSERT INTO async_job_type_tab (job_type) VALUES (1), (2)")
		for range statements {
			p.readClock()
			p.step()
			if t.Failed() {
				t.Fatalf("after: %s", p.last)
			}
		}
	})
}

// tables is what package store and the simulator both offer the engine.
type tables interface {
	engine.Jobs
	keeper.Leases
	cluster.Layouts
	cluster.RestRuns
	cluster.Dormancy
	RecordStep(ctx context.Context, step store.Step) (recorded bool, err error)
	StepsOfRun(ctx context.Context, h conn.Handle, id uint64) ([]store.Step, error)
	Signal(ctx context.Context, step store.Step) (store.Signalled, error)
	EndWait(ctx context.Context, step store.Step) (ours bool, err error)
	ForgetStray(ctx context.Context, id uint64, created int64) error
	Layout(ctx context.Context, jobType int32) (int64, error)
	Pause(ctx context.Context, jobType int32) (changed bool, err error)
	PauseUntil(ctx context.Context, jobType int32, until int64) (changed bool, err error)
	Resume(ctx context.Context, jobType int32) (changed bool, err error)
}

// pair is a database and the simulator's tables, which have seen the same statements.
type pair struct {
	*testing.T
	*rand.Rand
	db    *sql.DB
	real  tables
	table *simulator.Table
	now   time.Time // by the database's clock
	last  string
	ids   []uint64
	terms int64
}

const farAway = 1000

// readClock sets the simulator's clock to the database's.
func (p *pair) readClock() { p.now = p.clock() }

// clock is the database's.
func (p *pair) clock() time.Time {
	p.Helper()
	_, now, err := p.real.Newest(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return time.UnixMicro(int64(now * 1e6))
}

// near reports whether a time here and there are no further apart than they may be: the simulator's clock has stood since it
// was set, the database's went on meanwhile. The second is for rounding.
func (p *pair) near(apart time.Duration) bool {
	p.Helper()
	return apart.Abs() <= p.clock().Sub(p.now)+time.Second
}

func (p *pair) step() {
	types, horizon := []int32{1, 2}[:1+p.IntN(2)], int64(3)
	ids, term := p.someIDs(), p.someTerm()
	switch p.IntN(25) {
	case 0, 1:
		p.insert()
	case 2:
		p.byHand()
	case 3, 4, 5:
		read := p.someVersion(ids)
		createdBy := p.now.Unix() - int64(p.IntN(4)/3)*farAway/2
		deadline := p.now.Add([]time.Duration{farAway * time.Second, farAway * time.Second, -farAway * time.Second}[p.IntN(3)]).UnixMilli()
		p.both("mark", func(t tables) (any, error) { return t.Mark(p.Context(), ids, createdBy, read, term, deadline) })
	case 6:
		p.both("unlocked", func(t tables) (any, error) {
			ids, err := t.Unlocked(p.Context(), ids)
			slices.Sort(ids)
			return slices.Compact(ids), err
		})
		p.both("long parameters", func(t tables) (any, error) {
			rows, err := t.LongParams(p.Context(), ids, term)
			slices.SortFunc(rows, func(a, b store.RunParams) int { return int(a.ID) - int(b.ID) })
			return slices.Compact(rows), err
		})
		p.both("read back", func(t tables) (any, error) {
			rows, err := t.MarkedRows(p.Context(), ids, term)
			slices.SortFunc(rows, func(a, b store.Marked) int { return int(a.ID) - int(b.ID) })
			return slices.Compact(rows), err
		})
	case 7:
		marked := p.someRun(ids)
		p.both("unmark", func(t tables) (any, error) { return t.Settle(p.Context(), ids, store.NotStarted{Marked: marked}) })
	case 8:
		status, run := []int32{1, 2, 5}[p.IntN(3)], p.someRun(ids)
		p.both("finish", func(t tables) (any, error) {
			return t.Settle(p.Context(), ids, store.Final{Term: run.Term, Attempt: run.Attempts, Status: status})
		})
	case 9, 10:
		status, run, wait, retried, deferred := 3+p.Int32N(2), p.someRun(ids), float64(p.IntN(3))*farAway, p.Int32N(2), p.Int32N(2)
		awaits, changes := p.IntN(3) == 0, run.Changes+p.Int32N(2)
		p.both("put back", func(t tables) (any, error) {
			return t.Settle(p.Context(), ids, store.Again{
				Term: run.Term, Attempt: run.Attempts, Status: status, Wait: wait, Retried: retried, Deferred: deferred,
				Awaits: awaits, Changes: changes,
			})
		})
	case 11:
		lost, read := int16(p.IntN(3)), p.someVersion(ids)
		p.both("fail lost", func(t tables) (any, error) {
			return t.Settle(p.Context(), ids, store.Died{Read: read, Term: term, LostBefore: lost})
		})
	case 12, 13:
		above, gaps, limit := p.someID(), p.someGaps(), 1+p.IntN(20)
		wanted := []store.Wanted{{From: p.Int32N(3) - 1, Types: types}}
		if p.IntN(4) == 0 {
			wanted = nil
		}
		p.both("tail", func(t tables) (any, error) {
			return t.Tail(p.Context(), above, gaps, wanted, horizon, limit)
		})
	case 14:
		p.both("sweep", func(t tables) (any, error) {
			rows, more, err := t.SweepAll(p.Context(), types, horizon, farAway)
			slices.SortFunc(rows, func(a, b store.Row) int { return int(a.ID) - int(b.ID) })
			return []any{rows, more}, err
		})
		p.both("whether a sweep is full", func(t tables) (any, error) {
			rows, more, err := t.SweepAll(p.Context(), types, horizon, 3)
			return []any{len(rows), more}, err
		})
	case 15:
		places, limit := p.somePlaces(), 1+p.IntN(10)
		p.both("page", func(t tables) (any, error) {
			return t.Page(p.Context(), types[0], store.Shard{}, places, horizon, limit)
		})
	case 16:
		lane, before, upTo := store.Lanes()[p.IntN(len(store.Lanes()))], p.now.Unix()-farAway/2, p.someID()
		p.both("abandoned", func(t tables) (any, error) {
			place, n, err := t.Abandoned(p.Context(), types[0], lane, before, upTo)
			return []any{place, n}, err
		})
	case 19:
		before, upTo, from := p.now.Unix()-farAway/2, p.someID(), p.someID()
		p.both("first of keys", func(t tables) (any, error) {
			return t.FirstOfKeys(p.Context(), types[0], someKeys[1:1+len(types)], from, before, upTo)
		})
		rest, turn := []string{"rest-1-64", "rest-1-128"}[p.IntN(2)], int64(p.IntN(5))
		switch p.IntN(3) {
		case 0:
			p.both("tell runs of a rest", func(t tables) (any, error) {
				return nil, t.WriteRestRuns(p.Context(), rest, 2, turn, store.Runs{Jobs: ids, Keys: slices.Repeat(someKeys[1:1+len(types)], 1+len(ids)%2)})
			})
		case 1:
			p.both("drop runs of a rest", func(t tables) (any, error) { return nil, t.DropRestRuns(p.Context(), rest, 2) })
		}
		p.both("runs of rests", func(t tables) (any, error) { return t.RestRuns(p.Context(), []string{"rest-1-64", "rest-1-128"}) })
		terms := []int64{term, p.someTerm()}
		p.both("running of keys", func(t tables) (any, error) {
			return t.RunningOfKeys(p.Context(), types[0], someKeys[1:1+len(types)], terms)
		})
	case 17:
		p.both("clamp", func(t tables) (any, error) { return nil, t.ClampPriorities(p.Context(), types) })
	case 18:
		p.both("standings", func(t tables) (any, error) {
			rows, err := t.Standings(p.Context(), ids)
			slices.SortFunc(rows, func(a, b store.Standing) int { return int(a.ID) - int(b.ID) })
			return slices.Compact(rows), err
		})
	case 20:
		p.pause()
	case 21:
		p.recordStep()
	default:
		p.lease()
	}
	p.compareRows()
}

var someKeys = []string{"", "a", "b"}

// both sends a statement to both and compares the results.
func (p *pair) both(what string, send func(tables) (any, error)) {
	p.Helper()
	p.last = what
	want, err := send(p.real)
	if err != nil {
		p.Fatalf("%s: %v", what, err)
	}
	got, _ := send(p.table)
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		p.Errorf("%s: the simulator says\n%s\nthe database\n%s", what, g, w)
	}
}

// endOfMeta is the end that metadata of insert have; 0: none.
func endOfMeta(meta string) int64 {
	if !strings.Contains(meta, "pqueue.expires") {
		return 0
	}
	return time.Date(2030, 1, 1, 0, 0, 0, 123e6, time.UTC).UnixMilli()
}

// insert adds a few rows, here and there, in a transaction that commits or does not. Start and creation lie so far from
// now that the time between the two does not matter.
func (p *pair) insert() {
	p.last = "insert"
	tx, err := p.db.BeginTx(p.Context(), nil)
	if err != nil {
		p.Fatal(err)
	}
	here := p.table.Begin()
	for range 1 + p.IntN(4) {
		created := p.now.Unix() - int64(p.IntN(2))*farAway
		row := simulator.Job{NoStatus: p.IntN(4) == 0, NoStart: p.IntN(4) == 0}
		row.JobType, row.CreateTime = 1+p.Int32N(3), created
		row.Params = fmt.Sprintf("row %d", p.IntN(farAway))
		if p.IntN(4) == 0 {
			row.Params, row.LongParams = store.SeeLongParams, row.Params
		}
		row.Priority, row.MaxRetries, row.Changes = []int32{0, 0, 0, 2, 1, -1, -9, 100}[p.IntN(8)], store.NotSet, p.Int32N(8)/7
		row.Key = someKeys[p.IntN(len(someKeys))]
		extra := store.Extra{Meta: []string{"", "", `{"a":"1,2"}`, `{"pqueue.expires":"2030-01-01T00:00:00.123Z"}`}[p.IntN(4)], Group: []string{"", "", "a", "b"}[p.IntN(4)]}
		extra.Expires = endOfMeta(extra.Meta)
		if extra != (store.Extra{}) {
			row.Extra = &extra
		}
		var status, start any
		if !row.NoStatus {
			row.Status = []int16{0, 0, 3, 4, 1, 9}[p.IntN(6)]
			status = row.Status
		}
		if !row.NoStart {
			row.StartTime = []int64{0, 0, p.now.Unix() - farAway, p.now.Unix() + farAway}[p.IntN(4)]
			start = row.StartTime
		}
		_, err := tx.Exec(dbtest.Rebind(p.db, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, priority, changes, job_key, meta, job_group, long_params) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
			row.Params, row.JobType, status, start, created, created, row.Priority, row.Changes, orNull(row.Key), orNull(extra.Meta), orNull(extra.Group), orNull(row.LongParams))
		if err != nil {
			p.Fatal(err)
		}
		var there uint64
		if err := tx.QueryRow("SELECT MAX(id) FROM async_job_tab").Scan(&there); err != nil {
			p.Fatal(err)
		}
		id := here.Insert(row)
		if skipped := there - id; skipped > 0 { // a database may reuse or leave out ids after a rollback
			p.Fatalf("id %d here, %d there", id, there)
		}
		p.ids = append(p.ids, id)
	}
	if err := tx.Commit(); err != nil {
		p.Fatal(err)
	}
	here.Commit()
}

func orNull(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

func (p *pair) byHand() {
	id := p.someID()
	p.last = fmt.Sprintf("delete %d", id)
	if p.IntN(3) == 0 {
		p.exec("DELETE FROM async_job_tab WHERE id = ?", id)
		p.table.Delete(id)
		return
	}
	p.last = fmt.Sprintf("cancel %d", id)
	p.exec("UPDATE async_job_tab SET job_status = 5 WHERE id = ?", id)
	p.table.Change(id, func(j *simulator.Job) { j.Status, j.NoStatus = 5, false })
}

func (p *pair) exec(query string, args ...any) {
	p.Helper()
	if _, err := p.db.ExecContext(p.Context(), dbtest.Rebind(p.db, query), args...); err != nil {
		p.Fatal(err)
	}
}

// lease sends a statement about leases. Nothing expires by itself: they are set to a moment far away by hand.
func (p *pair) lease() {
	names, owner := []string{"job-1", "job-2", "job-2/3"}[:1+p.IntN(3)], fmt.Sprintf("owner %d", p.IntN(3))
	name := names[len(names)-1]
	switch p.IntN(13) {
	case 11, 12:
		p.live(name)
	case 9:
		p.divide(names, name)
	case 10:
		p.dormant(name)
	case 0:
		p.both("make leases", func(t tables) (any, error) { return nil, t.MakeLeases(p.Context(), names) })
	case 1:
		p.both("see leases", func(t tables) (any, error) {
			seen, err := t.SeeLeases(p.Context(), names)
			for i := range seen { // whether it is free says all that is the same in both, and the next look tells the rest
				seen[i].Left, seen[i].Until = 0, 0
			}
			slices.SortFunc(seen, func(a, b store.Seen) int { return len(a.Name) - len(b.Name) + int(a.Name[4]) - int(b.Name[4]) })
			return seen, err
		})
	case 2:
		owner = fmt.Sprintf("owner %d", p.Uint64()) // new at every call
		p.last = "take leases"
		layout, broken := p.layout(), p.IntN(4) == 0
		want, err := p.real.TakeLeases(p.Context(), names, owner, layout, farAway, broken)
		if err != nil {
			p.Fatal(err)
		}
		got, _ := p.table.TakeLeases(p.Context(), names, owner, layout, farAway, broken)
		for _, name := range names {
			w, there := want[name]
			g, here := got[name]
			if there != here || !p.near(time.Duration(g-w)*time.Millisecond) {
				p.Errorf("take leases: the simulator says %v, the database %v", got, want)
			}
		}
	case 3:
		owners := []string{owner, p.ownerOf(name)}
		running := map[string]int{}
		for _, name := range []string{"job-1", "job-2"}[:p.IntN(3)] { // perhaps of a lease that is not renewed, or is lost
			running[name] = p.IntN(5)
		}
		p.both("keep leases", func(t tables) (any, error) {
			kept, err := t.KeepLeases(p.Context(), names, owners, farAway, running)
			return slices.Sorted(maps.Keys(kept)), err
		})
	case 4:
		if p.IntN(2) == 0 {
			owner = p.ownerOf(name)
		}
		atLeast := time.Duration(p.IntN(2)) * farAway * time.Second
		p.both("release lease", func(t tables) (any, error) { return t.ReleaseLease(p.Context(), name, owner, atLeast) })
		if p.IntN(2) == 0 {
			p.both("abandon leases", func(t tables) (any, error) { return nil, t.AbandonLeases(p.Context(), names, owner) })
		}
	case 5:
		p.last = "expire or delete the lease by hand"
		if p.IntN(4) == 0 {
			p.exec("DELETE FROM shedlock_tab WHERE lock_name = ?", name)
			p.table.DeleteLease(name)
		} else if l, ok := p.table.Lease(name); ok {
			p.exec("UPDATE shedlock_tab SET lock_until = '2001-01-01 00:00:00' WHERE lock_name = ?", name)
			l.Until = 1
			p.table.SetLease(name, l)
		}
	case 6:
		if p.IntN(2) == 0 {
			owner = p.ownerOf(name)
		}
		running := p.IntN(5)
		p.both("move lease", func(t tables) (any, error) {
			return t.MoveLease(p.Context(), name, owner, 7, 1, farAway, running) != nil, nil
		})
	case 7:
		owner, running := p.ownerOf(name), p.IntN(5)
		p.both("note what runs", func(t tables) (any, error) {
			return nil, t.NoteRunning(p.Context(), name, owner, farAway, running)
		})
		prefixes := [][]string{{"job-", "x-"}, {"x-", "job-"}, {"x-", "job-1", "job-2"}}[p.IntN(3)]
		p.both("look at the fleet", func(t tables) (any, error) {
			fleet, err := t.Fleet(p.Context(), prefixes)
			seen := fleet.Leases
			slices.SortFunc(seen, func(a, b store.Seen) int { return strings.Compare(a.Name, b.Name) })
			for i := range seen {
				seen[i].Until = 0                                                                                 // Left says that, and the two clocks differ
				if seen[i].Left = math.Round(seen[i].Left / (farAway / 10)); seen[i].Free || seen[i].Layout < 0 { // the two looks are a moment apart
					seen[i].Left = 0
				}
			}
			slices.Sort(fleet.Paused)
			slices.Sort(fleet.Over)
			return []any{seen, fleet.Layouts, fleet.Paused, fleet.Over, math.Abs(fleet.Now-float64(time.Now().Unix())) < farAway/10}, err
		})
	case 8:
		prefixes := []string{"job-1", "x-"}
		p.both("see ended leases", func(t tables) (any, error) { return t.EndedLeases(p.Context(), prefixes) })
		if p.IntN(2) == 0 {
			p.both("drop ended leases", func(t tables) (any, error) { return nil, t.DropEnded(p.Context(), names) })
		} else {
			owner := p.ownerOf(name)
			p.both("drop lease", func(t tables) (any, error) { return nil, t.DropLease(p.Context(), name, owner) })
		}
	}
	p.compareLeases()
}

// pause has an end long past, or far away, so that the moment between the two statements does not matter.
func (p *pair) pause() {
	jobType, until := 1+p.Int32N(2), p.now.Unix()+int64(p.IntN(5)-2)*farAway
	switch p.IntN(5) {
	case 0:
		p.both("pause", func(t tables) (any, error) { return t.Pause(p.Context(), jobType) })
	case 1, 2:
		if until == p.now.Unix() {
			until -= farAway / 2
		}
		p.both("pause until a time", func(t tables) (any, error) { return t.PauseUntil(p.Context(), jobType, until) })
	case 3:
		p.both("resume", func(t tables) (any, error) { return t.Resume(p.Context(), jobType) })
	case 4:
		types := []int32{1, 2}[:1+p.IntN(2)]
		p.both("end pauses", func(t tables) (any, error) { return t.EndPauses(p.Context(), types) })
	}
	p.both("paused", func(t tables) (any, error) {
		types, err := t.Paused(p.Context())
		slices.Sort(types)
		return types, err
	})
}

// live has an instance say that it lives, and others bury it, and take a lease from its owner. How long a beat counts is longer or shorter than
// any difference between the clocks.
func (p *pair) live(name string) {
	life, owner, counts := []string{"job-8", "job-9"}[p.IntN(2)], fmt.Sprintf("owner %d", p.IntN(2)), []int64{farAway * 1000, -farAway * 1000}[p.IntN(2)]
	number := 1 + p.layout() + p.Int64N(5)
	switch p.IntN(5) {
	case 0:
		p.both("rise", func(t tables) (any, error) {
			return t.Rise(p.Context(), life, owner, number, counts, farAway) != nil, nil
		})
	case 1:
		p.both("beat", func(t tables) (any, error) { return t.Beat(p.Context(), life, owner, number, counts, farAway) })
	case 2:
		l, _ := p.table.Lease(life)
		if p.IntN(4) == 0 {
			l.Term++
		}
		if p.IntN(3) == 0 {
			unexpired := p.IntN(2) == 0
			p.both("bury the dead", func(t tables) (any, error) { return t.BuryDead(p.Context(), life, owner, l.Term, 2*farAway, unexpired) })
			return
		}
		p.both("bury", func(t tables) (any, error) { return t.Bury(p.Context(), life, owner, l.Term, 2*farAway) })
	case 3:
		copies := []store.Copy{
			{Seen: store.Seen{Name: name, Owner: owner, Term: 7, Running: 3, Layout: 1, Until: (p.now.Unix() + farAway) * 1e6}, Rest: "job-8"},
			{Seen: store.Seen{Name: name, Owner: "owner 1", Term: 8, Running: 1, Layout: 2, Until: (p.now.Unix() + 2*farAway) * 1e6}, Rest: "job-7"},
		}[:1+p.IntN(2)]
		p.both("copy leases", func(t tables) (any, error) { return nil, t.CopyLeases(p.Context(), copies) })
	case 4:
		names, owners := []string{name, "job-9"}, []string{p.ownerOf(name), owner}
		p.both("free leases", func(t tables) (any, error) { return nil, t.FreeLeases(p.Context(), names, owners) })
	}
}

func (p *pair) dormant(name string) {
	switch p.IntN(3) {
	case 0:
		owner := p.ownerOf(name)
		p.both("lay a type down", func(t tables) (any, error) { return nil, t.LayDown(p.Context(), name, owner) })
	case 1:
		if _, awake := p.table.Lease(name); !awake {
			p.both("wake types", func(t tables) (any, error) { return nil, t.Wake(p.Context(), []string{name}) })
		}
	case 2:
		types := []int32{1, 2}[:1+p.IntN(2)]
		p.both("look for work", func(t tables) (any, error) { return t.HaveWork(p.Context(), types) })
	}
}

// layout is one of a few, so that statements about the same one meet.
func (p *pair) layout() int64 { return []int64{1, 1026, 2051}[p.IntN(3)] }

func (p *pair) divide(names []string, name string) {
	layout := max(p.layout(), 1026)
	switch p.IntN(6) {
	case 0:
		from := []int64{0, 1026}[p.IntN(2)]
		p.both("set layout", func(t tables) (any, error) { return t.SetLayout(p.Context(), 1, from, max(layout, from+1025)) })
		p.both("layout", func(t tables) (any, error) { return t.Layout(p.Context(), 1) })
	case 1:
		p.both("make closed leases", func(t tables) (any, error) { return nil, t.MakeClosed(p.Context(), names, layout) })
	case 2, 3:
		p.both("close leases", func(t tables) (any, error) { return nil, t.CloseLeases(p.Context(), names, layout) })
	case 4:
		owner := p.ownerOf(name)
		p.both("close lease", func(t tables) (any, error) { return nil, t.CloseLease(p.Context(), name, owner, layout) })
	case 5:
		l, _ := p.table.Lease(name)
		p.both("open leases", func(t tables) (any, error) { return nil, t.OpenLeases(p.Context(), names, max(-l.Layout, layout), 7) })
	}
}

// recordStep records a step, mostly of a run that has its job.
func (p *pair) recordStep() {
	id := p.someID()
	run, kind := p.someRun([]uint64{id}), p.Int32N(2)
	step := store.Step{JobID: id, Kind: kind, Name: fmt.Sprintf("step %d of kind %d", p.IntN(2), kind), Attempt: run.Attempts, Term: run.Term,
		Ended: p.now.UnixMilli(), Value: fmt.Sprint(p.IntN(farAway))}
	if kind == store.StepSleep {
		step.Until, step.Value = step.Ended+farAway, ""
	}
	p.both("record a step", func(t tables) (any, error) { return t.RecordStep(p.Context(), step) })
	p.signal(store.Step{JobID: id, Kind: store.StepSignal, Name: fmt.Sprintf("signal %d", p.IntN(2)), Attempt: run.Attempts, Term: run.Term})
	if p.IntN(10) == 0 {
		created := p.now.Unix() - farAway
		p.both("forget stray steps", func(t tables) (any, error) { return nil, t.ForgetStray(p.Context(), id, created) })
	}
	p.both("steps of a run", func(t tables) (any, error) {
		steps, err := t.StepsOfRun(p.Context(), nil, id)
		for i := range steps { // when a signal came, the two have from their own clocks
			if s := &steps[i]; s.Kind == store.StepSignal {
				s.Ended = min(s.Ended, 1)
			}
		}
		slices.SortFunc(steps, func(a, b store.Step) int { return strings.Compare(a.Name, b.Name) })
		return steps, err
	})
}

// signal begins a wait, ends one, or sends a signal.
func (p *pair) signal(step store.Step) {
	switch p.IntN(4) {
	case 0, 1:
		step.Until = p.now.Add([]time.Duration{-farAway, farAway, farAway}[p.IntN(3)] * time.Second).UnixMilli()
		p.both("await a signal", func(t tables) (any, error) { return t.RecordStep(p.Context(), step) })
	case 2:
		p.both("end a wait", func(t tables) (any, error) { return t.EndWait(p.Context(), step) })
	default:
		step.Value = fmt.Sprint(p.IntN(farAway))
		p.both("signal", func(t tables) (any, error) { return t.Signal(p.Context(), step) })
	}
}

func (p *pair) ownerOf(name string) string {
	l, _ := p.table.Lease(name)
	return l.Owner
}

// compareRows compares all rows, and then lets the simulator have the database's times, which came a moment earlier.
func (p *pair) compareRows() {
	p.Helper()
	rows, err := p.db.QueryContext(p.Context(), "SELECT id, params, job_type, job_status, start_time, create_time, term, attempts, retries, lost, deferred, priority, changes, COALESCE(job_key, ''), COALESCE(meta, ''), COALESCE(job_group, '') FROM async_job_tab ORDER BY id")
	if err != nil {
		p.Fatal(err)
	}
	defer rows.Close()
	here := p.table.Jobs()
	for i := 0; rows.Next(); i++ {
		var r store.Row
		var status, start sql.NullInt64
		var extra store.Extra
		if err := rows.Scan(&r.ID, &r.Params, &r.JobType, &status, &start, &r.CreateTime, &r.Term, &r.Attempts, &r.Retries, &r.Lost, &r.Deferred, &r.Priority, &r.Changes, &r.Key, &extra.Meta, &extra.Group); err != nil {
			p.Fatal(err)
		}
		extra.Expires = endOfMeta(extra.Meta)
		r.Status, r.StartTime, r.MaxRetries = int16(status.Int64), start.Int64, store.NotSet
		if extra != (store.Extra{}) {
			r.Extra = &extra
		}
		if i >= len(here) {
			p.Fatalf("row %d is missing in the simulator", r.ID)
		}
		got := here[i]
		if apart := got.StartTime - r.StartTime; apart != 0 && p.near(time.Duration(apart)*time.Second) {
			got.StartTime = r.StartTime
			p.table.Change(r.ID, func(j *simulator.Job) { j.StartTime = r.StartTime })
		}
		if !reflect.DeepEqual(got.Row, r) || got.NoStatus == status.Valid || got.NoStart == start.Valid {
			p.Errorf("the simulator has %+v (NULL status %v, NULL start %v)\nthe database   %+v (%v, %v)", got.Row, got.NoStatus, got.NoStart, r, !status.Valid, !start.Valid)
		}
	}
	if err := rows.Err(); err != nil {
		p.Fatal(err)
	}
}

// compareLeases compares the owners and terms, and lets the simulator have the database's terms.
func (p *pair) compareLeases() {
	p.Helper()
	rows, err := p.db.QueryContext(p.Context(), "SELECT lock_name, locked_by, term, running, layout FROM shedlock_tab ORDER BY lock_name")
	if err != nil {
		p.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, owner string
		var term, layout int64
		var running int
		if err := rows.Scan(&name, &owner, &term, &running, &layout); err != nil {
			p.Fatal(err)
		}
		l, ok := p.table.Lease(name)
		if !ok || l.Owner != owner || l.Running != running || l.Layout != layout || !p.near(time.Duration(l.Term-term)*time.Millisecond) {
			p.Errorf("the simulator has %+v (%v), the database %s of %q with term %d, layout %d, %d run", l, ok, name, owner, term, layout, running)
		}
		l.Term = term
		p.table.SetLease(name, l)
	}
	if err := rows.Err(); err != nil {
		p.Fatal(err)
	}
}

func (p *pair) someID() uint64 {
	if len(p.ids) == 0 {
		return 1
	}
	return p.ids[max(0, len(p.ids)-1-p.IntN(60))]
}

func (p *pair) someIDs() []uint64 {
	ids := make([]uint64, 1+p.IntN(8))
	for i := range ids {
		ids[i] = p.someID()
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (p *pair) someTerm() int64 {
	p.terms += p.Int64N(2)
	return 1 + max(0, p.terms/10-p.Int64N(4))
}

// someVersion is mostly that of one of the rows: by chance alone, hardly any would have it.
func (p *pair) someVersion(ids []uint64) (v store.Version) {
	rows, err := p.table.Standings(p.Context(), ids)
	if err != nil {
		p.Fatal(err)
	}
	if len(rows) > 0 {
		v = rows[p.IntN(len(rows))].Version
	}
	switch p.IntN(12) {
	case 0:
		v.Term = p.someTerm()
	case 1:
		v.Attempts++
	case 2:
		v.Changes++
	}
	return v
}

// someRun is someVersion of a row that is marked.
func (p *pair) someRun(ids []uint64) store.Version {
	v := p.someVersion(ids)
	v.Term = max(1, v.Term)
	return v
}

func (p *pair) someGaps() (gaps []store.Gap) {
	for range p.IntN(3) {
		from := p.someID()
		gaps = append(gaps, store.Gap{From: from, To: from + p.Uint64N(5)})
	}
	slices.SortFunc(gaps, func(a, b store.Gap) int { return int(a.From) - int(b.From) })
	return slices.CompactFunc(gaps, func(a, b store.Gap) bool { return b.From <= a.To }) // apart from each other
}

func (p *pair) somePlaces() (places []store.Place) {
	for _, lane := range store.Lanes() {
		if p.IntN(2) == 0 {
			places = append(places, store.Place{Lane: lane, StartTime: 1 + p.Int64N(2)*p.now.Unix(), ID: p.someID()})
		}
	}
	if len(places) == 0 {
		places = append(places, store.Place{Lane: store.Lanes()[0]})
	}
	return places
}
