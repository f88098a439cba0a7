package lsm_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// A rate is reset, and before that is durable the key is paused, or an attempt under it is
// counted, or both. The reset is not undone, neither now nor by what is read at the next start.
func TestAResetOfARateIsNotUndone(t *testing.T) {
	for name, test := range map[string]struct {
		pauses, claims bool
		want           int // attempts in the window
	}{
		"by a pause":    {true, false, 0},
		"by an attempt": {false, true, 1},
		"by both":       {true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const key = "k"
				var held chan struct{}
				fs := heldSyncs(&held)
				s := open(t, fs)
				var all []*posthaste.Message
				for _, url := range []string{"http://a.example/", "http://b.example/", "http://c.example/", "http://d.example/"} {
					m := message(t, url, noon)
					m.FlowControl = posthaste.FlowControl{Key: key, FlowLimit: posthaste.FlowLimit{Rate: 10, Period: 24 * time.Hour}}
					all = append(all, m)
				}
				accept := func(messages ...*posthaste.Message) {
					if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: messages}}); err != nil {
						t.Fatal(err)
					}
				}
				accept(all[:3]...)
				if claims, _, err := s.Claim(t.Context(), noon, 100); err != nil || len(claims) != 3 {
					t.Fatalf("Claim: %d claims, %v", len(claims), err)
				}
				accept(all[3])
				synctest.Wait()

				hold := make(chan struct{})
				held = hold
				release := sync.OnceFunc(func() { held = nil; close(hold) })
				defer release()
				var changing sync.WaitGroup
				change := func(change func(*posthaste.FlowKey)) {
					changing.Go(func() {
						err := s.UpdateFlowKey(t.Context(), noon, "ann", key, func(k *posthaste.FlowKey) error {
							change(k)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				change(func(k *posthaste.FlowKey) { k.ResetRate(noon.Add(time.Minute)) })
				if test.claims {
					if claims, _, err := s.Claim(t.Context(), noon.Add(time.Minute), 100); err != nil || len(claims) != 1 {
						t.Errorf("Claim: %d claims, %v", len(claims), err)
					}
				}
				if test.pauses {
					change(func(k *posthaste.FlowKey) { k.Paused = true })
				}
				release()
				changing.Wait()
				wantWindow := func(when string, s store.Store) {
					t.Helper()
					status, err := s.FlowKey(t.Context(), noon.Add(time.Minute), "ann", key)
					if err != nil || status.WindowCount != test.want || status.Paused != test.pauses {
						t.Errorf("%s there are %d attempts in the window, paused: %t, %v; want %d and %t",
							when, status.WindowCount, status.Paused, err, test.want, test.pauses)
					}
				}
				wantWindow("now", ledger.New(s))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				wantWindow("after the next start", ledger.New(open(t, fs)))
			})
		})
	}
}
