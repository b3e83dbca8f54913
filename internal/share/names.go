package share

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shard is the end of a lease's name: the whole, the job type, the shard.
const shard = `((-?\d{1,10})(?:/(\d{1,2}))?)`

// The names of the rows that belong to the engine; doc.go says what each row is for.
var (
	ofInstance = regexp.MustCompile(`^at-([0-9a-f]{12})$`)
	ofRemains  = regexp.MustCompile(`^rest-` + shard + `-(\d+)$`)
	ofHandOver = regexp.MustCompile(`^away-` + shard + `-(\d+)$`)
	ofDrain    = regexp.MustCompile(`^away-([0-9a-f]{12})$`)
	ofLife     = regexp.MustCompile(`^live-[0-9a-f]{12}$`)
)

// Prefixes are what the names of these rows begin with. Other rows may begin so, too.
var Prefixes = []string{"job-", "at-", "want-", "rest-", HandOvers, lives}

// HandOvers is what the names of rows begin with that ask for a lease to be handed over, or all of an instance's.
const HandOvers = "away-"

// TypeLease is the name of the lease of a job type.
func TypeLease(jobType int32) string { return fmt.Sprintf("job-%d", jobType) }

// ShardLease is the name of the lease of a shard.
func ShardLease(jobType int32, shard int) string { return fmt.Sprintf("job-%d/%d", jobType, shard) }

// Presence is the name of the lease that says that an instance is here.
func Presence(instance string) string { return "at-" + instance }

// Leaves, in the place of how many jobs run under an instance's presence, says that the instance is about to stop.
const Leaves = -1

// Life is the name of the row that says until when an instance may start jobs.
func Life(instance string) string { return lives + instance }

const lives = "live-"

// ParseLife returns the instance whose life a row with this name is.
func ParseLife(name string) (instance string, ok bool) {
	if !strings.HasPrefix(name, lives) || !ofLife.MatchString(name) { // most names are others
		return "", false
	}
	return name[len(lives):], true
}

// Buried, in the place of what runs in the row of a life, says that the life is over, and Dead that the process is, too. The same numbers stand in
// store.Buried and store.Dead.
const (
	Buried = -2
	Dead   = -3
)

// EndsWithProcess reports whether a row belongs to an instance, and ends when its process is known to be gone. A lease of a job type stays that has
// one end, see package keeper: it is short, or nobody else is to get it so soon. So does the row of the life.
func EndsWithProcess(instance, name, owner string) bool {
	if OwnerOf(owner).Instance != instance || strings.HasPrefix(name, lives) {
		return false
	}
	_, _, ofType := ParseType(name)
	_, _, governed := TakingOf(owner)
	return !ofType || governed
}

// UnheardAfter is how long after its last beat nobody wonders about an instance: one comes each second, but for a late answer now and then.
const UnheardAfter = 1500 * time.Millisecond

// IsOver reports whether what stands in the place of what runs, in the row of a life, says that the life is over.
func IsOver(running int) bool { return running <= Buried }

// Asking is the name of the lease that asks for a lease.
func Asking(lease string) string { return "want-" + strings.TrimPrefix(lease, "job-") }

// Remains is the name of the lease under which jobs that still run keep their term.
func Remains(lease string, term int64) string {
	return fmt.Sprintf("rest-%s-%d", strings.TrimPrefix(lease, "job-"), term)
}

// HandOver is the name of the lease that asks whoever holds a lease under this term to give it to any other instance. The next
// holder has another term.
func HandOver(lease string, term int64) string {
	return fmt.Sprintf("%s%s-%d", HandOvers, strings.TrimPrefix(lease, "job-"), term)
}

// Drain is the name of the lease that asks an instance to give away all that it has.
func Drain(instance string) string { return HandOvers + instance }

// ParseDrain returns the instance that is to give away all that it has, if the name is of such a row.
func ParseDrain(name string) (instance string, ok bool) {
	if m := ofDrain.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	return "", false
}

// Ephemeral reports whether a row with this name is of no use when its lease has ended.
func Ephemeral(name string) bool {
	return ofInstance.MatchString(name) || ofRemains.MatchString(name) || ofHandOver.MatchString(name) || ofDrain.MatchString(name) ||
		ofLife.MatchString(name)
}

// ParseType takes the name of the lease of a job type, or of a shard of it, apart. A type that is not divided has shard 0 only.
func ParseType(name string) (jobType int32, shard int, ok bool) {
	rest, isLease := strings.CutPrefix(name, "job-") // each look has hundreds of names, so this is no regular expression
	number, part, divided := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	if !isLease || err != nil || number[0] == '+' {
		return 0, 0, false
	}
	if divided {
		i, err := strconv.ParseUint(part, 10, 8)
		if err != nil || i >= 100 {
			return 0, 0, false
		}
		shard = int(i)
	}
	return int32(n), shard, true
}

// ParsePresence returns the instance whose presence a lease with this name says.
func ParsePresence(name string) (instance string, ok bool) {
	if m := ofInstance.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	return "", false
}

// ParseRemains returns which lease was given away, and under which term jobs still run, if the name is of such a row.
func ParseRemains(name string) (lease string, term int64, ok bool) {
	if !strings.HasPrefix(name, "rest-") { // most names are others
		return "", 0, false
	}
	if m := ofRemains.FindStringSubmatch(name); m != nil {
		return "job-" + m[1], number[int64](m[4]), true
	}
	return "", 0, false
}

