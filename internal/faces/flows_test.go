package faces

import (
	"fmt"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestAJobToComeWaitsForThoseThatHaveNotSucceededOrNotEnded(t *testing.T) {
	f := &queue_job.FlowInfo{Jobs: []queue_job.FlowJobInfo{
		{Name: "done", JobId: 1, Status: queue_job.JobStatusSuccess, Followers: []string{"next", "tidy"}, AfterEnd: []string{"tidy"}},
		{Name: "failed", JobId: 2, Status: queue_job.JobStatusFailed, Followers: []string{"next", "tidy"}, AfterEnd: []string{"tidy"}},
		{Name: "runs", JobId: 3, InFlight: true, Followers: []string{"next", "tidy", "there"}, AfterEnd: []string{"tidy", "there"}},
		{Name: "there", JobId: 4}, // somebody has retried what it came after
		{Name: "next", Waits: 2, Followers: []string{"last"}},
		{Name: "tidy", Waits: 1},
		{Name: "last", Waits: 1},
	}}
	if waits := WaitsFor(f); fmt.Sprint(waits) != "map[last:[next] next:[failed runs] tidy:[runs]]" {
		t.Error(waits)
	}
	f.Jobs[1].ToCount = true
	if waits := WaitsFor(f); fmt.Sprint(waits["tidy"]) != "[failed runs]" {
		t.Error(waits)
	}
}

func TestFlowsAreChosenByWords(t *testing.T) {
	var f queue_job.FlowFilter
	if err := ChooseFlows(&f, "open", "done"); err != nil || fmt.Sprint(f.States) != "[open done]" || f.Stuck {
		t.Errorf("%+v, %v", f, err)
	}
	for text, says := range map[string]string{"late": "there are stuck, open, done", "stuck,done": "leave the other states out"} {
		if err := ChooseFlows(&queue_job.FlowFilter{}, strings.Split(text, ",")...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, word := range FlowWords() {
		if err := ChooseFlows(&queue_job.FlowFilter{}, word); err != nil {
			t.Error(err)
		}
	}
}
