package console

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// functions are what templates call.
var functions = template.FuncMap{
	"clock":     clock,
	"span":      words.Span,
	"pretty":    pretty,
	"plural":    words.Count,
	"waits":     waits,
	"runs":      func(attempts, deferred int) int { return attempts - deferred },
	"count":     count,
	"how":       howText,
	"ended":     endText,
	"heard":     func(i queue_job.Instance, now time.Time) string { return faces.Heard(&i, now) },
	"leftAlone": func(i queue_job.Instance, now time.Time) string { return faces.LeftAlone(&i, now) },
	"restless":  func(i queue_job.Instance, now time.Time) string { return faces.Restless(&i, now, clock) },
	"until":     func(from, to time.Time) string { return words.Span(to.Sub(from)) },
	"about":     about,
	"decimal":   decimal,
	"kept":      kept,
	"beside":    workersBeside,
	"stateWord": stateWord,
	"ago":       sinceThen,
	"outcome":   outcomeWord,
	"errorID":   faces.ErrorID,
	"number":    func(n int) string { return count(int64(n)) },
	"upper":     func(do Verb) string { return strings.ToUpper(string(do[:1])) + string(do[1:]) },
}

// workersBeside is how many handlers of a type may run at a time, to be shown beside how many run. That is told at another moment, by the
// leases; if it is more than the holders had workers then, as when somebody has just lowered them, or no holder has told, it is 0.
func workersBeside(t *operate.Type) int {
	if t.Memory == nil || t.Running > t.Memory.Workers {
		return 0
	}
	return t.Memory.Workers
}

// clock says a time in UTC, as people read it. Zero: nothing.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05")
}

// kept says how long something is kept.
func kept(d time.Duration) string {
	if d == 0 {
		return "no limit"
	}
	return words.Span(d)
}

// count writes a number with its digits in groups of three.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// decimal writes a number with three digits that count.
func decimal(n float64) string { return strconv.FormatFloat(n, 'g', 3, 64) }

// waits are the waits before retries, or nil if they say nothing: a handler that says for each retry when it is due has a configuration
// without waits.
func waits(list []queue_job.Wait) []queue_job.Wait {
	if !slices.ContainsFunc(list, func(w queue_job.Wait) bool { return w.Most > 0 }) {
		return nil
	}
	return list
}

// typesFor returns the types that the sender of a request may see.
func (c *console) typesFor(r *http.Request) ([]*operate.Type, error) {
	fleet, err := c.fleetNow(r)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(fleet.types), func(t *operate.Type) bool { return !c.permit(r, See, t.JobType) }), nil
}

// fleet is what a look at the instances has shown.
type fleet struct {
	*queue_job.Fleet
	types []*operate.Type
}

func (c *console) fleetNow(r *http.Request) (*fleet, error) {
	return c.fleet.get(r.Context(), func(ctx context.Context) (*fleet, error) {
		f, err := c.jobs.Fleet(ctx, c.ex)
		if err != nil {
			return nil, err
		}
		c.clock.heard(f.Now)
		return &fleet{f, operate.HealthOf(f, nil).Types}, nil
	})
}

func (c *console) hostsFor(r *http.Request) ([]queue_job.Instance, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	fleet, err := c.fleetNow(r)
	if err != nil {
		return nil, err
	}
	return fleet.Instances, nil
}

// anyType stands for what belongs to no job type.
const anyType = -1

func (c *console) refused(do Verb) error {
	return failed(http.StatusForbidden,
		"You may not %s here. The application says who may, with console.WithPermit; if it does not, programs on the console's own machine may.", do)
}

func (c *console) showType(r *http.Request) (any, error) { return c.oneTypeOf(r) }

// oneTypeOf is without a past if that cannot be read: whoever wants to pause the type then needs no charts.
func (c *console) oneTypeOf(r *http.Request) (shown oneType, err error) {
	w, err := windowOf(r)
	if err != nil {
		return shown, err
	}
	jobType, err := c.typeOf(r)
	if err != nil {
		return shown, err
	}
	if shown.Type, err = c.typeFor(r, jobType); err != nil {
		return shown, err
	}
	shown.Past, shown.NoPast = c.pastOf(r, jobType, w)
	return shown, nil
}

// typeFor is a type that the sender of a request may see.
func (c *console) typeFor(r *http.Request, jobType int32) (*operate.Type, error) {
	types, err := c.typesFor(r)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		if t.JobType == jobType {
			return t, nil
		}
	}
	return nil, failed(http.StatusNotFound, "Job type %d is not known here: no instance has run it, and nobody has paused or divided it.", jobType)
}

