package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
)

const (
	streamTogether = 1000                  // lines in a transaction
	streamBytes    = 4 << 20               // and their bytes
	streamWait     = 50 * time.Millisecond // how long a line waits for others
	streamQuiet    = 2 * time.Minute       // a sender that sends nothing, or takes no answer, for so long is gone
	lineMax        = 1 << 20
)

// places limit the streams: how many are open, each of which has a line or two in memory, and how many of these have lines together that
// are being added. The two limits come from the room of all other requests, which streams do not touch: half of it each.
type places struct {
	open, adding chan struct{}
}

func newPlaces(room int64) places {
	return places{make(chan struct{}, max(1, room/2/(2*lineMax))), make(chan struct{}, max(1, room/2/(2*streamBytes)))}
}

// line is a line of a stream, and what is answered to it.
type line struct {
	number int
	text   []byte
	err    error // the line cannot be read
}

// answered is the answer to a line.
type answered struct {
	Line int `json:"line"`
	*result
	Problem *problem.Problem `json:"problem,omitempty"`
}

// addStream adds the tasks of a stream as they come. The answer to a line is sent after its commit, so who is cut off knows what is
// stored, and sends the rest again. A line that is wrong harms no other.
func (a *api) addStream(c *call) error {
	if c.Request.Header.Get("Idempotency-Key") != "" {
		return problem.New(problem.Invalid, "a stream has no Idempotency-Key; give its tasks names, then it can be sent again")
	}
	select {
	case a.streams.open <- struct{}{}:
		defer func() { <-a.streams.open }()
	default:
		p := problem.New(problem.Busy, "%d streams are open, and no more are taken; nothing was stored, send the request again", cap(a.streams.open))
		p.RetryAfter = time.Second
		return p
	}
	control := http.NewResponseController(c.ResponseWriter)
	_ = control.EnableFullDuplex() // HTTP/2 is it anyway
	waitForTaker(control)
	c.Header().Set("Content-Type", "application/x-ndjson")
	c.WriteHeader(http.StatusOK)
	if control.Flush() != nil { // the sender may wait for this before it sends
		return nil
	}
	ctx, cancel := context.WithCancel(c.Context())
	lines := make(chan line)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readLines(ctx, c.Body, func() error { return control.SetReadDeadline(time.Now().Add(streamQuiet)) }, lines)
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

// answerLines adds and answers lines until there are no more. It reports whether somebody has listened to the end.
func (a *api) answerLines(c *call, lines <-chan line, control *http.ResponseController) bool {
	to := json.NewEncoder(c)
	for more := true; more; {
		var answers []answered
		answers, more = a.addSome(c, lines)
		for _, answer := range answers {
			waitForTaker(control)
			if to.Encode(answer) != nil {
				return false
			}
		}
		waitForTaker(control)
		if control.Flush() != nil {
			return false
		}
	}
	return true
}

// waitForTaker limits how long the next write waits for somebody who reads. Where deadlines are not supported, the server's own hold.
func waitForTaker(control *http.ResponseController) {
	_ = control.SetWriteDeadline(time.Now().Add(streamQuiet))
}

// addSome adds what comes within a moment after the next line, when it has a place. Until then, its sender waits, too.
func (a *api) addSome(c *call, lines <-chan line) (answers []answered, more bool) {
	first, more := <-lines
	if !more {
		return nil, false
	}
	select {
	case a.streams.adding <- struct{}{}:
		defer func() { <-a.streams.adding }()
	case <-c.Context().Done():
		return nil, false
	}
	some, more := gather(first, lines)
	return a.addLines(c, some), more
}

// readLines hands on the lines that are not empty, and closes the channel behind the last.
func readLines(ctx context.Context, body io.Reader, wait func() error, lines chan<- line) {
	defer close(lines)
	from := bufio.NewReaderSize(body, 64<<10)
	for number := 1; ; number++ {
		_ = wait() // where deadlines are not supported, the server's own hold
		text, err := readLine(from)
		if over := errors.Is(err, errLong); len(bytes.TrimSpace(text)) > 0 || over {
			next := line{number: number, text: text}
			if over {
				next.err, err = err, nil
			}
			select {
			case lines <- next:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

var errLong = errors.New("long line")

// readLine reads a line. Of a line that is too long, it passes over the rest.
func readLine(from *bufio.Reader) (text []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if text = append(text, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
		if len(text) <= lineMax {
			continue
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = from.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, errLong // also at the end, where no line break follows
	}
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
	var at []int
	var tasks []*task.Task
	var jobs []queue_job.AddModelJob
	for i, l := range lines {
		answers[i].Line = l.number
		t, job, err := a.readTask(c, l)
		if err != nil {
			answers[i].Problem = intake.Away(err)
			continue
		}
		at, tasks, jobs = append(at, i), append(tasks, t), append(jobs, job)
	}
	if len(jobs) == 0 {
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

func (a *api) readTask(c *call, l line) (*task.Task, queue_job.AddModelJob, error) {
	if l.err != nil {
		return nil, queue_job.AddModelJob{}, problem.New(problem.TooLarge, "a line has at most %d bytes; store the body elsewhere and send its address", lineMax)
	}
	t, bad := task.Parse(l.text, "", task.Defaults{OnConflict: task.Keep})
	if bad != nil {
		return nil, queue_job.AddModelJob{}, bad
	}
	job, err := a.job(c.Context(), t, c.caller, "")
	return t, job, err
}
