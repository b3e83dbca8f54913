// Package console is a web page on the jobs of one database: how they go and since when, job types and who runs them, jobs and why they wait,
// instances and leases. It is an [http.Handler] for any application:
//
//	mux.Handle("/jobs/", http.StripPrefix("/jobs", console.Handler(jobs, console.WithPermit(onlyAdmins))))
//
// Its pages need no JavaScript, and with it, they stay up to date. They load nothing from elsewhere and work below any path, also
// behind a proxy that takes a prefix away. Looking is cheap: the pages read a few small tables, and jobs by an index. What the
// overview shows is read once in two seconds at most, and what its charts show once in fifteen, however many people look.
package console

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/nearby"
	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// Verb is what somebody does by the console.
type Verb string

const (
	// See is to look at jobs of a type, and at what is known of the type.
	See Verb = "see"
	// Cancel, Retry and RunNow are done to one job, or to all that a filter selects, Cancel and Retry also to a flow. Without a type in the
	// filter, the permit is asked for the job type -1. For a flow, it is asked for -1 and for the types of its jobs.
	Cancel Verb = "cancel"
	Retry  Verb = "retry"
	RunNow Verb = "run now"
	// SetParams, Reschedule and SetPriority change one job that is not done. To retry a job with other parameters, somebody needs both
	// Retry and SetParams.
	SetParams   Verb = "set parameters"
	Reschedule  Verb = "reschedule"
	SetPriority Verb = "set priority"
	// Delete is to delete a job that does not run any more, or all such jobs that a filter selects, for good.
	Delete Verb = "delete"
	// Mute is to say for a while that an error of a type is no news, and to end that. It is counted all the same.
	Mute Verb = "mute"
	// Pause is to pause a type, and Resume to let it go on.
	Pause  Verb = "pause"
	Resume Verb = "resume"
	// SetLimits is to lower how many jobs of a type run at a time and how many start in a second, and to take that back.
	SetLimits Verb = "set limits"
	// PauseSchedule, ResumeSchedule, RunSchedule (now, a job more) and DeleteSchedule are done to a schedule that [queue_job.Jobs.PutSchedule] has
	// put. The permit is asked for the type of its jobs.
	PauseSchedule  Verb = "pause schedule"
	ResumeSchedule Verb = "resume schedule"
	RunSchedule    Verb = "run schedule"
	DeleteSchedule Verb = "delete schedule"
	// HandOver is to have a lease of a type go to another instance.
	HandOver Verb = "hand over"
	// Drain is to have an instance give its leases to the others for a while, and to end that. The permit is asked for the job type -1.
	Drain Verb = "drain"
	// Bury is to say that the process of an instance is gone, so that what it ran runs again. The permit is asked for the job type -1.
	Bury Verb = "bury"
)

// FromThisMachine permits everything to programs on this machine, and nothing to others. A request that a proxy has passed on is
// somebody else's, and so is one that a foreign page sends; a link there may lead here. It is what a console without [WithPermit] asks.
//
// It is for development. A proxy on this machine that adds no header of its own, as HAProxy does unless it is told otherwise, looks like
// a program on this machine, and then everybody may do everything. Where there may be one, use [WithPermit], behind a login.
func FromThisMachine(r *http.Request, _ Verb, _ int32) bool { return nearby.FromThisMachine(r) }

// Option changes how a console looks, or to whom.
type Option func(*console)

// WithPermit asks a function of yours whether the sender of a request may do something with a job type, instead of [FromThisMachine]. It is
// asked on the server for each type that a page shows and for each change. Users and their passwords are the application's: put the handler
// behind its login.
func WithPermit(permit func(r *http.Request, do Verb, jobType int32) bool) Option {
	return func(c *console) { c.permit = permit }
}

// WithTitle puts a name at the top of the pages, such as "shop, production".
func WithTitle(title string) Option { return func(c *console) { c.title = title } }

// WithMask replaces [MaskSecrets] as what changes parameters, results, progress and metadata before they are shown. It may be called
// by several goroutines at a time.
func WithMask(mask func(text string) string) Option { return func(c *console) { c.mask = mask } }

