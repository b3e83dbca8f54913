package console

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// said is what a page says after a change, by the key in its address. The texts are fixed, so no link can make the console say
// anything else.
var said = map[string]string{
	"cancelled":      "The job is cancelled. If its handler runs, its context ends within a second.",
	"retried":        "The job runs again, with all its retries.",
	"muted":          "The error is muted: it stands behind the others, and is counted all the same.",
	"unmuted":        "The error is news again.",
	"retried-all":    "These jobs run again, with all their retries.",
	"cancel-chosen":  "The chosen jobs are cancelled. What had ended stays as it was.",
	"retry-chosen":   "The chosen jobs run again, with all their retries. What has not failed, or is no more failed, stays as it was.",
	"run-now-chosen": "The chosen jobs are due now. What runs or has ended stays as it was.",
	"delete-chosen":  "The chosen jobs are deleted. What has not ended stays, and so does the newest job of all.",
	"due":            "The job is due now.",
	"changed":        "The job is changed.",
	"deleted":        "The job is deleted, with what the log had of its runs.",
	"newest": "Nothing was changed: the job has the largest id of all, which some databases would give to another job. It can be deleted when " +
		"there is a newer one.",
	"paused":           "The type is paused. From within a second on, none of its jobs starts; what runs, runs on.",
	"resumed":          "The type goes on.",
	"schedule-paused":  "The schedule is paused: its times get no jobs until somebody resumes it.",
	"schedule-resumed": "The schedule goes on with the times from now on.",
	"schedule-ran":     "This job of the schedule was added, and is due now.",
	"flow-cancelled":   "The flow is cancelled, and so are its jobs that waited or ran. Contexts of handlers that run end within a second.",
	"flow-retried":     "The flow goes on.",
	"flow-open":        "Nothing was changed: another flow of the kind with its key is open by now.",
	"schedule-deleted": "The schedule is deleted. The jobs that it has added stay.",
	"limited":          "The type has these limits within a second. What runs, runs on, and counts.",
	"asked":            "The holder is asked for the lease. It gives it to another instance within a second.",
	"drained":          "The instance gives its leases to the others within a second, and takes none. What runs on it, runs on.",
	"undrained":        "The instance takes its part of the leases again.",
	"buried":           "The instance is dead: its leases have ended, and what it ran, runs again.",
	"begun":            "The operation has begun. An instance starts on it within five seconds.",
	"stopped":          "The operation is stopped. What it has changed stays so.",
	"goes-on":          "The operation goes on where it was, within five seconds.",
	"nothing":          "Nothing was changed: it already is in that state, or it is too late for that.",
	"in-flight":        "Nothing was changed: an instance has the job, so its handler runs or is about to.",
	"taken":            "Nothing was changed: another job has its unique key by now.",
	"undone":           "Nothing was changed: its flow is being undone, or was.",
}

// change makes the handler of a change. What comes of it is said on the page to which it leads, so a reload changes nothing again.
func (c *console) change(do func(context.Context, *http.Request) (outcome, to string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := readForm(w, r)
		if err == nil && c.ex == nil {
			err = errNoHandle
		}
		var outcome, to string
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), readMax)
			defer cancel()
			outcome, to, err = do(queue_job.WithActor(ctx, c.actor(r), r.PostFormValue("why")), r)
		}
		if err != nil {
			c.writeError(w, c.pageFor(r, "error"), "Nothing was changed", err)
			return
		}
		c.fleet.forget()
		c.happened.forget()
		c.lists.forget()
		c.timetables.forget()
		c.flows.forget()
		also := "?"
		if strings.Contains(to, "?") {
			also = "&"
		}
		w.Header().Set("Location", rootOf(r)+to+also+"said="+outcome) // relative: a proxy may have taken a part of the path away
		w.WriteHeader(http.StatusSeeOther)
	}
}

const formMax = 3*queue_job.ParamsMax + 64<<10 // bytes; in a form, one may be three

