package lsm_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// The estimate of sizes is near what was written once that is in its place, tells days,
// kinds and users apart, and leaves out at once what was dropped.
func TestUsageBytes(t *testing.T) {
	const each, size = 40, 16 << 10
	s := open(t, vfs.NewMem())
	random := rand.NewChaCha8([32]byte{})
	fill := func(now time.Time, user string) {
		for range each {
			now = now.Add(time.Millisecond) // which makes another id
			m := message(t, "http://a.example/x", now)
			m.User, m.Body = user, make([]byte, size)
			_, _ = random.Read(m.Body) // never fails, by its contract
			if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				t.Fatal(err)
			}
			claims, _, err := s.Claim(t.Context(), now, 1)
			if err != nil || len(claims) != 1 {
				t.Fatalf("Claim = %v, %v, want one", claims, err)
			}
			if _, err := ledger.New(s).Settle(t.Context(), now, store.Failed(claims[0], posthaste.Outcome{})); err != nil {
				t.Fatal(err)
			}
		}
	}
	tomorrow := noon.Add(24 * time.Hour)
	fill(noon, "ann")
	fill(tomorrow, "ann")
	fill(tomorrow, "bob")
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, bodies int64) {
		t.Helper()
		if low, high := bodies*each*size, (bodies*each*size)*13/10; got < low || got > high {
			t.Errorf("%s: %d bytes, want %d to %d", what, got, low, high)
		}
	}
	u := usage(t, s)
	near("the log", u.Log.Bytes, 2)
	near("its first day", u.Days[0].Bytes, 1)
	near("its second day", u.Days[1].Bytes, 1)
	near("dead letters", u.DeadLetters.Bytes, 2)
	near("all of a user", u.Bytes(), 4)
	total, err := s.Usage(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	near("all of both users", total.Bytes(), 6)

	if _, err := s.Trim(t.Context(), "ann", store.Horizon{Log: tomorrow}); err != nil {
		t.Fatal(err)
	}
	near("the log without a day", usage(t, s).Log.Bytes, 1)
}

// What was dropped between messages that are alive has left the disk, and its estimate,
// long before the next turn of retention: it would remove another day for it.
func TestUsageForgetsWhatWasDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const many, size = 600, 16 << 10
	synctest.Test(t, func(t *testing.T) {
		s, err := openRuled("data", lsm.Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.NewChaCha8([32]byte{})
		for n := range many {
			now := noon.Add(time.Duration(n) * time.Millisecond)
			m := message(t, "http://a.example/x", now)
			m.User, m.Body = "ann", make([]byte, size)
			_, _ = random.Read(m.Body) // never fails, by its contract
			alive := n == 0 || n == many-1
			if alive {
				m.NotBefore = now.Add(90 * 24 * time.Hour)
			}
			if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				t.Fatal(err)
			}
			if alive {
				continue
			}
			claims, _, err := s.Claim(t.Context(), now, 1)
			if err != nil || len(claims) != 1 {
				t.Fatalf("Claim = %v, %v, want one", claims, err)
			}
			if _, err := ledger.New(s).Settle(t.Context(), now, store.Delivered(claims[0])); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := usage(t, s).Log.Bytes
		if _, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon.Add(24 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if after := usage(t, s).Log.Bytes; after > before*3/4 {
			t.Errorf("a minute after the day was dropped it takes %d of %d bytes", after, before)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func usage(t *testing.T, s *ruled) store.Usage {
	t.Helper()
	u, err := s.Usage(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	return u
}
