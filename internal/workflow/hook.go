package workflow

import (
	"bytes"
	"context"
	"encoding/json"

	"posthaste"
	"posthaste/internal/store"
)

// Hook identifies a webhook of a run (section 4.7). Its URL needs no token, so only webhooks that
// a step has created can be called, not other events.
type Hook struct {
	User, RunID, EventID string
}

// FindHook returns store.ErrNotFound if the webhook cannot be called, whether or not its run
// exists.
func (s *Service) FindHook(ctx context.Context, hook Hook) error {
	run, err := s.options.Store.LatestRun(ctx, hook.User, hook.RunID)
	if err != nil {
		return err
	}
	if !run.Active() && run.Successor == nil {
		return store.ErrNotFound // no transaction for unauthenticated requests
	}
	return s.transact(ctx, hook.User, func(t *tx) error {
		_, err := t.hooked(hook)
		return err
	})
}

// CallHook sends an event to the webhook's run like NotifyRun, with a smaller buffer. It returns
// store.ErrNotFound as FindHook does.
func (s *Service) CallHook(ctx context.Context, hook Hook, event []byte) error {
	return s.transact(ctx, hook.User, func(t *tx) error {
		run, err := t.hooked(hook)
		if err != nil {
			return err
		}
		_, err = t.sendEvent(run, hook.EventID, event, maxBufferedByHooks)
		return err
	})
}

// hooked returns the run of a webhook, or store.ErrNotFound if it has not created it. A wait for
// it is proof too. After a resume, the webhooks of the failed run belong to the new one, because
// their URLs have been given away.
func (t *tx) hooked(hook Hook) (*posthaste.Run, error) {
	run, err := t.LatestRun(hook.RunID)
	if err != nil {
		return nil, err
	}
	if run, err = t.activeSuccessor(run); err != nil {
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

// Step types of webhooks.
const (
	stepCreateWebhook  = "CreateWebhook"
	stepWaitForWebhook = "WaitForWebhook"
)

// recordHook records the webhook that an entry creates, if any.
func (t *tx) recordHook(run *posthaste.Run, callType posthaste.CallType, body []byte, id posthaste.MessageID) {
	if callType != posthaste.CallStep {
		return
	}
	if eventID := createdHook(body); eventID != "" {
		t.PutIdempotencyRecord(run, hookKey(eventID), id)
	}
}

// createdHook returns the event id of the webhook that a step has created, "" for none.
func createdHook(body []byte) (eventID string) {
	if !bytes.Contains(body, []byte(stepCreateWebhook)) {
		return "" // without parsing a large result
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
