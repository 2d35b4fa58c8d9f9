package bearer_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestTheTokenArrives(t *testing.T) {
	tokens, calls := []string{"first", "second"}, 0
	c := bearer.Credentials(func() (string, error) {
		calls++
		return tokens[calls-1], nil
	}, false)
	if !c.RequireTransportSecurity() || bearer.Credentials(nil, true).RequireTransportSecurity() {
		t.Error("a token goes over plain text only where that is said")
	}
	for _, want := range tokens {
		md, err := c.GetRequestMetadata(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := bearer.FromContext(metadata.NewIncomingContext(t.Context(), metadata.New(md)))
		if got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	gone := errors.New("the file is gone")
	if _, err := bearer.Credentials(func() (string, error) { return "", gone }, false).GetRequestMetadata(t.Context()); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestFromContext(t *testing.T) {
	if got, err := bearer.FromContext(t.Context()); got != "" || err != nil {
		t.Errorf("no metadata: %q, %v", got, err)
	}
	for _, tt := range []struct {
		values []string
		want   string // "" for an error
	}{
		{[]string{"Bearer a"}, "a"},
		{[]string{"bEARER  a "}, "a"},
		{[]string{"Bearer a b"}, "a b"},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer "}, ""},
		{[]string{"a"}, ""},
		{[]string{"Basic a"}, ""},
		{[]string{""}, ""},
		{[]string{"Bearer a", "Bearer a"}, ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"authorization": tt.values})
		got, err := bearer.FromContext(ctx)
		if got != tt.want || (script.KindOf(err) == script.Invalid) != (tt.want == "") {
			t.Errorf("%q: %q, %v, want %q", tt.values, got, err, tt.want)
		}
	}
}
