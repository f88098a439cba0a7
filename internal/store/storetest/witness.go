package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// witness makes random changes to a store and remembers what was acknowledged.
type witness struct {
	rng   *rand.Rand
	makes *maker
	now   time.Time
	store store.Store

	all       []*known // every message that the store was ever asked to accept
	byID      map[posthaste.MessageID]*known
	runs      []*knownRun // every run that the store was ever asked to start
	unsettled []*change   // that were in progress at the last crash
	secrets   map[string]string

	seen map[posthaste.Position]store.Entry // events that were read
	last posthaste.Position                 // the highest of those
}

// known is what was acknowledged of a message.
type known struct {
	message *posthaste.Message
	run     *knownRun         // that it belongs to, if any
	states  []posthaste.State // its events but for ACTIVE, which a crash may lose
	dueAt   time.Time
	claim   *store.Claim // the current one, if any
}

// change is one call to the store and what it does to messages and runs, all or
// nothing.
type change struct {
	call         func(context.Context, store.Store) error
	parts        []part
	runs         []runPart
	acknowledged bool
}

// part is what a change adds to one message.
type part struct {
	known  *known
	states []posthaste.State
	dueAt  time.Time // if it is changed
}

func newWitness(seed uint64) *witness {
	return &witness{
		rng:     rand.New(rand.NewPCG(seed, 0)),
		makes:   newMaker(seed),
		now:     start,
		byID:    map[posthaste.MessageID]*known{},
		secrets: map[string]string{},
		seen:    map[posthaste.Position]store.Entry{},
	}
}

func (k *known) last() posthaste.State {
	if len(k.states) == 0 {
		return ""
	}
	return k.states[len(k.states)-1]
}

func (k *known) living() bool { return len(k.states) > 0 && !k.last().Terminal() }

// asked reports whether a message that lives was asked to be cancelled.
func (k *known) asked() bool { return k.last() == posthaste.StateCancelRequested }

// standsAt returns the state in which a reader finds a message that was accepted.
func (k *known) standsAt() posthaste.State {
	if k.claim != nil {
		return posthaste.StateActive
	}
	return k.last()
}

func (k *known) retried() (n int) {
	for _, state := range k.states {
		if state == posthaste.StateRetry {
			n++
		}
	}
	return n
}

func (k *known) add(p part) {
	k.states = append(k.states, p.states...)
	if !p.dueAt.IsZero() {
		k.dueAt = p.dueAt
	}
}

func (w *witness) filter(keep func(*known) bool) []*known {
	return slices.DeleteFunc(slices.Clone(w.all), func(k *known) bool { return !keep(k) })
}

func (w *witness) living() []*known { return w.filter((*known).living) }

func (w *witness) claimed() []*known { return w.filter(func(k *known) bool { return k.claim != nil }) }

// make makes a change, which must succeed, and remembers it. Where it left its
// messages can be read at once.
func (w *witness) make(ctx context.Context, ch *change) error {
	if err := ch.call(ctx, w.store); err != nil {
		return err
	}
	ch.add()
	for _, p := range ch.parts {
		status, err := w.store.Message(ctx, ann, p.known.message.ID)
		if want := p.known.standsAt(); err != nil || status.State != want {
			return fmt.Errorf("an acknowledged change is lost: %s: %s stands at %q, %v, want %s",
				ch, p.known.message.ID, status.State, err, want)
		}
	}
	return nil
}

// add remembers a change that took place.
func (ch *change) add() {
	for _, p := range ch.parts {
		p.known.add(p)
	}
	for _, p := range ch.runs {
		p.known.shape = p.shape
	}
}

// newMessage makes a message that is known of, but not accepted.
func (w *witness) newMessage() *known {
	m := w.makes.message(w.now, func(m *posthaste.Message) {
		m.URL = fmt.Sprintf("http://host-%d.example/path", w.rng.IntN(4))
		m.Body = bytes.Repeat([]byte{byte(w.rng.IntN(256))}, w.rng.IntN(3)*w.rng.IntN(5000))
		m.NotBefore = m.CreatedAt.Add(time.Duration(max(0, w.rng.IntN(120)-60)) * time.Second)
		if w.rng.IntN(4) == 0 {
			m.Queue = fmt.Sprintf("queue-%d", w.rng.IntN(2))
		}
	})
	k := &known{message: m}
	w.all = append(w.all, k)
	w.byID[m.ID] = k
	return k
}

func created(k *known) part {
	return part{known: k, states: []posthaste.State{posthaste.StateCreated}, dueAt: k.message.NotBefore}
}

// cancelled is what a cancellation makes of a message that lives.
func cancelled(k *known) part {
	states := []posthaste.State{posthaste.StateCancelRequested}
	if k.claim == nil {
		states = append(states, posthaste.StateCancelled)
	}
	return part{known: k, states: states}
}

// acceptance is a change that accepts a few messages.
func (w *witness) acceptance() *change {
	ch := &change{}
	var messages []*posthaste.Message
	for range 1 + w.rng.IntN(3) {
		k := w.newMessage()
		messages = append(messages, k.message)
		ch.parts = append(ch.parts, created(k))
	}
	now := w.now
	ch.call = func(ctx context.Context, s store.Store) error { return accept(ctx, s, now, messages...) }
	return ch
}

// settlement is a change that ends the claim of a message in some way.
func (w *witness) settlement(k *known) *change {
	if w.rng.IntN(2) == 0 {
		return w.ending(k)
	}
	next := w.now.Add(time.Duration(w.rng.IntN(120)) * time.Second)
	return w.settling(k, store.RetryAt(*k.claim, next, refused))
}

