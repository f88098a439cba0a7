package postgres_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// However large messages are, a call reads a bounded part of them, and the next goes on
// behind it.
func TestLargeMessagesAreReadInParts(t *testing.T) {
	const count, size, atOnce, claimed = 70, 1 << 20, 16, 64
	s := open(t, emptyDatabase(t))
	for range count {
		m := newMessage(start)
		m.Body = make([]byte, size)
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	var read []posthaste.MessageID
	for query := (store.LiveQuery{Limit: count}); len(read) == 0 || query.Cursor != ""; {
		ids, cursor, err := s.LiveMessages(t.Context(), ann, query)
		if err != nil || len(ids) > atOnce {
			t.Fatalf("%d messages are read at once, %v, want %d at most", len(ids), err, atOnce)
		}
		read, query.Cursor = append(read, ids...), cursor
	}
	if len(read) != count {
		t.Errorf("%d messages are read, want %d", len(read), count)
	}
	for _, want := range []int{claimed, count - claimed} {
		claims, next, err := s.Claim(t.Context(), start, 2*count)
		if err != nil || len(claims) != want {
			t.Fatalf("Claim returns %d messages, %v, want %d", len(claims), err, want)
		}
		if more := want == claimed; more && next.After(start) {
			t.Errorf("the next claim is at %v, want now", next)
		}
	}
}

// TestLargeMessagesInFlightAreBounded has many times as much due as a node has memory for.
// All of it is claimed in the end, one part after another.
func TestLargeMessagesInFlightAreBounded(t *testing.T) {
	const count, size, memory = 20, 1 << 20, 4 << 20
	s := openWith(t, emptyDatabase(t), postgres.Options{Memory: memory}.WithPatience(patience))
	for n := range count {
		m := newMessage(start)
		m.URL, m.Body = fmt.Sprintf("http://host-%d.example/", n), make([]byte, size)
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	now, delivered := start, 0
	for delivered < count {
		claims, _, err := s.Claim(t.Context(), now, 2*count)
		if err != nil || len(claims) == 0 || len(claims) > memory/size {
			t.Fatalf("Claim returns %d messages, %v, want %d at most, and some", len(claims), err, memory/size)
		}
		more, _, err := s.Claim(t.Context(), now, 2*count)
		if err != nil || len(claims)+len(more) > memory/size {
			t.Fatalf("%d messages are claimed, and %d more, %v", len(claims), len(more), err)
		}
		claims = append(claims, more...)
		for _, claim := range claims {
			if _, err := s.Settle(t.Context(), now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		delivered += len(claims)
		now = now.Add(time.Second) // after which lanes without memory are looked at again
	}
}

// TestLargeListsInFlightAreBounded has runs whose last steps are small and whose lists are
// not: a delivery carries the list, and takes as much memory.
func TestLargeListsInFlightAreBounded(t *testing.T) {
	const runs, memory, list = 8, 4 << 20, 1 << 20
	s := openWith(t, emptyDatabase(t), postgres.Options{Memory: memory}.WithPatience(patience))
	for n := range runs {
		m := newMessage(start)
		m.URL = fmt.Sprintf("http://host-%d.example/", n)
		if err := startWithList(t.Context(), s, m, list); err != nil {
			t.Fatal(err)
		}
	}
	claims, _, err := s.Claim(t.Context(), start, 2*runs)
	if most := memory / base64.StdEncoding.EncodedLen(list); err != nil || len(claims) == 0 || len(claims) > most {
		t.Fatalf("Claim returns %d messages, %v, want %d at most, and some", len(claims), err, most)
	}
}

// startWithList starts a run of which so many bytes are listed before its first message.
func startWithList(ctx context.Context, s store.Store, m *posthaste.Message, size int) error {
	return s.Transact(ctx, start, m.User, func(tx store.RunTx) error {
		ref := posthaste.RunRef{ID: m.URL, URL: m.URL, Position: tx.NextPosition(0), CreatedAt: start}
		run := &posthaste.Run{RunRef: ref, User: m.User, FirstID: m.ID, RunProgress: posthaste.RunProgress{State: posthaste.RunStarted}}
		tx.Start(run)
		m.Run = &posthaste.RunLink{RunRef: ref, CallType: posthaste.CallStep}
		return errors.Join(tx.Append(run, posthaste.RunEntry{CallType: posthaste.CallStep, Body: make([]byte, size)}, nil),
			tx.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: posthaste.CallStep, Body: m.Body}, m))
	})
}

// A bulk action that was under way when the version changed has a cursor that is only an id.
func TestCursorsOfOlderVersionsBeginAgain(t *testing.T) {
	s := open(t, emptyDatabase(t))
	m := accept(t, s, start)
	cursor := base64.RawURLEncoding.EncodeToString(m.ID[:])
	ids, next, err := s.LiveMessages(t.Context(), ann, store.LiveQuery{Limit: 10, Cursor: cursor})
	if err != nil || len(ids) != 1 || next != "" {
		t.Errorf("LiveMessages = %v, %q, %v, want one message", ids, next, err)
	}
}
