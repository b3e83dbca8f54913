package console

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

// Whatever a flow looks like, its boxes lie in the picture and beside each other, and each line leads to the right.
func TestThePictureOfAFlowHasEachJobOnceAndLeadsToTheRight(t *testing.T) {
	drawn := 0
	for seed := range 2000 {
		chance := rand.New(rand.NewPCG(uint64(seed), 1))
		f := &queue_job.FlowInfo{}
		n := 1 + chance.IntN(30)
		lines := 0
		for i := range n {
			j := queue_job.FlowJobInfo{Name: fmt.Sprint(strings.Repeat("名n", chance.IntN(20)), i), JobId: uint64(i), Waits: 1}
			f.Jobs = append(f.Jobs, j)
		}
		for i := range f.Jobs {
			j := &f.Jobs[i]
			for k := i + 1; k < n && len(j.Followers) < 3; k += 1 + chance.IntN(6) {
				j.Followers = append(j.Followers, f.Jobs[k].Name)
				lines++
			}
			j.AfterEnd = j.Followers[len(j.Followers)-chance.IntN(len(j.Followers)+1):]
		}
		g := graphOf(f)
		if g == nil {
			continue
		}
		drawn++
		if len(g.Jobs) != n || len(g.Lines) != lines {
			t.Fatalf("seed %d: %d boxes of %d jobs, and %d lines of %d", seed, len(g.Jobs), n, len(g.Lines), lines)
		}
		for i, a := range g.Jobs {
			if a.X < 0 || a.Y < 0 || a.X+a.W > g.Width || a.Y+a.H > g.Height {
				t.Fatalf("seed %d: %+v lies outside of %d × %d", seed, a, g.Width, g.Height)
			}
			for _, b := range g.Jobs[:i] {
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Fatalf("seed %d: %+v lies on %+v", seed, a, b)
				}
			}
			if room := (a.W - boxPadding) / letterWidth; lettersOf(a.Name) > room+1 || a.Whole != "" && !strings.HasPrefix(a.Whole, strings.TrimSuffix(a.Name, "…")) {
				t.Fatalf("seed %d: %q has no room in %d", seed, a.Name, a.W)
			}
		}
		for _, l := range g.Lines {
			var fromX, fromY int
			if _, err := fmt.Sscanf(l.Path, "M%d %dC", &fromX, &fromY); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, l.Path, err)
			}
			var a, b, toX, toY, c, d int
			if _, err := fmt.Sscanf(l.Path[strings.LastIndex(l.Path, "M"):], "M%d %dL%d %dL%d %d", &a, &b, &toX, &toY, &c, &d); err != nil || toX <= fromX {
				t.Fatalf("seed %d: %s leads from %d to %d (%v)", seed, l.Path, fromX, toX, err)
			}
		}
	}
	if drawn < 500 {
		t.Errorf("%d flows were drawn: that proves little", drawn)
	}
}

func TestAFlowThatNobodyCouldReadIsNotDrawn(t *testing.T) {
	wide := &queue_job.FlowInfo{Jobs: make([]queue_job.FlowJobInfo, 40)}
	for i := range wide.Jobs {
		wide.Jobs[i].Name = fmt.Sprint(i)
	}
	long := &queue_job.FlowInfo{Jobs: make([]queue_job.FlowJobInfo, 30)}
	for i := range long.Jobs {
		if long.Jobs[i].Name = fmt.Sprint(i); i < 29 {
			long.Jobs[i].Followers = []string{fmt.Sprint(i + 1)}
		}
	}
	for what, f := range map[string]*queue_job.FlowInfo{"wide": wide, "long": long, "one job": {Jobs: make([]queue_job.FlowJobInfo, 1)}, "many": {Jobs: make([]queue_job.FlowJobInfo, 61)}} {
		if graphOf(f) != nil {
			t.Error(what)
		}
	}
}
