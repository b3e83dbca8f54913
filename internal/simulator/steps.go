package simulator

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Handlers that have steps: outside of the database, in transactions of their own, and sleeps.

// stepping reports whether handlers of a world may have steps. It is one world of 26, so that the others stay as they were before there were steps;
// among these are the seeds of all mutants that are older than that.
func stepping(seed uint64) bool { return seed%26 == 21 }

// part is a step of a job.
type part struct {
	name  string
	of    partOf
	takes time.Duration // until its effect; of a sleep, or a wait: how long it is
}

type partOf int

const (
	outside partOf = iota // its effect is outside of the database
	inTx
	asleep
	awaits // a signal
)

func (p *part) kind() int32 {
	switch p.of {
	case asleep:
		return store.StepSleep
	case awaits:
		return store.StepSignal
	}
	return store.StepDone
}

// drawParts draws which jobs have steps, from dice of its own, and that some jobs are cancelled while they run, and begin anew.
func (p *plan) drawParts(d *dice) {
	for _, o := range p.orders {
		if d.chance(300) || o.ignored || o.takes > 0 || o.outlived > 0 || o.backlog != nil || o.deadly || p.configs[o.row.JobType-1].BatchSize > 0 {
			continue
		}
		for n := range 1 + d.upTo(4) {
			is := part{name: fmt.Sprintf("part %d", n), of: oneOf(d, outside, outside, inTx, inTx, asleep)}
			if is.of == asleep && p.weather.stepped { // a sleep ends by the clock by which it began: later, if that was far ahead
				is.of = outside
			}
			is.takes = d.between(10*time.Microsecond, oneOf(d, time.Millisecond, 20*time.Millisecond, 200*time.Millisecond))
			if is.of == asleep {
				is.takes = d.between(time.Millisecond, oneOf(d, 500*time.Millisecond, 2*time.Second, 6*time.Second))
			}
			o.parts = append(o.parts, is)
		}
	}
	if !p.weather.steered {
		return
	}
	for range d.upTo(5) {
		at, among, begun := d.between(200*time.Millisecond, p.calmAt), d.next(), d.chance(700)
		after := d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 400*time.Millisecond, 2*time.Second))
		var h *history
		p.at(at, func(w *world) { h = w.cancel(among, begun) }, "cancel a job in flight")
		p.at(at+after, func(w *world) { w.retryFromStart(h) }, "retry it from its start")
	}
}

// retryFromStart has a job that was cancelled forget its steps and run again, as queue_job does.
func (w *world) retryFromStart(h *history) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h == nil || h.gone {
		return
	}
	if j := w.table.find(h.id); j == nil || j.Status != int16(queue_job.JobStatusFailed) && j.Status != int16(queue_job.JobStatusCancelled) {
		return
	}
	w.trace.add(event{what: "retries from its start", about: about{ids: []uint64{h.id}, note: h.order.label}})
	if len(h.records) > 0 {
		w.judge.saw["job with steps that begins anew"]++
	}
	w.table.forgetSteps(func(k stepKey, _ store.Step) bool { return k.job == h.id })
	h.records, h.effects, h.signals = nil, nil, nil
	w.table.Retry(h.id)
}

// takeParts has a run take the steps of its job, in their order. A run that does not end well leaves some, mostly. What a step says is how the
// run ends: an error ends it, and a sleep, after which some handlers go on all the same. It reports false if the process was killed.
func (i *instance) takeParts(ctx context.Context, job *queue_job.Job, r *run, b *behaviour) bool {
	d := throw(i.world.seed, 33, hash(r.history.order.label), uint64(r.nth))
	for n := range r.history.order.parts {
		if b.ends != endsWell && d.chance(300) {
			break
		}
		err := i.take(ctx, job, r, &r.history.order.parts[n], d)
		i.link.holdStill(b.reacts)
		if i.link.dead() {
			return false
		}
		var asked *queue_job.Outcome
		switch {
		case err == nil:
			continue
		case r.asleep != nil: // and it goes on, which must come to nothing
			i.world.judge.expectAsleep(r, err)
		case errors.As(err, &asked):
			r.asleep = asked
			if d.chance(200) {
				continue
			}
			if d.chance(800) {
				b.ends = endsAsleep
			}
		default:
			b.ends, b.failed = endsInError, err
		}
		break
	}
	b.asleep = r.asleep
	return true
}

