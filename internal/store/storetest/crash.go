package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// Crashable is a backend that can be crashed and opened again.
type Crashable interface {
	// Open opens the store as the last crash left it; the first time, it is
	// empty.
	Open() (store.Store, error)

	// Crash ends the open store without warning and takes away what was not yet
	// durable, or a part of it that the seed decides. Calls may be in progress;
	// they return, one way or another.
	Crash(seed int64)
}

// Environment variables that say which seeds RunCrash tries.
const (
	seedsVariable = "STORETEST_SEEDS" // how many, from 1 on; as many as usual if not set
	seedVariable  = "STORETEST_SEED"  // this one alone
)

// RunCrash tests that what a backend acknowledged survives crashes. For each seed it makes the same
// random changes to the backend's store and to a model, crashes both in the middle of some, opens
// the store again and compares them:
//
//   - an acknowledged change is there, one of unknown fate is there whole or not at all: messages,
//     callbacks, dead letters, runs and all that belongs to them, secrets; and Usage counts what is
//     there;
//   - an event that was read before is there, and none appears before it;
//   - the lives of messages are legal, and all positions increase;
//   - messages that were claimed are due again, and the old leases are lost.
//
// A seed decides the changes; which of those in progress at a crash survive also
// depends on the machine. There are as many seeds as usual, unless STORETEST_SEEDS sets
// their number or STORETEST_SEED a single one.
func RunCrash(t *testing.T, usual int64, newCrashable func(t *testing.T) Crashable) {
	for _, seed := range seeds(t, usual) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			crashTest(t, uint64(seed), newCrashable(t))
			if t.Failed() {
				t.Logf("it was the seed of %s=%d", seedVariable, seed)
			}
		})
	}
}

// seeds returns those to be tried: so many unless the environment says otherwise.
func seeds(t *testing.T, n int64) []int64 {
	t.Helper()
	if one, ok := numberFrom(t, seedVariable); ok {
		return []int64{one}
	}
	if more, ok := numberFrom(t, seedsVariable); ok {
		n = more
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

func numberFrom(t *testing.T, variable string) (n int64, ok bool) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, a number from 1 on is expected", variable, text)
	}
	return n, true
}

// survivor is a store that crashes, and a model that has the same history. Both are told the same by
// historians who decide alike.
type survivor struct {
	testing.TB
	backend     Crashable
	store, like *historian
	rng         *rand.Rand

	seen map[posthaste.Position]store.Entry // events of the store that were read
	last posthaste.Position                 // the highest of those
}

// fate is a change that was in progress at a crash.
type fate struct {
	call         func() error
	look         func() string // at all that it may change
	acknowledged bool
}

// crashTest lives through some crashes and then brings every message to its end.
func crashTest(t testing.TB, seed uint64, backend Crashable) {
	const crashes = 4
	s := &survivor{
		TB: t, backend: backend, rng: rand.New(rand.NewPCG(seed, 0)),
		store: newHistorian(t, nil, seed), like: newHistorian(t, model.New(), seed),
		seen: map[posthaste.Position]store.Entry{},
	}
	s.open()
	for range crashes {
		for range 20 + s.rng.IntN(60) {
			s.both(func(h *historian) { h.change(h.durableChanges()) })
			if s.rng.IntN(10) == 0 {
				s.read()
			}
		}
		s.compare()
		s.crash()
	}
	s.drain()
	Audit(t, s.store.store, ann, s.store.accepted())
	s.store.ok(s.store.store.Close())
}

// both makes a change to the store and to the model, which must tell the same.
func (s *survivor) both(change func(*historian)) {
	s.Helper()
	for _, h := range []*historian{s.store, s.like} {
		h.told = nil
		change(h)
	}
	if diff := gocmp.Diff(s.like.told, s.store.told); diff != "" {
		s.Fatalf("what the model tells (-) and the store (+):\n%s", diff)
	}
}

func (s *survivor) open() {
	s.Helper()
	opened, err := s.backend.Open()
	s.store.ok(err)
	s.store.store = opened
}

// read reads the whole log and holds it against what was read before.
func (s *survivor) read() {
	s.Helper()
	query := logQuery(posthaste.Filter{})
	query.Limit = 1 + s.rng.IntN(plenty)
	entries, before := s.store.events(ann, query), s.last
	s.store.ok(checkPositions(entries))
	for _, e := range entries {
		old, ok := s.seen[e.Position]
		if ok && (old.MessageID != e.MessageID || old.State != e.State) || !ok && e.Position <= before {
			s.Fatalf("%s of %s is at %d, where %s of %s was; events up to %d had been read",
				e.State, e.MessageID, e.Position, old.State, old.MessageID, before)
		}
		s.seen[e.Position] = e
		s.last = max(s.last, e.Position)
	}
	if missing := len(s.seen) - len(entries); missing > 0 {
		s.Fatalf("%d events that had been read are gone", missing)
	}
}

