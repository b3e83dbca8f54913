package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/create-info/persistent-queue/internal/query"
	"github.com/create-info/persistent-queue/queue_job"
)

// names are what a search, and the palette of commands, can be completed with: what the registry of types knows, and no job.
type names struct {
	Queues []queueNamed `json:"queues"`
	Terms  []string     `json:"terms"`
}

type queueNamed struct {
	Type int32  `json:"type"`
	Name string `json:"name"`
	Term string `json:"term"` // that finds its jobs
}

// namedMost is how many queues may be chosen from.
const namedMost = 1000

// serveNames sends the names of the queues that the viewer may see.
func (c *console) serveNames(w http.ResponseWriter, r *http.Request) {
	all, err := c.namesFor(r)
	if err != nil {
		c.writeError(w, c.pageFor(r, "error"), "There are no such names", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // whoever asked may be gone
}

func (c *console) namesFor(r *http.Request) (*names, error) {
	if c.ex == nil {
		return nil, errNoHandle
	}
	types, err := c.typesKnown(r)
	if err != nil {
		return nil, err
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t queue_job.Type) bool { return !c.permit(r, See, t.JobType) })
	all := &names{Queues: []queueNamed{}}
	for _, t := range types[:min(len(types), namedMost)] {
		term := fmt.Sprintf("queue:%d", t.JobType)
		if t.Name != "" && query.Quote(t.Name) == t.Name {
			term = "queue:" + t.Name
		}
		all.Queues = append(all.Queues, queueNamed{t.JobType, t.Name, term})
	}
	for _, state := range queue_job.States() {
		all.Terms = append(all.Terms, "state:"+state)
	}
	all.Terms = append(all.Terms, "since:1h", "updated:2h..1h", "created:1d", "due:..5m", "attempts:>3", "key:", "error:", "tag:", "params.")
	return all, nil
}