// take takes one step. After a transaction that was rolled back, some handlers try again.
func (i *instance) take(ctx context.Context, job *queue_job.Job, r *run, is *part, d *dice) error {
	switch is.of {
	case asleep:
		err := job.Sleep(ctx, is.name, is.takes)
		if err == nil {
			i.world.judge.expectSlept(r, is)
		}
		return err
	case awaits:
		return i.awaitSignal(ctx, job, r, is)
	case inTx:
		err := i.takeInTx(ctx, job, r, is, d)
		if errors.Is(err, errRolledBack) && d.chance(700) {
			err = i.takeInTx(ctx, job, r, is, d)
		}
		return err
	default:
		value, err := queue_job.Step(ctx, job, is.name, i.does(r, is, nil))
		if err == nil {
			i.world.judge.expectValue(r, is, value)
		}
		return err
	}
}

func (i *instance) takeInTx(ctx context.Context, job *queue_job.Job, r *run, is *part, d *dice) error {
	tx := &stepTx{link: i.link, h: r.history, back: d.chance(150), ended: make(chan struct{}),
		takes: i.world.weather.latency + d.between(time.Millisecond, oneOf(d, 10*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond))}
	value, err := queue_job.StepTx(ctx, job, tx, is.name, i.does(r, is, tx))
	i.link.holdStill(tx.takes)
	if err != nil {
		tx.rollback()
		return err
	}
	if err = tx.commit(ctx); err == nil {
		i.world.judge.expectValue(r, is, value)
	}
	return err
}

// does is the function of a step. Each call has another value.
func (i *instance) does(r *run, is *part, tx *stepTx) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		value := i.world.judge.does(r, is)
		once := behaviour{takes: is.takes}
		if !once.pass(ctx, i.link) {
			return "", errKilled
		}
		i.link.holdStill(is.takes)
		if tx != nil {
			tx.effects = append(tx.effects, is.name)
		}
		return value, nil
	}
}

// sleeps reports whether a run has ended in a sleep, whatever its handler returns. A status that it sets wins.
func (b *behaviour) sleeps() bool {
	return b.asleep != nil && b.ends.status() == queue_job.JobStatusInit
}

// stepTx is a transaction of a handler for one step. From the record on it has the job's row, until it ends, at a moment that is drawn. It is
// committed if the handler has asked for that by then; a handler that gives up waiting does not know whether it was.
type stepTx struct {
	link  *link
	h     *history
	takes time.Duration
	back  bool // the commit is refused

	effects []string
	records []store.Step

	ends        time.Time // zero: it has recorded nothing
	asked, over bool
	ended       chan struct{}
}

func (tx *stepTx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	panic("a statement of text")
}

func (tx *stepTx) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	panic("a statement of text")
}

// Commit and Rollback show queue_job that it is a transaction.
func (tx *stepTx) Commit() error   { return nil }
func (tx *stepTx) Rollback() error { return nil }

// IsOver tells queue_job that it has ended.
func (tx *stepTx) IsOver() bool {
	tx.link.world.mu.Lock()
	defer tx.link.world.mu.Unlock()
	return tx.over
}

func (tx *stepTx) rollback() {
	tx.link.world.mu.Lock()
	defer tx.link.world.mu.Unlock()
	tx.back, tx.over = true, true
}

