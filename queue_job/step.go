package queue_job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

// Steps divide a handler into parts that are not done again once they have been done. They go by their names, and nothing is replayed: a run
// calls the handler from its top, and what has a record returns it. So code between steps, and the order of steps, may change while jobs are
// under way; a step that gets another name is a new step.
//
//	first run     charge ──► record   ship ──► the process dies
//	second run    charge: its record  ship ──► record   mail ──► record   done
//
// A step whose process dies between its effect and its record is done again; [Job.StepKey] lets an outside system recognise that. In
// [StepTx], effect and record are one transaction, so that cannot happen. What a late run may still record is said at store.Step.

const (
	// StepValueMax is how many bytes of JSON the value of a [Step] may have.
	StepValueMax = 64 << 10
	// StepsMax is how many steps a job may have, sleeps included.
	StepsMax = 1000
)

var (
	// ErrStepValue is the cause of an error if a step has returned what cannot be stored: it is no JSON, or has more than [StepValueMax]
	// bytes. Store the large part elsewhere, and return its key.
	ErrStepValue = errors.New("the value of the step cannot be stored")
	// ErrStepTwice is the cause of an error if a run has two steps of one name, as in a loop: each needs a name of its own.
	ErrStepTwice = errors.New("this run has had a step of that name; give each step a name of its own, as in fmt.Sprintf(\"mail-%d\", i)")
	// ErrAsleep is the cause of an error if a run goes on after [Job.Sleep] or [Await] has ended it: return their error.
	ErrAsleep = errors.New("the job waits, so this run is over; return the error of Sleep or Await from the handler")

	errStepsMax  = fmt.Errorf("a job has at most %d steps; add jobs for the parts", StepsMax)
	errNoName    = errors.New("the step has no name")
	errInStep    = errors.New("a step is under way; call it between steps")
	errNoBatch   = errors.New("the handler of a batch cannot wait for one of its jobs; use Snooze")
	errStepOpen  = stepOpen("the transaction of a StepTx is still open, and has the job's row, which this would wait for; commit it first")
	errLostValue = fmt.Errorf("%w: the step has been done in an earlier run", ErrStepValue)
)

// stepOpen is an error with the cause [ErrCompleting].
type stepOpen string

func (s stepOpen) Error() string      { return string(s) }
func (stepOpen) Is(target error) bool { return target == ErrCompleting }

// recordPatience is for how long a record is tried to be written after a step was done. The run's context may have ended by then.
const recordPatience = 10 * time.Second

// steps are the steps of a run, and what follows it.
type steps struct {
	mu     sync.Mutex
	loaded bool
	found  map[stepName]store.Step // of earlier runs, and of this one
	called map[stepName]stepCall   // by this run
	busy   int                     // how many functions are running
	wait   *Outcome                // the run ended in a sleep, or …
	awaits bool                    // … in the wait for a signal
	next   []store.NewJob          // of [Jobs.Then]
	bytes  int                     // of these
}

type stepName struct {
	kind int32
	name string
}

// stepCall is what a run has of a step that it has called.
type stepCall struct {
	running bool
	tx      Executor // of the last StepTx that recorded it, which may be rolled back
}

// making guards the steps of jobs until they are there: few jobs have any.
var making sync.Mutex

func (j *Job) itsSteps() *steps {
	making.Lock()
	defer making.Unlock()
	if j.steps == nil {
		j.steps = &steps{found: map[stepName]store.Step{}, called: map[stepName]stepCall{}}
	}
	return j.steps
}

