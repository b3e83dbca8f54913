package faults

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// pulse commits again and again on each node, into a row of a table that the library does not know. It tells how long the
// cluster by itself keeps who writes waiting, which differs from fault to fault and with what else the machine does.
type pulse struct {
	cancel  context.CancelFunc
	stopped sync.WaitGroup

	mu    sync.Mutex
	nodes []beats
}

// beats are what a node committed.
type beats struct {
	last    time.Time
	longest time.Duration // between two of them
}

const (
	pulsePace = 50 * time.Millisecond

	// clusterPauses is how long a cluster may commit nothing after it lost a node. Galera's nodes suspect it for five seconds
	// (evs.suspect_timeout), and agree then on who is left: once that took, it seems, ten in all. A replication group
	// suspects a member for five, gives it five more (group_replication_member_expel_timeout), and looks every fifteen.
	clusterPauses = 30 * time.Second
)

// startPulse is for a cluster that is whole.
func (c *cluster) startPulse(x *trial) *pulse {
	x.Helper()
	x.execute("CREATE TABLE pulse (node int PRIMARY KEY, beats int NOT NULL)")
	ctx, cancel := context.WithCancel(x.Context())
	p := &pulse{cancel: cancel, nodes: make([]beats, len(c.nodes))}
	x.Cleanup(p.stop)
	began := time.Now()
	for node, dsn := range c.ways() {
		db := dbtest.Open(x.T, "mysql", dsn)
		p.nodes[node].last = began
		p.stopped.Go(func() {
			every(ctx, pulsePace, func() {
				if _, err := db.ExecContext(ctx, "INSERT INTO pulse (node, beats) VALUES (?, 1) ON DUPLICATE KEY UPDATE beats = beats + 1", node); err == nil {
					p.beat(node)
				}
			})
		})
	}
	return p
}

func (p *pulse) stop() {
	p.cancel()
	p.stopped.Wait()
}

func (p *pulse) beat(node int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, now := &p.nodes[node], time.Now()
	b.longest, b.last = max(b.longest, now.Sub(b.last)), now
}

// longestPause is the longest time until now in which one of the nodes committed nothing, those apart that a test had down.
func (p *pulse) longestPause(down ...int) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, b := range p.nodes {
		if !slices.Contains(down, node) {
			longest = max(longest, b.longest, time.Since(b.last))
		}
	}
	return longest
}

// afresh forgets what was until now.
func (p *pulse) afresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.nodes {
		p.nodes[node] = beats{last: time.Now()}
	}
}

// goesOn reports whether all nodes but one commit again, after a pause.
func (p *pulse) goesOn(down int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, b := range p.nodes {
		if node != down && (b.longest < time.Second || time.Since(b.last) > 10*pulsePace) {
			return false
		}
	}
	return true
}