// WithDecoded has the pages show what the [queue_job.Codec] of the Jobs decodes, and lets it be edited: to whomever the permit lets see the type.
// [WithMask] still applies. Default: such values are shown as "encrypted, 312 bytes", and nobody can change the parameters here.
func WithDecoded() Option { return func(c *console) { c.decode = true } }

// WithActor says who the sender of a request is, as [queue_job.WithActor] notes it with each change. Default: "console, " and the address
// that the request came from.
func WithActor(actor func(r *http.Request) string) Option {
	return func(c *console) { c.actor = actor }
}

// WithLogout puts a button at the top of the pages that ends the viewer's session: it sends a POST to the address. One such as logout or
// ../logout is relative to the overview, so it is right below any path, also behind a proxy that takes a prefix away. One that begins
// with / or with https:// is taken as it is.
func WithLogout(address string) Option { return func(c *console) { c.logout = address } }

func addressOf(r *http.Request) string {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = r.RemoteAddr
	}
	return "console, " + peer
}

// console is the handler of all pages.
type console struct {
	jobs       *queue_job.Jobs // reads and steers: what a codec has encoded is read as it is stored, unless decode is set
	writes     *queue_job.Jobs // writes parameters: they are encoded, if the Jobs have a codec
	decode     bool
	ex         queue_job.Executor
	permit     func(r *http.Request, do Verb, jobType int32) bool
	title      string
	mask       func(string) string
	actor      func(*http.Request) string
	logout     string                                        // address; empty: none
	schedule   func(text string) (queue_job.Schedule, error) // nil: it cannot read schedules
	clock      databaseClock
	fleet      shared[*fleet]
	types      shared[[]queue_job.Type]
	errors     shared[*faces.Errors]
	health     shared[*operate.Health]
	kept       shared[*faces.Kept]
	series     sharedBy[seriesKey, *faces.Series]
	happened   sharedBy[string, *faces.Happened]
	lists      sharedBy[listKey, *query.Found]
	timetables sharedBy[timetableKey, []queue_job.ScheduleInfo]
	flows      sharedBy[flowsKey, []queue_job.FlowInfo]
	pasts      sharedBy[pastKey, told]
	tenures    sharedBy[string, []operate.Tenure]
	rendered   rendered
}

