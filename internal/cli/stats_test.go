package cli

import (
	"math"
	"testing"
)

func TestRoughly(t *testing.T) {
	for bytes, want := range map[int64]string{
		0:                   "0B",
		1023:                "1023B",
		1024:                "1.0KiB",
		1536:                "1.5KiB",
		1<<20 - 1:           "1.0MiB",
		1<<20 - 1<<10:       "1023.0KiB",
		1 << 20:             "1.0MiB",
		5_000_000_000:       "4.7GiB",
		math.MaxInt64:       "8.0EiB",
		1<<40 + 1<<39 + 1e6: "1.5TiB",
	} {
		if got := roughly(bytes); got != want {
			t.Errorf("roughly(%d) = %s, want %s", bytes, got, want)
		}
	}
}
