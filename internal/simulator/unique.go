package simulator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Jobs whose keys are unique while they are pending: two callers add, cancel, retry and delete them. And jobs that are archived, restored and
// retried with other parameters while a holder has them in memory as they once were.

// keyTaken is what package store adds to the changes of a row whose key was taken from it.
const keyTaken = 1 << 30

const (
	// besideRun is what package store adds to the changes of a row that runs again so soon after its end that a run of it may be under way.
	besideRun = 1 << 28
	// runIsOver is how many seconds after the end of a job its run is over, whatever became of it.
	runIsOver = 10
)

// restoredFrom is what a restored row counts its changes from, at least: no other row counts up to that.
const restoredFrom = 1 << 29

// drawUnique draws, from dice of its own, what callers do with a few unique keys.
func (p *plan) drawUnique(d *dice) {
	if p.weather.truncated || d.chance(700) {
		return
	}
	p.unique = true
	for range 4 + d.upTo(12) {
		key, at := oneOf(d, "unique-1", "unique-2"), d.between(100*time.Millisecond, p.calmAt)
		between, among := d.between(time.Microsecond, 30*time.Millisecond), d.next()
		jobType := int32(1 + int(key[len(key)-1])%len(p.configs))
		switch d.upTo(6) {
		case 0, 1:
			o := p.drawUniqueOrder(d, jobType, key)
			p.at(at, func(w *world) { w.freeKey(jobType, key) }, "take the key %s from a job that is done", key)
			p.at(min(at+between, p.calmAt), func(w *world) { w.addUnique(o) }, "add %s with the key %s", o.label, key)
		case 2, 3:
			p.at(at, func(w *world) { w.retryOfKey(among, jobType, key) }, "retry a job of the key %s", key)
			if d.chance(500) { // in the middle of an addition
				o := p.drawUniqueOrder(d, jobType, key)
				p.at(at-min(at, between), func(w *world) { w.freeKey(jobType, key) }, "take the key %s from a job that is done", key)
				p.at(min(at+between, p.calmAt), func(w *world) { w.addUnique(o) }, "add %s with the key %s", o.label, key)
			}
		case 4:
			p.at(at, func(w *world) { w.cancelOfKey(among, jobType, key) }, "cancel a job of the key %s", key)
		case 5:
			p.at(at, func(w *world) { w.deleteOfKey(among, jobType, key) }, "delete a job of the key %s that is done", key)
		}
	}
}

func (p *plan) drawUniqueOrder(d *dice, jobType int32, key string) *order {
	o := p.drawOrder(d, false)
	o.due, o.old, o.ignored, o.lengthy, o.deadly, o.unique = 0, 0, false, false, false, true
	o.row.JobType, o.row.Status, o.row.NoStart, o.row.NoStatus, o.row.Key, o.row.Extra, o.row.Unique = jobType, 0, false, false, key, nil, true
	return o
}

// drawRestored draws, from dice of its own, that a job which waits in memory was changed once, and is then cancelled, archived, restored and
// retried with other parameters.
func (p *plan) drawRestored(d *dice) {
	if p.weather.truncated || p.calmAt < 4*time.Second || d.chance(800) {
		return
	}
	jobType, o := int32(1+d.upTo(len(p.configs))), p.drawOrder(d, false)
	o.due, o.old, o.ignored, o.lengthy, o.deadly, o.restored = 0, 0, false, false, false, true
	o.row.JobType, o.row.Status, o.row.NoStart, o.row.NoStatus = jobType, 0, false, false
	o.row.Params, o.row.LongParams = o.label, ""
	at := d.between(300*time.Millisecond, p.calmAt-3*time.Second)
	changes := restoredFrom + int32(d.upTo(1<<28))
	p.at(at, func(w *world) { w.pause(jobType, true) }, "pause type %d", jobType)
	p.at(at+50*time.Millisecond, func(w *world) { w.insert([]*order{o}).commit(false); w.cancelAndRetry(o.history) },
		"insert %s, cancel it, and retry it", o.label)
	p.at(at+50*time.Millisecond+d.between(100*time.Millisecond, 2*time.Second), func(w *world) { w.restore(o.history, changes) },
		"cancel, archive, restore %s, and retry it with other parameters", o.label)
	p.at(at+2900*time.Millisecond, func(w *world) { w.pause(jobType, false) }, "resume type %d", jobType)
}

// The verbs, as queue_job has them; adding takes two statements.

func (w *world) freeKey(jobType int32, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.table.takeKey(jobType, key) {
		w.judge.saw["unique key taken"]++
	}
}

func (w *world) addUnique(o *order) {
	x := w.insert([]*order{o})
	w.mu.Lock()
	added := x.commitUnlessThere()
	w.judge.expectUnique(o.row.JobType, o.row.Key)
	w.mu.Unlock()
	if !added {
		x.rollback()
	}
}