//go:embed pages
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Handler returns the console of the database that the Jobs were opened on. That handle must be a *sql.DB, or have ExecContext and
// QueryContext as a *sql.DB has; with another, each page says so.
func Handler(jobs *queue_job.Jobs, opts ...Option) http.Handler {
	c := &console{jobs: bridge.QueueJob.WithoutCodec(jobs), writes: jobs,
		health: shared[*operate.Health]{fresh: healthFresh}, kept: shared[*faces.Kept]{fresh: healthFresh},
		series: sharedBy[seriesKey, *faces.Series]{most: seriesMax}, happened: sharedBy[string, *faces.Happened]{most: seriesMax},
		lists: sharedBy[listKey, *query.Found]{most: listsMax}, timetables: sharedBy[timetableKey, []queue_job.ScheduleInfo]{most: timetablesMax},
		flows:  sharedBy[flowsKey, []queue_job.FlowInfo]{most: flowListsMax},
		permit: FromThisMachine, title: "Jobs", mask: MaskSecrets, actor: addressOf}
	for _, set := range opts {
		set(c)
	}
	if c.decode {
		c.jobs = jobs
	}
	c.ex = bridge.QueueJob.ExecutorOf(jobs)
	if c.schedule == nil {
		c.schedule = bridge.QueueJob.CronOf(jobs)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.page("overview", c.overview))
	mux.HandleFunc("GET /data/series", c.serveSeries)
	mux.HandleFunc("GET /data/names", c.serveNames)
	mux.HandleFunc("GET /queues/{type}", c.page("type", c.showType))
	mux.HandleFunc("GET /queues/{type}/simulate", c.page("whatif", c.showWhatIf))
	mux.HandleFunc("GET /jobs", c.page("jobs", c.list))
	mux.HandleFunc("GET /jobs/{id}", c.page("job", c.showJob))
	mux.HandleFunc("GET /flows", c.page("flows", c.showFlows))
	mux.HandleFunc("GET /flows/{id}", c.page("flow", c.showFlow))
	mux.HandleFunc("POST /flows/{id}/{do}", c.change(c.changeFlow))
	mux.HandleFunc("GET /errors", c.page("errors", c.showErrors))
	mux.HandleFunc("GET /errors/{error}", c.page("failure", c.showError))
	mux.HandleFunc("POST /errors/{error}/retry", c.change(c.retryFailedWith))
	mux.HandleFunc("POST /errors/{error}/{do}", c.change(c.changeError))
	mux.HandleFunc("GET /leases", c.page("leases", c.showLeases))
	mux.HandleFunc("GET /workers", c.page("instances", c.instances))
	mux.HandleFunc("GET /schedules", c.page("schedules", c.showSchedules))
	mux.HandleFunc("GET /schedule", c.page("schedule", c.showSchedule))
	mux.HandleFunc("GET /health", c.page("health", c.showHealth))
	mux.HandleFunc("GET /retention", c.page("retention", c.showKept))
	mux.HandleFunc("GET /audit", c.page("acts", c.acts))
	mux.HandleFunc("GET /operations/new", c.page("many", c.askForMany))
	mux.HandleFunc("GET /operations/{id}", c.page("operation", c.showOperation))
	mux.HandleFunc("POST /operations", c.change(c.begin))
	mux.HandleFunc("POST /operations/{id}/{do}", c.change(c.changeOperation))
	mux.HandleFunc("POST /theme", c.setTheme)
	mux.HandleFunc("POST /jobs/{id}/{do}", c.change(c.changeJob))
	mux.HandleFunc("POST /schedules/{do}", c.change(c.changeSchedule))
	mux.HandleFunc("POST /queues/{type}/{do}", c.change(c.changeType))
	mux.HandleFunc("POST /workers/{instance}/{do}", c.change(c.changeInstance))
	mux.HandleFunc("POST /queues/{type}/leases/{shard}/{do}", c.change(c.changeLease))
	for _, old := range []string{"/types/", "/instances", "/instances/", "/acts"} {
		mux.HandleFunc(old, moved)
	}
	mux.HandleFunc("GET /static/{$}", http.NotFound) // no list of files
	mux.Handle("GET /static/", http.FileServerFS(staticFiles))
	return c.guarded(http.NewCrossOriginProtection().Handler(mux))
}

// addresses are what the first parts of addresses are called that were called otherwise.
var addresses = map[string]string{"types": "queues", "instances": "workers", "acts": "audit"}

// moved leads from an older address to the one of today, also with a form.
func moved(w http.ResponseWriter, r *http.Request) {
	first, rest, below := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	to := rootOf(r) + addresses[first]
	if below {
		to += "/" + strings.Replace(rest, "/what-if", "/simulate", 1)
	}
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
}

// guarded sets what all answers have in common.
func (c *console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "+
				"frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		if !strings.HasPrefix(r.URL.Path, "/static/") {
			h.Set("Cache-Control", "no-store")
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			r.Body = http.NoBody // or whoever asks for a value would read a form there
		}
		next.ServeHTTP(w, r)
	})
}

// page is what every template gets.
type page struct {
	Title string    // of the console
	Name  string    // of the page
	Root  string    // relative address of the overview
	Said  string    // message about the change that led to this page
	Theme string    // what it looks like, one of themes
	Back  string    // its address, relative to the overview
	User  string    // who looks; empty: nobody can log out
	Out   string    // address that ends the viewer's session
	At    time.Time // when what it shows was so, by the database's clock
	Body  any

	may func(Verb, int32) bool
}