func (tx *stepTx) commit(ctx context.Context) error {
	w := tx.link.world
	w.mu.Lock()
	tx.asked = !tx.over
	holdsRow := !tx.ends.IsZero()
	w.mu.Unlock()
	if !holdsRow {
		tx.end()
	}
	select {
	case <-tx.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-tx.link.killed:
		return errKilled
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if tx.back || !tx.asked {
		return errRolledBack
	}
	return nil
}

// end ends the transaction: by a rollback if the row was changed by hand, since such changes wait for no lock here.
func (tx *stepTx) end() {
	if tx.link.dead() {
		return
	}
	defer close(tx.ended)
	tx.link.apply(commitStep, about{ids: []uint64{tx.h.id}}, nil, false, func() {
		w := tx.link.world
		row := w.table.find(tx.h.id)
		tx.back = tx.back || !tx.asked || row == nil || row.history != tx.h || tx.h.byHand
		if tx.over = true; tx.back {
			w.judge.saw["step whose transaction was rolled back"]++
			return
		}
		for _, s := range tx.records {
			w.table.put(row, s)
		}
		for _, name := range tx.effects {
			w.judge.happened(tx.h, name)
		}
	})
}

// record is a step that is recorded.
type record struct {
	store.Step
	at time.Time
}

// recorded is told of each record: its run must have the job.
func (j *judge) recorded(h *history, s store.Step) {
	if h == nil || h.byHand {
		return
	}
	j.saw["step recorded"]++
	switch m := h.mark; {
	case h.final:
		j.accuse("a run of %s has recorded %q, and the job is final", h.name(), s.Name)
	case m == nil || m.term != s.Term || m.attempt != int(s.Attempt) || m.by != j.actor && !j.twoHolders():
		j.accuse("attempt %d of %s under term %d has recorded %q, and the job is not that run's any more", s.Attempt, h.name(), s.Term, s.Name)
	}
	if h.records == nil {
		h.records = map[string]record{}
	}
	h.records[s.Name] = record{s, time.Now()}
}

// happened is told of each effect of a step in a transaction that was committed.
func (j *judge) happened(h *history, name string) {
	j.saw["effect of a step in a transaction"]++
	if h.effects == nil {
		h.effects = map[string]int{}
	}
	if h.effects[name]++; h.effects[name] > 1 && !h.byHand {
		j.accuse("%q of %s has happened %d times", name, h.name(), h.effects[name])
	}
}

// does is told of each call of a step's function, and returns what it is to return. What was recorded before the run was marked must not be done
// again.
func (j *judge) does(r *run, is *part) (value string) {
	w, h := j.world, r.history
	w.mu.Lock()
	defer w.mu.Unlock()
	h.did++
	w.trace.add(event{who: r.by.number, what: "does", about: about{ids: []uint64{h.id}, term: r.term, note: is.name}})
	if was, there := h.records[is.name]; there && r.mark != nil && was.at.Before(r.mark.at) && !h.byHand {
		j.accuse("attempt %d of %s does %q, which attempt %d has recorded before", r.attempt, h.name(), is.name, was.Attempt)
	}
	if r.asleep != nil {
		j.accuse("attempt %d of %s does %q, and it has ended in a sleep", r.attempt, h.name(), is.name)
	}
	return fmt.Sprintf("%s of %s, done %d times", is.name, h.order.label, h.did)
}

// has reports whether a run has its job. The world stands still.
func (j *judge) has(r *run) bool {
	h := r.history
	return r.mark != nil && h.mark == r.mark && !h.final && !h.gone && !h.byHand
}

// expectValue expects that a step returns what is recorded of it.
func (j *judge) expectValue(r *run, is *part, value string) {
	w, h := j.world, r.history
	w.mu.Lock()
	defer w.mu.Unlock()
	if !j.has(r) {
		j.saw["step of a run that has lost its job"]++
		return
	}
	row := w.table.steps[stepKey{h.id, is.kind(), is.name}]
	if int(row.Attempt) != r.attempt {
		j.saw["step of an earlier run"]++
	}
	var want string
	if err := json.Unmarshal([]byte(cmp.Or(row.Value, "null")), &want); err != nil || value != want {
		j.accuse("%q returns %q in attempt %d of %s; recorded is %s", is.name, value, r.attempt, h.name(), row.Value)
	}
}

// awakeSlack is how many milliseconds before its end a sleep may be over: those of rounding.
const awakeSlack = 2

// expectSlept expects that a sleep that lets its run go on is over.
func (j *judge) expectSlept(r *run, is *part) {
	w, h := j.world, r.history
	w.mu.Lock()
	defer w.mu.Unlock()
	if !j.has(r) || j.twoHolders() {
		return
	}
	j.saw["sleep that is over"]++
	until := w.table.steps[stepKey{h.id, is.kind(), is.name}].Until
	if early := until - w.clock().UnixMilli(); until == 0 || early > awakeSlack {
		j.accuse("%q lets attempt %d of %s go on %d ms before its end", is.name, r.attempt, h.name(), early)
	}
}

// expectAsleep expects that nothing can be done in a run that has ended in a sleep.
func (j *judge) expectAsleep(r *run, err error) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	j.saw["run that goes on after its sleep"]++
	if !errors.Is(err, queue_job.ErrAsleep) && r.ctx.Err() == nil {
		j.accuse("attempt %d of %s goes on after a sleep, and is told: %v", r.attempt, r.history.name(), err)
	}
}

// fallsAsleep notes until when a job sleeps whose run has ended in that.
func (j *judge) fallsAsleep(h *history) {
	r := h.mark.run
	if r == nil || r.asleep == nil || r.wrote != queue_job.JobStatusContinue || r.verdict.wait != r.asleep.Wait {
		return
	}
	j.saw["job that sleeps"]++
	for _, s := range h.records {
		if s.Kind == store.StepSleep {
			h.sleeps = max(h.sleeps, s.Until)
		}
	}
}

// expectRested expects that a run does not begin while its job sleeps, unless somebody has given the job another time since.
func (j *judge) expectRested(r *run) {
	h := r.history
	if h.sleeps == 0 || h.byHand || j.twoHolders() || r.mark != nil && r.mark.cancelled || j.excuses(h, r.mark) {
		return
	}
	j.saw["run of a job that has slept"]++
	if early := h.sleeps - j.world.clock().UnixMilli(); early > awakeSlack {
		j.accuse("a run of %s begins %d ms before the end of its sleep", h.name(), early)
	}
}

