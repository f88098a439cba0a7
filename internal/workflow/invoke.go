package workflow

import (
	"cmp"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Invocation makes a run wait for the run that an item starts (section 4.9).
type Invocation struct {
	Invoker  RunID
	Step     []byte             // the waiting step
	Features posthaste.Features // none: the invoker's
	Delivery posthaste.Settings // of the message with the result
}

// invoke starts a run for another one, or makes that wait for an active one.
func (t *tx) invoke(item *Item) (Receipt, error) {
	invoker, err := t.mustBeActive(item.Invocation.Invoker.ID, item.Invocation.Invoker.CreatedAt)
	if err != nil {
		return Receipt{}, err
	}
	if item.RunID == invoker.ID {
		return Receipt{}, posthaste.Errorf(posthaste.CodeLimit, "workflow run %.200q cannot invoke itself: it would wait for its own end", invoker.ID)
	}
	step, ok := ParseStep(item.Invocation.Step)
	if !ok {
		return Receipt{}, posthaste.Invalidf("step of the invocation is not a workflow step: a JSON object with stepId and stepType is expected")
	}
	id, again, err := t.recordedStep(invoker, invokeKey(step.ID))
	if err != nil || again {
		return Receipt{MessageID: id, Run: posthaste.RunRef{ID: item.RunID}, Deduplicated: true}, err
	}
	if err := t.checkEntryLimit(invoker); err != nil {
		return Receipt{}, err
	}
	run, err := t.active(item.RunID, time.Time{})
	started := errors.Is(err, store.ErrNotFound)
	if started {
		run, err = t.startInvoked(item, invoker)
	}
	if err != nil {
		return Receipt{}, err
	}
	t.PutIdempotencyRecord(invoker, invokeKey(step.ID), run.FirstID)
	invoked := run.RunRef
	t.Wait(&posthaste.Waiter{
		Run:       invoker.RunRef,
		MessageID: run.FirstID,
		CreatedAt: t.Now(),
		After:     invoker.Entries,
		Step:      item.Invocation.Step,
		Topic:     posthaste.RunTopic(run.RunRef),
		Invoked:   &invoked,
		Delivery:  inherit(invoker, item.Invocation.Delivery, item.Invocation.Features),
	})
	return Receipt{MessageID: run.FirstID, Run: run.RunRef, Deduplicated: !started}, nil
}

// startInvoked starts a run with an invoker.
func (t *tx) startInvoked(item *Item, invoker *posthaste.Run) (*posthaste.Run, error) {
	ref := invoker.RunRef
	run := &posthaste.Run{
		RunRef:   posthaste.RunRef{ID: item.RunID, URL: item.WorkflowURL},
		CallerIP: item.CallerIP,
		Features: item.Features,
		LazySDK:  item.FetchingSDK,
		Queue:    item.Queue,
		Settings: item.Settings,
		Invoker:  &ref,
	}
	run.Trace = cmp.Or(run.Trace, invoker.Trace)
	return run, t.begin(run, item.Body, item.StartAt(t.Now()))
}