// Row is a row of the table of leases.
type Row struct {
	Name     string
	Free     bool
	Instance string // the owner's instance; empty: it is not known
	Service  string // the owner's
	Term     int64
	Running  int
	Layout   Layout // below 0: closed until that layout opens
}

// Rest is what still runs of a job type, or of a shard of it, under a term that was given away.
type Rest struct {
	Name     string // of its row
	JobType  int32
	Shard    int
	Layout   Layout
	Term     int64
	Instance string
	Running  int
	Buried   bool // nobody has heard of the instance since it was buried
}

// View is what the rows say that a look has brought.
type View struct {
	Picture
	Layouts map[int32]Layout // of the job types that have a row, or a layout in the table
	Rests   []Rest           // what still runs under terms that were given away
	Changes []Change         // of layouts, in the order of the types
}

// LayoutOf is the layout of a job type.
func (v *View) LayoutOf(jobType int32) Layout { return cmp.Or(v.Layouts[jobType], Undivided) }

// See says what rows mean to an instance. The layouts are those in the table of job types. Leases of other layouts are not in the
// picture: nobody can take them any more.
func See(me, service string, rows []Row, layouts map[int32]Layout) View {
	v := View{Picture: Picture{Me: me, Present: []string{me}}, Layouts: layouts}
	asked, away, drained, buried := map[string]string{}, map[string]int64{}, map[string]bool{}, map[string]bool{}
	of := map[int32][]Row{}
	for _, row := range rows {
		kind, _, _ := strings.Cut(row.Name, "-")
		switch {
		case kind == "job":
			if jobType, _, ok := ParseType(row.Name); ok {
				of[jobType] = append(of[jobType], row)
			}
			continue
		case row.Free:
			continue
		}
		switch kind {
		case "want":
			asked[row.Name] = row.Instance
		case "away":
			if m := ofHandOver.FindStringSubmatch(row.Name); m != nil {
				lease := "job-" + m[1]
				away[lease] = max(away[lease], number[int64](m[4]))
			} else if id, ok := ParseDrain(row.Name); ok {
				drained[id] = true
			}
		case "at":
			switch id, ok := ParsePresence(row.Name); {
			case !ok || id == me:
			case row.Running == Leaves:
				v.Leavers = append(v.Leavers, id)
			case row.Service == service:
				v.Present = append(v.Present, id)
			}
		case "rest":
			v.noteRest(row)
		case "live":
			if id, ok := ParseLife(row.Name); ok && IsOver(row.Running) {
				buried[id] = true
			}
		}
	}
	v.bury(buried)
	v.drain(drained)
	for jobType := range layouts {
		of[jobType] = of[jobType][:len(of[jobType]):len(of[jobType])] // a type may have a layout, and no row yet
	}
	for _, jobType := range slices.Sorted(maps.Keys(of)) {
		layout := v.LayoutOf(jobType)
		if c := change(me, jobType, layout, of[jobType]); c != nil {
			v.Changes = append(v.Changes, *c)
		}
		for _, row := range of[jobType] {
			if row.Layout == layout {
				v.Leases = append(v.Leases, leaseOf(row, jobType, asked, away))
			}
		}
	}
	return v
}

func (v *View) noteRest(row Row) {
	if m := ofRemains.FindStringSubmatch(row.Name); m != nil {
		v.Rests = append(v.Rests, Rest{
			Name: row.Name, JobType: number[int32](m[2]), Shard: number[int](m[3]), Layout: row.Layout, Term: number[int64](m[4]),
			Instance: row.Instance, Running: row.Running,
		})
	}
}

// leaseOf is the lease of a type that a row is, with who asks for it, and the terms under which leases are to be handed over.
func leaseOf(row Row, jobType int32, asked map[string]string, away map[string]int64) Lease {
	l := Lease{Name: row.Name, JobType: jobType, Free: row.Free, Asker: asked[Asking(row.Name)]}
	switch term, named := away[row.Name]; {
	case !row.Free:
		l.Holder, l.Away, l.HandedOver = row.Instance, named && term == row.Term, named && term < row.Term
	case named && term == row.Term:
		l.Left = row.Instance
	}
	return l
}

// bury leaves out the instances that are buried: nothing falls to them, and nobody waits for them.
func (v *View) bury(buried map[string]bool) {
	if len(buried) == 0 {
		return
	}
	gone := func(id string) bool { return buried[id] && id != v.Me }
	v.Present, v.Leavers = slices.DeleteFunc(v.Present, gone), slices.DeleteFunc(v.Leavers, gone)
	for i := range v.Rests {
		v.Rests[i].Buried = gone(v.Rests[i].Instance)
	}
}

// drain has instances leave for the others, though they are there. If none were left, all stay: somebody has to do the work.
func (v *View) drain(drained map[string]bool) {
	var stay, leave []string
	for _, id := range v.Present {
		if drained[id] {
			leave = append(leave, id)
		} else {
			stay = append(stay, id)
		}
	}
	if len(stay) == 0 || len(leave) == 0 {
		return
	}
	v.Present, v.Drained = stay, drained[v.Me]
	v.Leavers = append(v.Leavers, leave...)
}

func number[N int | int32 | int64](digits string) N {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return N(n)
}
