package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// Handlers that wait for signals, and others who send them.

// signalling reports whether handlers of a world may wait for signals. It is one world of 26, so that the others stay as they were before; among
// these are the seeds of all mutants that are older than that.
func signalling(seed uint64) bool { return seed%26 == 23 }

// awaitsLong is how long a run waits for a signal that somebody surely sends: a world does not wait for the end of that.
const awaitsLong = 3 * time.Hour

// drawSignals draws, from dice of its own, for which signals jobs wait, between other steps, and when somebody sends them.
func (p *plan) drawSignals(d *dice) {
	for _, o := range p.orders {
		if d.chance(200) || o.ignored || o.takes > 0 || o.outlived > 0 || o.backlog != nil || o.deadly || o.restored || o.unique ||
			p.configs[o.row.JobType-1].BatchSize > 0 {
			continue
		}
		for n := range 1 + d.upTo(3) {
			is := part{name: fmt.Sprintf("part %d", n), of: oneOf(d, outside, awaits, awaits, awaits)}
			is.takes = d.between(10*time.Microsecond, 20*time.Millisecond)
			if is.of == awaits && p.weather.stepped { // a wait ends by the clock by which it began
				is.of = outside
			}
			if is.of == awaits {
				p.drawWait(d, o, &is)
			}
			o.parts = append(o.parts, is)
		}
	}
	if !p.weather.steered {
		return
	}
	for range d.upTo(4) {
		at, among, begun := d.between(200*time.Millisecond, p.calmAt), d.next(), d.chance(500)
		after := d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 400*time.Millisecond, 2*time.Second))
		var h *history
		p.at(at, func(w *world) { h = w.cancel(among, begun) }, "cancel a job in flight")
		p.at(at+after, func(w *world) { w.retryFromStart(h) }, "retry it from its start")
	}
}

// drawWait draws how long a job waits, and who sends it the signal: for a long wait, somebody surely does when calm has come, if nobody has before.
func (p *plan) drawWait(d *dice, o *order, is *part) {
	is.takes = d.between(time.Millisecond, oneOf(d, 500*time.Millisecond, 2*time.Second, 6*time.Second))
	if d.chance(500) {
		is.takes = awaitsLong
		calm := p.calmAt
		if p.configs[o.row.JobType-1].DormantAfter > 0 { // drawWakers adds jobs up to 24 s later
			calm += 25 * time.Second
		}
		p.drawSender(d, o, is.name, calm+d.between(3*time.Second, 8*time.Second), false)
	}
	for range d.upTo(3) {
		p.drawSender(d, o, is.name, d.between(0, p.calmAt+time.Second), d.chance(150))
	}
}

// sender is a transaction in which somebody sends a signal. From its beginning to its end it has the job's row.
type sender struct {
	order *order
	name  string
	value string
	takes time.Duration
	back  bool // it is rolled back
	here  bool // in this process, which looks for the job at once
}

func (p *plan) drawSender(d *dice, o *order, name string, at time.Duration, back bool) {
	s := &sender{order: o, name: name, value: fmt.Sprintf("%s of %s at %v", name, o.label, at), back: back, here: d.chance(300),
		takes: d.between(100*time.Microsecond, oneOf(d, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond))}
	p.at(at, s.begin, "signal %q to %s", name, o.label)
}

// begin waits for the row, and has it from then on.
func (s *sender) begin(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := s.order.history
	if h == nil || !h.committed {
		return
	}
	if until := w.locked[h.id]; until.After(time.Now()) {
		time.AfterFunc(time.Until(until)+s.takes%time.Millisecond, func() { s.begin(w) })
		return
	}
	w.locked[h.id] = time.Now().Add(s.takes)
	time.AfterFunc(s.takes, func() { s.end(w, h) })
}

func (s *sender) end(w *world, h *history) {
	w.mu.Lock()
	taken := false
	if !s.back && !h.gone && !h.byHand {
		text, _ := json.Marshal(s.value)
		w.trace.add(event{what: "signals", about: about{ids: []uint64{h.id}, note: s.value}})
		signal := store.Step{JobID: h.id, Kind: store.StepSignal, Name: s.name, Value: string(text)}
		was, waits := w.table.steps[keyOf(signal)]
		got, _ := w.table.Signal(context.Background(), signal)
		w.judge.toldSender(h, s, got)
		if waits && was.Ended == 0 && got == store.SignalTaken {
			if h.mark == nil {
				w.judge.saw["job that a signal wakes"]++
			} else {
				w.judge.saw["signal between a look and its sleep"]++
			}
		}
		taken = got == store.SignalTaken
	}
	w.mu.Unlock()
	if taken && s.here {
		wake.Signalled()
	}
}

// heardOf is what senders and runs have been told of a signal.
type heardOf struct {
	taken    bool
	value    string // if it was taken
	late     bool   // a sender was told that it is late
	timedOut bool   // a run was told that nobody has sent it in time
}

