package bench

import (
	"log/slog"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"posthaste/internal/store/lsm"
)

// TestHistoryDeliversAsItGoes stores a history and looks for what waits then: delivered
// at the end, it would all have happened at one moment.
func TestHistoryDeliversAsItGoes(t *testing.T) {
	h := &history{user: benchingUser, size: 16, until: time.Now(), span: time.Hour, total: 20_000}
	s, err := lsm.Open(t.TempDir(), lsm.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := h.prepare(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := byAll(func(random *mathrand.Rand) error { return h.writeSome(t.Context(), s, random) }); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for {
		n, err := h.deliver(t.Context(), s, mathrand.New(mathrand.NewPCG(1, 1)), h.until)
		if err != nil {
			t.Fatal(err)
		}
		if waiting += n; n == 0 {
			break
		}
	}
	if waiting > h.total/10 {
		t.Errorf("%d of %d messages were left waiting", waiting, h.total)
	}
}
