package workflow

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Item is a publication that belongs to a run: it starts one, or adds to its list.
type Item struct {
	engine.Publication

	RunID       string    // of the run it starts or belongs to
	CreatedAt   time.Time // of the run it belongs to; zero if it does not say
	WorkflowURL string    // where the run's steps are delivered
	Init        bool      // it starts the run
	CallType    posthaste.CallType
	Features    posthaste.Features
	InvokeDepth int

	Invocation  *Invocation // it starts the run for another one, which waits for it
	BySDK       bool        // an SDK triggers the run once more, after it was asked to
	FetchingSDK bool        // the publisher is an SDK that can fetch what is not delivered
}

// Receipt tells what became of an item.
type Receipt struct {
	MessageID    posthaste.MessageID
	Run          posthaste.RunRef
	Deduplicated bool // MessageID is that of an earlier one; nothing was accepted
}

// Refused is the error of one of several items, for which none of them was taken in.
type Refused struct {
	Index int // of the item
	Err   error
}

// Error returns the sentence about the item.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the error of the item.
func (r *Refused) Unwrap() error { return r.Err }

// Submit takes in items, all or none (section 4). The error of an item is Refused with
// an Error: CodeEnded for an item of a run that is not active, CodeLimit for a
// setting above its limit.
func (s *Service) Submit(ctx context.Context, user string, items []Item) ([]Receipt, error) {
	now := s.now()
	for i := range items {
		if err := s.check(&items[i], now); err != nil {
			return nil, &Refused{i, err}
		}
	}
	var receipts []Receipt
	err := s.transact(ctx, user, func(t *tx) error {
		receipts = receipts[:0]
		for i := range items {
			receipt, err := t.submit(&items[i])
			if err != nil {
				return &Refused{i, err}
			}
			receipts = append(receipts, receipt)
		}
		return nil
	})
	return receipts, err
}

// check applies the limits and invents the run id that was not given.
func (s *Service) check(item *Item, now time.Time) (err error) {
	if item.InvokeDepth > maxInvokeDepth {
		return posthaste.Errorf(posthaste.CodeLimit, "invocations are nested %d deep, the limit is %d", item.InvokeDepth, maxInvokeDepth)
	}
	if item.WorkflowURL == "" {
		item.WorkflowURL = item.Destination
	}
	if item.RunID == "" {
		if item.RunID, err = s.newRunID(); err != nil {
			return err
		}
	}
	if item.Invocation != nil {
		if err := s.options.Limits.Check(engine.Publication{Settings: item.Invocation.Delivery}, 0); err != nil {
			return err
		}
	}
	return s.options.Limits.Check(item.Publication, item.StartAt(now).Sub(now))
}

func (t *tx) submit(item *Item) (Receipt, error) {
	switch {
	case !item.Init:
		return t.add(item)
	case item.Invocation != nil:
		return t.invoke(item)
	default:
		return t.trigger(item)
	}
}

// trigger starts a run. One that goes on under the same id is the answer instead,
// unless its SDK was asked to trigger it once more: what ended in the meantime must not
// rise again by that.
func (t *tx) trigger(item *Item) (Receipt, error) {
	run, err := t.LatestRun(item.RunID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !run.Active() && !item.BySDK:
		run, err := t.start(item)
		if err != nil {
			return Receipt{}, err
		}
		return Receipt{MessageID: run.FirstID, Run: run.RunRef}, nil
	case err != nil:
		return Receipt{}, err
	case !run.Active():
		return Receipt{}, notActive(item.RunID)
	case item.BySDK:
		return t.triggerAgain(run, item)
	default:
		return Receipt{MessageID: run.FirstID, Run: run.RunRef, Deduplicated: true}, nil
	}
}

// start makes a run of an item.
func (t *tx) start(item *Item) (*posthaste.Run, error) {
	run := &posthaste.Run{
		RunRef:   posthaste.RunRef{ID: item.RunID, URL: item.WorkflowURL},
		CallerIP: item.CallerIP,
		Features: item.Features,
		LazySDK:  item.FetchingSDK,
		Queue:    item.Queue,
		Settings: item.Settings,
	}
	return run, t.begin(run, item.Body, item.StartAt(t.Now()))
}

// begin writes a new run with its first entry, which is delivered from the given
// time on.
func (t *tx) begin(run *posthaste.Run, payload []byte, start time.Time) error {
	run.User = t.user
	run.Settings = t.service.options.Limits.WithDefaults(run.Settings)
	run.Position = t.NextPosition()
	run.CreatedAt = run.Position.Time()
	t.moved = append(t.moved, posthaste.RunStarted)
	run.State = posthaste.RunStarted
	first, err := t.firstMessage(run, payload)
	if err != nil {
		return err
	}
	first.NotBefore, first.Queue = start, run.Queue
	t.trace(run, first)
	run.FirstID = first.ID
	t.Start(run)
	t.logRun(run, "")
	return t.append(run, posthaste.CallStep, first)
}

// headerUnknownSDK asks an SDK whose version is not known to trigger the run once
// more.
const headerUnknownSDK = "Upstash-Workflow-Unknown-Sdk"

// firstMessage makes the message that delivers a run's first entry.
func (t *tx) firstMessage(run *posthaste.Run, payload []byte) (*posthaste.Message, error) {
	settings := run.Settings
	settings.FailureCallback = nil // the run's; it may change
	if run.Features.Has(posthaste.FeatureUnknownSDK) {
		settings.Header = withHeader(settings.Header, headerUnknownSDK, "true")
	}
	return t.newMessage(run, posthaste.CallStep, run.URL, payload, settings)
}

// triggerAgain gives a run what its SDK says about itself and delivers the first
// entry once more, now in its words (section 2.4). What the SDK leaves out stays as
// the trigger had it.
func (t *tx) triggerAgain(run *posthaste.Run, item *Item) (Receipt, error) {
	const key = "by-sdk"
	id, again, err := t.IdempotencyRecord(run, key)
	if err != nil || again {
		return Receipt{MessageID: id, Run: run.RunRef, Deduplicated: true}, err
	}
	callback := run.FailureCallback
	header := item.Header
	overrides := overridesOf(run)
	run.Settings = run.Settings.With(item.Settings)
	run.Settings.Header = header
	run.Settings = withOverrides(run.Settings, overrides)
	if callback != nil {
		run.FailureCallback = callback
	}
	run.Features, run.LazySDK = item.Features, item.FetchingSDK
	m, err := t.firstMessage(run, item.Body)
	if err != nil {
		return Receipt{}, err
	}
	m.Run.ListBytes = len(m.Body)
	run.FirstID = m.ID
	t.Save(run)
	t.PutIdempotencyRecord(run, key, m.ID)
	return Receipt{MessageID: m.ID, Run: run.RunRef}, t.accept(m)
}

// withHeader returns a copy of a header with one more value.
func withHeader(h http.Header, name, value string) http.Header {
	c := maps.Clone(h)
	if c == nil {
		c = http.Header{}
	}
	c.Set(name, value)
	return c
}