// ending is a settlement that ends the message as well.
func (w *witness) ending(k *known) *change {
	switch {
	case w.rng.IntN(2) == 0:
		return w.settling(k, store.Delivered(*k.claim))
	case k.run != nil && w.rng.IntN(2) == 0:
		return w.settling(k, store.Dropped(*k.claim))
	default:
		return w.settling(k, store.Failed(*k.claim, refused))
	}
}

// settling makes a change of a settlement, some with a callback or a conclusion for
// the run.
func (w *witness) settling(k *known, s store.Settlement) *change {
	resolved := s.Resolve(k.asked())
	ch := &change{parts: []part{{known: k, states: statesOf(resolved.Events()), dueAt: resolved.NextAt}}}
	if failed := s.State == posthaste.StateRetry || s.State == posthaste.StateFailed; failed && w.rng.IntN(3) == 0 {
		callback := w.newMessage()
		callback.message.SourceID, callback.message.Queue = k.message.ID, ""
		s.Callbacks = callbacksOf(callback.message)
		if resolved.State != posthaste.StateCancelled {
			ch.parts = append(ch.parts, created(callback))
		}
	}
	if k.run != nil && k.run.active() && w.rng.IntN(3) == 0 {
		w.conclusion(k, &s, ch)
	}
	k.claim = nil
	now := w.now
	ch.call = func(ctx context.Context, st store.Store) error { return errorOf(st.Settle(ctx, now, s)) }
	return ch
}

// cancellation is a change that cancels messages.
func (w *witness) cancellation(targets []*known) *change {
	ch := &change{}
	var ids, want []posthaste.MessageID
	for _, k := range targets {
		ids = append(ids, k.message.ID)
		if !k.living() || k.asked() || k.run != nil {
			continue
		}
		want = append(want, k.message.ID)
		ch.parts = append(ch.parts, cancelled(k))
	}
	now := w.now
	ch.call = func(ctx context.Context, s store.Store) error {
		changed, err := s.Cancel(ctx, now, ann, ids, nil)
		if err == nil && len(changed) != len(want) {
			err = fmt.Errorf("cancel %v changed %v, want %v", ids, changed, want)
		}
		return err
	}
	return ch
}

func (w *witness) acceptSome(ctx context.Context) error { return w.make(ctx, w.acceptance()) }

func (w *witness) claimSome(ctx context.Context) error {
	claims, _, err := w.store.Claim(ctx, w.now, 1+w.rng.IntN(20))
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for _, c := range claims {
		k := w.byID[c.Message.ID]
		if err := w.checkClaim(k, c); err != nil {
			return fmt.Errorf("claim of %s: %w", c.Message.ID, err)
		}
		k.claim = &c
	}
	return w.checkLeases(ctx)
}

// checkLeases compares what the store has leased with what it handed out: a lease
// that nobody got holds its message up until the store is opened again.
func (w *witness) checkLeases(ctx context.Context) error {
	usage, err := w.store.Usage(ctx, ann)
	if err != nil {
		return fmt.Errorf("count claims: %w", err)
	}
	if held := len(w.claimed()); usage.InFlight != held {
		return fmt.Errorf("%d messages are leased, %d were handed out", usage.InFlight, held)
	}
	return nil
}

func (w *witness) checkClaim(k *known, c store.Claim) error {
	switch {
	case k == nil || !k.living():
		return errors.New("it does not live")
	case k.claim != nil:
		return errors.New("it is claimed already")
	case k.dueAt.After(w.now):
		return fmt.Errorf("it is due at %v, and it is %v", k.dueAt, w.now)
	case c.Retried != k.retried():
		return fmt.Errorf("retried %d, want %d", c.Retried, k.retried())
	case !bytes.Equal(c.Message.Body, k.message.Body) || c.Message.URL != k.message.URL:
		return errors.New("it is not the message that was accepted")
	}
	for _, other := range w.claimed() {
		if q := k.message.Queue; q != "" && other.message.Queue == q {
			return fmt.Errorf("its queue's only slot is held by %s", other.message.ID)
		}
	}
	return nil
}

func (w *witness) settleOne(ctx context.Context) error {
	claimed := w.claimed()
	if len(claimed) == 0 {
		return nil
	}
	k := claimed[w.rng.IntN(len(claimed))]
	if err := w.make(ctx, w.settlement(k)); err != nil {
		return fmt.Errorf("settle %s: %w", k.message.ID, err)
	}
	return nil
}

func (w *witness) releaseOne(ctx context.Context) error {
	claimed := w.claimed()
	if len(claimed) == 0 {
		return nil
	}
	k := claimed[w.rng.IntN(len(claimed))]
	claim := *k.claim
	k.claim = nil
	return w.store.Release(ctx, w.now, []store.Claim{claim})
}

func (w *witness) cancelSome(ctx context.Context) error {
	var targets []*known
	for _, k := range w.all {
		if w.rng.IntN(len(w.all)) < 2 {
			targets = append(targets, k)
		}
	}
	return w.make(ctx, w.cancellation(targets))
}

func (w *witness) keepSecret(ctx context.Context) error {
	key := fmt.Sprintf("key %d", len(w.secrets))
	kept, err := w.store.PutSecretIfAbsent(ctx, key, "of "+key)
	w.secrets[key] = kept
	return err
}

// passTime lets some time pass; now and then the clock is set back.
func (w *witness) passTime(context.Context) error {
	w.now = w.now.Add(time.Duration(w.rng.IntN(120)-20) * time.Second)
	return nil
}
