package console_test

import (
	"database/sql"
	"log"
	"net/http"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
)

var (
	db       *sql.DB
	isAdmin  func(*http.Request) bool
	loggedIn func(http.Handler) http.Handler
)

// Everybody who is logged in may look, and admins may act.
func ExampleHandler() {
	jobs, err := queue_job.Open(db)
	if err != nil {
		log.Fatal(err)
	}
	pages := console.Handler(jobs, console.WithTitle("shop, production"), console.WithPermit(func(r *http.Request, do console.Verb, _ int32) bool {
		return do == console.See || isAdmin(r)
	}))
	http.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", loggedIn(pages)))
}
