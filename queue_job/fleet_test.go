package queue_job

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

const a, b, c = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"

// heldRow is a row of the lease table.
func heldRow(name, owner string, running int) store.Seen {
	return store.Seen{Name: name, Owner: owner, Term: 41, Running: running, Layout: 1, Since: 100e6, Until: 110.5e6}
}

func freeRow(name, owner string) store.Seen {
	row := heldRow(name, owner, 9)
	row.Free = true
	return row
}

var rowsOfAFleet = []store.Seen{
	heldRow("at-"+a, "shop@web-1/17#"+a+".1", 0),
	heldRow("at-"+b, "shop@web-2/18#"+b+".1", share.Leaves),
	freeRow("at-"+c, "shop@web-3/19#"+c+".1"),
	heldRow("at-midnight", "cleanup", 0),
	heldRow("job-10", "mail@web-1/17#"+a+".3", 2),
	heldRow("job-7", "shop@web-1/17#"+a+".2", 5),
	heldRow("job-7/2", "shop@web-2/18#"+b+".4", 1),
	freeRow("job-8", "shop@web-3/19#"+c+".2"),
	heldRow("job-9", "shop@old/3#0123", 0),
	heldRow("job-cleanup", "somebody", 0),
	heldRow("rest-7-39", "shop@web-2/18#"+b+".2", 3),
	heldRow("rest-7-38", "shop@web-1/17#"+a+".2", 4),
	freeRow("rest-7-37", "shop@web-3/19#"+c+".2"),
	heldRow("want-10", "shop@web-2/18#"+b+".9", 0),
	freeRow("want-7", "shop@web-2/18#"+b+".8"),
}

