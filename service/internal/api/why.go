package api

import (
	"net/http"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// reason is why a task is not sent at this moment.
type reason struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// why answers why a task has not been sent. What keeps it must end before it is sent; what may keep it, only its holder knows.
func (a *api) why(c *call) error {
	job, _, err := a.jobOf(c, tokens.ReadTasks)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	e, err := operate.Explain(ctx, a.Jobs, a.DB, job.Id)
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, struct {
		Reasons []reason `json:"reasons"`
		Perhaps []reason `json:"perhaps"`
	}{reasonsOf(e.Reasons), reasonsOf(e.Perhaps)})
}

func reasonsOf(all []operate.Reason) []reason {
	list := []reason{}
	for _, r := range all {
		list = append(list, reason{r.Kind, r.Text, stamp(r.Since), stamp(r.Until), r.Remedy})
	}
	return list
}
