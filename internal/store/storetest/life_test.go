package storetest

import (
	"strings"
	"testing"

	"posthaste"
)

func states(text string) []posthaste.State {
	var list []posthaste.State
	for word := range strings.FieldsSeq(text) {
		list = append(list, posthaste.State(word))
	}
	return list
}

func TestCheckLife(t *testing.T) {
	for _, test := range []struct {
		name, states string
		legal        bool
	}{
		{"accepted", "CREATED", true},
		{"claimed", "CREATED ACTIVE", true},
		{"delivered", "CREATED ACTIVE DELIVERED", true},
		{"delivered after a release", "CREATED ACTIVE ACTIVE DELIVERED", true},
		{"failed", "CREATED ACTIVE ERROR FAILED", true},
		{"delivered after a retry", "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED", true},
		{"cancelled while it waited", "CREATED CANCEL_REQUESTED CANCELLED", true},
		{"cancelled before a retry", "CREATED ACTIVE ERROR RETRY CANCEL_REQUESTED CANCELLED", true},
		{"cancelled after its attempt failed", "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED", true},
		{"delivered although asked to be cancelled", "CREATED ACTIVE CANCEL_REQUESTED DELIVERED", true},
		{"released although asked to be cancelled", "CREATED ACTIVE CANCEL_REQUESTED CANCELLED", true},
		{"claimed while it was cancelled", "CREATED CANCEL_REQUESTED ACTIVE DELIVERED", true},

		{"nothing", "", false},
		{"without beginning", "ACTIVE DELIVERED", false},
		{"created twice", "CREATED CREATED", false},
		{"delivered without attempt", "CREATED DELIVERED", false},
		{"delivered twice", "CREATED ACTIVE DELIVERED DELIVERED", false},
		{"delivered after it failed", "CREATED ACTIVE ERROR FAILED DELIVERED", false},
		{"half a failure", "CREATED ACTIVE ERROR", false},
		{"half a failure, asked to be cancelled", "CREATED ACTIVE CANCEL_REQUESTED ERROR", false},
		{"an error that is a delivery", "CREATED ACTIVE ERROR DELIVERED", false},
		{"a retry without error", "CREATED ACTIVE RETRY", false},
		{"a failure without error", "CREATED ACTIVE FAILED", false},
		{"a retry without attempt", "CREATED ACTIVE ERROR RETRY ERROR RETRY", false},
		{"retried although asked to be cancelled", "CREATED ACTIVE CANCEL_REQUESTED ERROR RETRY", false},
		{"failed although asked to be cancelled", "CREATED ACTIVE CANCEL_REQUESTED ERROR FAILED", false},
		{"asked to be cancelled twice", "CREATED CANCEL_REQUESTED CANCEL_REQUESTED CANCELLED", false},
		{"cancelled without being asked", "CREATED CANCELLED", false},
		{"asked to be cancelled after the end", "CREATED ACTIVE DELIVERED CANCEL_REQUESTED", false},
		{"a state that is none", "CREATED LOST", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := CheckLife(states(test.states)); (err == nil) != test.legal {
				t.Errorf("CheckLife(%s) = %v, legal: %t", test.states, err, test.legal)
			}
		})
	}
}

// Every state leads somewhere, and what ends a life is what the vocabulary calls
// terminal.
func TestLifeAgreesWithVocabulary(t *testing.T) {
	for from, next := range follows {
		for state, to := range next {
			if (to == ended) != state.Terminal() {
				t.Errorf("%s ends a life that was %s: %t, terminal: %t", state, from, to == ended, state.Terminal())
			}
		}
	}
}
