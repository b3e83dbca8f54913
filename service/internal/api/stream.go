package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
)

const ndjson = "application/x-ndjson"

const (
	streamTogether = 1000                  // lines in a transaction
	streamBytes    = 4 << 20               // and their bytes
	streamWait     = 50 * time.Millisecond // how long a line waits for others
	streamQuiet    = 2 * time.Minute       // a sender that sends nothing, or takes no answer, for this long is gone
	lineMax        = 1 << 20
	lineBuffer     = 64 << 10 // of a stream; a longer line takes room
	streamsMax     = 64       // that are open
	streamsOfOne   = 16       // of one caller
	streamsAdding  = 4        // that add lines at this moment
)

// places limit the streams: how many are open, all together and of one caller, and how many of these have lines together that are being
// added. What a line takes that does not fit a stream's buffer is room of its caller.
type places struct {
	adding chan struct{}
	mu     sync.Mutex
	open   int
	of     map[string]int
}

func newPlaces() *places {
	return &places{adding: make(chan struct{}, streamsAdding), of: map[string]int{}}
}

// enter takes a place for an open stream, until leave is called.
func (p *places) enter(who string) (leave func(), full *problem.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.open >= streamsMax:
		full = problem.New(problem.Busy, "%d streams are open, and no more are taken; nothing was stored, send the request again", streamsMax)
	case p.of[who] >= streamsOfOne:
		full = problem.New(problem.Busy, "this caller has %d streams open, and no more are taken from one; end one, or send its tasks there", streamsOfOne)
	}
	if full != nil {
		full.RetryAfter = time.Second
		return nil, full
	}
	p.open++
	p.of[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
		if p.of[who]--; p.of[who] == 0 {
			delete(p.of, who)
		}
	}, nil
}

// line is a line of a stream, and what is answered to it.
type line struct {
	number  int
	text    []byte
	err     error // the line cannot be read
	release func()
}

// answered is the answer to a line.
type answered struct {
	Line int `json:"line,omitempty"` // 0: it is about the stream, and the last answer
	*result
	Problem *problem.Problem `json:"problem,omitempty"`
}

// addStream adds the tasks of a stream as they come. The answer to a line is sent after its commit, so who is cut off knows what is
// stored, and sends the rest again. A line that is wrong harms no other.
func (a *api) addStream(c *call) error {
	if c.Request.Header.Get("Idempotency-Key") != "" {
		return problem.New(problem.Invalid, "a stream has no Idempotency-Key; give its tasks names, then it can be sent again")
	}
	_, parameters, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err := isUTF8(parameters); err != nil {
		return err
	}
	if err := c.wantsPlain(); err != nil {
		return err
	}
	leave, full := a.streams.enter(c.holder())
	if full != nil {
		return full
	}
	defer leave()
	control := http.NewResponseController(c.ResponseWriter)
	_ = control.EnableFullDuplex() // HTTP/2 is it anyway
	waitForTaker(control)
	c.Header().Set("Content-Type", ndjson)
	c.WriteHeader(http.StatusOK)
	if control.Flush() != nil { // the sender may wait for this before it sends
		return nil
	}
	ctx, cancel := context.WithCancel(c.Context())
	lines := make(chan line)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.readLines(ctx, c.holder(), c.Body, func() error { return control.SetReadDeadline(time.Now().Add(streamQuiet)) }, lines)
	}()
	listens := a.answerLines(c, lines, control)
	cancel()
	if listens { // and the connection serves other requests
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
	} else {
		_ = control.SetReadDeadline(time.Now()) // a read that waits for a sender ends
	}
	<-ended
	return nil
}

// answerLines adds and answers lines until there are no more, or the caller may not call any more. It reports whether somebody has listened
// to the end.
func (a *api) answerLines(c *call, lines <-chan line, control *http.ResponseController) bool {
	to := json.NewEncoder(c)
	say := func(answers ...answered) bool {
		for _, answer := range answers {
			waitForTaker(control)
			if to.Encode(answer) != nil {
				return false
			}
		}
		waitForTaker(control)
		return control.Flush() == nil
	}
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for more := true; more; {
		var first line
		select {
		case <-again.C:
			if bad := a.still(c); bad != nil {
				_ = say(answered{Problem: intake.Away(bad)})
				return false
			}
			continue
		case first, more = <-lines:
		}
		if !more {
			break
		}
		var answers []answered
		answers, more = a.addSome(c, first, lines)
		if !say(answers...) {
			return false
		}
	}
	return true
}

// waitForTaker limits how long the next write waits for somebody who reads. Where deadlines are not supported, the server's own hold.
func waitForTaker(control *http.ResponseController) {
	_ = control.SetWriteDeadline(time.Now().Add(streamQuiet))
}

// addSome adds what comes within a moment after a line, when it has a place. Until then, its sender waits, too.
func (a *api) addSome(c *call, first line, lines <-chan line) (answers []answered, more bool) {
	select {
	case a.streams.adding <- struct{}{}:
		defer func() { <-a.streams.adding }()
	case <-c.Context().Done():
		first.release()
		return nil, false
	}
	some, more := gather(first, lines)
	defer func() {
		for _, l := range some {
			l.release()
		}
	}()
	return a.addLines(c, some), more
}

