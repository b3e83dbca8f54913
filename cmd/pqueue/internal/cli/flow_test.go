package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

// addOrder adds a flow of four jobs, of which one fails as long as told.
func addOrder(t *testing.T, jobs *queue_job.Jobs, db queue_job.Executor, key string) (id uint64) {
	t.Helper()
	job := func(name string) queue_job.AddModelJob { return queue_job.AddModelJob{JobType: 7, JobParams: name} }
	f := queue_job.NewFlow("order", queue_job.FlowKey(key))
	f.Job("pay", job("pay"))
	f.Job("pack", job("pack")).After("pay")
	f.Job("invoice", job("invoice")).After("pay")
	f.Job("ship", job("ship")).After("invoice", "pack")
	added, err := jobs.AddFlow(t.Context(), db, f)
	if err != nil {
		t.Fatal(err)
	}
	return added.Id
}

func TestADayWithFlowsAtTheShell(t *testing.T) {
	sh, db, jobs := newTables(t)
	sh.want("flow list", exitDone, "ID", "KIND")
	sh.want("flow get 1", exitNothing, "no such flow")
	sh.want("flow explain 1", exitNothing, "There is no such flow")
	sh.want("flow cancel 1", exitNothing, "no such flow")
	sh.want("flow get one", exitUsage, "no id of a flow")
	sh.want("flow list state:late", exitUsage, `no state "late"`, "stuck, open, done")
	sh.want("flow list state:stuck,done", exitUsage, "leave the other states out")
	sh.want("flow list kind", exitUsage, "write field:value")
	sh.want("flow list type:7", exitUsage, "there are state, kind and key")
	sh.want("flow list key:1 key:2", exitUsage, "comes twice")
	id := addOrder(t, jobs, db, "4711")
	sh.want("flow list", exitDone, "order", "4711", "open", "0", "4")
	sh.want("flow get 1", exitDone, "pay", "queued", "to come", "pack, invoice", "done     0 of 4 jobs")
	sh.want("flow explain 1", exitDone, "flow 1 (order 4711): open", "It waits: none of its jobs can start at this moment. 0 of 4 jobs have succeeded.", `It waits for "pay", which is queued.`, "pqueue job explain 1")
	sh.want("job explain 1", exitDone, `It is "pay" in flow 1, which is open (kind "order", key "4711"). 2 jobs that come after it are not added before it has succeeded.`)
	sh.want("job get 1", exitDone, "flow      1")
	sh.want("job get 1 -o json", exitDone, `"flow": "1"`)

	var fails atomic.Bool
	fails.Store(true)
	start(t, db, queue_job.Config{JobType: 7, ServiceName: "shop", HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		var name string
		if err := job.Decode(&name); err != nil {
			return err
		}
		if name == "pack" && fails.Load() {
			return queue_job.Fail(errors.New("no box"))
		}
		return job.SetResult(ctx, name+" is done")
	}})
	await(t, "the flow is stuck", func() bool { return strings.Contains(sh.want("flow list state:stuck -o id", exitDone), "1\n") })
	sh.want("flow explain 1", exitDone, "flow 1 (order 4711): stuck", "It is stuck: no job of it waits for its turn or runs", "2 of 4 jobs have succeeded.",
		`"pack" is failed. Run 1: no box (failed). Before it has succeeded, this is not added: "ship".`, "Retry the job, or the flow.", "pqueue flow retry 1", "pqueue job get")
	sh.want("flow explain 1 -o json", exitDone, `"kind": "stuck"`, `"kind": "held up"`)
	sh.want("flow explain 1 -o csv", exitDone, "kind,text", "held up,")
	sh.want("flow list state:stuck key:4711 -o json", exitDone, `"stuck": true`, `"done": 2`, `"total": 4`, `"state": "open"`)
	sh.want("flow get 1 -o json", exitDone, `"result": "pay is done"`, `"waits_for": [`, `"state": "failed"`, `"before": [`)
	sh.want("flow list state:open -o csv", exitDone, "id,kind,key,state,done,jobs", "1,order,4711,stuck,2,4")
	sh.want("flow retry 1 --dry-run", exitDone, "would retry 1 job of flow 1", "pack")
	fails.Store(false)
	sh.want("flow retry 1 --as mary --why boxes", exitDone, "flow 1 goes on with 1 job of it")
	await(t, "the flow is done", func() bool { return strings.Contains(sh.want("flow list state:done -o id", exitDone), "1\n") })
	sh.want("flow explain 1", exitDone, "It is done. 4 of 4 jobs have succeeded.")
	sh.want("flow retry 1", exitNothing, "flow 1 is done: nothing to retry")
	sh.want("flow cancel 1", exitNothing, "flow 1 is done: nothing to cancel")
	sh.want("audit list", exitDone, "retry flow", "mary", "boxes", fmt.Sprintf(`"flow":"%d"`, id))
}

func TestAFlowIsCancelledAtTheShellAndGoesOn(t *testing.T) {
	sh, db, jobs := newTables(t)
	f := queue_job.NewFlow("import")
	for i := range 3 {
		f.Job(fmt.Sprint("part ", i), queue_job.AddModelJob{JobType: 7})
	}
	if _, err := jobs.AddFlow(t.Context(), db, f); err != nil {
		t.Fatal(err)
	}
	addOrder(t, jobs, db, "4711")
	sh.want("flow list -n 1", exitDone, "order", "there may be more")
	sh.want("flow list --before 2 -o id", exitDone, "1\n")
	sh.want("flow list kind:import -o jsonl", exitDone, `"kind":"import"`)
	sh.want("flow cancel 1 --dry-run", exitDone, "would cancel 3 jobs of flow 1", "part 2")
	sh.want("flow cancel 1 --dry-run -o json", exitDone, `"name": "part 0"`)
	sh.want("flow cancel 1", exitRefused, "cancel 3 jobs of flow 1?", "--yes")
	sh.want("flow cancel 2", exitDone, "flow 2 is cancelled, and 1 job of it")
	sh.want("flow cancel 1 -y --as mary", exitDone, "flow 1 is cancelled, and 3 jobs of it")
	sh.want("flow explain 1", exitDone, "It is cancelled, so no job of it is added any more. 0 of 3 jobs have succeeded.", "pqueue flow retry 1")
	sh.want("job explain 1", exitDone, `It is "part 0" in flow 1, which is cancelled (kind "import").`, "retry the flow: it takes its jobs along")
	sh.want("flow retry 1 -y", exitDone, "flow 1 goes on with 3 jobs of it")
	sh.want("audit list", exitDone, "cancel flow", "retry flow", "mary")
	var out strings.Builder
	if Run(t.Context(), []string{"__complete", "--dsn", sh.dsn, "flow", "get", ""}, Streams{strings.NewReader(""), &out, io.Discard}); !strings.HasPrefix(out.String(), "1\timport open\n") {
		t.Errorf("pqueue flow get <Tab>: %q", out.String())
	}
}