// expectParts expects that each step in a transaction has happened as often as it is recorded, and that a job that has succeeded has all its steps.
func (j *judge) expectParts(h *history, row Job) {
	for n := range h.order.parts {
		is := &h.order.parts[n]
		_, there := j.world.table.steps[stepKey{h.id, is.kind(), is.name}]
		if done := row.Status == int16(queue_job.JobStatusSuccess); done && !there {
			j.accuse("%s has succeeded without %q", h.name(), is.name)
		} else if done {
			j.saw["step of a job that has succeeded"]++
		}
		if times := h.effects[is.name]; is.of == inTx && (times == 1) != there {
			j.accuse("%q of %s has happened %d times; recorded: %v", is.name, h.name(), times, there)
		}
	}
}

// The statements.

type stepKey struct {
	job  uint64
	kind int32
	name string
}

func keyOf(s store.Step) stepKey { return stepKey{s.JobID, s.Kind, s.Name} }

// mayRecord returns the row of a step whose run has it; nil: the step is there, or another run has the row.
func (t *Table) mayRecord(s store.Step) *Job {
	_, there := t.steps[keyOf(s)]
	if rows := t.ours([]uint64{s.JobID}, s.Term, s.Attempt); len(rows) > 0 && !there {
		return rows[0]
	}
	return nil
}

func (t *Table) put(row *Job, s store.Step) {
	s.Created = row.CreateTime
	t.steps[keyOf(s)] = s
	t.recorded(row.history, s)
}

func (t *Table) forgetSteps(of func(stepKey, store.Step) bool) {
	for k, s := range t.steps {
		if of(k, s) {
			delete(t.steps, k)
		}
	}
}

func ofStep(s store.Step) about { return about{ids: []uint64{s.JobID}, term: s.Term, note: s.Name} }

func (t *Table) RecordStep(ctx context.Context, s store.Step) (recorded bool, err error) {
	return do(ctx, t, recordStep, ofStep(s), func() (bool, error) {
		row := t.mayRecord(s)
		if row != nil {
			t.put(row, s)
		}
		return row != nil, nil
	})
}

func (t *Table) StepsOfRun(ctx context.Context, _ conn.Handle, id uint64) ([]store.Step, error) {
	return do(ctx, t, readSteps, about{ids: []uint64{id}}, func() (steps []store.Step, err error) {
		row := t.find(id)
		for k, s := range t.steps {
			if k.job == id && row != nil && s.Created == row.CreateTime {
				steps = append(steps, s)
			}
		}
		slices.SortFunc(steps, func(a, b store.Step) int {
			return cmp.Or(cmp.Compare(uint64(a.Ended-1), uint64(b.Ended-1)), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Name, b.Name))
		})
		return steps, nil
	})
}

func (t *Table) ForgetStray(ctx context.Context, id uint64, created int64) error {
	return carryOut(ctx, t, forgetStray, about{ids: []uint64{id}}, func() error {
		t.forgetSteps(func(k stepKey, s store.Step) bool { return k.job == id && s.Created != created })
		return nil
	})
}

// The way for handlers to record steps.

func (l runs) table() *Table { return &Table{tables: l.world.table.tables, link: l.link} }

func (l runs) RecordStep(ctx context.Context, s store.Step) (recorded bool, err error) {
	return l.table().RecordStep(ctx, s)
}

func (l runs) StepsOfRun(ctx context.Context, h conn.Handle, id uint64) ([]store.Step, error) {
	return l.table().StepsOfRun(ctx, h, id)
}

func (l runs) ForgetStray(ctx context.Context, id uint64, created int64) error {
	return l.table().ForgetStray(ctx, id, created)
}

func (l runs) Standings(ctx context.Context, ids []uint64) ([]store.Standing, error) {
	return do(ctx, l.table(), seeStanding, about{ids: ids}, func() ([]store.Standing, error) { return l.world.table.standings(ids), nil })
}

// RecordStepThrough is the statement inside the transaction. It locks the row.
func (l runs) RecordStepThrough(ctx context.Context, h conn.Handle, s store.Step) (recorded bool, err error) {
	tx := h.(*stepTx)
	return send(ctx, l.link, recordInTx, ofStep(s), func() (bool, error) {
		if l.world.table.mayRecord(s) == nil {
			return false, nil
		}
		tx.records, tx.ends = append(tx.records, s), time.Now().Add(tx.takes)
		l.world.locked[s.JobID] = tx.ends
		time.AfterFunc(tx.takes, tx.end)
		return true, nil
	})
}