// compare holds all that the store has against what the model has, and audits it.
func (s *survivor) compare() {
	s.Helper()
	s.read()
	s.both((*historian).lookAtAll)
	Audit(s, s.store.store, ann, s.store.accepted())
	if s.Failed() {
		s.FailNow()
	}
}

// crash begins some changes of different things at once and crashes the store meanwhile. Those that
// return before the crash begins are acknowledged; the model follows what became of the others.
func (s *survivor) crash() {
	s.Helper()
	var calls sync.WaitGroup
	var crashing atomic.Bool
	begun := make(chan struct{}, 1)
	claims := slices.Clone(s.store.claims)
	changes, alike := s.store.someChanges(), s.like.someChanges()
	for _, change := range changes {
		calls.Go(func() {
			select {
			case begun <- struct{}{}:
			default:
			}
			err := change.call()
			change.acknowledged = err == nil && !crashing.Load()
		})
	}
	<-begun
	for range s.rng.IntN(3) {
		time.Sleep(time.Duration(s.rng.IntN(300)) * time.Microsecond) // let some get through
	}
	crashing.Store(true)
	s.backend.Crash(s.rng.Int64())
	calls.Wait()

	s.open()
	for _, claim := range claims {
		s.store.wantErr(store.ErrLeaseLost, errorOf(s.store.store.Settle(s.Context(), s.store.now, store.Delivered(claim))))
	}
	for i, change := range changes {
		got := change.look()
		if !change.acknowledged && got == alike[i].look() {
			continue
		}
		s.like.ok(alike[i].call())
		if want := alike[i].look(); got != want {
			s.Fatalf("of a change, acknowledged: %t, this is there:\n%s\nwant\n%s", change.acknowledged, got, want)
		}
	}
	s.like.store = s.like.store.(*model.Model).Crash()
	s.store.claims, s.like.claims = nil, nil
	s.both(func(h *historian) {
		for more := true; more; { // what was to be cancelled ends, for which others of a queue may wait
			claims, _ := h.trial.claim(plenty)
			h.claims, more = append(h.claims, claims...), len(claims) > 0
		}
		h.claim()
	})
	s.compare()
}

// drain lets time pass until every message has come to its end.
func (s *survivor) drain() {
	s.Helper()
	for range 1000 { // many times as many rounds as any message needs
		s.both(func(h *historian) {
			h.wait(24 * time.Hour)
			h.claim()
			for len(h.claims) > 0 {
				c, _ := h.takeClaim()
				h.settle(store.Delivered(c))
			}
		})
		if live, _, err := s.store.store.LiveMessages(s.Context(), ann, store.LiveQuery{Limit: 1}); err != nil || len(live) == 0 {
			s.store.ok(err)
			s.compare()
			return
		}
	}
	s.Fatal("some messages are never handed out")
}

