package storetest_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func accept(t *testing.T, s store.Store) error {
	t.Helper()
	m := &posthaste.Message{
		ID: posthaste.MessageID{1}, User: "ann", URL: "http://a.example/", CreatedAt: noon, NotBefore: noon,
	}
	_, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}})
	return err
}

func TestFaulty(t *testing.T) {
	for _, test := range []struct {
		name    string
		plan    storetest.Plan
		fails   bool
		changes bool
	}{
		{"no fault", storetest.Once("Accept", 2, storetest.Before), false, true},
		{"another method", storetest.Once("Settle", 1, storetest.Before), false, true},
		{"before", storetest.Once("Accept", 1, storetest.Before), true, false},
		{"after", storetest.Once("Accept", 1, storetest.After), true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := model.New()
			err := accept(t, storetest.Faulty(s, test.plan))
			if errors.Is(err, storetest.ErrInjected) != test.fails {
				t.Errorf("Accept = %v, injected: %t", err, test.fails)
			}
			_, err = s.Message(t.Context(), "ann", posthaste.MessageID{1})
			if (err == nil) != test.changes {
				t.Errorf("Message afterwards = %v, accepted: %t", err, test.changes)
			}
		})
	}
}

func TestFaultyFailsTheCallOfThatNumber(t *testing.T) {
	s := storetest.Faulty(model.New(), storetest.Once("Ping", 3, storetest.Before))
	for n := 1; n <= 4; n++ {
		if err := s.Ping(t.Context()); (err != nil) != (n == 3) {
			t.Errorf("Ping %d = %v", n, err)
		}
	}
}

// A claim whose answer is lost must not be lost with it.
func TestFaultyClaimIsReleased(t *testing.T) {
	s := storetest.Faulty(model.New(), storetest.Once("Claim", 1, storetest.After))
	if err := accept(t, s); err != nil {
		t.Fatal(err)
	}
	claims, _, err := s.Claim(t.Context(), noon, 1)
	if !errors.Is(err, storetest.ErrInjected) || len(claims) > 0 {
		t.Errorf("Claim = %v, %v, want ErrInjected alone", claims, err)
	}
	if claims, _, err = s.Claim(t.Context(), noon, 1); err != nil || len(claims) != 1 {
		t.Errorf("Claim afterwards = %v, %v, want the message again", claims, err)
	}
}

// Without faults the wrapper is the store, and each method is asked about under
// its own name.
func TestFaultyWithoutFaults(t *testing.T) {
	var asked sync.Map // methods
	t.Run("suite", func(t *testing.T) {
		storetest.RunRules(t, func(*testing.T) store.Store {
			return storetest.Faulty(model.New(), func(c storetest.Call) storetest.Fault {
				asked.Store(c.Method, true)
				return storetest.NoFault
			})
		})
	})
	for _, method := range []string{
		"Accept", "Claim", "Settle", "Release", "Cancel", "Message", "Events", "DeleteDeadLetters",
		"RetryDeadLetters", "DueSchedules", "Tick", "Transact", "DueWaiters", "UpdateAction", "PutSecretIfAbsent", "CompareAndSwapSecret", "Ping",
	} {
		if _, ok := asked.Load(method); !ok {
			t.Errorf("%s was never asked about", method)
		}
	}
}
