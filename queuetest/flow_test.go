package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

// orderParts handles the jobs of orders: their parameters are their names. What is in fails fails.
func orderParts(ran *[]string, fails map[string]bool) queue_job.Config {
	return queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		var name string
		if err := job.Decode(&name); err != nil {
			return err
		}
		*ran = append(*ran, name)
		if fails[name] {
			return queue_job.Fail(errors.New("no luck"))
		}
		return job.SetResult(ctx, "result of "+name)
	}}
}

func orderFlow(t *testing.T, q *queuetest.Queue, ship queue_job.AddModelJob) uint64 {
	t.Helper()
	part := func(name string) queue_job.AddModelJob { return queue_job.AddModelJob{JobType: 1, JobParams: name} }
	f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
	f.Job("pay", part("pay"))
	f.Job("invoice", part("invoice")).After("pay")
	f.Job("ship", ship).After("invoice")
	f.Job("tidy", part("tidy")).AfterEnd("invoice")
	added, err := q.Jobs.AddFlow(t.Context(), q.DB, f)
	if err != nil {
		t.Fatal(err)
	}
	return added.Id
}

func TestAFlowGoesOnByTheClockOfTheTest(t *testing.T) {
	var ran []string
	q := queuetest.New(t, orderParts(&ran, nil))
	id := orderFlow(t, q, queue_job.AddModelJob{JobType: 1, JobParams: "ship", Delay: 24 * time.Hour})
	if q.RunDue(); !slices.Equal(ran, []string{"pay", "invoice", "tidy"}) {
		t.Fatal(ran)
	}
	q.RequireAdded(1, queuetest.Params("ship"), queuetest.DueIn(24*time.Hour)) // from when it was added
	if q.Advance(23 * time.Hour); len(q.RunDue()) > 0 {
		t.Error(ran)
	}
	q.Advance(time.Hour)
	q.RunDue()
	f, err := q.Jobs.Flow(t.Context(), q.DB, id)
	if err != nil || f.State != queue_job.FlowDone || ran[3] != "ship" || f.Jobs[0].Result != "result of pay" {
		t.Errorf("%+v, %v, %q", f, err, ran)
	}
	if took := f.Ended.Sub(f.Created); took < 24*time.Hour || took > 25*time.Hour {
		t.Errorf("it took %v", took)
	}
}

func TestWhatFollowsOneRunOfAFlowIsThereAfterIt(t *testing.T) {
	var ran []string
	q := queuetest.New(t, orderParts(&ran, nil))
	orderFlow(t, q, queue_job.AddModelJob{JobType: 1, JobParams: "ship"})
	pay := q.RequireAdded(1, queuetest.Params("pay"))
	q.LoseOne(pay.Id)
	q.RequireNotAdded(1, queuetest.Params("invoice")) // its outcome is not written
	q.RunOne(pay.Id)
	q.RunOne(q.RequireAdded(1, queuetest.Params("invoice")).Id)
	if q.RequireAdded(1, queuetest.Params("ship")); !slices.Equal(ran, []string{"pay", "pay", "invoice"}) {
		t.Error(ran)
	}
}

func TestAFlowThatIsStuckGoesOnAfterARetry(t *testing.T) {
	var ran []string
	fails := map[string]bool{"invoice": true}
	q := queuetest.New(t, orderParts(&ran, fails))
	id := orderFlow(t, q, queue_job.AddModelJob{JobType: 1, JobParams: "ship"})
	q.RunDue()
	f, err := q.Jobs.Flow(t.Context(), q.DB, id)
	if err != nil || !f.Stuck || !slices.Equal(ran, []string{"pay", "invoice", "tidy"}) {
		t.Fatalf("%+v, %v, %q", f, err, ran)
	}
	fails["invoice"] = false
	n, err := q.Jobs.RetryFlow(t.Context(), q.DB, id)
	if q.RunDue(); err != nil || n != 1 || !slices.Equal(ran[3:], []string{"invoice", "ship"}) {
		t.Errorf("%d, %v, %q", n, err, ran)
	}
}

func TestACancelledJobOfAFlowIsFollowedByWhatTidiesUp(t *testing.T) {
	var ran []string
	q := queuetest.New(t, orderParts(&ran, nil))
	orderFlow(t, q, queue_job.AddModelJob{JobType: 1, JobParams: "ship"})
	q.RunOne(q.RequireAdded(1, queuetest.Params("pay")).Id)
	if n, err := q.Jobs.Cancel(t.Context(), q.DB, queue_job.ID(q.RequireAdded(1, queuetest.Params("invoice")).Id)); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if q.RunDue(); !slices.Equal(ran, []string{"pay", "tidy"}) {
		t.Error(ran)
	}
}

func TestAFlowIsUndoneByTheClockOfTheTest(t *testing.T) {
	var ran []string
	fails := map[string]bool{"ship": true, "undo pay": true}
	q := queuetest.New(t, orderParts(&ran, fails))
	part := func(name string) queue_job.AddModelJob { return queue_job.AddModelJob{JobType: 1, JobParams: name} }
	f := queue_job.NewFlow("order").OnFailure(queue_job.UndoAfter(time.Hour))
	f.Job("pay", part("pay")).Undo(part("undo pay"))
	f.Job("pack", part("pack")).After("pay").Undo(part("undo pack"))
	f.Job("ship", part("ship")).After("pack")
	added, err := q.Jobs.AddFlow(t.Context(), q.DB, f)
	if err != nil {
		t.Fatal(err)
	}
	stands := func(state queue_job.FlowState, stuck bool, did ...string) {
		t.Helper()
		q.RunDue()
		info, err := q.Jobs.Flow(t.Context(), q.DB, added.Id)
		if err != nil || info.State != state || info.Stuck != stuck || !slices.Equal(ran, did) {
			t.Fatalf("%v, stuck: %v, %q, %v", info.State, info.Stuck, ran, err)
		}
	}
	stands(queue_job.FlowOpen, true, "pay", "pack", "ship")
	q.Advance(59 * time.Minute)
	stands(queue_job.FlowOpen, true, "pay", "pack", "ship")
	q.Advance(2 * time.Minute)
	stands(queue_job.FlowStopping, false, "pay", "pack", "ship")
	q.Advance(10 * time.Second)
	stands(queue_job.FlowUndoing, true, "pay", "pack", "ship", "undo pack", "undo pay")
	fails["undo pay"] = false
	if n, err := q.Jobs.RetryFlow(t.Context(), q.DB, added.Id); n != 1 || err != nil {
		t.Error(n, err)
	}
	stands(queue_job.FlowUndone, false, "pay", "pack", "ship", "undo pack", "undo pay", "undo pay")
}

// The parts of a flow run in their order, and the next one is there as soon as those before it are done.
func ExampleQueue_RunDue_flow() {
	t, done := newT() // in a test, t is the test's
	defer done()
	q := queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		fmt.Println("ran", job.JobParams)
		return nil
	}})
	f := queue_job.NewFlow("order")
	f.Job("pay", queue_job.AddModelJob{JobType: 1, JobParams: "pay"})
	f.Job("ship", queue_job.AddModelJob{JobType: 1, JobParams: "ship", Delay: 24 * time.Hour}).After("pay")
	added, err := q.Jobs.AddFlow(context.Background(), q.DB, f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	q.RunDue()
	q.Advance(24 * time.Hour)
	q.RunDue()
	info, err := q.Jobs.Flow(context.Background(), q.DB, added.Id)
	if err != nil {
		t.Fatalf("%v", err)
	}
	fmt.Println("the flow is", info.State)
	// Output:
	// ran "pay"
	// ran "ship"
	// the flow is done
}
