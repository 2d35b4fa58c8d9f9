package agentd

import (
	"maps"
	"testing"
)

func TestLabelsWithoutValuesAreLeftOut(t *testing.T) {
	for _, tt := range []struct{ labels, want map[string]string }{
		{nil, nil},
		{map[string]string{"zone": "", "region": ""}, nil},
		{map[string]string{"zone": "a", "region": ""}, map[string]string{"zone": "a"}},
	} {
		given := maps.Clone(tt.labels)
		if got := withValues(tt.labels); !maps.Equal(got, tt.want) || !maps.Equal(tt.labels, given) {
			t.Errorf("%v of %v, want %v of %v", got, tt.labels, tt.want, given)
		}
	}
}
