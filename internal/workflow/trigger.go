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

// Item is a publication of a run: it starts one or appends to its list.
type Item struct {
	engine.Publication

	RunID       string    // the run's id
	CreatedAt   time.Time // the run's creation time; zero if not given
	WorkflowURL string    // destination of steps
	Init        bool      // starts the run
	CallType    posthaste.CallType
	Features    posthaste.Features
	InvokeDepth int

	Invocation  *Invocation // starts the run for one that waits for it
	BySDK       bool        // an SDK repeats the trigger, as it was asked to
	FetchingSDK bool        // the SDK can fetch lists
}

// Receipt is the result of an item.
type Receipt struct {
	MessageID    posthaste.MessageID
	Run          posthaste.RunRef
	Deduplicated bool // MessageID is an earlier one; nothing was accepted
}

// Refused is the error of one item, for which all are rejected.
type Refused struct {
	Index int
	Err   error
}

func (r *Refused) Error() string { return r.Err.Error() }

func (r *Refused) Unwrap() error { return r.Err }

// Submit accepts all items or none (section 4). It returns Refused with an Error: CodeEnded if a
// run is not active, CodeLimit for a setting above its limit.
func (s *Service) Submit(ctx context.Context, user string, items []Item) ([]Receipt, error) {
	now := s.now()
	for i := range items {
		if err := s.check(user, &items[i], now); err != nil {
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

// check applies limits and generates a missing run id.
func (s *Service) check(user string, item *Item, now time.Time) (err error) {
	if item.InvokeDepth > maxInvokeDepth {
		return posthaste.Errorf(posthaste.CodeLimit, "invocations are nested %d deep, the limit is %d", item.InvokeDepth, maxInvokeDepth)
	}
	if item.WorkflowURL == "" {
		item.WorkflowURL = item.Destination
	}
	if item.RunID == "" {
		if item.RunID, err = s.newRunID(user); err != nil {
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

// trigger starts a run, or returns the active one with that id. If an SDK repeats a trigger, an
// ended run is not started again.
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
		return t.repeatTrigger(run, item)
	default:
		return Receipt{MessageID: run.FirstID, Run: run.RunRef, Deduplicated: true}, nil
	}
}

// start starts an item's run.
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

// begin stores a new run with its first entry, due at start.
func (t *tx) begin(run *posthaste.Run, payload []byte, start time.Time) error {
	t.create(run)
	run.Settings = t.service.options.Limits.WithDefaults(run.Settings)
	first, err := t.firstMessage(run, payload)
	if err != nil {
		return err
	}
	first.NotBefore, first.Queue = start, run.Queue
	first.SetSlot(nil)
	t.trace(run, first)
	run.FirstID = first.ID
	t.Start(run)
	t.logRun(run, "")
	return t.append(run, posthaste.CallStep, first)
}

// create gives a new run its position and state.
func (t *tx) create(run *posthaste.Run) {
	run.User, run.State = t.user, posthaste.RunStarted
	run.Position = t.NextPosition(run.Slot())
	run.CreatedAt = run.Position.Time()
	t.moved = append(t.moved, posthaste.RunStarted)
}

// headerUnknownSDK asks an SDK of unknown version to repeat the trigger.
const headerUnknownSDK = "Upstash-Workflow-Unknown-Sdk"

// firstMessage makes the message of a run's first entry.
func (t *tx) firstMessage(run *posthaste.Run, payload []byte) (*posthaste.Message, error) {
	settings := run.Settings
	settings.FailureCallback = nil // the run has it
	if run.Features.Has(posthaste.FeatureUnknownSDK) {
		settings.Header = withHeader(settings.Header, headerUnknownSDK, "true")
	}
	return t.newMessage(run, posthaste.CallStep, run.URL, payload, settings)
}

// repeatTrigger updates a run with what its SDK sent and delivers the first entry again (section
// 2.4). Unset settings stay.
func (t *tx) repeatTrigger(run *posthaste.Run, item *Item) (Receipt, error) {
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

// withHeader returns a copy of a header with a value set.
func withHeader(h http.Header, name, value string) http.Header {
	c := maps.Clone(h)
	if c == nil {
		c = http.Header{}
	}
	c.Set(name, value)
	return c
}
