package lsm

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

// large is a store that has memory for a few of the messages it gets.
type large struct {
	*testing.T
	*Store
	fs  vfs.FS
	now time.Time
}

const (
	largeMemory = 1 << 20
	largeSize   = 64 << 10
)

func newLarge(t *testing.T) *large {
	t.Helper()
	l := &large{T: t, fs: vfs.NewMem(), now: time.UnixMilli(1_800_000_000_000)}
	l.open()
	return l
}

func (l *large) open() {
	l.Helper()
	s, err := Open("data", Options{FS: l.fs, Memory: largeMemory, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.Fatal(err)
	}
	l.Store = s
	l.Cleanup(func() { _ = s.Close() })
}

// accept accepts a message with a body of a size, which begins with its URL.
func (l *large) accept(url string, size int) {
	l.Helper()
	id, err := posthaste.NewMessageID(l.now, rand.Reader)
	if err != nil {
		l.Fatal(err)
	}
	m := &posthaste.Message{ID: id, User: "ann", URL: url, Body: append([]byte(url), make([]byte, size)...), CreatedAt: l.now, NotBefore: l.now}
	if _, err := l.rules().Accept(l.Context(), l.now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
		l.Fatal(err)
	}
	if kept := l.scheduler.Memory().Bytes; kept > largeMemory/2 {
		l.Fatalf("%d bytes of messages that wait are in memory, want %d at most", kept, largeMemory/2)
	}
}

func (l *large) rules() *ledger.Ledger { return ledger.New(l.Store) }

// claim claims what may be claimed, and requires it to be within the memory there is.
func (l *large) claim() []store.Claim {
	l.Helper()
	claims, _, err := l.Claim(l.Context(), l.now, 1000)
	if err != nil {
		l.Fatal(err)
	}
	for _, claim := range claims {
		if !bytes.HasPrefix(claim.Message.Body, []byte(claim.Message.URL)) {
			l.Errorf("the message for %s has the body of another", claim.Message.URL)
		}
	}
	if taken := l.scheduler.Memory().Claimed; taken > largeMemory && len(claims) > 1 {
		l.Fatalf("%d bytes are claimed, want %d at most", taken, largeMemory)
	}
	return claims
}

// TestMemoryOfMessages has many times as much waiting, and due, as there is memory for. All
// of it is delivered, before and after a new start.
func TestMemoryOfMessages(t *testing.T) {
	l := newLarge(t)
	const hosts, each = 10, 10
	for n := range hosts * each {
		l.accept(fmt.Sprintf("http://host-%d.example/%d", n%hosts, n), largeSize)
	}
	delivered := 0
	for delivered < hosts*each {
		claims := l.claim()
		if len(claims) == 0 {
			t.Fatalf("nothing is claimed after %d of %d messages", delivered, hosts*each)
		}
		for _, claim := range claims {
			if _, err := l.rules().Settle(t.Context(), l.now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		delivered += len(claims)
		if delivered == len(claims) {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l.open()
		}
	}
	if kept := l.scheduler.Memory(); kept != (lanes.Memory{}) {
		t.Errorf("%+v is in memory when all were delivered", kept)
	}
}

// TestMemoryIsForLargeMessages has hosts that hang take all memory there is: a small message
// is claimed all the same, and one that is larger than all memory when they have ended.
func TestMemoryIsForLargeMessages(t *testing.T) {
	l := newLarge(t)
	for n := range 100 {
		l.accept(fmt.Sprintf("http://hangs-%d.example/", n), largeSize)
	}
	hanging := l.claim()
	l.accept("http://huge.example/", 2*largeMemory)
	l.accept("http://small.example/", 10)
	if claims := l.claim(); len(claims) != 1 || claims[0].Message.URL != "http://small.example/" {
		t.Fatalf("%d messages are claimed beside those that hang, want the small one", len(claims))
	}
	for found := false; !found; {
		for _, claim := range hanging {
			found = found || claim.Message.URL == "http://huge.example/"
			if _, err := l.rules().Settle(t.Context(), l.now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		if hanging = l.claim(); len(hanging) == 0 && !found {
			t.Fatal("the largest message is never claimed")
		}
	}
}

// TestMemoryOfLists has runs whose last steps are small and whose lists are not: a delivery
// carries the list, and takes as much memory.
func TestMemoryOfLists(t *testing.T) {
	l := newLarge(t)
	const runs, delivered = 12, largeMemory / 3 // in base64
	for n := range runs {
		l.start(fmt.Sprintf("http://host-%d.example/", n), delivered/4*3)
	}
	for left := runs; left > 0; {
		claims := l.claim()
		if len(claims) == 0 || len(claims) > largeMemory/delivered {
			t.Fatalf("%d deliveries of %d bytes are claimed, want %d at most, and some", len(claims), delivered, largeMemory/delivered)
		}
		for _, claim := range claims {
			if _, err := l.rules().Settle(t.Context(), l.now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(claims)
	}
}

// start starts a run with a list of so many bytes, the last few of which are to be
// delivered.
func (l *large) start(url string, size int) {
	l.Helper()
	id, err := posthaste.NewMessageID(l.now, rand.Reader)
	if err != nil {
		l.Fatal(err)
	}
	err = l.rules().Transact(l.Context(), l.now, "ann", func(tx store.RunTx) error {
		ref := posthaste.RunRef{ID: url, URL: url, Position: tx.NextPosition(0), CreatedAt: l.now}
		run := &posthaste.Run{RunRef: ref, User: "ann", FirstID: id, RunProgress: posthaste.RunProgress{State: posthaste.RunStarted}}
		tx.Start(run)
		m := &posthaste.Message{
			ID: id, User: "ann", URL: url, Body: []byte(url), CreatedAt: l.now, NotBefore: l.now,
			Run: &posthaste.RunLink{RunRef: ref, CallType: posthaste.CallStep},
		}
		payload := posthaste.RunEntry{CallType: posthaste.CallStep, Body: make([]byte, size-len(url))}
		return errors.Join(tx.Append(run, payload, nil),
			tx.Append(run, posthaste.RunEntry{MessageID: id, CallType: posthaste.CallStep, Body: m.Body}, m))
	})
	if err != nil {
		l.Fatal(err)
	}
}

// TestReleasedClaimsAreLogged has claims given up at once, and no memory left to keep all of
// their messages in: the log tells of every claim all the same.
func TestReleasedClaimsAreLogged(t *testing.T) {
	l := newLarge(t)
	for n := range 20 {
		l.accept(fmt.Sprintf("http://host-%d.example/", n), largeSize)
	}
	claims := l.claim()
	if len(claims)*largeSize <= largeMemory/2 {
		t.Fatalf("%d claims fit into the %d bytes for those that wait", len(claims), largeMemory/2)
	}
	if err := l.Release(t.Context(), l.now, claims); err != nil {
		t.Fatal(err)
	}
	page, err := store.ReadEvents(t.Context(), l, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	active := 0
	for _, entry := range page.Entries {
		if entry.State == posthaste.StateActive {
			active++
		}
	}
	if active != len(claims) {
		t.Errorf("%d of %d claims are in the log", active, len(claims))
	}
}
