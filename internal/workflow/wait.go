package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// WaitRequest is a run's wish to wait for an event (section 4.6).
type WaitRequest struct {
	Run     RunID
	EventID string
	Step    []byte // the step that waits

	Features    posthaste.Features // of whoever asks; none: those of the run
	FetchingSDK bool               // it is an SDK that can fetch what is not delivered

	Delivery posthaste.Settings // of the message that tells the event, to Shown.URL

	Timeout         time.Duration // 0: it waits for ever
	TimeoutText     string        // the same, as it was given
	TimeoutURL      string
	TimeoutDelivery posthaste.Settings

	Shown posthaste.WaiterShown
}

// Wait makes a run wait, or go on at once with an event that came before. It returns
// the id of a message: the one that goes on, or one that stands for the waiting.
func (s *Service) Wait(ctx context.Context, user string, req WaitRequest) (id posthaste.MessageID, err error) {
	step, ok := ParseStep(req.Step)
	if !ok {
		return id, posthaste.Invalidf("step is not a workflow step: a JSON object with stepId and stepType is expected")
	}
	if err := s.checkWait(&req); err != nil {
		return id, err
	}
	err = s.transact(ctx, user, func(t *tx) error {
		id, err = t.wait(step, &req)
		return err
	})
	if err == nil && req.Timeout > 0 {
		s.lookAgain()
	}
	return id, err
}

// checkWait applies the limits.
func (s *Service) checkWait(req *WaitRequest) error {
	limits := s.options.Limits
	if limits.Delay > 0 && req.Timeout > limits.Delay {
		return posthaste.Errorf(posthaste.CodeLimit, "timeout %.100q is longer than the limit of %s", req.TimeoutText, limits.Delay)
	}
	for _, settings := range []posthaste.Settings{req.Delivery, req.TimeoutDelivery} {
		if err := limits.Check(engine.Publication{Settings: settings}, 0); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) wait(step Step, req *WaitRequest) (posthaste.MessageID, error) {
	run, err := t.mustBeActive(req.Run.ID, req.Run.CreatedAt)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	id, again, err := t.recallStep(run, waitKey(step.ID))
	if err != nil || again {
		return id, err
	}
	if err := t.checkRoom(run); err != nil {
		return posthaste.MessageID{}, err
	}
	w, err := t.newWaiter(run, req)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	t.PutIdempotencyRecord(run, waitKey(step.ID), w.MessageID)
	t.noteSDK(run, req.FetchingSDK)
	event, early, err := t.TakeEvent(run.Position, req.EventID)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	if early {
		run.KeptBytes = max(0, run.KeptBytes-sizeKept(event))
		t.Save(run)
		m, err := t.notified(w, event)
		if err != nil {
			return posthaste.MessageID{}, err
		}
		return m.ID, nil
	}
	t.Wait(w)
	return w.MessageID, nil
}

func (t *tx) newWaiter(run *posthaste.Run, req *WaitRequest) (*posthaste.Waiter, error) {
	id, err := t.service.newMessageID(t.Now())
	w := &posthaste.Waiter{
		Run:             run.RunRef,
		MessageID:       id,
		CreatedAt:       t.Now(),
		After:           run.Entries,
		Step:            req.Step,
		Topic:           posthaste.EventTopic(req.EventID),
		Delivery:        inherit(run, req.Delivery, req.Features),
		Timeout:         req.TimeoutText,
		TimeoutURL:      req.TimeoutURL,
		TimeoutDelivery: inherit(run, req.TimeoutDelivery, req.Features),
		Shown:           req.Shown,
	}
	if req.Timeout > 0 {
		w.Deadline = t.Now().Add(req.Timeout)
	}
	return w, err
}

// Notified tells of a waiter that an event was given to.
type Notified struct {
	Waiter    *posthaste.Waiter // nil: the event is kept for the run's next wait
	Run       posthaste.RunRef
	MessageID posthaste.MessageID
}

// notifyStep is how many waits one commit ends.
const notifyStep = 100

// Notify gives an event to everything that waits for it now (section 4.8), in steps:
// whoever begins to wait meanwhile is left alone. An event that nobody waits for is
// lost. What was told before an error is told.
func (s *Service) Notify(ctx context.Context, user, eventID string, event []byte) (told []Notified, err error) {
	waiters, err := s.options.Store.EventWaiters(ctx, user, eventID)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(waiters, notifyStep) {
		step, err := s.notifySome(ctx, user, some, event)
		if told = append(told, step...); err != nil {
			return told, err
		}
	}
	return told, nil
}

// notifySome ends those waits that have not ended yet.
func (s *Service) notifySome(ctx context.Context, user string, waiters []*posthaste.Waiter, event []byte) (told []Notified, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		told = nil
		for _, waiter := range waiters {
			w, err := t.Waiter(waiter.Run.Position, waiter.Position)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			m, err := t.endWait(w, event)
			if err != nil {
				return err
			}
			told = append(told, Notified{Waiter: w, Run: w.Run, MessageID: m.ID})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return told, nil
}

// NotifyRun gives an event to the run that goes on under an id, or to the one that has
// resumed it: to its first wait for it, or to the next one to come. It returns
// store.ErrNotFound if there is no such run.
func (s *Service) NotifyRun(ctx context.Context, user, runID, eventID string, event []byte) (told Notified, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		run, err := t.LatestRun(runID)
		if err != nil {
			return err
		}
		if run, err = t.goesOnAs(run); err != nil {
			return err
		}
		told, err = t.tellEvent(run, eventID, event, maxKept)
		return err
	})
	return told, err
}