func (w *world) ofKey(among uint64, jobType int32, key string, of func(*Job) bool) *history {
	rows := w.table.rowsOfKey(jobType, key, of)
	if len(rows) == 0 {
		return nil
	}
	return rows[among%uint64(len(rows))].history
}

func (w *world) retryOfKey(among uint64, jobType int32, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.ofKey(among, jobType, key, func(j *Job) bool {
		return j.Status == int16(queue_job.JobStatusFailed) || j.Status == int16(queue_job.JobStatusCancelled)
	})
	if h == nil {
		return
	}
	taken := w.table.changesOf(h.id) >= keyTaken
	if w.table.Retry(h.id); taken && w.table.changesOf(h.id) < keyTaken {
		w.judge.saw["unique key given back"]++
	} else if taken {
		w.judge.saw["retry of a job whose key is taken"]++
	}
	w.judge.expectUnique(jobType, key)
}

func (w *world) cancelOfKey(among uint64, jobType int32, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.ofKey(among, jobType, key, (*Job).pending); h != nil && !w.locked[h.id].After(time.Now()) {
		w.table.Cancel(h.id)
	}
}

func (w *world) deleteOfKey(among uint64, jobType int32, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.ofKey(among, jobType, key, func(j *Job) bool { return !j.pending() }); h != nil {
		w.table.Delete(h.id)
	}
}

func (w *world) cancelAndRetry(h *history) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Cancel(h.id)
	w.table.Retry(h.id)
}

// restore does so unless the job runs, or is done.
func (w *world) restore(h *history, changes int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.final || h.gone || h.mark != nil || h.byHand {
		return
	}
	w.judge.saw["restored with other parameters"]++
	h.params = h.order.label + "'"
	w.table.Cancel(h.id)
	w.table.restoreAnew(h.id, changes)
	w.table.retryWith(h.id, h.params)
}

// expectUnique expects that no two jobs of a unique key are pending. The world stands still.
func (j *judge) expectUnique(jobType int32, key string) {
	if pending := j.world.table.rowsOfKey(jobType, key, (*Job).pending); len(pending) > 1 {
		j.accuse("%d jobs of the unique key %s are pending, of type %d", len(pending), key, jobType)
	}
}

// expectParams expects that a run has the parameters that its job has.
func (j *judge) expectParams(h *history, job *queue_job.Job) {
	if want := cmp.Or(h.params, h.order.label); job.JobParams != want && !h.byHand {
		j.accuse("a run of %s with the parameters %q; they are %q", h.name(), job.JobParams, want)
	}
}

// labelOf is the label of the order whose job has these parameters.
func labelOf(params string) string {
	label, _, _ := strings.Cut(params, "'")
	return label
}

// The statements.

func (t *Table) rowsOfKey(jobType int32, key string, of func(*Job) bool) (rows []*Job) {
	for _, j := range t.jobs {
		if j.committed && j.JobType == jobType && j.Key == key && of(j) {
			rows = append(rows, j)
		}
	}
	return rows
}

// bears reports whether another row has a row's key as its unique key: then the unique index refuses it.
func (t *Table) bears(one *Job) bool {
	return slices.ContainsFunc(t.jobs, func(j *Job) bool {
		return j != one && j.committed && j.Unique && j.JobType == one.JobType && j.Key == one.Key
	})
}

// takeKey takes the uniqueness of a key from a final row, which remembers it.
func (t *Table) takeKey(jobType int32, key string) (taken bool) {
	for _, j := range t.jobs {
		if j.committed && j.Unique && j.JobType == jobType && j.Key == key && !j.pending() {
			j.Unique, j.Changes = false, j.ownChanges()+keyTaken
			taken = true
		}
	}
	return taken
}

func (j *Job) ownChanges() int32 { return j.Changes % keyTaken }

func (t *Table) changesOf(id uint64) int32 {
	if j := t.find(id); j != nil {
		return j.Changes
	}
	return 0
}

// givesKeyBack gives a row its key back that was taken from it, and reports false if another row has it.
func (t *Table) givesKeyBack(j *Job) bool {
	if j.Changes < keyTaken {
		return true
	}
	if t.bears(j) {
		return false
	}
	j.Unique = true
	return true
}

// commitUnlessThere commits a row whose key is unique, unless another row has it.
func (x *Transaction) commitUnlessThere() bool {
	there := x.table.bears(x.rows[0])
	if !there {
		x.Commit()
	}
	return !there
}

// restoreAnew makes a final row anew, as package store restores it from an archive.
func (t *Table) restoreAnew(id uint64, changes int32) {
	if j := t.find(id); j != nil && !j.pending() {
		j.Changes = changes
	}
}

// retryWith is Retry with other parameters.
func (t *Table) retryWith(id uint64, params string) {
	if j := t.find(id); j != nil && !j.pending() {
		j.Params, j.LongParams = params, ""
	}
	t.Retry(id)
}
