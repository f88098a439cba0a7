package storetest

import (
	"errors"
	"testing"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// once lets the second call of a method fail.
func once(method string, fault Fault) Plan {
	return func(c Call) Fault {
		if c == (Call{method, 2}) {
			return fault
		}
		return NoFault
	}
}

func TestFaulty(t *testing.T) {
	for _, test := range []struct {
		name    string
		plan    Plan
		fails   bool
		changes bool
	}{
		{"another method", once("Claim", Before), false, true},
		{"before", once("Settle", Before), true, false},
		{"after", once("Settle", After), true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := newTrial(t, Faulty(model.New(), test.plan))
			tr.settle(store.Delivered(tr.claimOne(tr.accept())))
			m := tr.accept()
			claims, _, err := tr.store.Claim(t.Context(), start, 1)
			if errors.Is(err, ErrInjected) {
				claims, _, err = tr.store.Claim(t.Context(), start, 1)
			}
			tr.ok(err)
			_, err = tr.store.Settle(t.Context(), start, store.Delivered(claims[0]))
			if errors.Is(err, ErrInjected) != test.fails || tr.status(m).State.Terminal() != test.changes {
				t.Errorf("Settle = %v, and the message is %s", err, tr.status(m).State)
			}
		})
	}
}

// Claims whose answer is lost must not be lost with it. Other answers are.
func TestFaultyAnswersAreLost(t *testing.T) {
	for method, call := range map[string]func(store.Store) (int, error){
		"Claim": func(s store.Store) (int, error) {
			claims, _, err := s.Claim(t.Context(), start, 1)
			return len(claims), err
		},
		"DueWaiters": func(s store.Store) (int, error) {
			due, _, err := s.DueWaiters(t.Context(), start.Add(time.Hour), 1)
			return len(due), err
		},
		"Transact": func(s store.Store) (int, error) {
			return 1, s.Transact(t.Context(), start, ann, func(store.RunTx) error { return nil })
		},
	} {
		t.Run(method, func(t *testing.T) {
			tr := newTrial(t, model.New())
			run, _ := tr.start()
			tr.await(run, until(start))
			s := Faulty(tr.store, func(c Call) Fault {
				if c == (Call{method, 1}) {
					return After
				}
				return NoFault
			})
			if _, err := call(s); !errors.Is(err, ErrInjected) {
				t.Errorf("%s = %v, want ErrInjected", method, err)
			}
			if n, err := call(s); err != nil || n != 1 {
				t.Errorf("%s again = %d, %v, want one", method, n, err)
			}
		})
	}
}
