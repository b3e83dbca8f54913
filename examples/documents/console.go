package documents

import (
	"net/http"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
)

// User is who is logged in.
type User struct {
	Name    string
	IsAdmin bool
}

// Mount is what the page of the console shows.
func Mount(mux *http.ServeMux, jobs *queue_job.Jobs, user func(*http.Request) User, requireLogin func(http.Handler) http.Handler) {
	admin := console.Handler(jobs,
		console.WithTitle("shop, production"),
		console.WithPermit(func(r *http.Request, do console.Verb, jobType int32) bool {
			return do == console.See || user(r).IsAdmin
		}),
		console.WithActor(func(r *http.Request) string { return user(r).Name }),
		console.WithSchedules(func(text string) (queue_job.Schedule, error) { return cron.Parse(text) }))
	mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", requireLogin(admin)))
}
