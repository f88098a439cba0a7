package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Audit proves the store's promises on what it holds of a user's messages and
// runs, seen through its public methods: each message has a legal life (CheckLife),
// stands where its events say, and each event is joined with the right message at a
// position above all earlier ones; Counts agrees with the log; what belongs to a run
// fits together; and as much is kept as Usage says. It covers every message in the user's log and requires the
// given ones to be among them.
//
// The store must be at rest while it is audited.
func Audit(t testing.TB, s store.Store, user string, ids []posthaste.MessageID) {
	t.Helper()
	if err := audit(t.Context(), s, user, ids); err != nil {
		t.Errorf("audit of user %q: %v", user, err)
	}
}

func audit(ctx context.Context, s store.Store, user string, ids []posthaste.MessageID) error {
	entries, err := readAll(ctx, s, user, store.EventQuery{
		High:        posthaste.MaxPosition,
		OldestFirst: true,
		Limit:       1000,
	})
	if err != nil {
		return err
	}
	errs := []error{checkPositions(entries)}
	lives := map[posthaste.MessageID][]posthaste.Event{}
	for _, e := range entries {
		errs = append(errs, checkEntry(user, e))
		lives[e.MessageID] = append(lives[e.MessageID], e.Event)
	}
	for _, id := range ids {
		if len(lives[id]) == 0 {
			errs = append(errs, fmt.Errorf("message %s: no events", id))
		}
	}
	for id, events := range lives {
		if err := checkMessage(ctx, s, user, id, events); err != nil {
			errs = append(errs, fmt.Errorf("message %s: %w", id, err))
		}
	}
	return errors.Join(append(errs, auditCounts(ctx, s, user, entries), auditRuns(ctx, s, user, entries), auditUsage(ctx, s, user))...)
}

// checkPositions requires positions to increase strictly.
func checkPositions(entries []store.Entry) error {
	for i := 1; i < len(entries); i++ {
		if earlier, later := entries[i-1], entries[i]; later.Position <= earlier.Position {
			return fmt.Errorf("%s of %s at %d comes after %s of %s at %d",
				later.State, later.MessageID, later.Position, earlier.State, earlier.MessageID, earlier.Position)
		}
	}
	return nil
}

// checkEntry requires an event to be joined with its message and to carry what
// its state calls for, nothing else.
func checkEntry(user string, e store.Entry) error {
	switch {
	case e.Message == nil:
		return fmt.Errorf("event %d of %s has no message", e.Position, e.MessageID)
	case e.Message.ID != e.MessageID || e.Message.User != user:
		return fmt.Errorf("event %d of %s is joined with message %s of user %q",
			e.Position, e.MessageID, e.Message.ID, e.Message.User)
	case e.Response != nil && e.State != posthaste.StateError:
		return fmt.Errorf("event %d of %s is %s and has a response", e.Position, e.MessageID, e.State)
	case e.State == posthaste.StateRetry && e.NextDeliveryAt.IsZero():
		return fmt.Errorf("event %d of %s is RETRY and does not say when", e.Position, e.MessageID)
	case e.State.Terminal() && !e.NextDeliveryAt.IsZero():
		return fmt.Errorf("event %d of %s is %s and promises a delivery", e.Position, e.MessageID, e.State)
	}
	return nil
}

// checkMessage compares where a message stands with its events.
func checkMessage(ctx context.Context, s store.Store, user string, id posthaste.MessageID, events []posthaste.Event) error {
	status, err := s.Message(ctx, user, id)
	if err != nil {
		return err
	}
	return errors.Join(checkLife(statesOf(events), status.Message.Run != nil), checkStatus(status, events))
}

func checkStatus(got store.Status, events []posthaste.Event) error {
	want := statusAfter(got.Message, events)
	if got.State == posthaste.StateActive && !want.State.Terminal() {
		// The claim's own event may not be on disk yet.
		want.State, want.NextAttemptAt = posthaste.StateActive, time.Time{}
	}
	if got.NextAttemptAt.Before(want.NextAttemptAt) && !got.NextAttemptAt.IsZero() {
		want.NextAttemptAt = got.NextAttemptAt // RunNow leaves no event
	}
	if got.State != want.State || got.Retried != want.Retried || !got.NextAttemptAt.Equal(want.NextAttemptAt) {
		return fmt.Errorf("stands at %s, retried %d, next %v; after %v it must be at %s, retried %d, next %v",
			got.State, got.Retried, got.NextAttemptAt, statesOf(events), want.State, want.Retried, want.NextAttemptAt)
	}
	return nil
}

