package simulator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/logger"
)

// trace is everything that happened in a world, in order. If two runs of one seed differ, something other than the seed
// had an influence.
type trace struct {
	began  time.Time
	events []event
	moment time.Duration
	sum    uint64 // of all moments before
	now    uint64 // of this moment; the order within a moment does not count, because these goroutines know nothing of each other
}

type event struct {
	at   time.Duration
	who  int // the instance's number; 0: none
	what string
	about
	late bool
}

func (t *trace) add(e event) {
	e.at = time.Since(t.began)
	if e.at != t.moment {
		t.sum, t.now, t.moment = t.total(), 0, e.at
	}
	sum := uint64(1)
	for _, n := range []uint64{uint64(e.at), uint64(e.who), hash(e.what), uint64(e.term), hash(e.note)} {
		sum = mix(sum, n)
	}
	for _, id := range e.ids {
		sum = mix(sum, id)
	}
	if e.what != says { // whether a loop logs depends on which goroutine first hears that a lease is over
		t.now += sum
	}
	if e.what != string(tailJobs) {
		t.events = append(t.events, e)
	}
}

func (t *trace) total() uint64 { return mix(t.sum, t.now) }

func mix(sum, n uint64) uint64 { return (sum ^ n) * 0x100000001b3 }

// hash is FNV-1a.
func hash(text string) uint64 {
	sum := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		sum = mix(sum, uint64(text[i]))
	}
	return sum
}

func (t *trace) statement(i *instance, v verb, about about, late bool) {
	t.add(event{who: i.number, what: string(v), about: about, late: late})
}

// before shows the events up to the n-th, at most some.
func (t *trace) before(n, some int) string {
	var b strings.Builder
	for _, e := range t.events[max(0, n-some):n] {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (e event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12.6f", e.at.Seconds())
	if e.who > 0 {
		fmt.Fprintf(&b, "  instance %d", e.who)
	} else {
		fmt.Fprintf(&b, "  %-10s", "")
	}
	fmt.Fprintf(&b, "  %s", e.what)
	if len(e.ids) > 0 {
		fmt.Fprintf(&b, " %d", e.ids)
	}
	if e.term != 0 {
		fmt.Fprintf(&b, " term %d", e.term)
	}
	if e.note != "" {
		fmt.Fprintf(&b, " %s", e.note)
	}
	if e.late {
		b.WriteString(" (its sender had given up)")
	}
	return b.String()
}

func joined(names []string) string { return strings.Join(names, " ") }

func statusName(status int32) string {
	names := []string{"init", "success", "failed", "continue", "retry", "cancelled"}
	if status < 0 || int(status) >= len(names) {
		return fmt.Sprint(status)
	}
	return names[status]
}

const says = "logs:"

// journal writes the log of one instance into the trace.
type journal struct{ *instance }

func (j journal) GetNewContext(string) context.Context { return context.Background() }

func (j journal) Info(ctx context.Context, msg string)  { j.write(ctx, msg) }
func (j journal) Warn(ctx context.Context, msg string)  { j.write(ctx, msg) }
func (j journal) Error(ctx context.Context, msg string) { j.write(ctx, msg) }
func (j journal) Debug(ctx context.Context, msg string) { j.write(ctx, msg) }

func (j journal) write(ctx context.Context, msg string) {
	if j.link.dead() {
		return
	}
	w := j.world
	line, _, _ := strings.Cut(msg, "\n") // a stack has addresses in it
	for _, attr := range logger.Attrs(ctx) {
		line += " " + attr.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.add(event{who: j.number, what: says, about: about{note: line}})
}
