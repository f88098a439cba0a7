package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// WaitRequest makes a run wait for an event (section 4.6).
type WaitRequest struct {
	Run     RunID
	EventID string
	Step    []byte // the waiting step

	Features    posthaste.Features // none: the run's
	FetchingSDK bool               // the SDK can fetch lists

	Delivery posthaste.Settings // of the message with the event, to Shown.URL

	Timeout         time.Duration // 0: forever
	TimeoutText     string        // as given
	TimeoutURL      string
	TimeoutDelivery posthaste.Settings

	Shown posthaste.WaiterShown
}

// Wait makes a run wait, or continue at once with a buffered event. It returns the id of the
// message that continues, or of the waiter.
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
		s.wakeDeadlines()
	}
	return id, err
}

// checkWait applies limits.
func (s *Service) checkWait(req *WaitRequest) error {
	limits := s.options.Limits
	if limits.Delay > 0 && req.Timeout > limits.Delay {
		return posthaste.Errorf(posthaste.CodeLimit, "timeout %.100q is longer than the limit of %s", req.TimeoutText, backoff.FormatDuration(limits.Delay))
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
	id, again, err := t.recordedStep(run, waitKey(step.ID))
	if err != nil || again {
		return id, err
	}
	if err := t.checkEntryLimit(run); err != nil {
		return posthaste.MessageID{}, err
	}
	w, err := t.newWaiter(run, req)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	t.PutIdempotencyRecord(run, waitKey(step.ID), w.MessageID)
	t.recordSDK(run, req.FetchingSDK)
	event, early, err := t.TakeEvent(run.Position, req.EventID)
	if err != nil {
		return posthaste.MessageID{}, err
	}
	if early {
		run.BufferedBytes = max(0, run.BufferedBytes-bufferedSize(event))
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

// Notified is the result of an event for one run.
type Notified struct {
	Waiter    *posthaste.Waiter // nil: the event is buffered
	Run       posthaste.RunRef
	MessageID posthaste.MessageID
}

// notifyStep is the maximum number of waits that one commit ends.
const notifyStep = 100

// Notify sends an event to all its present waiters (section 4.8), in several commits. Without
// waiters it is lost. After an error, it returns those notified before.
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

// notifySome ends those waits that still exist.
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

// NotifyRun sends an event to an active run, or to the one that resumed it: to its first wait for
// the event, or its next. It returns store.ErrNotFound if there is no such run.
func (s *Service) NotifyRun(ctx context.Context, user, runID, eventID string, event []byte) (told Notified, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		run, err := t.LatestRun(runID)
		if err != nil {
			return err
		}
		if run, err = t.activeSuccessor(run); err != nil {
			return err
		}
		told, err = t.sendEvent(run, eventID, event, maxBuffered)
		return err
	})
	return told, err
}

// sendEvent sends an event to a run, which buffers up to limit bytes.
func (t *tx) sendEvent(run *posthaste.Run, eventID string, event []byte, limit int) (told Notified, err error) {
	told = Notified{Run: run.RunRef}
	w, err := t.waiterOf(run, eventID)
	if err != nil {
		return told, err
	}
	if w == nil {
		told.MessageID, err = t.bufferEvent(run, eventID, event, limit)
		return told, err
	}
	m, err := t.endWait(w, event)
	if err != nil {
		return told, err
	}
	told.Waiter, told.MessageID = w, m.ID
	return told, nil
}

// Limits of events buffered for a run, in bytes; a single event may be larger. Unauthenticated
// webhooks may use half of it. Each event counts bufferOverhead more than its size.
const (
	maxBuffered        = 16 << 20
	maxBufferedByHooks = maxBuffered / 2
	bufferOverhead     = 1 << 10
)

func bufferedSize(event []byte) int { return len(event) + bufferOverhead }

// bufferEvent buffers an event and returns an id that stands for it, or an Error with
// CodeRateLimited if the buffer is full.
func (t *tx) bufferEvent(run *posthaste.Run, eventID string, event []byte, limit int) (posthaste.MessageID, error) {
	size := run.BufferedBytes + bufferedSize(event)
	only := run.BufferedBytes == 0 && limit == maxBuffered
	if size > limit && !only {
		return posthaste.MessageID{}, posthaste.Errorf(posthaste.CodeRateLimited,
			"workflow run %.200q has %d bytes of stored events that it has not waited for, the limit is %d: try again when it has",
			run.ID, run.BufferedBytes, limit)
	}
	run.BufferedBytes = size
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

// notified continues a run with an event.
func (t *tx) notified(w *posthaste.Waiter, event []byte) (*posthaste.Message, error) {
	more := waited(w, false)
	if len(event) > 0 {
		more["out"] = encoded(event)
	}
	return t.resume(w, w.Shown.URL, w.Delivery, more)
}

// EventWaiters returns the waiters for an event, oldest first.
func (s *Service) EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	return s.options.Store.EventWaiters(ctx, user, eventID)
}

func (s *Service) wakeDeadlines() { engine.LookAgain(s.changed) }

// watchDeadlines ends waits at their deadlines until the service stops.
func (s *Service) watchDeadlines() {
	const atOnce, deadlineHeartbeat = 100, 5 * time.Second
	engine.DueWork[store.DueWaiter]{
		Due: func(ctx context.Context, busy []string) ([]store.DueWaiter, time.Time, error) {
			return s.options.Store.DueWaiters(ctx, s.now(), atOnce, busy...)
		},
		UserOf: func(due store.DueWaiter) string { return due.User },
		Do:     s.expireAll,
		Failed: func(user string, err error) {
			s.options.Logger.Log(context.Background(), store.LogLevel(err), "deadline.failed", "user", user, "error", err)
		},
		Look:      s.changed,
		Heartbeat: deadlineHeartbeat,
		Now:       s.options.Now,
	}.Run(s.waiting)
}

// expireAll ends a user's waits. It continues after errors, unless the store is unavailable.
func (s *Service) expireAll(ctx context.Context, due []store.DueWaiter) (err error) {
	for _, d := range due {
		err = errors.Join(err, s.transact(ctx, d.User, func(t *tx) error { return t.expire(d) }))
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
	}
	return err
}

// expire continues a run without its event, unless the wait has just ended.
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

// waited returns the fields of a step that has waited for an event.
func waited(w *posthaste.Waiter, timedOut bool) map[string]any {
	eventID, _ := w.Topic.EventID()
	more := map[string]any{"waitEventId": eventID, "timeout": w.Timeout, "waitTimeout": timedOut}
	if !w.Deadline.IsZero() {
		more["waitTimeoutDeadline"] = w.Deadline.Unix()
	}
	return more
}
