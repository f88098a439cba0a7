package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// read reads the whole log and holds it against what was read before.
func (w *witness) read(ctx context.Context) error {
	_, err := w.readLog(ctx)
	return err
}

func (w *witness) readLog(ctx context.Context) ([]store.Entry, error) {
	entries, err := readAll(ctx, w.store, ann, store.EventQuery{
		High: posthaste.MaxPosition, OldestFirst: true, Limit: 1 + w.rng.IntN(1000),
	})
	if err != nil {
		return nil, err
	}
	if err := checkPositions(entries); err != nil {
		return nil, err
	}
	before := w.last
	for _, e := range entries {
		old, ok := w.seen[e.Position]
		switch {
		case ok && (old.MessageID != e.MessageID || old.State != e.State):
			return nil, fmt.Errorf("event at %d was %s of %s and is now %s of %s",
				e.Position, old.State, old.MessageID, e.State, e.MessageID)
		case !ok && e.Position <= before:
			return nil, fmt.Errorf("%s of %s appeared at %d, events up to %d had been read",
				e.State, e.MessageID, e.Position, before)
		}
		w.seen[e.Position] = e
		w.last = max(w.last, e.Position)
	}
	if missing := len(w.seen) - len(entries); missing > 0 {
		return nil, fmt.Errorf("%d events that had been read are gone", missing)
	}
	return entries, nil
}

// compare holds all that the store has against what was acknowledged, and takes
// over what became of the changes of unknown fate.
func (w *witness) compare(ctx context.Context) error {
	entries, err := w.readLog(ctx)
	if err != nil {
		return err
	}
	lives := map[posthaste.MessageID][]posthaste.Event{}
	for _, e := range entries {
		if err := checkEntry(ann, e); err != nil {
			return err
		}
		lives[e.MessageID] = append(lives[e.MessageID], e.Event)
	}
	if err := w.resolve(ctx, lives); err != nil {
		return err
	}
	for _, k := range w.all {
		if err := w.checkKnown(ctx, k, lives[k.message.ID]); err != nil {
			return fmt.Errorf("message %s: %w", k.message.ID, err)
		}
	}
	return errors.Join(w.checkDeadLetters(ctx, entries), w.checkRuns(ctx, entries), w.checkSecrets(ctx), auditUsage(ctx, w.store, ann))
}

// resolve finds out which changes of unknown fate took place.
func (w *witness) resolve(ctx context.Context, lives map[posthaste.MessageID][]posthaste.Event) error {
	for _, ch := range w.unsettled {
		took, parts := 0, len(ch.parts)+len(ch.runs)
		for _, p := range ch.parts {
			stored := withoutActive(lives[p.known.message.ID])
			if len(stored) > len(p.known.states) && startsWith(stored[len(p.known.states):], p.states) {
				took++
			}
		}
		for _, p := range ch.runs {
			ok, err := p.took(ctx, w.store)
			if err != nil {
				return fmt.Errorf("run %s: %w", p.known.id, err)
			}
			if ok {
				took++
			}
		}
		switch {
		case took == parts:
			ch.add()
		case ch.acknowledged:
			return fmt.Errorf("an acknowledged change is lost: %s", ch)
		case took > 0:
			return fmt.Errorf("%d of %d parts of a change took place: %s", took, parts, ch)
		}
	}
	w.unsettled = nil
	return nil
}

// checkKnown compares what is stored of a message with what is known of it.
func (w *witness) checkKnown(ctx context.Context, k *known, events []posthaste.Event) error {
	stored := withoutActive(events)
	if !k.matches(stored) {
		return fmt.Errorf("log holds %v, want %v", stored, k.states)
	}
	k.states = stored
	status, err := w.store.Message(ctx, ann, k.message.ID)
	switch {
	case len(stored) == 0 && !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("never accepted, but read as %s, %v", status.State, err)
	case len(stored) == 0:
		return nil
	case err != nil:
		return err
	case (status.State == posthaste.StateActive) != (k.claim != nil):
		return fmt.Errorf("it stands at %s, claimed: %t", status.State, k.claim != nil)
	}
	return errors.Join(checkLife(statesOf(events), k.run != nil), checkStatus(status, events))
}

// matches reports whether the states are those of the message. One that was asked
// to be cancelled while it was claimed may be cancelled by the store itself after
// a crash.
func (k *known) matches(stored []posthaste.State) bool {
	if slices.Equal(stored, k.states) {
		return true
	}
	return k.asked() && slices.Equal(stored, append(slices.Clone(k.states), posthaste.StateCancelled))
}

// checkDeadLetters requires one dead letter for each FAILED event that is not of a
// run, no other.
func (w *witness) checkDeadLetters(ctx context.Context, entries []store.Entry) error {
	failed := 0
	for _, e := range entries {
		if e.State != posthaste.StateFailed || e.Message.Run != nil {
			continue
		}
		failed++
		d, err := w.store.DeadLetter(ctx, ann, posthaste.DeadLetterID(e.Position))
		if err != nil {
			return fmt.Errorf("dead letter of %s: %w", e.MessageID, err)
		}
		if d.Message.ID != e.MessageID {
			return fmt.Errorf("dead letter of %s holds %s", e.MessageID, d.Message.ID)
		}
	}
	query := store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	for found := 0; ; {
		page, err := w.store.DeadLetters(ctx, ann, query)
		if err != nil {
			return err
		}
		if found += len(page.DeadLetters); !page.More {
			if found != failed {
				return fmt.Errorf("%d dead letters of %d failed messages", found, failed)
			}
			return nil
		}
		query.Low = page.Next
	}
}

func (w *witness) checkSecrets(ctx context.Context) error {
	for key, want := range w.secrets {
		if got, err := w.store.Secret(ctx, key); err != nil || got != want {
			return fmt.Errorf("secret %q is %q, %v, want %q", key, got, err, want)
		}
	}
	return nil
}

// String names the messages and runs of a change and what it makes of them.
func (ch *change) String() string {
	text := ""
	for _, p := range ch.parts {
		text += fmt.Sprintf(" %s %v", p.known.message.ID, p.states)
	}
	for _, p := range ch.runs {
		text += fmt.Sprintf(" %s %+v", p.known.id, p.shape)
	}
	return text
}

func withoutActive(events []posthaste.Event) []posthaste.State {
	return slices.DeleteFunc(statesOf(events), func(s posthaste.State) bool { return s == posthaste.StateActive })
}

func startsWith(states, prefix []posthaste.State) bool {
	return len(states) >= len(prefix) && slices.Equal(states[:len(prefix)], prefix)
}