// readLines hands on the lines that are not empty, and closes the channel behind the last.
func (a *api) readLines(ctx context.Context, who string, body io.Reader, wait func() error, lines chan<- line) {
	defer close(lines)
	from := bufio.NewReaderSize(body, lineBuffer)
	for number := 1; ; number++ {
		_ = wait() // where deadlines are not supported, the server's own hold
		text, release, err := a.readLine(ctx, who, from)
		if bad := (*problem.Problem)(nil); len(bytes.TrimSpace(text)) > 0 || errors.As(err, &bad) {
			next := line{number: number, text: text, release: release}
			if bad != nil {
				next.err, err = err, nil
			}
			select {
			case lines <- next:
			case <-ctx.Done():
				release()
				return
			}
		} else {
			release()
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line. Of a line that is too long, or for which there is no room, it passes over the rest, and the error is a problem.
func (a *api) readLine(ctx context.Context, who string, from *bufio.Reader) (text []byte, release func(), err error) {
	release = func() {}
	for parts := 0; ; parts++ {
		part, err := from.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		bad := (*problem.Problem)(nil)
		switch {
		case long && parts == 0: // at once for the longest line, so that two who have a part do not wait for each other
			release, bad = a.Intake.Rooms().Small.Take(ctx, who, 2*lineMax)
		case long && len(text)+len(part) > lineMax:
			bad = longLine()
		}
		if bad == nil {
			if text = append(text, part...); !long {
				return text, release, err
			}
			continue
		}
		if release != nil {
			release()
		}
		for text = nil; errors.Is(err, bufio.ErrBufferFull); {
			_, err = from.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, func() {}, err
		}
		return nil, func() {}, bad // also at the end, where no line break follows
	}
}

func longLine() *problem.Problem {
	return problem.New(problem.TooLarge, "a line has at most %d bytes; store the body elsewhere and send its address", lineMax)
}

// gather takes what comes within a moment after the first line.
func gather(first line, lines <-chan line) (some []line, more bool) {
	some, size := append(some, first), len(first.text)
	moment := time.NewTimer(streamWait)
	defer moment.Stop()
	for len(some) < streamTogether && size < streamBytes {
		select {
		case next, more := <-lines:
			if !more {
				return some, false
			}
			some, size = append(some, next), size+len(next.text)
		case <-moment.C:
			return some, true
		}
	}
	return some, true
}

// addLines adds the lines that are right, in one transaction.
func (a *api) addLines(c *call, lines []line) []answered {
	answers := make([]answered, len(lines))
	if bad := a.still(c); bad != nil {
		for i, l := range lines {
			answers[i] = answered{Line: l.number, Problem: intake.Away(bad)}
		}
		return answers
	}
	var at []int
	var tasks []*task.Task
	var jobs []queue_job.AddModelJob
	clock := sync.OnceValues(a.clock(c))
	for i, l := range lines {
		answers[i].Line = l.number
		t, job, err := a.readTask(c, l, clock)
		if err != nil {
			answers[i].Problem = intake.Away(err)
			continue
		}
		at, tasks, jobs = append(at, i), append(tasks, t), append(jobs, job)
	}
	if at, tasks, jobs = a.topicsOfLines(c, at, tasks, jobs, answers); len(jobs) == 0 {
		return answers
	}
	added, err := a.Intake.AddAll(c.Context(), jobs, intake.Around{})
	for n, i := range at {
		failed := err
		if err == nil {
			failed = a.conflict(c.Context(), a.DB, tasks[n], added[n])
		}
		if failed != nil {
			answers[i].Problem = intake.Away(failed)
			continue
		}
		r := resultOf(tasks[n], added[n])
		answers[i].result = &r
	}
	return answers
}

// topicsOfLines makes the topics of lines together. If they are too many, each is made by itself, so that only those fail that are.
func (a *api) topicsOfLines(
	c *call, at []int, tasks []*task.Task, jobs []queue_job.AddModelJob, answers []answered,
) ([]int, []*task.Task, []queue_job.AddModelJob) {
	if a.makeTopics(c.Context(), c.caller, tasks, jobs) == nil {
		return at, tasks, jobs
	}
	n := 0
	var failed error
	for k := range jobs {
		topic, err := a.Topics.Named(tasks[k].Topic), failed
		if topic == nil && failed == nil {
			if topic, err = a.ensure(c.Context(), tasks[k].Topic, c.caller); err != nil && !isLimit(err) {
				failed = err // the database's: it would be that of each
			}
		}
		if topic == nil {
			answers[at[k]].Problem = intake.Away(err)
			continue
		}
		jobs[k].JobType = topic.Type
		at[n], tasks[n], jobs[n] = at[k], tasks[k], jobs[k]
		n++
	}
	return at[:n], tasks[:n], jobs[:n]
}

func isLimit(err error) bool {
	bad := (*problem.Problem)(nil)
	return errors.As(err, &bad) && bad.Code == problem.TopicLimit
}

func (a *api) readTask(c *call, l line, clock func() (time.Time, error)) (*task.Task, queue_job.AddModelJob, error) {
	if l.err != nil {
		return nil, queue_job.AddModelJob{}, l.err
	}
	t, bad := task.Parse(l.text, "", task.Defaults{OnConflict: task.Keep})
	if bad != nil {
		return nil, queue_job.AddModelJob{}, bad
	}
	if err := late(t, "", clock); err != nil {
		return nil, queue_job.AddModelJob{}, err
	}
	job, err := a.draft(t, c.caller, "")
	t.Content = task.Content{} // the job has it
	return t, job, err
}
