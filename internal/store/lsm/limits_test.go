package lsm

import (
	"encoding/binary"
	"testing"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// However many messages wait in queues, so many of them at most are looked at to count
// those under a key.
func TestQueuedUnderKeysIsBounded(t *testing.T) {
	const many = 20
	s := openMem(t)
	for n := range many {
		m := &posthaste.Message{User: "ann", URL: "http://a.example/", CreatedAt: noonOfRuns, NotBefore: noonOfRuns}
		m.Queue, m.FlowControl.Key = "q", "k"
		binary.BigEndian.PutUint64(m.ID[8:], uint64(n)+1)
		if _, err := ledger.New(s).Accept(t.Context(), noonOfRuns, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]int{many / 2: many / 2, many: many, 2 * many: many} {
		queued, err := s.queuedUnderKeys(noonOfRuns, "ann", most)
		if err != nil || queued["k"] != want {
			t.Errorf("of %d messages, looking at %d at most, %d are under the key, %v; want %d", many, most, queued["k"], err, want)
		}
	}
}
