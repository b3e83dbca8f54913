// Package attributes keeps slog attributes in a context. Users do that by package logger.
package attributes

import (
	"context"
	"log/slog"
	"slices"
)

// Key is the key under which a context has its attributes, as a []slog.Attr.
type Key struct{}

// Of returns the attributes of the context, the oldest first.
func Of(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(Key{}).([]slog.Attr)
	return attrs
}

// With returns a context with the attributes of ctx and these.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	return context.WithValue(ctx, Key{}, append(slices.Clip(Of(ctx)), attrs...))
}

// Later is [With] for a context whose attributes are mostly not read: only when they are read, and each time, it takes
// them from the group that about returns.
func Later(ctx context.Context, about slog.LogValuer) context.Context {
	return &laterContext{ctx, about}
}

type laterContext struct {
	context.Context
	about slog.LogValuer
}

func (c *laterContext) Value(key any) any {
	if key == (Key{}) {
		return append(slices.Clip(Of(c.Context)), c.about.LogValue().Group()...)
	}
	return c.Context.Value(key)
}