// readForm reads a form whole. A part of one would mean something else: more jobs, or a pause without an end.
func readForm(w http.ResponseWriter, r *http.Request) error {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "" && media != "application/x-www-form-urlencoded" {
		return failed(http.StatusUnsupportedMediaType, "The form is %q. Send it as application/x-www-form-urlencoded.", media)
	}
	r.Body = http.MaxBytesReader(w, r.Body, formMax)
	err := r.ParseForm()
	if errors.As(err, new(*http.MaxBytesError)) {
		return failed(http.StatusRequestEntityTooLarge, "The form has more than %d bytes.", formMax)
	}
	if err != nil {
		return failed(http.StatusBadRequest, "The form has not come in whole: %v. Go back; your text is still there.", err)
	}
	return nil
}

func (c *console) changeJob(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	id, err := idOf(r)
	if err != nil {
		return "", "", err
	}
	which := queue_job.ID(id)
	job, err := c.jobs.Get(ctx, c.ex, which)
	if errors.Is(err, queue_job.ErrNoJob) {
		return "", "", failed(http.StatusNotFound, "There is no job %d any more.", id)
	}
	if err != nil {
		return "", "", err
	}
	do, known := jobChanges[r.PathValue("do")]
	if !known {
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", r.PathValue("do"))
	}
	for _, verb := range do.needs(r) {
		if err := c.allow(r, verb, job.JobType); err != nil {
			return "", "", err
		}
	}
	if slices.Contains(do.needs(r), SetParams) {
		if stored, encoded := queue_job.EncodingOf(job.JobParams); encoded {
			return "", "", failed(http.StatusConflict,
				"The parameters of job %d are stored %v. They can only be changed where they can be decoded.", id, stored)
		}
	}
	outcome, err = do.change(c, ctx, r, which)
	if errors.Is(err, queue_job.ErrInFlight) {
		outcome, err = "in-flight", nil
	}
	if outcome == "deleted" {
		return outcome, "jobs", err
	}
	return outcome, "jobs/" + strconv.FormatUint(id, 10), err
}

func (c *console) changeType(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	jobType, err := c.typeOf(r)
	if err != nil {
		return "", "", err
	}
	changed := false
	switch do := r.PathValue("do"); do {
	case "pause":
		if outcome, err = "paused", c.allow(r, Pause, jobType); err == nil {
			changed, err = c.pause(ctx, r, jobType)
		}
	case "resume":
		if outcome, err = "resumed", c.allow(r, Resume, jobType); err == nil {
			changed, err = c.jobs.Resume(ctx, c.ex, jobType)
		}
	case "limits":
		if outcome, err = "limited", c.allow(r, SetLimits, jobType); err == nil {
			changed, err = c.setLimits(ctx, r, jobType)
		}
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", do)
	}
	if !changed {
		outcome = "nothing"
	}
	return outcome, "queues/" + strconv.Itoa(int(jobType)), err
}

// pause pauses a type for as long as a form says. A field that is empty means until somebody resumes it.
func (c *console) pause(ctx context.Context, r *http.Request, jobType int32) (changed bool, err error) {
	text := strings.TrimSpace(r.PostFormValue("for"))
	if text == "" {
		return c.jobs.Pause(ctx, c.ex, jobType)
	}
	lasts, err := words.ParseSpan(text)
	if err != nil || lasts < time.Second || lasts > pauseMost {
		return false, failed(http.StatusBadRequest,
			"for=%q: use a time up to a year, as in 30m, 2h or 1d, or leave it empty for a pause that lasts until somebody resumes the type.", text)
	}
	_, now, err := faces.Newest(ctx, c.jobs, c.ex) // the type goes on by the database's clock
	if err != nil {
		return false, err
	}
	return c.jobs.PauseUntil(ctx, c.ex, jobType, now.Add(lasts))
}

const pauseMost = 365 * 24 * time.Hour

