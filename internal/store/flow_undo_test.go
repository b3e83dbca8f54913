package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// aGraph is a flow of some jobs, of which each comes after some earlier ones, and of which some have succeeded and can be undone.
func aGraph(r *rand.Rand) []Node {
	jobs := 1 + r.IntN(12)
	nodes := make([]Node, jobs+1)
	nodes[jobs].Kind = NodeEnd
	dense, undone := r.Float64(), r.Float64()
	for i := range jobs {
		n := &nodes[i]
		n.ID, n.Name, n.HasUndo = NodeID(7, i), fmt.Sprint(i), r.Float64() < undone
		if n.State = NodeDone; r.IntN(4) == 0 {
			n.State = NodeGivenUp
		}
		for next := i + 1; next < jobs; next++ {
			switch {
			case r.Float64() > dense:
			case r.IntN(3) == 0:
				n.Enders = append(n.Enders, next)
			default:
				n.Followers = append(n.Followers, next)
			}
		}
		if len(n.Followers) == 0 {
			n.Followers = []int{jobs}
		}
	}
	return nodes
}

// reach is from where, along edges, one comes whither.
func reach(nodes []Node, first uint64) (from [][]bool) {
	from = make([][]bool, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		from[i] = make([]bool, len(nodes))
		for _, number := range slices.Concat(nodes[i].Followers, nodes[i].Enders) {
			next := number - NumberOf(first)
			from[i][next] = true
			for k, reached := range from[next] {
				from[i][k] = from[i][k] || reached
			}
		}
	}
	return from
}

func TestEachJobThatHasSucceededIsUndoneOnceAndBeforeWhatItCameAfter(t *testing.T) {
	passes := 0
	for seed := range uint64(2000) {
		nodes := aGraph(rand.New(rand.NewPCG(seed, 1)))
		undo := UndoNodes(7, nodes)
		place, waits := map[string]int{}, make([]int, len(undo))
		for i := range undo {
			n := &undo[i]
			if n.ID != NodeID(7, len(nodes)+i) {
				t.Fatalf("seed %d: node %d is %d", seed, i, n.ID)
			}
			if n.Kind == NodePass {
				passes++
			}
			if n.Kind == NodeUndo {
				if _, twice := place[n.Name]; twice {
					t.Fatalf("seed %d: %s is undone twice", seed, n.Name)
				}
				place[n.Name] = i
			}
			for _, number := range n.Followers {
				at := number - len(nodes)
				if at <= i {
					t.Fatalf("seed %d: %d stands before what it waits for", seed, at)
				}
				waits[at]++
			}
		}
		for i := range undo {
			if undo[i].Waits != waits[i] {
				t.Fatalf("seed %d: %+v waits for %d", seed, undo[i], waits[i])
			}
		}
		forward := reach(nodes, NodeID(7, 0))
		var back [][]bool
		if len(undo) > 0 {
			back = reach(undo, undo[0].ID)
		}
		for i := range nodes[:len(nodes)-1] {
			at, is := place[nodes[i].Name]
			if want := nodes[i].HasUndo && nodes[i].State == NodeDone; is != want {
				t.Fatalf("seed %d: job %d is undone: %v", seed, i, is)
			}
			if !is {
				continue
			}
			if end := len(undo) - 1; undo[end].Kind != NodeUndoEnd || !back[at][end] {
				t.Fatalf("seed %d: the end does not wait for %d", seed, i)
			}
			for k := range nodes[:len(nodes)-1] {
				if later, alsoUndone := place[nodes[k].Name]; alsoUndone && back[later][at] != forward[i][k] {
					t.Fatalf("seed %d: %d came after %d is %v, and is undone before it is %v", seed, k, i, forward[i][k], back[later][at])
				}
			}
		}
	}
	if passes == 0 {
		t.Error("nothing hands on what it waits for")
	}
}

func TestUndoingALargeFlowHasNoMorePairsThanTheFlow(t *testing.T) {
	const wide = 1000 // 1,000 jobs, one that nothing undoes, 1,000 jobs
	nodes := make([]Node, 2*wide+2)
	for i := range wide {
		nodes[i] = Node{ID: NodeID(7, i), Name: fmt.Sprint(i), State: NodeDone, HasUndo: true, Followers: []int{wide}}
		nodes[wide].Followers = append(nodes[wide].Followers, wide+1+i)
		nodes[wide+1+i] = Node{ID: NodeID(7, wide+1+i), Name: fmt.Sprint(wide + 1 + i), State: NodeDone, HasUndo: true, Followers: []int{2*wide + 1}}
	}
	nodes[wide].Name = "join"
	pairs := 0
	for _, n := range UndoNodes(7, nodes) {
		pairs += len(n.Followers)
	}
	if pairs != 3*wide {
		t.Errorf("%d pairs", pairs)
	}
}
