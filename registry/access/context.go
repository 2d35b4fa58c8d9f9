package access

import "context"

type contextKey struct{}

// NewContext returns a context that carries who asks.
func NewContext(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// FromContext returns who asks: the zero Identity, which may nothing, where ctx
// carries none.
func FromContext(ctx context.Context) Identity {
	who, _ := ctx.Value(contextKey{}).(Identity)
	return who
}
