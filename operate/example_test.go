package operate_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

var (
	ctx  = context.Background()
	db   *sql.DB
	jobs *queue_job.Jobs
)

// A customer asks where the mail is.
func ExampleExplain() {
	why, err := operate.Explain(ctx, jobs, db, 4711)
	if err != nil {
		log.Print(err)
		return
	}
	for _, r := range why.Reasons {
		fmt.Println(r.Text, r.Remedy)
	}
	if why.Reasons[0].Kind == operate.Paused {
		fmt.Println("paused since", why.Reasons[0].Since)
	}
}