func (h *history) signal(name string) *heardOf {
	if h.signals == nil {
		h.signals = map[string]*heardOf{}
	}
	if h.signals[name] == nil {
		h.signals[name] = &heardOf{}
	}
	return h.signals[name]
}

// toldSender is told what a sender is told: that must be true, and stay so.
func (j *judge) toldSender(h *history, s *sender, got store.Signalled) {
	was := h.signal(s.name)
	switch got {
	case store.SignalTaken:
		j.saw["signal taken"]++
		if was.taken || was.late || was.timedOut {
			j.accuse("%s takes %q; before, it was %+v", h.name(), s.value, *was)
		}
		was.taken, was.value = true, s.value
	case store.SignalKnown:
		j.saw["signal that is there already"]++
		if !was.taken {
			j.accuse("%s is said to have had %q, and nobody has sent it", h.name(), s.name)
		}
	case store.SignalLate:
		j.saw["signal that comes too late"]++
		if was.taken {
			j.accuse("%s is said to wait for %q no more, and it has taken it", h.name(), s.name)
		}
		was.late = true
	case store.SignalToEnded:
		j.saw["signal to a job that is done"]++
		if !h.final {
			j.accuse("%s is said to be done, and is not", h.name())
		}
	}
}

// expectHeard expects that a run which has its job is told of a signal what the senders were told.
func (j *judge) expectHeard(r *run, is *part, value string, came bool) {
	w, h := j.world, r.history
	w.mu.Lock()
	defer w.mu.Unlock()
	if !j.has(r) {
		j.saw["wait of a run that has lost its job"]++
		return
	}
	was := h.signal(is.name)
	switch {
	case came:
		j.saw["signal that has come"]++
		if !was.taken || value != was.value {
			j.accuse("attempt %d of %s hears %q; what was sent is %+v", r.attempt, h.name(), value, *was)
		}
	case was.taken:
		j.accuse("attempt %d of %s hears that nobody has sent %q in time, and %q was taken", r.attempt, h.name(), is.name, was.value)
	default:
		j.saw["signal that has not come in time"]++
		was.timedOut = true
		if is.takes == awaitsLong {
			j.accuse("attempt %d of %s waits for %q no more, after far less than %v", r.attempt, h.name(), is.name, awaitsLong)
		}
	}
	if first := w.table.steps[stepKey{h.id, store.StepSignal, is.name}]; int(first.Attempt) != r.attempt {
		j.saw["signal for which an earlier run has waited"]++
	}
}

// awaitSignal is a step of a handler.
func (i *instance) awaitSignal(ctx context.Context, job *queue_job.Job, r *run, is *part) error {
	value, came, err := queue_job.Await[string](ctx, job, is.name, is.takes)
	if err == nil {
		i.world.judge.expectHeard(r, is, value, came)
	}
	return err
}

// The statements.

// Signal is the transaction of a sender, which has the row.
func (t *Table) Signal(_ context.Context, s store.Step) (store.Signalled, error) {
	row := t.find(s.JobID)
	switch {
	case row == nil, row.Status == 9: // which means nothing
		return store.SignalToNone, nil
	case !row.pending():
		return store.SignalToEnded, nil
	}
	now := t.clock().UnixMilli()
	was, there := t.steps[keyOf(s)]
	got, wakes := store.SignalTaken, false
	switch {
	case !there || was.Created != row.CreateTime:
		was = store.Step{JobID: s.JobID, Kind: s.Kind, Name: s.Name, Created: row.CreateTime, Attempt: row.Attempts, Term: row.Term}
	case was.Ended == 0 && was.Until > now:
		wakes = row.Term == 0 && row.Status == int16(queue_job.JobStatusContinue)
	case was.Value != "":
		got = store.SignalKnown
	default:
		got = store.SignalLate
	}
	if got == store.SignalTaken {
		was.Value, was.Ended = s.Value, now
		t.steps[keyOf(s)] = was
	}
	t.write([]*Job{row}, change{verb: sendSignal}, func(j *Job) {
		j.Changes++
		if wakes && j.StartTime > t.now() {
			j.StartTime, j.Due = t.now(), float64(t.now())
		}
	})
	return got, nil
}

// EndWait is the transaction in which a run writes down that its wait is over.
func (t *Table) EndWait(ctx context.Context, s store.Step) (ours bool, err error) {
	return do(ctx, t, endWait, ofStep(s), func() (bool, error) {
		if len(t.ours([]uint64{s.JobID}, s.Term, s.Attempt)) == 0 {
			return false, nil
		}
		if was, there := t.steps[keyOf(s)]; there && was.Ended == 0 {
			was.Ended = t.clock().UnixMilli()
			t.steps[keyOf(s)] = was
		}
		return true, nil
	})
}

func (l runs) EndWait(ctx context.Context, s store.Step) (ours bool, err error) {
	return l.table().EndWait(ctx, s)
}