// tellEvent gives an event to a run, which keeps so many bytes for waits to come.
func (t *tx) tellEvent(run *posthaste.Run, eventID string, event []byte, limit int) (told Notified, err error) {
	told = Notified{Run: run.RunRef}
	w, err := t.waiterOf(run, eventID)
	if err != nil {
		return told, err
	}
	if w == nil {
		told.MessageID, err = t.keepEvent(run, eventID, event, limit)
		return told, err
	}
	m, err := t.endWait(w, event)
	if err != nil {
		return told, err
	}
	told.Waiter, told.MessageID = w, m.ID
	return told, nil
}

// Events that a run has not waited for yet are kept up to so many bytes, 16 MiB in all,
// or one of any size. Strangers, who call webhooks, may fill half of that and no more, so
// that there is room for those who have a token. Each counts keptOverhead more than it has.
const (
	maxKept            = 16 << 20
	maxKeptOfStrangers = maxKept / 2
	keptOverhead       = 1 << 10
)

func sizeKept(event []byte) int { return len(event) + keptOverhead }

// keepEvent keeps an event for a wait to come and returns an id that stands for it. It
// returns an Error with CodeRateLimited if the run has too many already: when it takes
// one, another may come.
func (t *tx) keepEvent(run *posthaste.Run, eventID string, event []byte, limit int) (posthaste.MessageID, error) {
	kept := run.KeptBytes + sizeKept(event)
	alone := run.KeptBytes == 0 && limit == maxKept
	if kept > limit && !alone {
		return posthaste.MessageID{}, posthaste.Errorf(posthaste.CodeRateLimited,
			"workflow run %.200q has %d bytes of stored events that it has not waited for, the limit is %d: try again when it has",
			run.ID, run.KeptBytes, limit)
	}
	run.KeptBytes = kept
	t.Save(run)
	t.BufferEvent(run.Position, eventID, event)
	return t.service.newMessageID(t.Now())
}

// waiterOf returns a run's first wait for an event, nil if there is none.
func (t *tx) waiterOf(run *posthaste.Run, eventID string) (*posthaste.Waiter, error) {
	waiters, err := t.RunWaiters(run.Position)
	for _, w := range waiters {
		if w.Topic == posthaste.EventTopic(eventID) {
			return w, nil
		}
	}
	return nil, err
}

func (t *tx) endWait(w *posthaste.Waiter, event []byte) (*posthaste.Message, error) {
	t.EndWait(w)
	return t.notified(w, event)
}

// notified lets a run go on with an event.
func (t *tx) notified(w *posthaste.Waiter, event []byte) (*posthaste.Message, error) {
	more := waited(w, false)
	if len(event) > 0 {
		more["out"] = encoded(event)
	}
	return t.resume(w, w.Shown.URL, w.Delivery, more)
}

// EventWaiters returns what waits for an event, first come first.
func (s *Service) EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	return s.options.Store.EventWaiters(ctx, user, eventID)
}

func (s *Service) lookAgain() { engine.LookAgain(s.changed) }

// watchDeadlines ends waits whose deadline passes, until the service stops.
func (s *Service) watchDeadlines() {
	const atOnce, deadlineHeartbeat = 100, 5 * time.Second
	engine.DueWork[store.DueWaiter]{
		Due: func(ctx context.Context, busy []string) ([]store.DueWaiter, time.Time, error) {
			return s.options.Store.DueWaiters(ctx, s.now(), atOnce, busy...)
		},
		UserOf: func(due store.DueWaiter) string { return due.User },
		Do:     s.expireAll,
		Failed: func(user string, err error) {
			s.options.Logger.Error("deadline.failed", "user", user, "error", err)
		},
		Look:      s.changed,
		Heartbeat: deadlineHeartbeat,
		Now:       s.options.Now,
	}.Run(s.waiting)
}

// expireAll ends waits of a user. One that cannot be ended does not keep the others from
// it, unless the store is unavailable to the user.
func (s *Service) expireAll(ctx context.Context, due []store.DueWaiter) (err error) {
	for _, d := range due {
		err = errors.Join(err, s.transact(ctx, d.User, func(t *tx) error { return t.expire(d) }))
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
	}
	return err
}

// expire lets a run go on without the event it waited for. One that was notified in
// the last moment has gone on already.
func (t *tx) expire(due store.DueWaiter) error {
	w, err := t.Waiter(due.Run, due.Position)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t.EndWait(w)
	_, err = t.resume(w, w.TimeoutURL, w.TimeoutDelivery, waited(w, true))
	return err
}

// waited returns what the step of a wait for an event tells when it has ended.
func waited(w *posthaste.Waiter, timedOut bool) map[string]any {
	eventID, _ := w.Topic.EventID()
	more := map[string]any{"waitEventId": eventID, "timeout": w.Timeout, "waitTimeout": timedOut}
	if !w.Deadline.IsZero() {
		more["waitTimeoutDeadline"] = w.Deadline.Unix()
	}
	return more
}
