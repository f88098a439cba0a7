package runlog

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// maxErrors is how many failed attempts of a run are shown, the latest ones. It is as
// many as a message may have retries, unless that is set otherwise.
const maxErrors = 1000

// gather reads what is known of a run, nil if its list is not there any more.
//
// It is read while the run goes on. Waiters are read before the list, so that a wait
// that ends meanwhile is found in one of them, or in both.
func (l *Log) gather(ctx context.Context, run *posthaste.Run) (*Facts, error) {
	f := &Facts{Run: run, Messages: map[posthaste.MessageID]store.Status{}, Now: l.now()}
	var err error
	if f.Waiters, err = l.store.RunWaiters(ctx, run.User, run.Position); err != nil {
		return nil, err
	}
	if f.Entries, err = l.store.RunEntries(ctx, run.User, run.Position, -1); err != nil || len(f.Entries) == 0 {
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

// readMessage adds a message if it is known. Its body is left out: it is that of an
// entry, which is there, and may be large.
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

// findFirst finds the message that delivers the first entry. It is that of the entry
// unless there is another one that failed the run, or one was made after the SDK had
// answered and done nothing else: it has asked for that.
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
	const enough = 4 // it was one of the first messages of the run
	query := store.EventQuery{
		Filter:      store.EventFilter{Runs: true, RunIDs: []string{f.Run.ID}, States: []posthaste.State{posthaste.StateCreated}},
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

// readErrors reads the failed attempts that are of interest. Most runs have none. They
// are in the log, for the states of their messages were read before.
func (l *Log) readErrors(ctx context.Context, f *Facts) error {
	troubled := f.Troubled()
	if len(troubled) == 0 {
		return nil
	}
	page, err := store.ReadEvents(ctx, l.store, f.Run.User, store.EventQuery{
		Filter: store.EventFilter{Runs: true, MessageIDs: troubled, States: []posthaste.State{posthaste.StateError}},
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

// readInvoked reads what the runs were given that this one invoked: those it waits
// for, and those that its list names because they have ended.
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

// findRun finds a run by its name, the zero RunRef if it is not known.
func (l *Log) findRun(ctx context.Context, user, id string, createdAt time.Time) (posthaste.RunRef, error) {
	page, err := l.store.Runs(ctx, user, store.RunQuery{
		Filter: store.RunFilter{IDs: []string{id}},
		Low:    posthaste.FirstPosition(createdAt),
		High:   posthaste.LastPosition(createdAt),
		Limit:  1,
	})
	if err != nil || len(page.Runs) == 0 {
		return posthaste.RunRef{}, err
	}
	return page.Runs[0].RunRef, nil
}

// readPayload adds what an invoked run was given, if it is known.
func (l *Log) readPayload(ctx context.Context, f *Facts, stepID int, ref posthaste.RunRef) error {
	run, err := l.store.Run(ctx, f.Run.User, ref.Position)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := l.store.RunEntries(ctx, f.Run.User, ref.Position, 1)
	if err == nil && len(entries) > 0 {
		f.Invoked[stepID] = &Invoked{Run: run, Payload: entries[0].Body}
	}
	return err
}