// typeOf is the job type in a request's path, if its sender may see it.
func (c *console) typeOf(r *http.Request) (int32, error) {
	n, err := strconv.ParseInt(r.PathValue("type"), 10, 32)
	switch {
	case err != nil:
		return 0, failed(http.StatusNotFound, "%q is no job type.", r.PathValue("type"))
	case !c.permit(r, See, int32(n)):
		return 0, c.refused(See)
	}
	return int32(n), nil
}

func (c *console) instances(r *http.Request) (any, error) { return c.hostsFor(r) }

// pageOfJobs is a page of a list of jobs, and what it is a list of.
type pageOfJobs struct {
	*asked
	States []string
	Jobs   []queue_job.JobInfo
	Older  template.URL // the query of the next page; empty: there is none
	As     string       // the query as what it was found to mean, for whatever is done to all of these jobs
	Verbs  []Verb       // what may be done to some of the jobs
	All    bool         // and to all jobs of the query, on every page

	// ByStatus are what to list instead, for operations on many jobs. They do not go by a state that a job leaves before its turn comes.
	ByStatus []queue_job.JobStatus

	// Newer is how many jobs of the list are newer than all that somebody has on the screen, who has asked how these stand by now. More than
	// a page: there may be more.
	Newer int

	// SearchedFrom is the lowest id that was looked at, if the search ended before the page was full. 0: it did not. Back is when the job
	// with that id was added. Zero: that is not known.
	SearchedFrom uint64
	Back         time.Time
	// TooMany is a query for what was not looked for: keys that begin with the word. Empty: everything was looked for.
	TooMany string
}

// typesKnown are all types that the database knows.
func (c *console) typesKnown(r *http.Request) ([]queue_job.Type, error) {
	return c.types.get(r.Context(), func(ctx context.Context) ([]queue_job.Type, error) { return c.jobs.Types(ctx, c.ex) })
}

func (c *console) list(r *http.Request) (any, error) {
	a, err := c.askedFor(r, true)
	if err != nil {
		return nil, err
	}
	l := pageOfJobs{asked: a, States: queue_job.States()}
	if a.Wrong != "" {
		return l, nil
	}
	before, err := idIn(r, "before")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	found, err := c.search(ctx, a, before)
	if err != nil {
		return nil, err
	}
	l.As = found.As.Text()
	if found.TooMany {
		l.TooMany = l.As
	}
	if r.FormValue("ids") != "" {
		err := c.standing(ctx, r, &l, found, before)
		return l, err
	}
	goOn := found.GoOn
	l.Jobs = slices.Clone(found.Jobs) // others look at these, too
	if len(l.Jobs) > jobsOnAPage {
		l.Jobs = l.Jobs[:jobsOnAPage]
		goOn = l.Jobs[jobsOnAPage-1].Id
	} else {
		l.SearchedFrom, l.Back = goOn, found.Back
	}
	if goOn > 0 {
		next := l.addressed(l.As)
		next.Set("before", strconv.FormatUint(goOn, 10))
		l.Older = template.URL(next.Encode()) // the encoding is all that a page must escape
	}
	// Without a type, the list is of all jobs, also of types that nobody knows. What may not be seen leaves its page shorter.
	l.Jobs = slices.DeleteFunc(l.Jobs, func(j queue_job.JobInfo) bool { return !c.permit(r, See, j.JobType) })
	l.Verbs = c.chosenFor(r, found.As.Filter, l.Jobs)
	l.setAll(c, r, found)
	return l, nil
}

// standing reads how the jobs stand that somebody has on the screen, and counts the newer ones. So a list does not move under the pointer.
func (c *console) standing(ctx context.Context, r *http.Request, l *pageOfJobs, found *query.Found, before uint64) error {
	ids, err := idsOf(strings.Split(r.FormValue("ids"), ","))
	if err != nil {
		return err
	}
	hidden := func(j queue_job.JobInfo) bool { return !c.permit(r, See, j.JobType) }
	l.Jobs, err = c.jobs.List(ctx, c.ex, queue_job.Filter{IDs: ids, NewestFirst: true, OmitLongParams: true, Limit: 2 * jobsOnAPage})
	l.Jobs = slices.DeleteFunc(l.Jobs, hidden)
	l.Verbs = c.chosenFor(r, found.As.Filter, l.Jobs)
	for _, job := range found.Jobs {
		if before == 0 && job.Id > ids[len(ids)-1] && !hidden(job) {
			l.Newer++
		}
	}
	return err
}