// Live reports whether the page refreshes itself. Two pages answer one question by a count or a replay, which may take seconds each time.
// An error does not refresh itself either: its address may be the address of a change.
func (p *page) Live() bool {
	return !slices.Contains([]string{"many", "whatif", "error"}, p.Name)
}

// entry is a line of the menu.
type entry struct {
	Path, Name string
	page       string // its name
}

var menu = []entry{
	{"", "Overview", "overview"}, {"jobs", "Jobs", "jobs"}, {"flows", "Flows", "flows"}, {"errors", "Errors", "errors"},
	{"schedules", "Schedules", "schedules"},
	{"workers", "Workers", "instances"}, {"leases", "Leases", "leases"}, {"health", "Health", "health"}, {"retention", "Retention", "retention"},
	{"audit", "Audit log", "acts"},
}

// Menu has the pages that lead to all others.
func (p *page) Menu() []entry { return menu }

// Here reports whether an entry of the menu is this page.
func (p *page) Here(e entry) bool { return e.page == p.Name }

// May reports whether who looks may do something with a job type.
func (p *page) May(do Verb, jobType int32) bool { return p.may(do, jobType) }

// failure is an error that has a status of its own, and is the viewer's to mend.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func failed(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

var errNoHandle = errors.New("the console needs the Jobs of a *sql.DB: call queue_job.Open with it")

// page makes the handler of a page out of what gets its body.
func (c *console) page(name string, get func(*http.Request) (body any, err error)) http.HandlerFunc {
	show := templateOf(name)
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := c.pageFor(r, name), errNoHandle
		if c.ex != nil {
			p.Body, err = get(r)
		}
		if err != nil {
			c.writeError(w, p, "This page cannot be shown", err)
			return
		}
		p.At = c.asOf(r.Context(), p.Body)
		if o, ok := p.Body.(outdating); ok && o.outdates(r.URL.Query().Get("said")) {
			p.Said = ""
		}
		c.write(w, show, http.StatusOK, p)
	}
}

// outdating is a body that knows whether what was said is still so.
type outdating interface{ outdates(said string) bool }

func (c *console) pageFor(r *http.Request, name string) *page {
	user, root := "", rootOf(r)
	now, _ := c.clock.now()
	if c.logout != "" {
		user = c.actor(r)
	}
	return &page{Title: c.title, Name: name, Theme: themeOf(r), Back: pageAddressOf(r), User: user, Out: c.logoutFrom(root),
		Root: root, Said: said[r.URL.Query().Get("said")], At: now, may: func(do Verb, jobType int32) bool { return c.permit(r, do, jobType) }}
}

// logoutFrom is the address that ends the viewer's session, on a page from which a root leads to the overview.
func (c *console) logoutFrom(root string) string {
	if strings.HasPrefix(c.logout, "/") || strings.Contains(c.logout, "://") {
		return c.logout
	}
	return root + c.logout
}

// writeError shows an error in the place of a page.
func (c *console) writeError(w http.ResponseWriter, p *page, what string, err error) {
	status := http.StatusInternalServerError
	var f *failure
	switch {
	case errors.As(err, &f):
		status = f.status
	case errors.Is(err, queue_job.ErrBadKey):
		status = http.StatusBadRequest
	case errors.Is(err, queue_job.ErrRefused):
		status = http.StatusConflict
	}
	p.Name, p.Body = "error", struct{ What, Why string }{what, err.Error()}
	c.write(w, errorPage, status, p)
}

func templateOf(name string) *template.Template {
	return template.Must(template.New("frame.html").Funcs(functions).ParseFS(pageFiles, "pages/frame.html", "pages/"+name+".html"))
}

var errorPage = templateOf("error")

func (c *console) write(w http.ResponseWriter, show *template.Template, status int, p *page) {
	text, err := c.rendered.render(show, p)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever asked may be gone
}

// rootOf leads from a page to the overview. It is made of the path's depth alone, so it does not matter what a proxy has taken away.
// For a browser, an escaped slash does not divide a path.
func rootOf(r *http.Request) string {
	if depth := strings.Count(r.URL.EscapedPath(), "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}