// Step does a part of a job once. It calls the function and stores what it returns, as JSON; in later runs of the job it returns that, and does
// not call the function. If the function returns an error, nothing is stored, Step returns that error, and the next run calls it again.
//
// The name says which step it is, among those of the job: at most 128 characters. A run calls each name once ([ErrStepTwice]). The function
// gets the handler's context. It must return what the rest of the handler needs: a variable that it sets outside is not set in later runs.
//
// The step is done at least once: if the process dies after the effect and before it is stored, it is done again. Pass [Job.StepKey] to an
// outside system that recognises a repeated request, and use [StepTx] for effects in the database of the jobs. If another instance has the
// job by then, or it was cancelled, the cause of the error is [ErrNotOurs]; return it. A value that cannot be stored
// ([ErrStepValue]) fails the job: the effect has happened.
//
// A first run reads nothing, and each step costs one statement. [Jobs.Retry] keeps the steps; [Jobs.RetryWith] asks what to do with them.
func Step[T any](ctx context.Context, job *Job, name string, do func(context.Context) (T, error)) (value T, err error) {
	is := stepName{store.StepDone, name}
	done, found, err := job.beginStep(ctx, nil, is)
	if err != nil {
		return value, stepErr(job, is, err)
	}
	defer done()
	if found != nil {
		err = decodeStep(job, is, found, &value)
		return value, err
	}
	if value, err = do(ctx); err != nil {
		return value, err
	}
	text, errValue := job.encodeStep(value)
	record, err := job.record(ctx, is, store.Step{Value: text})
	switch {
	case err != nil:
		return value, stepErr(job, is, err)
	case errValue != nil:
		return value, stepErr(job, is, Fail(errValue))
	}
	var stored T // a first run must not see more than later ones
	err = decodeStep(job, is, record, &stored)
	return stored, err
}

// StepTx is [Step] for effects in the database of the jobs: the function writes through the transaction that the handler has begun, and the
// record of the step is written in it as well. So both happen or neither does, exactly once, however many runs the job has: a process that
// was frozen while another took the job over cannot commit.
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	left, err := queue_job.StepTx(ctx, job, tx, "reserve", func(ctx context.Context) (int, error) { return reserve(ctx, tx) })
//	if err != nil {
//		return err // and roll back
//	}
//	return tx.Commit()
//
// After an error, roll back. If its cause is [ErrNotOurs], another run has the job, or it was cancelled. From the record until the end of
// the transaction, the job's row is locked, so commit soon; a Step, [Job.SetProgress] or [Job.SetResult] before that is refused with
// [ErrCompleting]. [Job.CompleteTx] says which transactions may be passed.
func StepTx[T any](ctx context.Context, job *Job, tx Executor, name string, do func(context.Context) (T, error)) (value T, err error) {
	is := stepName{store.StepDone, name}
	if err := checkTx(tx); err != nil {
		return value, stepErr(job, is, err)
	}
	done, found, err := job.beginStep(ctx, tx, is)
	if err != nil {
		return value, stepErr(job, is, err)
	}
	defer done()
	if found != nil {
		err = decodeStep(job, is, found, &value)
		return value, err
	}
	if value, err = do(ctx); err != nil {
		return value, err
	}
	text, err := job.encodeStep(value)
	if err != nil {
		return value, stepErr(job, is, Fail(err))
	}
	step := job.step(is, store.Step{Value: text})
	if err = ours(job.by.Rows.(hidden.Steps).RecordStepThrough(ctx, tx, step)); err != nil {
		return value, stepErr(job, is, err)
	}
	s := job.itsSteps()
	s.mu.Lock()
	s.called[is] = stepCall{running: true, tx: tx}
	s.mu.Unlock()
	var stored T
	err = decodeStep(job, is, &step, &stored)
	return stored, err
}

// StepKey names a step of the job to outside systems that recognise a repeated request. All runs of the job have the same key for it, as
// with [Job.IdempotencyKey].
func (j *Job) StepKey(name string) string { return j.IdempotencyKey() + "-" + name }

// Sleep lets the job go on later, without a handler that waits: the run ends, and the handler is called again when the time is over. By then,
// Sleep returns nil. The time begins with the first call, whatever happens to the job until it is over, and the name is as in [Step].
//
//	if err := job.Sleep(ctx, "cooling off", 14*24*time.Hour); err != nil {
//		return err
//	}
//
// Return the error, whatever it is: it ends the run like a [Snooze], which counts neither as an error nor as a retry. If the handler returns
// nil or another error instead, the job sleeps all the same; only [Fail], [Cancel] and [Job.Status] win. A sleep of less than a second takes place in
// the handler. The handler of a batch cannot sleep.
func (j *Job) Sleep(ctx context.Context, name string, d time.Duration) error {
	is := stepName{store.StepSleep, name}
	if err := j.sleep(ctx, is, d); err != nil {
		if asleep := (*Outcome)(nil); errors.As(err, &asleep) {
			return err
		}
		return stepErr(j, is, err)
	}
	return nil
}