// accepted returns the messages of ann that are stored.
func (h *historian) accepted() (ids []posthaste.MessageID) {
	for _, id := range h.makes.ids[ann] {
		if _, err := h.store.Message(h.Context(), ann, id); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// durableChanges are those after which a crash takes nothing away but claims.
func (h *historian) durableChanges() []func() {
	return []func(){
		h.accept, h.accept, h.claim, h.claim, h.settleOne, h.settleOne, h.settleOne, h.releaseOne, h.cancel, h.runNow,
		h.retryLetter, h.deleteLetter, h.startRun, h.changeRun, h.changeRun, h.changeRun, h.changeGroup, h.changeSchedule, h.tick,
		h.cancelInSteps, h.notify, h.keepSecret,
	}
}

// lookAtAll looks at all that a crash must leave.
func (h *historian) lookAtAll() {
	h.settleDown(ann)
	h.tellLog("log", slices.DeleteFunc(h.wholeLog(ann), func(e store.Entry) bool { return e.State == posthaste.StateActive }))
	for _, id := range h.makes.ids[ann] {
		status, err := h.store.Message(h.Context(), ann, id)
		h.tell("%s is %s after %d, next %s, %v", id, status.State, status.Retried, since(status.NextAttemptAt), err)
	}
	h.lookAtLetters()
	h.lookAtLanes()
	h.lookAtRuns()
	h.lookAtResources()
	for _, run := range h.runs {
		h.tell("%s", h.runText(run.Position))
	}
	for n := range h.secrets {
		value, err := h.store.Secret(h.Context(), fmt.Sprint("key ", n))
		h.tell("secret %d is %q, %v", n, value, err)
	}
}

func (h *historian) keepSecret() {
	h.ok(errorOf(h.store.PutSecretIfAbsent(h.Context(), fmt.Sprint("key ", h.secrets), h.makes.message(h.now).ID.String())))
	h.secrets++
}

// runText describes all that a run has.
func (h *historian) runText(at posthaste.Position) (text string) {
	err := h.store.Transact(h.Context(), h.now, ann, func(tx store.RunTx) error {
		run, err := tx.Run(at)
		if err != nil {
			return err
		}
		entries, entriesErr := tx.Entries(at, -1)
		waiters, waitersErr := tx.RunWaiters(at)
		_, _, entryErr := tx.DLQEntry(run.DeadLetterID)
		text = fmt.Sprintf("%s is %s, delivers %v, waits %d times, in the DLQ: %t, events", run.ID, run.State, idsOfEntries(entries), len(waiters), entryErr == nil)
		for {
			body, ok, err := tx.TakeEvent(at, "event")
			if !ok {
				return errors.Join(entriesErr, waitersErr, err, errGivenUp)
			}
			text += fmt.Sprintf(" %q", body)
		}
	})
	if !errors.Is(err, errGivenUp) {
		text = fmt.Sprint(text, err)
	}
	return text
}

// someChanges prepares changes that touch no message and no run twice.
func (h *historian) someChanges() (changes []*fate) {
	logs := func(messages ...*posthaste.Message) func() string {
		return func() (text string) {
			for _, m := range messages {
				for _, e := range h.logOf(m) {
					if e.State != posthaste.StateActive {
						text += string(e.State) + " "
					}
				}
				text += "of " + m.ID.String() + "\n"
			}
			return text
		}
	}
	add := func(call func() error, look func() string) { changes = append(changes, &fate{call: call, look: look}) }
	now, ids, busy := h.now, slices.Clone(h.makes.ids[ann]), map[any]bool{}
	for _, c := range h.claims {
		busy[c.Message.ID] = true
		if h.chance(3) || c.Message.Run != nil && busy[c.Message.Run.Position] {
			continue
		}
		if c.Message.Run != nil {
			busy[c.Message.Run.Position] = true
		}
		s, another := h.anySettlement(c)
		add(func() error { return errorOf(h.store.Settle(h.Context(), now, s)) }, logs(c.Message, another))
	}
	for _, run := range h.runs {
		for _, entry := range h.entries(run) {
			busy[entry.MessageID] = true
		}
	}
	for _, id := range ids {
		if !busy[id] && h.chance(10) {
			add(func() error { return errorOf(h.store.Cancel(h.Context(), now, ann, []posthaste.MessageID{id}, nil)) }, logs(&posthaste.Message{User: ann, ID: id}))
		}
	}
	for range 1 + h.rng.IntN(5) {
		one, other := h.someMessage(), h.someMessage()
		one.Queue, other.Queue = "", "" // which of those that come at once is first is for the store to say
		add(func() error { return accept(h.Context(), h.store, now, one, other) }, logs(one, other))
	}
	for _, run := range h.runs {
		m, fails := h.message(), h.chance(3)
		if busy[run.Position] || h.chance(2) {
			continue
		}
		busy[run.Position] = true
		add(func() error {
			return h.trial.change(ann, run, func(tx store.RunTx, run *posthaste.Run) error {
				tx.Wait(waiterOf(run))
				if fails && run.DeadLetterID == 0 {
					return errors.Join(failIn(tx, run, m), appendTo(tx, run, m))
				}
				tx.BufferEvent(run.Position, "event", []byte(m.ID.String()))
				return appendTo(tx, run, m)
			})
		}, func() string {
			text := h.runText(run.Position)
			for _, entry := range h.entries(run) {
				text += logs(&posthaste.Message{User: ann, ID: entry.MessageID})()
			}
			return text
		})
	}
	first := h.message()
	made := h.runOf(withID(first.ID.String()))
	add(func() error {
		return h.store.Transact(h.Context(), now, ann, func(tx store.RunTx) error { return errorOf(begin(tx, made, first)) })
	}, logs(first))
	return changes
}
