package workflow

import (
	"bytes"
	"context"
	"encoding/json"

	"posthaste"
	"posthaste/internal/store"
)

// Hook names a webhook of a run (section 4.7). Whoever knows it may call it, so what
// can be called is what a step of the run has made, and no other event of it.
type Hook struct {
	User, RunID, EventID string
}

// FindHook returns store.ErrNotFound unless the webhook can be called now. It does not
// tell whether there is such a run.
func (s *Service) FindHook(ctx context.Context, hook Hook) error {
	run, err := s.options.Store.LatestRun(ctx, hook.User, hook.RunID)
	if err != nil {
		return err
	}
	if !run.Active() && run.Successor == nil {
		return store.ErrNotFound // without a transaction: strangers ask
	}
	return s.transact(ctx, hook.User, func(t *tx) error {
		_, err := t.hooked(hook)
		return err
	})
}

// CallHook gives an event to the run that made the webhook, as NotifyRun does, but leaves
// room for what that gives. It returns store.ErrNotFound for what FindHook does not find.
func (s *Service) CallHook(ctx context.Context, hook Hook, event []byte) error {
	return s.transact(ctx, hook.User, func(t *tx) error {
		run, err := t.hooked(hook)
		if err != nil {
			return err
		}
		_, err = t.tellEvent(run, hook.EventID, event, maxKeptOfStrangers)
		return err
	})
}

// hooked returns the run of a webhook, or store.ErrNotFound if it has made none of
// that name. One that waits for it has made it, though it may not be remembered. The
// webhooks of a run that was resumed are those of the run in its place: their URLs were
// given away.
func (t *tx) hooked(hook Hook) (*posthaste.Run, error) {
	run, err := t.LatestRun(hook.RunID)
	if err != nil {
		return nil, err
	}
	if run, err = t.goesOnAs(run); err != nil {
		return nil, err
	}
	_, made, err := t.IdempotencyRecord(run, hookKey(hook.EventID))
	if made || err != nil {
		return run, err
	}
	w, err := t.waiterOf(run, hook.EventID)
	if err != nil {
		return nil, err
	}
	if w != nil {
		if step, _ := ParseStep(w.Step); step.Type == stepWaitForWebhook {
			return run, nil
		}
	}
	return nil, store.ErrNotFound
}

// The types of the steps of webhooks.
const (
	stepCreateWebhook  = "CreateWebhook"
	stepWaitForWebhook = "WaitForWebhook"
)

// noteHook remembers the webhook that an entry of a run's list makes, if it does.
func (t *tx) noteHook(run *posthaste.Run, callType posthaste.CallType, body []byte, id posthaste.MessageID) {
	if callType != posthaste.CallStep {
		return
	}
	if eventID := madeHook(body); eventID != "" {
		t.PutIdempotencyRecord(run, hookKey(eventID), id)
	}
}

// madeHook returns the event id of the webhook that a step made, "" if it made none.
func madeHook(body []byte) (eventID string) {
	if !bytes.Contains(body, []byte(stepCreateWebhook)) {
		return "" // without reading a large result
	}
	var step struct {
		Type string `json:"stepType"`
		Out  string `json:"out"`
	}
	var made struct {
		EventID string `json:"eventId"`
	}
	if json.Unmarshal(body, &step) != nil || step.Type != stepCreateWebhook || json.Unmarshal([]byte(step.Out), &made) != nil {
		return ""
	}
	return made.EventID
}
