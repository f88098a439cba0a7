package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLedgerCountsEachMessageOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		live func(l *account) // what happens to messages 0 and 1, which were sent
		want tally            // counts alone
	}{
		{"nothing", func(*account) {}, tally{}},
		{"accepted is lost until delivered", func(l *account) {
			l.accept(0)
			l.accept(1)
			l.deliver(l.tag, 1)
		}, tally{accepted: 2, delivered: 1, lost: 1}},
		{"delivered before the publisher hears of it", func(l *account) {
			l.deliver(l.tag, 0)
			l.accept(0)
		}, tally{accepted: 1, delivered: 1}},
		{"delivered again", func(l *account) {
			l.accept(0)
			l.deliver(l.tag, 0)
			l.deliver(l.tag, 0)
			l.deliver(l.tag, 0)
		}, tally{accepted: 1, delivered: 1, duplicates: 2}},
		{"delivered and never accepted is not lost", func(l *account) {
			l.deliver(l.tag, 0)
		}, tally{delivered: 1}},
		{"message of another ledger", func(l *account) {
			l.accept(0)
			l.deliver(l.tag+1, 0)
		}, tally{accepted: 1, lost: 1}},
		{"number that was never sent", func(l *account) {
			l.deliver(l.tag, 2)
		}, tally{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newAccount()
			l.send()
			l.send()
			test.live(l)
			got := l.tally()
			counts := tally{accepted: got.accepted, delivered: got.delivered, lost: got.lost, duplicates: got.duplicates}
			if diff := cmp.Diff(test.want, counts, cmp.AllowUnexported(tally{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLedgerTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAccount()
		time.Sleep(1 * time.Second)
		first := l.send()
		time.Sleep(2 * time.Second)
		second := l.send()
		l.accept(first)
		time.Sleep(3 * time.Second)
		l.accept(second)
		l.deliver(l.tag, second)
		time.Sleep(4 * time.Second)
		l.deliver(l.tag, first)
		time.Sleep(5 * time.Second)

		got := l.tally()
		if want := 9 * time.Second; got.window != want {
			t.Errorf("window = %s, want %s: from the first message sent to the last delivered", got.window, want)
		}
		if diff := cmp.Diff([]time.Duration{2 * time.Second, 3 * time.Second}, got.accepting); diff != "" {
			t.Errorf("accepting, ascending:\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{3 * time.Second, 9 * time.Second}, got.delivering); diff != "" {
			t.Errorf("delivering, ascending:\n%s", diff)
		}
	})
}

func TestDrainWaitsForTheLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAccount()
		for range 3 {
			l.accept(l.send())
		}
		go func() {
			for number := range uint64(3) {
				time.Sleep(8 * time.Second) // within patience of the one before
				l.deliver(l.tag, number)
			}
		}()
		if err := l.drain(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if waited := l.elapsed(); waited != 24*time.Second {
			t.Errorf("drain returned after %s, want 24s, when the last message was delivered", waited)
		}
	})
}

func TestDrainGivesLostMessagesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAccount()
		l.accept(l.send())
		if err := l.drain(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if waited := l.elapsed(); waited != 10*time.Second {
			t.Errorf("drain gave up after %s, want 10s", waited)
		}
		if got := l.tally().lost; got != 1 {
			t.Errorf("lost = %d, want 1", got)
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	l := newAccount()
	l.accept(l.send())
	gone := errors.New("the person left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := l.drain(ctx, time.Hour); !errors.Is(err, gone) {
		t.Errorf("drain = %v, want %v", err, gone)
	}
}

func FuzzReadStamp(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, stampLen-1))
	f.Add([]byte("0123456789abcdef and more"))
	f.Fuzz(func(t *testing.T, body []byte) {
		tag, number, ok := readStamp(body)
		if ok != (len(body) >= stampLen) {
			t.Fatalf("readStamp of %d bytes: ok = %v", len(body), ok)
		}
		if !ok {
			return
		}
		again := make([]byte, stampLen)
		stamp(again, tag, number)
		if diff := cmp.Diff(body[:stampLen], again); diff != "" {
			t.Error(diff)
		}
	})
}
