package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// RunLog is what a run has logged, see [Config.KeepLog].
type RunLog struct {
	// Attempt is the number of the run, among all runs of the job, as in [Attempt]; Term is the number of the lease under which it ran.
	Attempt int
	Term    int64
	// Ended is when its handler had returned.
	Ended time.Time
	// Text has a line for each record, as a [log/slog.TextHandler] writes it. If there were more, it begins with a line in round brackets that
	// says how many are not kept. If a [Codec] has encoded it and these [Jobs] cannot decode it, it is as it is stored, see [EncodingOf].
	Text string
}

// RunLogs returns what the runs of a job have logged, the first run first. It is empty unless the type has [Config.KeepLog], and a run that
// logged nothing, or whose process died, is not in it.
func (j *Jobs) RunLogs(ctx context.Context, ex Executor, id uint64) ([]RunLog, error) {
	st, err := j.through(ex)
	var list []store.Step
	if err == nil {
		list, err = st.LogsOf(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	of := CodecValue{Column: ColumnLog, JobID: id}
	if j.codec != nil && len(list) > 0 {
		job, err := j.Get(ctx, ex, ID(id))
		if err != nil {
			return nil, err
		}
		of.JobType, of.Key = job.JobType, job.Key
	}
	logs := make([]RunLog, len(list))
	for i := range list {
		if j.codec != nil {
			_ = decodeIn(j.codec, &list[i].Value, of) // what cannot be decoded stays as it is
		}
		logs[i] = runLogOf(&list[i])
	}
	return logs, nil
}

func runLogOf(t *store.Step) RunLog {
	l := RunLog{Attempt: int(t.Attempt), Term: t.Term, Ended: time.UnixMilli(t.Ended), Text: t.Value}
	if !isEncoded(t.Value) {
		_ = json.Unmarshal([]byte(t.Value), &l.Text) // what is no JSON is shown as it is
	}
	return l
}

// of is the record of a job that is restored. A log that was archived without a codec is encoded by now.
func (l *RunLog) of(job *JobInfo, codec Codec) (store.Step, error) {
	t := store.Step{JobID: job.Id, Created: job.Created.Unix(), Attempt: int32(l.Attempt), Term: l.Term, Ended: l.Ended.UnixMilli()}
	t.Value = l.Text
	var err error
	if !isEncoded(l.Text) {
		t.Value, err = storedLog(l.Text, codec, CodecValue{Column: ColumnLog, JobType: job.JobType, Key: job.Key, JobID: job.Id})
	}
	return asLog(t), err
}

// log is the record of what this run has logged.
func (j *Job) log(text string) (store.Step, error) {
	value, err := storedLog(text, j.codec(), j.value(ColumnLog))
	if err != nil {
		return store.Step{}, fmt.Errorf("job %d: %w", j.Id, err)
	}
	return asLog(j.step(stepName{}, store.Step{Value: value})), nil
}

// asLog has a record stand where no other run's does.
func asLog(t store.Step) store.Step {
	t.Kind, t.Name = store.StepLog, fmt.Sprintf("log %d/%d", t.Attempt, t.Term)
	return t
}

// storedLog is a JSON text, since older versions take it for the value of a step.
func storedLog(text string, codec Codec, of CodecValue) (string, error) {
	value, err := encodeJSON(text)
	if err != nil {
		return "", err
	}
	return seal(codec, string(value), of)
}