func (j *Job) sleep(ctx context.Context, is stepName, d time.Duration) error {
	if j.by != nil && j.by.Batch {
		return errNoBatch
	}
	done, found, err := j.beginStep(ctx, nil, is)
	if err != nil {
		return err
	}
	defer done()
	if found == nil {
		until := j.by.Millis(time.Now().Add(min(max(0, d), waitTimeMax)))
		if found, err = j.record(ctx, is, store.Step{Until: until}); err != nil {
			return err
		}
	}
	return j.waitUntil(ctx, found.Until, false)
}

// waitUntil returns when a time has come, by the database's clock. If it is not near, it ends the run instead, which the error says.
func (j *Job) waitUntil(ctx context.Context, until int64, awaits bool) error {
	left := time.Duration(until-j.by.Millis(time.Now())) * time.Millisecond
	switch {
	case left <= 0:
		return nil
	case left < time.Second:
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case !atomic.CompareAndSwapInt32(&j.ended, 0, int32(JobStatusContinue)):
		return errors.New("the job is being ended by CompleteTx, FailTx or CancelTx")
	}
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait, s.awaits = &Outcome{Status: JobStatusContinue, Wait: left}, awaits
	return s.wait
}

// asleep is the outcome of a run that has ended in [Job.Sleep] or [Await].
func (j *Job) asleep() (outcome *Outcome, awaits bool) {
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait, s.awaits
}

// beginStep returns what is known of a step; nil: it is to be done. Done must be called when the call is over, however it ends.
func (j *Job) beginStep(ctx context.Context, tx Executor, is stepName) (done func(), found *store.Step, err error) {
	rows, ok := hidden.Steps(nil), false
	if j.by != nil {
		rows, ok = j.by.Rows.(hidden.Steps)
	}
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier, called := s.called[is]
	switch {
	case is.name == "":
		err = errNoName
	case !ok:
		err = errNoRunner
	case ctx.Err() != nil: // nothing new begins
		err = context.Cause(ctx)
	case s.wait != nil:
		err = ErrAsleep
	case earlier.running, called && tx == nil, called && !isOver(earlier.tx):
		err = ErrStepTwice
	case is.kind != store.StepDone && s.busy > 0:
		err = errInStep
	case tx == nil && s.holdsRow():
		err = errStepOpen
	default:
		err = errors.Join(checkKey(is.name), j.completesStill())
	}
	if err == nil && (!s.loaded && j.number > 1 || called) { // before a first run, nobody has called a handler
		err = s.load(ctx, rows, tx, j.Id)
	}
	if err != nil {
		return nil, nil, err
	}
	if step, ok := s.found[is]; ok {
		found = &step
	} else if len(s.found) >= StepsMax {
		return nil, nil, errStepsMax
	}
	if watch, ok := rows.(hidden.Watch); ok && found == nil && is.kind == store.StepDone {
		watch.BeforeStep(ctx, j.Id, is.name)
	}
	s.called[is] = stepCall{running: true, tx: earlier.tx}
	s.busy++
	return func() { s.over(is) }, found, nil
}

// load reads the steps that are recorded.
func (s *steps) load(ctx context.Context, rows hidden.Steps, tx Executor, id uint64) error {
	through, _ := tx.(conn.Handle) // a pool may have no other connection
	list, err := rows.StepsOfRun(ctx, through, id)
	if err != nil {
		return err
	}
	for _, step := range list {
		s.found[stepName{step.Kind, step.Name}] = step
	}
	s.loaded = true
	return nil
}

// over notes that the call of a step is over. If it has recorded nothing, it may be called again.
func (s *steps) over(is stepName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	call := s.called[is]
	call.running = false
	s.called[is] = call
	if _, ok := s.found[is]; !ok && call.tx == nil {
		delete(s.called, is)
	}
}

// holdsRow reports whether a transaction of a StepTx is known to be open. Of some, nobody sees the end.
func (s *steps) holdsRow() bool {
	for _, call := range s.called {
		if call.tx != nil && seesEnd(call.tx) && !isOver(call.tx) {
			return true
		}
	}
	return false
}

// mayWrite returns [ErrCompleting] if a transaction of the handler has the job's row, as far as is known.
func (j *Job) mayWrite() error {
	making.Lock()
	s := j.steps
	making.Unlock()
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holdsRow() {
			return errStepOpen
		}
	}
	return j.completesStill()
}

