package logger

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"testing"

	"github.com/create-info/persistent-queue/internal/attributes"
)

func TestWhatAHandlerOfAJobLogsSaysWhichJobItIsAbout(t *testing.T) {
	ctx := With(QueueLog{}.GetNewContext("shop"), slog.Int("job_id", 7))
	for _, c := range []struct {
		what, want string
		log        func(*slog.Logger)
	}{
		{"with the context", "level=INFO msg=a service=shop job_id=7 k=1\n", func(l *slog.Logger) { l.InfoContext(ctx, "a", "k", 1) }},
		{"without it", "level=INFO msg=a k=1\n", func(l *slog.Logger) { l.Info("a", "k", 1) }},
		{"with attributes", "level=WARN msg=a x=y service=shop job_id=7\n", func(l *slog.Logger) { l.With("x", "y").WarnContext(ctx, "a") }},
		{"in a group", "level=INFO msg=a x=y service=shop job_id=7 g.in=2 g.k=1\n", func(l *slog.Logger) {
			l.With("x", "y").WithGroup("g").With("in", 2).InfoContext(ctx, "a", "k", 1)
		}},
		{"through QueueLog, once", "level=ERROR msg=a service=shop job_id=7\n", func(l *slog.Logger) { QueueLog{Slog: l}.Error(ctx, "a") }},
		{"wrapped twice, once", "level=INFO msg=a service=shop job_id=7\n", func(l *slog.Logger) {
			slog.New(Handler(l.Handler())).InfoContext(ctx, "a")
		}},
		{"below the level", "", func(l *slog.Logger) { l.Log(ctx, slog.LevelDebug-1, "a") }},
	} {
		var text bytes.Buffer
		c.log(slog.New(Handler(linesOf(&text).Handler())))
		if text.String() != c.want {
			t.Errorf("%s: got %q, want %q", c.what, &text, c.want)
		}
	}
}

func TestLoggersOfOneParentDoNotWriteIntoEachOther(t *testing.T) {
	var text bytes.Buffer
	parent := slog.New(Handler(linesOf(&text).Handler())).WithGroup("g").With("a", 1).With("b", 2)
	one, two := parent.With("c", 3), parent.With("c", 4)
	ctx := With(context.Background(), slog.Int("job_id", 7))
	one.InfoContext(ctx, "x")
	two.InfoContext(ctx, "x")
	if want := "level=INFO msg=x job_id=7 g.a=1 g.b=2 g.c=3\nlevel=INFO msg=x job_id=7 g.a=1 g.b=2 g.c=4\n"; text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
}

func TestARecordThatIsNotWrittenCostsNothing(t *testing.T) {
	about := &counted{}
	ctx := attributes.Later(context.Background(), about)
	log := slog.New(Handler(slog.NewTextHandler(&bytes.Buffer{}, nil)))
	if n := testing.AllocsPerRun(100, func() { log.DebugContext(ctx, "a") }); n != 0 || about.made != 0 {
		t.Errorf("%v allocations, and the attributes were made %d times", n, about.made)
	}
}

func TestTheLinesOfARunAreKeptOnceAndWithoutWhatTheJobSays(t *testing.T) {
	for _, c := range []struct {
		what, want string
		log        func(ctx context.Context, l *slog.Logger)
	}{
		{"with the context", "level=INFO msg=a k=1\n", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "a", "k", 1) }},
		{"without it", "", func(ctx context.Context, l *slog.Logger) { l.Info("a", "k", 1) }},
		{"in a group", "level=INFO msg=a x=y g.in=2 g.k=1\n", func(ctx context.Context, l *slog.Logger) {
			l.With("x", "y").WithGroup("g").With("in", 2).InfoContext(ctx, "a", "k", 1)
		}},
		{"wrapped twice", "level=WARN msg=a\n", func(ctx context.Context, l *slog.Logger) { slog.New(Handler(l.Handler())).WarnContext(ctx, "a") }},
		{"by a Logger", "", func(ctx context.Context, l *slog.Logger) { QueueLog{Slog: l}.Error(ctx, "a") }},
		{"below the level", "", func(ctx context.Context, l *slog.Logger) { l.DebugContext(ctx, "a") }},
		{"in two lines", `level=INFO msg="a\nb"` + "\n", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "a\nb") }},
	} {
		var text bytes.Buffer
		var lines attributes.Lines
		ctx := attributes.WithLines(With(context.Background(), slog.Int("job_id", 7)), &lines)
		c.log(ctx, slog.New(Handler(slog.NewTextHandler(&text, nil))))
		kept := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(lines.End(), "")
		if kept != c.want {
			t.Errorf("%s: kept %q, want %q", c.what, kept, c.want)
		}
	}
}