// setLimits gives a type the limits that a form has. A field that is empty leaves the configuration's value as it is.
func (c *console) setLimits(ctx context.Context, r *http.Request, jobType int32) (changed bool, err error) {
	limits, err := limitsOf(r.PostFormValue("workers"), r.PostFormValue("rate"))
	if err != nil {
		return false, failed(http.StatusBadRequest, "%v.", err)
	}
	types, err := c.jobs.Types(ctx, c.ex)
	if err != nil {
		return false, err
	}
	for i := range types {
		if types[i].JobType == jobType && !types[i].Told.IsZero() {
			if err := belowConfig(limits, &types[i].Config); err != nil {
				return false, err
			}
		}
	}
	return c.jobs.SetLimits(ctx, c.ex, jobType, limits)
}

// belowConfig refuses a limit that would change nothing.
func belowConfig(limits queue_job.Limits, cfg *queue_job.Config) error {
	if limits.Workers > cfg.WorkerPoolCapacity && cfg.WorkerPoolCapacity > 0 {
		return failed(http.StatusBadRequest,
			"At a time: %d. The configuration allows %d, and a limit can only be lower. Leave it empty for what the configuration allows.",
			limits.Workers, cfg.WorkerPoolCapacity)
	}
	if limits.RatePerSecond > cfg.RatePerSecond && cfg.RatePerSecond > 0 {
		return failed(http.StatusBadRequest,
			"Starts a second: %v. The configuration allows %v, and a limit can only be lower. Leave it empty for what the configuration allows.",
			limits.RatePerSecond, cfg.RatePerSecond)
	}
	return nil
}

// limitsOf reads limits as somebody writes them into a form.
func limitsOf(workers, rate string) (limits queue_job.Limits, err error) {
	if workers != "" {
		if limits.Workers, err = strconv.Atoi(workers); err != nil || limits.Workers == 0 {
			return limits, fmt.Errorf("workers=%q: use a whole number from 1 up, or leave it empty for what the configuration allows", workers)
		}
	}
	if rate != "" {
		if limits.RatePerSecond, err = strconv.ParseFloat(rate, 64); err != nil || limits.RatePerSecond == 0 {
			return limits, fmt.Errorf("rate=%q: use a number above 0, or leave it empty for what the configuration allows", rate)
		}
	}
	return limits, limits.Validate()
}

func (c *console) changeLease(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	jobType, err := c.typeOf(r)
	if err != nil {
		return "", "", err
	}
	if err := c.allow(r, HandOver, jobType); err != nil {
		return "", "", err
	}
	leases, err := c.jobs.Leases(ctx, c.ex)
	if err != nil {
		return "", "", err
	}
	for _, l := range leases {
		if l.JobType == jobType && strconv.Itoa(l.Shard) == r.PathValue("shard") && r.PathValue("do") == "hand-over" {
			if err := c.jobs.HandOver(ctx, c.ex, l.Name); err != nil {
				return "", "", err
			}
			return "asked", "queues/" + strconv.Itoa(int(jobType)), nil
		}
	}
	return "", "", failed(http.StatusNotFound, "There is no such lease.")
}

// drainFor is for how long the console drains an instance. Who needs longer has Drain and pqueue.
const drainFor = time.Hour

func (c *console) changeInstance(ctx context.Context, r *http.Request) (outcome, to string, err error) {
	id, do, needs := r.PathValue("instance"), r.PathValue("do"), Drain
	if do == "bury" {
		needs = Bury
	}
	if err := c.allow(r, needs, anyType); err != nil {
		return "", "", err
	}
	switch do {
	case "bury":
		outcome, err = "buried", c.jobs.Bury(ctx, c.ex, id)
	case "drain":
		outcome, err = "drained", c.jobs.Drain(ctx, c.ex, id, drainFor)
	case "undrain":
		outcome = "undrained"
		was, errUndrain := c.jobs.Undrain(ctx, c.ex, id)
		if err = errUndrain; !was {
			outcome = "nothing"
		}
	default:
		return "", "", failed(http.StatusNotFound, "Nothing is called %q here.", do)
	}
	if err != nil {
		return "", "", err
	}
	return outcome, "workers", nil
}

// allow returns an error unless the sender of a request may do something with a type.
func (c *console) allow(r *http.Request, do Verb, jobType int32) error {
	if c.permit(r, See, jobType) && c.permit(r, do, jobType) {
		return nil
	}
	return c.refused(do)
}