// step is a record of this run.
func (j *Job) step(is stepName, with store.Step) store.Step {
	with.JobID, with.Kind, with.Name, with.Created = j.Id, is.kind, is.name, int64(j.CreateTime)
	if with.Attempt, with.Term = j.number, j.Term; is.kind != store.StepSignal { // which has not ended
		with.Ended = j.by.Millis(time.Now())
	}
	return with
}

// record writes down a step that was done, also after the end of the run's context: the table decides whether it counts. It returns what is
// recorded, which may be what another run was quicker to record.
func (j *Job) record(ctx context.Context, is stepName, with store.Step) (*store.Step, error) {
	if is.kind == store.StepDone { // it has had an effect
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	step, rows := j.step(is, with), j.by.Rows.(hidden.Steps)
	const tries = 4
	var err error
	for try := range tries {
		restBefore(ctx, try)
		var recorded bool
		if recorded, err = rows.RecordStep(ctx, step); err != nil {
			continue
		}
		there := &step
		if !recorded {
			there, err = j.recordedBy(ctx, rows, step)
		}
		if there != nil {
			s := j.itsSteps()
			s.mu.Lock()
			s.found[is] = *there
			s.mu.Unlock()
			return there, nil
		}
		if errors.Is(err, ErrNotOurs) {
			return nil, err
		}
	}
	if is.kind != store.StepDone {
		return nil, fmt.Errorf("it could not be recorded: %w", err)
	}
	return nil, fmt.Errorf("it was done, and that could not be recorded: %w", err)
}

// restBefore rests before a further try.
func restBefore(ctx context.Context, try int) {
	if try > 0 {
		select {
		case <-time.After(time.Duration(try) * 100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// recordedBy returns the record that keeps a step from being recorded. Without an error it has removed one of a job that had the id before.
func (j *Job) recordedBy(ctx context.Context, rows hidden.Steps, step store.Step) (*store.Step, error) {
	standings, err := rows.Standings(ctx, []uint64{j.Id})
	if err != nil {
		return nil, err
	}
	if len(standings) == 0 || standings[0].Term != step.Term || standings[0].Attempts != step.Attempt || !JobStatus(standings[0].Status).Pending() {
		return nil, ErrNotOurs
	}
	there, err := j.recorded(ctx, rows, stepName{step.Kind, step.Name})
	if err != nil || there != nil {
		return there, err
	}
	return nil, rows.ForgetStray(ctx, j.Id, step.Created)
}

// recorded reads the record of a step; nil: there is none.
func (j *Job) recorded(ctx context.Context, rows hidden.Steps, is stepName) (*store.Step, error) {
	list, err := rows.StepsOfRun(ctx, nil, j.Id)
	for i := range list {
		if list[i].Kind == is.kind && list[i].Name == is.name {
			return &list[i], err
		}
	}
	return nil, err
}

// encodeStep and decodeStep are the one way of values into the table and out of it.
func (j *Job) encodeStep(value any) (string, error) {
	return encodeStep(value, j.codec(), j.value(ColumnStep))
}

func encodeStep(value any, codec Codec, of CodecValue) (string, error) {
	text, err := encodeJSON(value)
	if err == nil {
		err = checkText(value, text)
	}
	switch n := len(text); {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrStepValue, err)
	case n > StepValueMax:
		return "", fmt.Errorf("%w: %d bytes of JSON, and the most is %d; store the large part elsewhere and return its key", ErrStepValue, n, StepValueMax)
	}
	stored, err := seal(codec, string(text), of)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStepValue, err)
	}
	return stored, nil
}

// decodeStep returns [Fail] if a value cannot be read: the step was done, and must not be done again. If a [Codec] lacks its key, another process
// may have that.
func decodeStep(j *Job, is stepName, from *store.Step, into any) error {
	if from.Value == "" {
		return stepErr(j, is, Fail(errLostValue))
	}
	codec := j.codec()
	text, err := unseal(codec, from.Value, j.value(ColumnStep))
	if err != nil {
		return stepErr(j, is, err)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		if codec != nil {
			err = withoutValues(err)
		}
		return stepErr(j, is, Fail(fmt.Errorf("the value that run %d has recorded is not of the type of the step: %w", from.Attempt, err)))
	}
	return nil
}

func stepErr(j *Job, is stepName, err error) error {
	what := "step"
	switch is.kind {
	case store.StepSleep:
		what = "sleep"
	case store.StepSignal:
		what = "signal"
	}
	return fmt.Errorf("%s %q of job %d: %w", what, is.name, j.Id, err)
}
