package storetest

import (
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// story is the life of a message as it is told in steps.
type story struct {
	*trial
	message *posthaste.Message
	claim   store.Claim
	stale   []store.Claim // earlier claims
	asked   bool          // to be cancelled, while it is claimed
	waits   store.Status  // where it stood before its claim
	stands  store.Status  // where it must stand now
}

// life lets a message go through some steps, each named by a word, and wants these states in its
// log. After each step it wants the message to stand where that leads, and not to be handed out
// unless it is due; when it has ended, it must have ended for good.
func life(told, log string) func(*trial) {
	return func(tr *trial) {
		s := &story{trial: tr}
		for i, word := range strings.Fields(told) {
			if i == 0 {
				s.begin(word)
			} else {
				storySteps[word](s)
			}
			tr.same("status after "+word, s.stands, tr.status(s.message))
			switch {
			case s.stands.NextAttemptAt.IsZero():
				tr.wantNoClaims()
			case s.stands.NextAttemptAt.After(tr.now):
				tr.wantNext(s.stands.NextAttemptAt)
			}
		}
		tr.wantLog(s.message, log)
		for _, e := range tr.logOf(s.message) {
			if e.State == posthaste.StateError {
				tr.same("error", refused, posthaste.Outcome{Error: e.Error, Response: e.Response})
			}
		}
		if s.stands.State.Terminal() {
			tr.wantEnd(s.message, s.stands.State)
		}
	}
}

func (s *story) begin(word string) {
	switch word {
	case "accepted":
		s.message = s.accept()
	case "delayed": // by an hour
		s.message = s.accept(delayed(time.Hour))
	case "step": // of a run
		_, s.message = s.start()
	}
	s.stands = store.Status{Message: s.message, State: posthaste.StateCreated, NextAttemptAt: s.message.NotBefore}
}

// storySteps are what may happen to a message.
var storySteps = map[string]func(*story){
	"wait":   func(s *story) { s.wait(time.Hour) },
	"almost": func(s *story) { s.wait(time.Hour - time.Millisecond) },
	"rest":   func(s *story) { s.wait(time.Millisecond) },
	"claim":  (*story).beginClaim,
	"release": func(s *story) {
		s.release(s.claim)
		s.settleDown(ann)
		s.unclaimed(s.waits, s.asked)
	},
	"deliver": func(s *story) { s.settleAs(store.Delivered(s.claim)) },
	"retry":   func(s *story) { s.settleAs(store.RetryAt(s.claim, s.now.Add(time.Hour), refused)) }, // in an hour
	"fail":    func(s *story) { s.settleAs(store.Failed(s.claim, refused)) },
	"drop":    func(s *story) { s.settleAs(store.Dropped(s.claim)) },
	"cancel": func(s *story) {
		s.wantCancels(1, s.message)
		if s.asked = true; s.stands.State != posthaste.StateActive {
			s.unclaimed(s.stands, true)
		}
	},
	"cancel-again": func(s *story) { s.wantCancels(0, s.message) },
	"now": func(s *story) {
		s.wait(time.Minute)
		s.wantWake() // drains it
		s.runNow(s.message)
		s.wantWake()
		s.stands.NextAttemptAt = s.now
	},
	"lost": func(s *story) { // earlier claims settle nothing
		for _, claim := range s.stale {
			s.wantLeaseLost(claim)
		}
	},
}

func (s *story) beginClaim() {
	s.claim = s.claimOne(s.message)
	s.same("failed attempts", s.stands.Retried, s.claim.Retried)
	s.waits = s.stands
	s.stands.State, s.stands.NextAttemptAt = posthaste.StateActive, time.Time{}
}

func (s *story) settleAs(settlement store.Settlement) {
	s.Helper()
	cancelled := s.asked && settlement.State != posthaste.StateDelivered
	stands := store.Status{Message: s.message, State: settlement.State, Retried: s.stands.Retried, NextAttemptAt: settlement.NextAt}
	if settlement.State == posthaste.StateRetry && !cancelled {
		stands.Retried++
	}
	s.unclaimed(stands, cancelled)
	s.wantSettled(settlement, s.stands.State, s.stands.NextAttemptAt)
}

// unclaimed says where the message stands without a claim.
func (s *story) unclaimed(stands store.Status, cancelled bool) {
	if s.claim.Message != nil {
		s.stale = append(s.stale, s.claim)
	}
	s.claim, s.stands = store.Claim{}, stands
	if cancelled {
		s.stands.State, s.stands.NextAttemptAt = posthaste.StateCancelled, time.Time{}
	}
}
