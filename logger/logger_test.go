package logger

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/create-info/persistent-queue/internal/attributes"
)

// linesOf returns a slog.Logger that writes everything but the time.
func linesOf(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func TestQueueLogWritesTheAttributesOfTheContext(t *testing.T) {
	var text bytes.Buffer
	q := QueueLog{Slog: linesOf(&text)}
	ctx := With(q.GetNewContext("shop"), slog.Int("job_id", 7))
	q.Debug(ctx, "one")
	q.Info(ctx, "two")
	q.Warn(ctx, "three")
	q.Error(context.Background(), "four")
	const want = `level=DEBUG msg=one service=shop job_id=7
level=INFO msg=two service=shop job_id=7
level=WARN msg=three service=shop job_id=7
level=ERROR msg=four
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
}

func TestTheZeroValueWritesToTheDefaultLoggerOfTheMoment(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var text bytes.Buffer
	var q QueueLog
	slog.SetDefault(linesOf(&text))
	q.Info(context.Background(), "hello")
	if text.String() != "level=INFO msg=hello\n" {
		t.Errorf("%q", text.String())
	}
}

func TestContextsOfOneParentDoNotWriteIntoEachOther(t *testing.T) {
	parent := context.Background()
	for _, name := range []string{"a", "b", "c"} { // appending one at a time leaves room in the slice
		parent = With(parent, slog.String(name, name))
	}
	one := With(parent, slog.Int("job", 1))
	two := With(parent, slog.Int("job", 2))
	if a, b := Attrs(one)[3], Attrs(two)[3]; a.Value.Int64() != 1 || b.Value.Int64() != 2 {
		t.Errorf("%v and %v", a, b)
	}
	if n := len(Attrs(parent)); n != 3 {
		t.Errorf("the parent has %d attributes", n)
	}
}

func TestAContextWithoutAttributesHasNone(t *testing.T) {
	if attrs := Attrs(context.Background()); len(attrs) != 0 {
		t.Error(attrs)
	}
}

// counted counts how many times it is asked what it is.
type counted struct{ made int }

func (c *counted) LogValue() slog.Value {
	c.made++
	return slog.GroupValue(slog.Int("job_id", 7))
}

func TestAttributesForLaterAreMadeWhenSomebodyReadsThem(t *testing.T) {
	about := &counted{}
	ctx := With(context.Background(), slog.String("service", "shop"))
	ctx = attributes.Later(ctx, about)
	type other struct{}
	if ctx = context.WithValue(ctx, other{}, 1); ctx.Value(other{}) != 1 || about.made > 0 {
		t.Fatal("made, and nobody has read them")
	}
	var text bytes.Buffer
	QueueLog{Slog: linesOf(&text)}.Info(With(ctx, slog.Bool("last", true)), "one")
	if want := "level=INFO msg=one service=shop job_id=7 last=true\n"; text.String() != want || about.made != 1 {
		t.Errorf("made %d times; got %q, want %q", about.made, &text, want)
	}
}
