package filesink_test

import "testing"

// TestADeviceThatIsFull: an error, and no more.
func TestADeviceThatIsFull(t *testing.T) {
	sink := must(t, "file:/dev/full")
	for range 2 {
		if err := sink.Write(t.Context(), [][]byte{[]byte("{}")}); err == nil {
			t.Error("a full device takes a record")
		}
	}
}