// Many reports whether a page has no room for the newer jobs, so that there may be more.
func (l pageOfJobs) Many() bool { return l.Newer > jobsOnAPage }

// setAll sets what may be done to all jobs of the query.
func (l *pageOfJobs) setAll(c *console, r *http.Request, found *query.Found) {
	selected, filter := len(l.Jobs), found.As.Filter
	if found.ByID {
		selected--
	}
	if selected <= 0 || found.As.Empty() || found.As.OnlyLists() != "" || len(c.manyFor(r, filter)) == 0 {
		return
	}
	if l.All = len(filter.States) == 0; !l.All {
		l.ByStatus = query.Statuses(&filter)
	}
}

// IsKey reports whether the list is of the jobs with a key, which is what all of them means.
func (l pageOfJobs) IsKey() bool { return strings.HasPrefix(l.As, "key:") }

// addressed are the fields of the address of this list.
func (l *pageOfJobs) addressed(text string) url.Values {
	fields := url.Values{}
	for name, value := range map[string]string{"type": l.Type, "state": l.State, "q": text} {
		if value != "" {
			fields.Set(name, value)
		}
	}
	return fields
}

// Newest is the query of the address of the newest jobs.
func (l pageOfJobs) Newest() template.URL { return template.URL(l.addressed(l.Text).Encode()) }

// idIn reads an id from a field of a request; 0: there is none.
func idIn(r *http.Request, name string) (id uint64, err error) {
	if text := r.FormValue(name); text != "" {
		if id, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, failed(http.StatusBadRequest, "%s=%q is no id.", name, text)
		}
	}
	return id, nil
}

// oneJob is what is known of a job.
type oneJob struct {
	*operate.Explanation
	Params, Result, Progress string
	Meta                     map[string]string
	Timeline                 *timeline
	Priorities               []queue_job.Priority
	// Editable: the parameters may be changed here. What is masked may not: it would be stored as it is shown. Nor may what is long.
	Editable bool
}

// editableMax is how many bytes of parameters a form may show.
const editableMax = 32 << 10

func (c *console) showJob(r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readMax)
	defer cancel()
	e, err := operate.Explain(ctx, c.jobs, c.ex, id)
	switch {
	case err != nil:
		return nil, err
	case e.Job == nil:
		return nil, failed(http.StatusNotFound,
			"There is no job %d: the transaction that adds it has not committed, it was deleted, or it is in another database or under another table prefix.",
			id)
	case !c.permit(r, See, e.Job.JobType):
		return nil, c.refused(See)
	}
	j := oneJob{Explanation: e, Params: c.shown(e.Job.JobParams),
		Result: c.shown(e.Job.Result), Progress: c.shown(e.Job.Progress), Priorities: priorities}
	j.Meta = c.metaOf(e.Job.Meta)
	if err = c.readPast(ctx, e); err != nil {
		return nil, err
	}
	j.Timeline = timelineOf(e, c.permit(r, See, anyType))
	j.Editable = j.Params == e.Job.JobParams && len(j.Params) <= editableMax
	return j, nil
}

// metaOf is the metadata of a job as a page has it.
func (c *console) metaOf(meta map[string]string) map[string]string {
	shown := map[string]string{}
	for name, value := range meta {
		shown[name] = c.mask(value)
		if secret.MatchString(name) {
			shown[name] = strings.Trim(masked, `"`)
		}
	}
	return shown
}

// readPast reads the steps of a job, what its runs have logged and what people did to it, as a page has it: the last run first. Of a job for which
// the first one of its group was asked already, that is one statement too many, unless something is kept that its runs log.
func (c *console) readPast(ctx context.Context, e *operate.Explanation) error {
	inLineOfGroup := e.Job.Group != "" && e.Reasons[0].Kind == operate.InLine
	if e.KeepLog || !inLineOfGroup {
		if err := e.ReadPast(ctx, c.jobs, c.ex); err != nil {
			return err
		}
	}
	slices.Reverse(e.Logs)
	for i := range e.Logs {
		e.Logs[i].Text = c.shown(e.Logs[i].Text)
	}
	return nil
}

// shown is a value as a page has it.
func (c *console) shown(text string) string {
	if stored, encoded := queue_job.EncodingOf(text); encoded {
		return stored.String()
	}
	return c.mask(text)
}

func idOf(r *http.Request) (uint64, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, failed(http.StatusNotFound, "%q is no id of a job.", text)
	}
	return id, nil
}
