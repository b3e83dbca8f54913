package recipes

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// A campaign is a mail to each of many customers, and then a report.
type (
	Campaign struct{ ID int64 }
	Offer    struct{ Campaign, Customer int64 }
)

var (
	SendOffer      = queue_job.Define[Offer](16, "send-offer")
	ReportCampaign = queue_job.Define[Campaign](17, "report-campaign")
)

// StartCampaign adds a flow: a job for each customer, and the report after the last of them, also if some have failed. While the campaign runs, a
// second call adds nothing.
func StartCampaign(ctx context.Context, tx *sql.Tx, jobs *queue_job.Jobs, c Campaign, customers []int64) error {
	f := queue_job.NewFlow("campaign", queue_job.FlowKey(fmt.Sprint(c.ID)))
	mails := make([]string, len(customers))
	for i, customer := range customers {
		mails[i] = fmt.Sprintf("mail-%d", customer)
		f.Job(mails[i], SendOffer.New(Offer{c.ID, customer}))
	}
	f.Job("report", ReportCampaign.New(c)).AfterEnd(mails...)
	_, err := jobs.AddFlow(ctx, tx, f)
	return err
}

func HandleOffer(send func(ctx context.Context, o Offer, idempotencyKey string) error) queue_job.Config {
	return SendOffer.Handle(func(ctx context.Context, job *queue_job.Job, o Offer) error {
		return send(ctx, o, job.IdempotencyKey())
	}, queue_job.Workers(20), func(c *queue_job.Config) { c.RatePerSecond = 200 }) // what the provider of mail takes
}

func HandleCampaign(report func(context.Context, Campaign) error) queue_job.Config {
	return ReportCampaign.Handle(func(ctx context.Context, job *queue_job.Job, c Campaign) error { return report(ctx, c) })
}
