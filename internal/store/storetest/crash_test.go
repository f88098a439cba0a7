package storetest

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// unreliable is a model whose stores are tampered with. crashes counts those so
// far.
type unreliable struct {
	model   *model.Model
	crashes int
	forgets bool // a crash takes no lease away
	tamper  func(s store.Store, crashes int) store.Store
}

func (u *unreliable) Open() (store.Store, error) { return u.tamper(u.model, u.crashes), nil }

func (u *unreliable) Crash(int64) {
	u.crashes++
	if !u.forgets {
		u.model = u.model.Crash()
	}
}

// lossy is a store that loses every fifth of what a method is to do.
func lossy(method string) func(store.Store, int) store.Store {
	var calls atomic.Int64
	loses := func(called string) bool { return called == method && calls.Add(1)%5 == 0 }
	return func(s store.Store, _ int) store.Store {
		return tampered{
			Store: s, loses: loses,
			claim: func(now *time.Time, _ *int) {
				if loses("time of Claim") {
					*now = now.Add(time.Hour)
				}
			},
			claimed: func(_ time.Time, _ int, claims []store.Claim, _ *time.Time) []store.Claim {
				if len(claims) > 0 && loses("claims") {
					return claims[1:]
				}
				return claims
			},
			settlement: func(s *store.Settlement) {
				if s.Callbacks != nil && loses("callbacks") {
					s.Callbacks = nil
				}
				if s.UpdateRun != nil && loses("conclusions") {
					s.UpdateRun = nil
				}
			},
			letters: func(letters []*posthaste.DeadLetter) []*posthaste.DeadLetter {
				if len(letters) > 0 && loses("DeadLetters") {
					return letters[1:]
				}
				return letters
			},
			tx: func(tx store.RunTx) store.RunTx { return forgetful{tx, loses} },
		}
	}
}

// withoutSeen hides from the log what was read before a crash: its ACTIVE events.
func withoutSeen(s store.Store, crashes int) store.Store {
	if crashes == 0 {
		return s
	}
	return tampered{Store: s, page: onPages(func(entries []store.Entry) []store.Entry {
		return slices.DeleteFunc(entries, func(e store.Entry) bool { return e.State == posthaste.StateActive })
	})}
}

func TestCrashTestFindsDefects(t *testing.T) {
	for _, test := range []struct {
		name    string
		tamper  func(store.Store, int) store.Store
		forgets bool
	}{
		{name: "none", tamper: func(s store.Store, _ int) store.Store { return s }},
		{name: "acceptances are lost", tamper: lossy("Accept")},
		{name: "acceptances are halved", tamper: lossy("half of Accept")},
		{name: "settlements are lost", tamper: lossy("Settle")},
		{name: "callbacks are lost", tamper: lossy("callbacks")},
		{name: "cancellations are miscounted", tamper: lossy("count of Cancel")},
		{name: "messages are handed out early", tamper: lossy("time of Claim")},
		{name: "claims are lost", tamper: lossy("claims")},
		{name: "secrets are lost", tamper: lossy("Secret")},
		{name: "dead letters are lost", tamper: lossy("DeadLetters")},
		{name: "events that were read are lost", tamper: withoutSeen},
		{name: "transactions are lost", tamper: lossy("Transact")},
		{name: "conclusions are lost", tamper: lossy("conclusions")},
		{name: "runs are not saved", tamper: lossy("Save")},
		{name: "waits do not begin", tamper: lossy("Wait")},
		{name: "waits do not end", tamper: lossy("EndWait")},
		{name: "events are not kept", tamper: lossy("BufferEvent")},
		{name: "events are not forgotten", tamper: lossy("DropEvents")},
		{name: "runs do not enter the DLQ", tamper: lossy("AddToDLQ")},
		{name: "runs do not leave the DLQ", tamper: lossy("RemoveFromDLQ")},
		{name: "deliveries are not cancelled", tamper: lossy("CancelDeliveries")},
		{
			name:    "leases survive",
			tamper:  func(s store.Store, _ int) store.Store { return s },
			forgets: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found := false
			for seed := uint64(1); seed <= 10 && !found; seed++ {
				found = failed(t, func(t testing.TB) {
					crashTest(t, seed, &unreliable{model: model.New(), tamper: test.tamper, forgets: test.forgets})
				})
			}
			if defect := test.name != "none"; found != defect {
				t.Errorf("found: %t, want %t", found, defect)
			}
		})
	}
}

func TestModelCrashes(t *testing.T) {
	RunCrash(t, 10, func(*testing.T) Crashable {
		return &unreliable{model: model.New(), tamper: func(s store.Store, _ int) store.Store { return s }}
	})
}

func TestSeeds(t *testing.T) {
	for _, test := range []struct {
		name, seeds, seed string
		first             int64
		n                 int
	}{
		{"by default", "", "", 1, 10},
		{"more", "30", "", 1, 30},
		{"one alone", "30", "17", 17, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(seedsVariable, test.seeds)
			t.Setenv(seedVariable, test.seed)
			if got := seeds(t, 10); len(got) != test.n || got[0] != test.first {
				t.Errorf("seeds = %v, want %d from %d on", got, test.n, test.first)
			}
		})
	}
}
