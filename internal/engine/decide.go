package engine

import (
	"time"

	"posthaste"
	"posthaste/internal/backoff"
	"posthaste/internal/store"
)

// Decide says what an attempt's outcome means for the message: delivered, failed
// for good, or to be retried, and when (contract, messages 3).
func Decide(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement {
	switch {
	case outcome.Class == posthaste.OutcomeDelivered:
		return store.Delivered(claim)
	case outcome.Class == posthaste.OutcomePermanent, claim.Retried >= claim.Message.MaxRetries():
		return store.Failed(claim, outcome)
	default:
		return store.RetryAt(claim, now.Add(backoff.Next(claim.Message, claim.Retried, outcome)), outcome)
	}
}
