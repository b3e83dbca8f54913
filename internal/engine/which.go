package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/attributes"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// which says which tables something is about, if the engine works on several sets of them: in several databases, or with several prefixes.
type which struct {
	tables  string       // the prefix; "#2" and so on behind it for another database with the same one
	several *atomic.Bool // whether the engine has several sets; nil: it has one
}

// known reports whether it has to be said.
func (w which) known() bool { return w.several != nil && w.several.Load() }

// about has the log say which tables a context is about, as soon as there are several sets.
func (w which) about(ctx context.Context) context.Context { return attributes.Later(ctx, w) }

// LogValue is nothing as long as there is one set.
func (w which) LogValue() slog.Value {
	if !w.known() {
		return slog.GroupValue()
	}
	return slog.GroupValue(slog.String("tables", w.tables))
}

// tablesAmong is what tables with a prefix are called beside others.
func tablesAmong(others []string, prefix string) string {
	name := prefix
	for n := 2; slices.Contains(others, name); n++ {
		name = fmt.Sprintf("%s#%d", prefix, n)
	}
	return name
}

// leaseCounts counts, by job type, how many leases this process has taken and no longer has, since it started.
type leaseCounts struct {
	mu     sync.Mutex
	counts map[int32]takenAndEnded
}

type takenAndEnded struct{ taken, ended uint64 }

func (c *leaseCounts) note(jobType int32, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[int32]takenAndEnded{}
	}
	n := c.counts[jobType]
	if held {
		n.taken++
	} else {
		n.ended++
	}
	c.counts[jobType] = n
}

func (c *leaseCounts) of(jobType int32) takenAndEnded {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[jobType]
}

// aboutType has the log say which type a context is about.
func (p *process) aboutType(cfg *queue_job.Config, more ...slog.Attr) context.Context {
	return p.which.about(logger.With(p.log.GetNewContext(cfg.ServiceName), append([]slog.Attr{slog.Int("job_type", int(cfg.JobType))}, more...)...))
}
