package api

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

const (
	batchTasksMax  = 10_000
	batchErrorsMax = 100 // that an answer lists
)

// addBatch adds the tasks of a JSON object all together, or those of an endless NDJSON line by line.
func (a *api) addBatch(c *call) error {
	if isStream(c.Request) {
		return a.addStream(c)
	}
	if err := c.wantsJSON(); err != nil {
		return err
	}
	key, hash, err := usedKey(c)
	if err != nil {
		return err
	}
	from, err := a.reader(c, batchMax)
	if err != nil {
		return err
	}
	defer from.release()
	tasks, jobs, err := a.readBatch(c, io.TeeReader(from, hash))
	switch {
	case from.failed != nil:
		return from.problem(from.failed)
	case err != nil:
		from.release() // what is passed over takes no room
		from.passOver()
		return err
	}
	if err := from.end(); err != nil {
		return err
	}
	if err := a.makeTopics(c.Context(), c.caller, tasks, jobs); err != nil {
		return err
	}
	var answer batchAnswer
	after := func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (int, any, error) {
		answer = batchAnswer{tasks, added}
		return http.StatusOK, answer, a.conflicts(ctx, tx, tasks, added)
	}
	if key != nil {
		key.Hash = hex.EncodeToString(hash.Sum(nil))
		return a.once(c, *key, jobs, after)
	}
	_, err = a.Intake.AddAll(c.Context(), jobs, intake.Around{After: func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (err error) {
		_, _, err = after(ctx, tx, added)
		return err
	}})
	if err != nil {
		return err
	}
	clear(jobs) // whoever reads the answer slowly holds up nobody
	return c.say(http.StatusOK, answer)
}

// makeTopics makes the topics that are new, all together, and gives each job the type of its topic.
func (a *api) makeTopics(ctx context.Context, by *tokens.Caller, tasks []*task.Task, jobs []queue_job.AddModelJob) error {
	var unknown []string
	for _, t := range tasks {
		if a.Topics.Named(t.Topic) == nil {
			unknown = append(unknown, t.Topic)
		}
	}
	made, err := a.Topics.EnsureAll(ctx, unknown, by)
	if err != nil {
		return intake.Away(err)
	}
	for n, t := range tasks {
		topic := made[t.Topic]
		if topic == nil {
			topic = a.Topics.Named(t.Topic)
		}
		if topic == nil { // somebody has deleted it at this moment
			if topic, err = a.ensure(ctx, t.Topic, by); err != nil {
				return err
			}
		}
		jobs[n].JobType = topic.Type
	}
	return nil
}

const (
	partTasks = 64 // that are read together
	partBytes = 256 << 10
)

// part are some tasks that stand behind each other in a batch.
type part struct {
	from     int
	texts    []json.RawMessage
	tasks    []*task.Task
	jobs     []queue_job.AddModelJob
	wrong    []problem.Field
	err      error
	panicked string
}

