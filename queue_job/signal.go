package queue_job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

var (
	// ErrSignalled is the cause of an error of [Jobs.Signal] if the job has had a signal of that name: the first one counts.
	ErrSignalled = errors.New("the job has had a signal of this name, and the first one counts")
	// ErrSignalLate is the cause of an error of [Jobs.Signal] if the job has waited for the signal, and the time of [Await] is over.
	ErrSignalLate = errors.New("the job does not wait for this signal any more: its time is over")
	// ErrEnded is the cause of an error of [Jobs.Signal] if the job is done, failed or cancelled.
	ErrEnded = errors.New("the job is done, failed or cancelled")
)

// Await returns the value of a signal that somebody has sent to the job, or will send, with [Jobs.Signal]: an approval, the answer of another
// system. If it is there, Await returns it at once. If not, the run ends, as with [Job.Sleep]: no goroutine waits, and the handler is called
// again when the signal has come, or when the time is over. Then came is false, and that is no error.
//
//	answer, came, err := queue_job.Await[Answer](ctx, job, "approval", 48*time.Hour)
//	switch {
//	case err != nil:
//		return err // it may only be the end of this run
//	case !came:
//		return refund(ctx)
//	}
//
// Return the error, whatever it is; what [Job.Sleep] says of its own goes for it, too. The time begins with the first call of this name,
// and a wait of no time only looks. What came of it is recorded as a [Step] is: later runs see the same, also that the time was over, and a signal
// that comes after that is refused. The first signal of a name counts; for a second one, give it another name.
//
// A signal that comes while the job is due for other reasons, or has not come so far yet, waits for it. One for which it waits starts it
// within a second, and mostly at once if it was sent in the process that runs the type.
func Await[T any](ctx context.Context, job *Job, name string, timeout time.Duration) (value T, came bool, err error) {
	is := stepName{store.StepSignal, name}
	found, err := job.await(ctx, is, timeout)
	if err != nil {
		if asleep := (*Outcome)(nil); errors.As(err, &asleep) {
			return value, false, err
		}
		return value, false, stepErr(job, is, err)
	}
	if found.Value == "" {
		return value, false, nil
	}
	if err = decodeStep(job, is, found, &value); err != nil {
		var none T
		return none, false, err
	}
	return value, true, nil
}

