package queue_job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// StepInfo is a step of a job that has a record: see [Step] and [Job.Sleep].
type StepInfo struct {
	Name string
	// Signal: it is a signal, see [Await]. Then Until is when the wait for it ends, and is zero if the signal has come before the wait; Ended is
	// zero as long as the wait goes on; and Value is nil unless the signal has come in time.
	Signal bool `json:",omitempty"`
	// Value is what the step has returned, as JSON. Nil: it could not be stored, or it is a sleep. If a [Codec] has encoded it and these [Jobs]
	// cannot decode it, it is as it is stored, see [EncodingOf].
	Value json.RawMessage `json:",omitempty"`
	// Until is when a sleep, or the wait for a signal, ends. Zero: it is neither.
	Until time.Time `json:",omitzero"`
	// Ended is when it was recorded, by the run with this number, under this term. The number counts all runs, as [JobInfo.Attempts] does.
	Ended   time.Time
	Attempt int
	Term    int64
}

// Steps returns the steps of a job that have a record, in the order in which they were recorded.
func (j *Jobs) Steps(ctx context.Context, ex Executor, id uint64) ([]StepInfo, error) {
	st, err := j.through(ex)
	var list []store.Step
	if err == nil {
		list, err = st.StepsOf(ctx, []uint64{id})
	}
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	infos := make([]StepInfo, len(list))
	for i := range list {
		infos[i] = stepInfoOf(&list[i])
	}
	if j.codec == nil || len(infos) == 0 {
		return infos, nil
	}
	job, err := j.Get(ctx, ex, ID(id))
	if err != nil {
		return nil, err
	}
	for i := range infos {
		text := string(infos[i].Value)
		if decodeIn(j.codec, &text, CodecValue{Column: ColumnStep, JobType: job.JobType, Key: job.Key, JobID: id}) == nil && text != "" {
			infos[i].Value = json.RawMessage(text)
		}
	}
	return infos, nil
}

// stepsAndLogs tells the steps of a job from what its runs have logged, and decodes both. Neither is nil.
func (j *Jobs) stepsAndLogs(job *JobInfo, list []store.Step) (steps []StepInfo, logs []RunLog) {
	steps, logs = []StepInfo{}, []RunLog{}
	for i := range list {
		t, of := &list[i], CodecValue{Column: ColumnStep, JobType: job.JobType, Key: job.Key, JobID: job.Id}
		if t.Kind == store.StepLog {
			of.Column = ColumnLog
		}
		if j.codec != nil && t.Value != "" {
			_ = decodeIn(j.codec, &t.Value, of) // what cannot be decoded stays as it is
		}
		if t.Kind == store.StepLog {
			logs = append(logs, runLogOf(t))
		} else {
			steps = append(steps, stepInfoOf(t))
		}
	}
	return steps, logs
}

func stepInfoOf(t *store.Step) StepInfo {
	info := StepInfo{Name: t.Name, Attempt: int(t.Attempt), Term: t.Term, Signal: t.Kind == store.StepSignal}
	if t.Ended != 0 {
		info.Ended = time.UnixMilli(t.Ended)
	}
	if t.Until != 0 {
		info.Until = time.UnixMilli(t.Until)
	}
	if t.Value != "" {
		info.Value = json.RawMessage(t.Value)
	}
	return info
}

// of is the record of a job that is restored. A value that was archived without a codec is encoded by now.
func (s *StepInfo) of(job *JobInfo, codec Codec) (t store.Step, err error) {
	t = store.Step{JobID: job.Id, Name: s.Name, Created: job.Created.Unix(), Attempt: int32(s.Attempt), Term: s.Term, Value: string(s.Value)}
	if !s.Ended.IsZero() {
		t.Ended = s.Ended.UnixMilli()
	}
	if !s.Until.IsZero() {
		t.Kind, t.Until = store.StepSleep, s.Until.UnixMilli()
	}
	if s.Signal {
		t.Kind = store.StepSignal
	}
	if codec != nil && !isEncoded(t.Value) {
		t.Value, err = seal(codec, t.Value, CodecValue{Column: ColumnStep, JobType: job.JobType, Key: job.Key, JobID: job.Id})
	}
	return t, err
}

// RetryOption says what becomes of the steps of a job that [Jobs.RetryWith] gives other parameters: [KeepSteps] or [FromStart].
type RetryOption int

const (
	// KeepSteps: what has been done is not done again. Its values are those of the old parameters.
	KeepSteps RetryOption = iota + 1
	// FromStart: the job forgets its steps, and does all of them again with the new parameters, also what has had an effect.
	FromStart
)

// ErrHasSteps is the cause of an error of [Jobs.RetryWith] if a job has steps that were done with its old parameters, and nobody has said what
// becomes of them.
var ErrHasSteps = errors.New("the job has steps that were done with its old parameters; pass KeepSteps, or FromStart to do them again")

// retryWith gives jobs other parameters and has them run again, once it is clear what becomes of their steps.
func retryWith(ctx context.Context, st *record.Store, ids []uint64, params string, options []RetryOption) (n int, taken []uint64, err error) {
	if slices.Contains(options, KeepSteps) {
		return st.RetryWith(ctx, ids, params)
	}
	err = st.InOneTransaction(ctx, func(st *record.Store) error {
		ended, err := st.LockState(ctx, ids, store.GivenUp)
		if err != nil || len(ended) == 0 {
			return err
		}
		if slices.Contains(options, FromStart) {
			err = st.ForgetSteps(ctx, ended)
		} else if list, errRead := st.StepsOf(ctx, ended); errRead != nil {
			err = errRead
		} else if len(list) > 0 {
			err = fmt.Errorf("job %d: %w", list[0].JobID, ErrHasSteps)
		}
		if err == nil {
			n, taken, err = st.RetryWith(ctx, ended, params)
		}
		return err
	})
	if err != nil {
		n, taken = 0, nil
	}
	return n, taken, err
}
