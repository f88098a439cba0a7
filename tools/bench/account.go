package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// A body begins with a stamp that says which message it is: the tag of the
// ledger and the number within it, eight bytes each.
const stampLen = 16

// stamp writes a message's identity into the beginning of its body.
func stamp(body []byte, tag, number uint64) {
	binary.BigEndian.PutUint64(body, tag)
	binary.BigEndian.PutUint64(body[8:], number)
}

// readStamp reads what stamp wrote. Shorter bodies are not ours.
func readStamp(body []byte) (tag, number uint64, ok bool) {
	if len(body) < stampLen {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]), true
}

// account records one load: when each message was sent, accepted and
// delivered. It may be used by many goroutines at once. Times are counted from
// its making.
type account struct {
	tag     uint64
	start   time.Time
	arrival chan struct{} // receives after messages were delivered

	mu         sync.Mutex
	entries    []entry // by number
	missing    int     // accepted and not yet delivered
	duplicates int
}

// entry is the account of one message. A zero time has not come.
type entry struct {
	sent, accepted, delivered time.Duration
}

func newAccount() *account {
	var tag [8]byte
	_, _ = rand.Read(tag[:]) // never fails, by its contract
	return &account{
		tag:     binary.BigEndian.Uint64(tag[:]),
		start:   time.Now(),
		arrival: make(chan struct{}, 1),
	}
}

// send opens the account of a message that is about to be published and returns
// its number.
func (l *account) send() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{sent: l.elapsed()})
	return uint64(len(l.entries) - 1)
}

// accept notes the server's promise to deliver a message.
func (l *account) accept(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.entries[number]
	e.accepted = l.elapsed()
	if e.delivered == 0 {
		l.missing++
	}
}

// deliver notes the arrival of a message, which may come before its publisher
// has heard that it was accepted. A message of another ledger is none of ours.
func (l *account) deliver(tag, number uint64) {
	if l.enter(tag, number) {
		select {
		case l.arrival <- struct{}{}:
		default:
		}
	}
}

func (l *account) enter(tag, number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tag != l.tag || number >= uint64(len(l.entries)) {
		return false
	}
	e := &l.entries[number]
	if e.delivered != 0 {
		l.duplicates++
		return true
	}
	e.delivered = l.elapsed()
	if e.accepted != 0 {
		l.missing--
	}
	return true
}

// elapsed is never zero, so that zero can mean never.
func (l *account) elapsed() time.Duration { return max(1, time.Since(l.start)) }

// drain waits until every accepted message was delivered. It gives up when none
// has arrived for as long as patience.
func (l *account) drain(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for l.outstanding() > 0 {
		select {
		case <-l.arrival:
			timer.Reset(patience)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (l *account) outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

// tally is what a ledger comes to.
type tally struct {
	accepted, delivered int             // messages, each counted once
	lost, duplicates    int             // accepted and not delivered; deliveries beyond the first
	window              time.Duration   // from the first message sent to the last delivered
	accepting           []time.Duration // from sending to the answer, ascending
	delivering          []time.Duration // from sending to the first delivery, ascending
}

// tally adds the ledger up.
func (l *account) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tally{lost: l.missing, duplicates: l.duplicates}
	var last time.Duration
	for _, e := range l.entries {
		if e.accepted != 0 {
			t.accepting = append(t.accepting, e.accepted-e.sent)
		}
		if e.delivered != 0 {
			t.delivering = append(t.delivering, e.delivered-e.sent)
			last = max(last, e.delivered)
		}
	}
	if last > 0 {
		t.window = last - l.entries[0].sent
	}
	t.accepted, t.delivered = len(t.accepting), len(t.delivering)
	slices.Sort(t.accepting)
	slices.Sort(t.delivering)
	return t
}