func TestLeasesShowWhoRunsWhatAndWhatStillRunsElsewhere(t *testing.T) {
	since, until := time.Unix(100, 0), time.Unix(110, 500_000_000)
	want := []Lease{
		{Name: "job-7", JobType: 7, Instance: a, Holder: "shop@web-1/17", Term: 41, Since: since, Until: until, Running: 5, Remains: []Remains{
			{Instance: a, Holder: "shop@web-1/17", Term: 38, Since: since, Until: until, Running: 4},
			{Instance: b, Holder: "shop@web-2/18", Term: 39, Since: since, Until: until, Running: 3},
		}},
		{Name: "job-7/2", JobType: 7, Shard: 2, Instance: b, Holder: "shop@web-2/18", Term: 41, Since: since, Until: until, Running: 1},
		{Name: "job-8", JobType: 8, Term: 41, Since: since, Until: until},
		{Name: "job-9", JobType: 9, Holder: "shop@old/3", Term: 41, Since: since, Until: until},
		{Name: "job-10", JobType: 10, Instance: a, Holder: "mail@web-1/17", Term: 41, Since: since, Until: until, Running: 2, AskedBy: b},
	}
	if got := leasesOf(rowsOfAFleet); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestInstancesShowWhatEachHasAndRuns(t *testing.T) {
	since, until := time.Unix(100, 0), time.Unix(110, 500_000_000)
	want := []Instance{
		{Id: a, Service: "shop", Host: "web-1", Process: 17, Since: since, Until: until, RunsUntil: until, Leases: []string{"job-7", "job-10"}, Running: 11},
		{Id: b, Service: "shop", Host: "web-2", Process: 18, Since: since, Until: until, RunsUntil: until, Leases: []string{"job-7/2"}, Running: 4, Leaving: true},
	}
	if got := instancesOf(rowsOfAFleet); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestInstancesShowWhenTheyWereHeardOfAndWhoIsBuried(t *testing.T) {
	const known = -3 // buried, and known to be dead
	life := func(id, owner string, running int, term int64) store.Seen {
		return store.Seen{Name: share.Life(id), Owner: owner + "#" + id + ".0100010", Term: term, Running: running, Layout: 4, Since: 108e6, Until: 115e6}
	}
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	rest := heldRow("rest-7-39", "shop@web-3/19#"+c+".00200010", 3)
	rows := []store.Seen{
		heldRow("at-"+a, "shop@web-1/17#"+a+".1", 0), life(a, "shop@web-1/17", 2500, 109_500), heldRow("job-8", "shop@web-1/17#"+a+".00200010", 1),
		freeRow("job-7", "shop@web-3/19#"+c+".00200010"),
		heldRow("at-"+b, "shop@web-2/18#"+b+".1", 0), life(b, "shop@web-2/18", store.Buried, 107_900),
		life(c, "shop@web-3/19", known, 107_900), rest, // its presence has ended
		life("dddddddddddd", "shop@web-4/20", store.Buried, 107_900), // so has this one's, and it has nothing
		life("eeeeeeeeeeee", "shop@web-5/21", 2500, 109_500),         // it does not say that it is here
	}
	var got []string
	for _, i := range instancesOf(rows) {
		got = append(got, fmt.Sprintf("%s %d heard %v starts %v runs %v buried %v", i.Host, i.Process, i.HeardOf.Equal(at(107_000)), i.StartsUntil.UnixMilli(),
			i.RunsUntil.Equal(at(110_500)), i.Buried.Equal(at(108_000))))
	}
	want := []string{
		"web-1 17 heard true starts 109500 runs true buried false", "web-2 18 heard false starts 107900 runs false buried true",
		"web-3 19 heard false starts 107900 runs true buried true",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	i := Instance{HeardOf: at(107_000)}
	if i.Silent(at(108_499)) || !i.Silent(at(108_500)) || (&Instance{HeardOf: at(107_000), Buried: at(109_000)}).Silent(at(110_000)) {
		t.Error("an instance is silent a second and a half after its last beat, until it is buried")
	}
}

func TestALeaseThatNobodyElseCouldHaveIsNotHandedOver(t *testing.T) {
	here := heldRow("at-"+a, "shop@web-1/17#"+a+".1", 0)
	mine := heldRow("job-7", "mail@web-1/17#"+a+".2", 0)
	other := heldRow("at-"+b, "shop@web-2/18#"+b+".1", 0)
	leaver := heldRow("at-"+b, "shop@web-2/18#"+b+".1", share.Leaves)
	for _, c := range []struct {
		what string
		rows []store.Seen
		says string
	}{
		{"it could", []store.Seen{here, mine, other}, ""},
		{"the holder does not say that it is there", []store.Seen{mine, heldRow("at-"+b, "mail@web-2/18#"+b+".1", 0)}, ""},
		{"no row", []store.Seen{here, other}, "no instance holds it; start one that has a configuration for job type 7"},
		{"free", []store.Seen{here, other, freeRow("job-7", "shop@web-1/17#"+a+".2")}, "no instance holds it; start one"},
		{"an older version", []store.Seen{here, other, heldRow("job-7", "shop@old/3#0123", 0)}, "its holder, shop@old/3, is of an older version, which cannot be asked; stop"},
		{"alone", []store.Seen{here, mine}, `there is no other instance of service "shop" that could take it; start one`},
		{"alone but for one that stops", []store.Seen{here, mine, leaver}, `no other instance of service "shop"`},
		{"alone but for one that is gone", []store.Seen{here, mine, freeRow("at-"+b, "shop@web-2/18#"+b+".1")}, `no other instance of service "shop"`},
		{"alone but for another service", []store.Seen{here, mine, heldRow("at-"+b, "mail@web-2/18#"+b+".1", 0)}, `no other instance of service "shop"`},
		{"alone but for one that is buried", []store.Seen{here, mine, other, lifeThatIs(b, store.Buried)}, `no other instance of service "shop"`},
		{"alone but for one that is dead", []store.Seen{here, mine, other, lifeThatIs(b, store.Dead)}, `no other instance of service "shop"`},
		{"beside one that lives", []store.Seen{here, mine, other, lifeThatIs(b, 2500)}, ""},
		{"the holder is buried", []store.Seen{here, mine, other, lifeThatIs(a, store.Buried)}, "was not heard of and is buried; another instance takes"},
	} {
		term, err := mayHandOver("job-7", c.rows)
		if c.says == "" && (err != nil || term != 41) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %d, %v", c.what, term, err)
		}
	}
}

func lifeThatIs(id string, running int) store.Seen {
	return heldRow(share.Life(id), "shop@web-2/18#"+id+".0100010", running)
}

// Drain asks both questions.
func TestABuriedInstanceIsNotThereAndNobodyCountsOnIt(t *testing.T) {
	rows := []store.Seen{heldRow("at-"+a, "shop@web-1/17#"+a+".1", 0), heldRow("at-"+b, "shop@web-2/18#"+b+".1", 0)}
	for running, there := range map[int]bool{2500: true, store.Buried: false, store.Dead: false} {
		with := append(rows[:len(rows):len(rows)], lifeThatIs(b, running))
		if _, found := presenceOf(b, with); found != there {
			t.Errorf("running %d: it is there: %v", running, found)
		}
		if another("shop", a, with) != there || !another("shop", b, with) {
			t.Errorf("running %d: want it to count: %v", running, there)
		}
	}
}

func TestHandOverWantsTheNameOfALease(t *testing.T) {
	for _, name := range []string{"", "7", "job-cleanup", "at-" + a, "want-7"} {
		err := (&Jobs{store: &record.Store{}}).HandOver(t.Context(), untouched{}, name)
		if err == nil || !strings.Contains(err.Error(), `use a name that Leases returns, such as "job-7"`) || !strings.Contains(err.Error(), fmt.Sprintf("hand over %q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// untouched is an executor that nobody uses.
type untouched struct{ Executor }