// await returns a signal that has come, or whose time is over. How it and Signal go together is drawn at store.Signalled.
func (j *Job) await(ctx context.Context, is stepName, timeout time.Duration) (*store.Step, error) {
	if j.by != nil && j.by.Batch {
		return nil, errNoBatch
	}
	done, found, err := j.beginStep(ctx, nil, is)
	if err != nil {
		return nil, err
	}
	defer done()
	rows := j.by.Rows.(hidden.Steps)
	if found == nil {
		found, err = j.record(ctx, is, store.Step{Until: j.by.Millis(time.Now().Add(min(max(0, timeout), waitTimeMax)))})
	} else if found.Ended == 0 { // as it was when this run has read it
		found, err = j.settled(ctx, rows, is)
	}
	if err != nil || found.Ended != 0 {
		return found, err
	}
	if err = j.waitUntil(ctx, found.Until, true); err != nil {
		return nil, err
	}
	const tries = 4
	for try := range tries {
		restBefore(ctx, try)
		var ours bool
		if ours, err = rows.EndWait(ctx, j.step(is, store.Step{})); err == nil && !ours {
			return nil, ErrNotOurs
		}
		if err == nil {
			if found, err = j.settled(ctx, rows, is); err == nil && found.Ended != 0 {
				return found, nil
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("the end of the wait could not be recorded: %w", err)
}

// settled reads how a wait stands that was recorded.
func (j *Job) settled(ctx context.Context, rows hidden.Steps, is stepName) (*store.Step, error) {
	found, err := j.recorded(ctx, rows, is)
	switch {
	case err != nil:
		return nil, err
	case found == nil: // somebody has given the job other parameters, or deleted it
		return nil, ErrNotOurs
	}
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found[is] = *found
	return found, nil
}

// Signal sends a value to jobs that are not done, for [Await]: stored as JSON, of at most 64 KiB. It is part of your transaction, if you pass one: it
// counts with the commit, and a rollback takes it back. A job that waits for it is due then. If it does not wait yet, it finds the signal when
// it gets so far, whether it has started or not. One for something else to wait for, a retry or the time of the job, is not started by it.
//
// If a job cannot take it, the cause of the error says why: [ErrSignalled], [ErrSignalLate], [ErrEnded] or [ErrNoJob]. Then nothing has happened
// to that job, and other jobs have the signal; your transaction may go on and be committed. So may be what was sent before an error of the
// connection: send it again, and ErrSignalled says that it is there. With [Key], the jobs of the key that are not done get it.
//
// Until the end of the transaction the row of the job is locked, so commit soon: neither a start of the job nor the end of a run gets past it.
func (j *Jobs) Signal(ctx context.Context, ex Executor, which Selector, name string, value any) error {
	st, err := j.through(ex)
	if err == nil {
		err = j.signal(ctx, ex, st, which, name, value)
	}
	return steerErr(fmt.Sprintf("send signal %q to", name), which, err)
}

func (j *Jobs) signal(ctx context.Context, ex Executor, st *record.Store, which Selector, name string, value any) error {
	err := checkKey(name)
	if name == "" {
		err = errNoSignal
	}
	if err != nil {
		return err
	}
	plain, err := encodeStep(value, nil, CodecValue{})
	if err != nil {
		return err
	}
	ids, err := which.find(ctx, st, store.Pending)
	if err == nil {
		err = j.waitsForItself(ex, ids)
	}
	if err == nil && len(ids) == 0 { // of a key
		if ids, err = which.find(ctx, st, store.Ended); err == nil && len(ids) == 0 {
			err = ErrNoJob
		}
	}
	values, got := map[uint64]string{}, map[uint64]store.Signalled{}
	for _, id := range ids {
		if values[id] = plain; err == nil && j.codec != nil {
			values[id], err = j.signalFor(ctx, ex, id, value)
		}
		if errors.Is(err, ErrNoJob) && !which.byKey {
			got[id], err = store.SignalToNone, nil
		}
	}
	if err != nil {
		return err
	}
	there := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return got[id] == store.SignalToNone })
	if err = deliver(ctx, st, there, name, values, got); err != nil {
		return err
	}
	signalled(st.CommitsEach())
	return j.refused(ctx, st, ids, got)
}

var errNoSignal = errors.New("the signal has no name")

// deliver sends each job its value, and notes what became of that.
func deliver(ctx context.Context, st *record.Store, ids []uint64, name string, values map[uint64]string, got map[uint64]store.Signalled) error {
	_, _, err := noting(ctx, st, note{"signal", store.Pending, name, func(*record.Listed) any { return nil }}, ids,
		func(st *record.Store, some []uint64) (taken int, left []uint64, err error) {
			err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
				taken, left = 0, nil
				for _, id := range some {
					if got[id], err = st.Signal(ctx, store.Step{JobID: id, Name: name, Value: values[id]}); err != nil {
						return err
					}
					if got[id] == store.SignalTaken {
						taken++
					} else {
						left = append(left, id)
					}
				}
				return nil
			})
			return taken, left, err
		})
	return err
}

// signalFor is the value of a signal as a job stores it.
func (j *Jobs) signalFor(ctx context.Context, ex Executor, id uint64, value any) (string, error) {
	job, err := j.Get(ctx, ex, ID(id))
	if err != nil {
		return "", err
	}
	return encodeStep(value, j.codec, CodecValue{Column: ColumnStep, JobType: job.JobType, Key: job.Key, JobID: id})
}

// refused says which jobs have not taken a signal.
func (j *Jobs) refused(ctx context.Context, st *record.Store, ids []uint64, got map[uint64]store.Signalled) (err error) {
	for _, id := range ids {
		result, ok := got[id]
		if !ok { // with an actor in the context, jobs that are not pending are not asked
			final, errState := st.InState(ctx, []uint64{id}, store.Ended)
			if errState != nil {
				return errState
			}
			if result = store.SignalToNone; len(final) > 0 {
				result = store.SignalToEnded
			}
		}
		why := map[store.Signalled]error{
			store.SignalKnown: ErrSignalled, store.SignalLate: ErrSignalLate, store.SignalToEnded: ErrEnded, store.SignalToNone: ErrNoJob,
		}[result]
		if why != nil && len(ids) > 1 {
			why = fmt.Errorf("job %d: %w", id, why)
		}
		err = errors.Join(err, why)
	}
	return err
}

// commitSoon is how long after a signal in a transaction somebody looks for jobs that it makes due. Who commits later is heard by the sweep.
const commitSoon = 20 * time.Millisecond

func signalled(committed bool) {
	if committed {
		wake.Signalled()
	} else {
		time.AfterFunc(commitSoon, wake.Signalled)
	}
}