// statusAfter returns where a message with these events stands when it is not
// claimed.
func statusAfter(m *posthaste.Message, events []posthaste.Event) store.Status {
	status := store.Status{Message: m, State: posthaste.StateCreated, NextAttemptAt: m.NotBefore}
	for _, e := range events {
		switch {
		case e.State == posthaste.StateRetry:
			status.State, status.NextAttemptAt = e.State, e.NextDeliveryAt
			status.Retried++
		case e.State.Terminal():
			status.State, status.NextAttemptAt = e.State, time.Time{}
		}
	}
	return status
}

func statesOf(events []posthaste.Event) []posthaste.State {
	states := make([]posthaste.State, len(events))
	for i, e := range events {
		states[i] = e.State
	}
	return states
}

// readAll follows a query to its last page. It returns an error when a page is
// larger than asked for, leaves the query's order or range, or leads nowhere.
func readAll(ctx context.Context, s store.Log, user string, query store.EventQuery) ([]store.Entry, error) {
	var all []store.Entry
	for {
		page, err := store.ReadEvents(ctx, s, user, query)
		if err != nil {
			return nil, fmt.Errorf("events from %d to %d: %w", query.Low, query.High, err)
		}
		if err := checkPage(query, page); err != nil {
			return nil, err
		}
		if err := checkMessageSizes(page.Entries); err != nil {
			return nil, err
		}
		if err := checkBytes(page.Entries, query.Bytes, entrySize); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if !page.More {
			return all, nil
		}
		query = nextQuery(query, page)
	}
}

func nextQuery(query store.EventQuery, page store.EventPage) store.EventQuery {
	if query.OldestFirst {
		query.Low = page.Next
	} else {
		query.High = page.Next
	}
	return query
}

// checkPage requires a page to keep to its query and to lead on.
func checkPage(query store.EventQuery, page store.EventPage) error {
	if len(page.Entries) > query.Limit {
		return fmt.Errorf("a page of %d events, at most %d were asked for", len(page.Entries), query.Limit)
	}
	positions := make([]posthaste.Position, 0, len(page.Entries)+1)
	for _, e := range page.Entries {
		positions = append(positions, e.Position)
	}
	if page.More {
		positions = append(positions, page.Next)
		if len(page.Entries) == 0 && leadsNowhere(query, page) {
			return fmt.Errorf("an empty page from %d to %d continues where it began", query.Low, query.High)
		}
	}
	return checkOrder(query, positions)
}

// entrySize is the size of an entry that may have no message, which is for others to find.
// It counts by itself: what the entry says of its message is what a backend has set.
func entrySize(e *store.Entry) int {
	if e.Message == nil {
		return 0
	}
	return store.MessageSize(e.Message) + len(e.Error) + store.ResponseSize(e.Response)
}

// checkMessageSizes requires entries to know the size of their message, if they have it.
func checkMessageSizes(entries []store.Entry) error {
	for _, e := range entries {
		if e.Message == nil {
			continue
		}
		if want := store.MessageSize(e.Message); e.MessageSize != want {
			return fmt.Errorf("entry %d says that its message has %d bytes, which has %d", e.Position, e.MessageSize, want)
		}
	}
	return nil
}

// checkBytes requires that what is on a page has no more bytes than the page may hold, 0
// for PageBytes, or is alone there.
func checkBytes[T any](items []T, most int, size func(*T) int) error {
	if most == 0 {
		most = store.PageBytes
	}
	bytes := 0
	for i := range items {
		bytes += size(&items[i])
	}
	if len(items) > 1 && bytes > most {
		return fmt.Errorf("a page of %d items holds %d bytes, want %d at most", len(items), bytes, most)
	}
	return nil
}

func leadsNowhere(query store.EventQuery, page store.EventPage) bool {
	next := nextQuery(query, page)
	return next.Low == query.Low && next.High == query.High
}

func checkOrder(query store.EventQuery, positions []posthaste.Position) error {
	for i, p := range positions {
		if p < query.Low || p > query.High {
			return fmt.Errorf("position %d is outside of %d to %d", p, query.Low, query.High)
		}
		if i == 0 {
			continue
		}
		if before := positions[i-1]; before == p || (before < p) != query.OldestFirst {
			return fmt.Errorf("positions %d, %d are not in the order asked for", before, p)
		}
	}
	return nil
}