// readBatch reads the tasks as they come in, on several processors, and says at once what is wrong with any of them. Of each, only the
// parameters of its job stay.
func (a *api) readBatch(c *call, from io.Reader) ([]*task.Task, []queue_job.AddModelJob, error) {
	const most = 8 // processors for one request, beside which there are others
	todo := make(chan *part)
	var reading sync.WaitGroup
	for range min(most, runtime.GOMAXPROCS(0)) {
		reading.Go(func() {
			for p := range todo {
				a.readPart(c, p)
			}
		})
	}
	parts, err := splitBatch(from, todo)
	close(todo)
	reading.Wait()
	for _, p := range parts {
		if p.panicked != "" {
			panic(p.panicked) // here the server catches it, and only this request fails
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var tasks []*task.Task
	var jobs []queue_job.AddModelJob
	var wrong []problem.Field
	for _, p := range parts {
		err = cmp.Or(err, p.err)
		tasks, jobs, wrong = append(tasks, p.tasks...), append(jobs, p.jobs...), append(wrong, p.wrong...)
		p.jobs = nil
	}
	if len(wrong) > 0 {
		return nil, nil, problem.OfFields(wrong[:min(len(wrong), batchErrorsMax)])
	}
	return tasks, jobs, err
}

// readPart reads the tasks of a part.
func (a *api) readPart(c *call, p *part) {
	defer func() {
		if panicked := recover(); panicked != nil {
			p.panicked = fmt.Sprintf("%v\n%s", panicked, debug.Stack())
		}
	}()
	clock := sync.OnceValues(a.clock(c))
	for n, text := range p.texts {
		at := pointerOf(p.from + n)
		job, err := queue_job.AddModelJob{}, error(nil)
		t, bad := task.Parse(text, at, task.Defaults{OnConflict: task.Keep})
		if bad != nil {
			err = bad
		} else if c.Request.Header.Get("Idempotency-Key") == "" {
			err = late(t, at, clock)
		}
		p.texts[n] = nil
		if err == nil {
			job, err = a.draft(t, c.caller, at)
			t.Content = task.Content{} // the job has it
		}
		if errors.As(err, &bad) && bad.Code == problem.Invalid {
			p.wrong = append(p.wrong, bad.Fields...)
		} else {
			p.err = cmp.Or(p.err, err)
		}
		p.tasks, p.jobs = append(p.tasks, t), append(p.jobs, job)
	}
	p.texts = nil
}

// splitBatch reads {"tasks": [...]} and hands on its tasks, in parts.
func splitBatch(text io.Reader, todo chan<- *part) ([]*part, error) {
	limited := &short{Reader: text}
	s := &splitter{from: json.NewDecoder(limited), todo: todo}
	limited.by = s.from
	err := s.split()
	if limited.full != nil {
		limited.full.Detail = fmt.Sprintf("task %d of the batch: %s", s.count, limited.full.Detail)
		err = limited.full
	}
	return s.parts, err
}

// short reads for a decoder, which keeps each value in memory until it has all of it, and the space before it, too: none is longer than a
// request with one task.
type short struct {
	io.Reader
	by   *json.Decoder
	read int64 // bytes
	full *problem.Problem
}

func (s *short) Read(into []byte) (int, error) {
	if s.read-s.by.InputOffset() > oneMax {
		s.full = problem.New(problem.TooLarge, "it has more than %d bytes, with the space before it; store what is large elsewhere, and send its address",
			oneMax)
		return 0, s.full
	}
	n, err := s.Reader.Read(into)
	s.read += int64(n)
	return n, err
}

// splitter reads the text of a batch.
type splitter struct {
	from  *json.Decoder
	todo  chan<- *part
	parts []*part // that were handed on
	count int     // tasks
}

func (s *splitter) split() error {
	if err := s.expect('{', "it is no JSON object"); err != nil {
		return err
	}
	for seen := false; s.from.More(); seen = true {
		name, err := s.from.Token()
		switch {
		case err != nil:
			return cannotRead(err)
		case name != "tasks":
			return problem.OfField("/"+object.Escaped(fmt.Sprint(name)), "there is no such field; there is tasks")
		case seen:
			return problem.OfField("/tasks", "it comes twice; send it once")
		}
		if err := s.tasks(); err != nil {
			return err
		}
	}
	if err := s.expect('}', "it is no JSON object"); err != nil {
		return err
	}
	if _, err := s.from.Token(); !errors.Is(err, io.EOF) {
		return problem.OfField("", "there is something behind the JSON object; send one object")
	}
	if s.count == 0 {
		return problem.OfField("/tasks", "there are no tasks; send 1 to %d", batchTasksMax)
	}
	return nil
}

// tasks reads the list of tasks.
func (s *splitter) tasks() error {
	if err := s.expect('[', "tasks is no list"); err != nil {
		return err
	}
	next, size := &part{}, 0
	for s.from.More() {
		var text json.RawMessage
		if err := s.from.Decode(&text); err != nil {
			return cannotRead(err)
		}
		if s.count++; s.count > batchTasksMax {
			return problem.OfField("/tasks", "there are more than %d tasks; send 1 to %[1]d, or application/x-ndjson, which has no end", batchTasksMax)
		}
		next.texts, size = append(next.texts, text), size+len(text)
		if len(next.texts) == partTasks || size >= partBytes {
			s.handOn(next)
			next, size = &part{from: s.count}, 0
		}
	}
	if len(next.texts) > 0 {
		s.handOn(next)
	}
	return s.expect(']', "tasks is no list")
}

func (s *splitter) handOn(p *part) {
	s.parts = append(s.parts, p)
	s.todo <- p
}

// expect reads a bracket.
func (s *splitter) expect(want json.Delim, otherwise string) error {
	token, err := s.from.Token()
	switch {
	case errors.Is(err, io.EOF):
		return cannotRead(errors.New("it ends too early"))
	case err != nil:
		return cannotRead(unmarked(err))
	case token != want:
		return cannotRead(errors.New(otherwise))
	}
	return nil
}

func cannotRead(err error) error {
	return problem.OfField("", "the request cannot be understood: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// pointerOf points to a task of a batch.
func pointerOf(n int) string { return "/tasks/" + strconv.Itoa(n) }

// conflicts are the names that are taken although their tasks are to be added all the same. The code is that of the first such task.
func (a *api) conflicts(ctx context.Context, tx *sql.Tx, tasks []*task.Task, added []queue_job.Added) error {
	var code problem.Code
	var taken []problem.Field
	for i, t := range tasks {
		if len(taken) == batchErrorsMax {
			break
		}
		err := a.conflict(ctx, tx, t, added[i])
		if err == nil {
			continue
		}
		bad := (*problem.Problem)(nil)
		if !errors.As(err, &bad) {
			return err
		}
		code, taken = cmp.Or(code, bad.Code), append(taken, problem.Field{Pointer: pointerOf(i) + "/name", Detail: bad.Detail})
	}
	if len(taken) > 0 {
		p := problem.OfFields(taken)
		p.Code = code
		return p
	}
	return nil
}

// batchAnswer is the answer to a batch.
type batchAnswer struct {
	tasks []*task.Task
	added []queue_job.Added
}

// MarshalJSON writes one result for each task.
func (b batchAnswer) MarshalJSON() ([]byte, error) {
	text := bytes.NewBufferString(`{"tasks":[`)
	text.Grow(len(b.tasks) * 64)
	for i, t := range b.tasks {
		if i > 0 {
			text.WriteByte(',')
		}
		one, err := json.Marshal(resultOf(t, b.added[i]))
		if err != nil {
			return nil, err
		}
		text.Write(one)
	}
	text.WriteString("]}")
	return text.Bytes(), nil
}
