package runlog

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// maxErrors is how many failed attempts of a run are shown, the latest ones.
const maxErrors = 1000

// gather reads the facts of a run, nil if its list has been removed.
//
// The run may proceed meanwhile: waiters are read before the list, so that a wait that ends is
// found in one of them.
func (l *Log) gather(ctx context.Context, run *posthaste.Run) (*Facts, error) {
	f := &Facts{Run: run, Messages: map[posthaste.MessageID]store.Status{}, Now: l.now()}
	var err error
	if f.Waiters, err = l.store.RunWaiters(ctx, run.User, run.Position); err != nil {
		return nil, err
	}
	if f.Entries, err = l.store.RunEntries(ctx, run.User, run.Position, 0, -1); err != nil || len(f.Entries) == 0 {
		return nil, err
	}
	if err := l.readMessages(ctx, f); err != nil {
		return nil, err
	}
	if err := l.findFirst(ctx, f); err != nil {
		return nil, err
	}
	if err := l.readErrors(ctx, f); err != nil {
		return nil, err
	}
	return f, l.readInvoked(ctx, f)
}

func (l *Log) readMessages(ctx context.Context, f *Facts) error {
	for _, entry := range f.Entries {
		if err := l.readMessage(ctx, f, entry.MessageID); err != nil {
			return err
		}
	}
	if f.Run.Reported != nil {
		if err := l.readMessage(ctx, f, f.Run.Reported.MessageID); err != nil {
			return err
		}
	}
	return l.readMessage(ctx, f, f.Run.FailedID)
}

// readMessage adds a message, if it exists, without its body, which an entry has.
func (l *Log) readMessage(ctx context.Context, f *Facts, id posthaste.MessageID) error {
	if _, known := f.Messages[id]; known || id.IsZero() {
		return nil
	}
	st, err := l.store.Message(ctx, f.Run.User, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m := *st.Message
	m.Body, st.Message = nil, &m
	f.Messages[id] = st
	return nil
}

// findFirst finds the message of the first entry: the entry's, unless another one failed the run,
// or was made because the SDK asked for another delivery.
func (l *Log) findFirst(ctx context.Context, f *Facts) error {
	f.First = f.Entries[0].MessageID
	if st, open := f.delivery(f.Run.FailedID); open && deliversFirst(st.Message) {
		f.First = f.Run.FailedID
		return nil
	}
	st, open := f.delivery(f.First)
	if open || !f.owns(st) || len(f.Entries) > 1 || len(f.Waiters) > 0 {
		return nil
	}
	const enough = 4 // it is one of the run's first messages
	query := store.EventQuery{
		Filter:      posthaste.Filter{OfRuns: true, RunIDs: []string{f.Run.ID}, States: []posthaste.State{posthaste.StateCreated}},
		Low:         f.Run.Position,
		High:        posthaste.MaxPosition,
		OldestFirst: true,
		Limit:       enough,
	}
	_, _, err := l.store.Events(ctx, f.Run.User, query, func(entry *store.Entry) error {
		if m := entry.Message; m.Run.Position == f.Run.Position && deliversFirst(m) {
			f.First = m.ID
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.readMessage(ctx, f, f.First)
}

func deliversFirst(m *posthaste.Message) bool {
	return m.Run.CallType == posthaste.CallStep && m.Run.Entry == 0
}

// readErrors reads the failed attempts of troubled messages, which are few.
func (l *Log) readErrors(ctx context.Context, f *Facts) error {
	troubled := f.Troubled()
	if len(troubled) == 0 {
		return nil
	}
	page, err := store.ReadEvents(ctx, l.store, f.Run.User, store.EventQuery{
		Filter: posthaste.Filter{OfRuns: true, MessageIDs: troubled, States: []posthaste.State{posthaste.StateError}},
		Low:    f.Run.Position,
		High:   posthaste.MaxPosition,
		Limit:  maxErrors,
	})
	f.Errors = map[posthaste.MessageID][]posthaste.Event{}
	for _, entry := range slices.Backward(page.Entries) {
		f.Errors[entry.MessageID] = append(f.Errors[entry.MessageID], entry.Event)
	}
	return err
}

// readInvoked reads the payloads of invoked runs: those waited for and those named in the list.
func (l *Log) readInvoked(ctx context.Context, f *Facts) error {
	f.Invoked = map[int]*Invoked{}
	for _, w := range f.Waiters {
		if step, ok := readStep(w.Step); ok && w.Invoked != nil {
			if err := l.readPayload(ctx, f, step.ID, *w.Invoked); err != nil {
				return err
			}
		}
	}
	for _, entry := range f.Entries[1:] {
		step, ok := readStep(entry.Body)
		if !ok || step.InvokedID == "" {
			continue
		}
		ref, err := l.findRun(ctx, f.Run.User, step.InvokedID, time.UnixMilli(step.InvokedCreatedAt))
		if err != nil {
			return err
		}
		if err := l.readPayload(ctx, f, step.ID, ref); err != nil {
			return err
		}
	}
	return nil
}

// findRun returns a run by id and time, zero if it does not exist.
func (l *Log) findRun(ctx context.Context, user, id string, createdAt time.Time) (posthaste.RunRef, error) {
	page, err := l.store.Runs(ctx, user, store.RunQuery{
		Filter: posthaste.Filter{RunIDs: []string{id}},
		Low:    posthaste.FirstPosition(createdAt),
		High:   posthaste.LastPosition(createdAt),
		Limit:  1,
	})
	if err != nil || len(page.Runs) == 0 {
		return posthaste.RunRef{}, err
	}
	return page.Runs[0].RunRef, nil
}

// readPayload adds an invoked run's payload, if it exists.
func (l *Log) readPayload(ctx context.Context, f *Facts, stepID int, ref posthaste.RunRef) error {
	run, err := l.store.Run(ctx, f.Run.User, ref.Position)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := l.store.RunEntries(ctx, f.Run.User, ref.Position, 0, 1)
	if err == nil && len(entries) > 0 {
		f.Invoked[stepID] = &Invoked{Run: run, Payload: entries[0].Body}
	}
	return err
}
