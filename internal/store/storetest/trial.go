package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

// plenty is a limit that none of the tests reaches.
const plenty = 1000

// The users of the tests: one name begins with another, so that a backend that
// confuses a name with a prefix is found out.
const (
	ann  = "ann"
	anna = "anna"
)

// trial is a store under test and what was accepted.
type trial struct {
	bench
	store    store.Store
	patience time.Duration // how long to wait for what must come

	trimmed bool // so that what is left is not whole and cannot be audited
}

// bench is what a test works with: the time that is told, and a maker of messages. The embedded
// testing.TB ends a test that cannot go on.
type bench struct {
	testing.TB
	now   time.Time
	makes *maker
}

func newBench(t testing.TB) bench { return bench{TB: t, now: start, makes: newMaker(1)} }

func (b *bench) wait(d time.Duration) { b.now = b.now.Add(d) }

// message makes a message without accepting it.
func (b *bench) message(edits ...func(*posthaste.Message)) *posthaste.Message {
	return b.makes.message(b.now, edits...)
}

// ok requires a call to succeed.
func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// must returns a function that requires a call to succeed, and returns what it answered.
func must[T any](answer T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// wantErr requires a call to fail with an error.
func (b *bench) wantErr(want, got error, of ...any) {
	b.Helper()
	if !errors.Is(got, want) {
		b.Errorf("%s error %v, want %v", fmt.Sprint(of...), got, want)
	}
}

// same reports a difference between two values, times compared as moments.
func (b *bench) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// together runs an action n times at once and reports what fails.
func (b *bench) together(n int, action func(n int) error) {
	b.Helper()
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			if err := action(i); err != nil {
				b.Error(err)
			}
		})
	}
	running.Wait()
}

// try runs one check on a store and audits what it leaves there.
func try(t testing.TB, s store.Store, check func(*trial)) {
	t.Helper()
	newTrial(t, s).try(check)
}

// newTrial makes a trial whose waits are far longer than what they wait for takes.
func newTrial(t testing.TB, s store.Store) *trial {
	return &trial{bench: newBench(t), store: s, patience: 30 * time.Second}
}

func (tr *trial) try(check func(*trial)) {
	tr.Helper()
	check(tr)
	if tr.Failed() || tr.trimmed || tr.store.Ping(tr.Context()) != nil {
		return // closed by the check, or of no interest any more
	}
	for user, ids := range tr.makes.ids {
		Audit(tr, tr.store, user, ids)
	}
}

// start is when every test begins: a few minutes before a day ends in UTC, so
// that tests that take their time cross a day's border.
var start = time.Date(2026, 3, 1, 23, 55, 0, 0, time.UTC)

// maker makes messages. It is not safe for concurrent use.
type maker struct {
	entropy *rand.ChaCha8
	made    int
	ids     map[string][]posthaste.MessageID // by user
}

func newMaker(seed uint64) *maker {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &maker{entropy: rand.NewChaCha8(key), ids: map[string][]posthaste.MessageID{}}
}

// message makes a message of ann, due at now, with a URL and so a lane of its
// own; the edits change it.
func (mk *maker) message(now time.Time, edits ...func(*posthaste.Message)) *posthaste.Message {
	id, err := posthaste.NewMessageID(now, mk.entropy)
	if err != nil {
		panic(err) // entropy from a generator does not end
	}
	mk.made++
	m := &posthaste.Message{
		ID:        id,
		User:      ann,
		URL:       fmt.Sprintf("http://host-%d.example/path", mk.made),
		Body:      fmt.Appendf(nil, "body %d", mk.made),
		CreatedAt: now,
		NotBefore: now,
	}
	for _, edit := range edits {
		edit(m)
	}
	m.SetSlot(nil)
	mk.ids[m.User] = append(mk.ids[m.User], m.ID)
	return m
}

func ownedBy(user string) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.User = user }
}

func sentTo(url string) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.URL = url }
}

func delayed(d time.Duration) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.NotBefore = m.CreatedAt.Add(d) }
}

// accept makes a message and has it accepted.
func (tr *trial) accept(edits ...func(*posthaste.Message)) *posthaste.Message {
	tr.Helper()
	m := tr.message(edits...)
	tr.acceptAll(m)
	return m
}

// accept has messages accepted as one submission, which repeats none.
func accept(ctx context.Context, s store.Store, now time.Time, messages ...*posthaste.Message) error {
	accepted, err := s.Accept(ctx, now, []store.Submission{{Messages: messages}})
	switch {
	case err != nil:
		return fmt.Errorf("accept: %w", err)
	case len(accepted) != 1 || accepted[0].Deduplicated || len(accepted[0].IDs) != len(messages):
		return fmt.Errorf("accept %d messages: answered %+v", len(messages), accepted)
	}
	return nil
}

func (tr *trial) acceptAll(messages ...*posthaste.Message) {
	tr.Helper()
	tr.ok(accept(tr.Context(), tr.store, tr.now, messages...))
}

// acceptMany makes n messages and has them accepted in one commit.
func (tr *trial) acceptMany(n int, edits ...func(*posthaste.Message)) []*posthaste.Message {
	tr.Helper()
	messages := make([]*posthaste.Message, n)
	for i := range messages {
		messages[i] = tr.message(edits...)
	}
	tr.acceptAll(messages...)
	return messages
}

func (tr *trial) claim(limit int) (claims []store.Claim, next time.Time) {
	tr.Helper()
	claims, next, err := tr.store.Claim(tr.Context(), tr.now, limit)
	if err != nil {
		tr.Fatalf("Claim: %v", err)
	}
	if len(claims) > limit {
		tr.Fatalf("Claim with limit %d returned %d claims", limit, len(claims))
	}
	return claims, next
}

// claimOne claims all there is, which must be the one message.
func (tr *trial) claimOne(m *posthaste.Message) store.Claim {
	tr.Helper()
	claims, _ := tr.claim(plenty)
	if len(claims) != 1 || claims[0].Message.ID != m.ID {
		tr.Fatalf("Claim returned %v, want %s alone", idsOf(claims), m.ID)
	}
	return claims[0]
}

// wantNoClaims requires that nothing can be claimed now.
func (tr *trial) wantNoClaims() {
	tr.Helper()
	if claims, _ := tr.claim(plenty); len(claims) > 0 {
		tr.Fatalf("Claim returned %v, want nothing", idsOf(claims))
	}
}

func (tr *trial) settle(s store.Settlement) store.Settlement {
	tr.Helper()
	return must(tr.store.Settle(tr.Context(), tr.now, s))(tr)
}

func (tr *trial) release(claims ...store.Claim) {
	tr.Helper()
	tr.ok(tr.store.Release(tr.Context(), tr.now, claims))
}

// cancel asks for messages of ann to be cancelled and returns the number of
// those the store says it changed.
func (tr *trial) cancel(messages ...*posthaste.Message) int {
	tr.Helper()
	ids := idsOfMessages(messages)
	changed := must(tr.store.Cancel(tr.Context(), tr.now, ann, ids, nil))(tr)
	for _, id := range changed {
		if !slices.Contains(ids, id) {
			tr.Errorf("Cancel says it changed %s, which it was not given", id)
		}
	}
	return len(changed)
}

func (tr *trial) status(m *posthaste.Message) store.Status {
	tr.Helper()
	return must(tr.store.Message(tr.Context(), m.User, m.ID))(tr)
}

// events returns all events that match, in the query's order.
func (tr *trial) events(user string, query store.EventQuery) []store.Entry {
	tr.Helper()
	return must(readAll(tr.Context(), tr.store, user, query))(tr)
}

// logQuery is the query for all events that pass a filter, oldest first.
func logQuery(filter posthaste.Filter) store.EventQuery {
	return store.EventQuery{Filter: filter, High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty}
}

// wholeLog returns all events of a user, oldest first.
func (tr *trial) wholeLog(user string) []store.Entry {
	tr.Helper()
	return tr.events(user, logQuery(posthaste.Filter{}))
}

// logOf returns the events of a message, oldest first.
func (tr *trial) logOf(m *posthaste.Message) []store.Entry {
	tr.Helper()
	return tr.events(m.User, logQuery(posthaste.Filter{MessageIDs: []posthaste.MessageID{m.ID}}))
}

// wantLog requires the states of a message's events, given as one text.
func (tr *trial) wantLog(m *posthaste.Message, want string) {
	tr.Helper()
	tr.settleDown(m.User)
	if got := statesText(tr.logOf(m)); got != want {
		tr.Errorf("log of %s: %s, want %s", m.ID, got, want)
	}
}

// settleDown waits until the user's events of every claim made so far can be
// read: that of a message accepted after them can, and no event is shown before
// one with a lower position.
func (tr *trial) settleDown(user string) {
	tr.Helper()
	tr.accept(ownedBy(user), delayed(never))
}

// never is a delay that no test waits for.
const never = 1000 * time.Hour

func statesText(entries []store.Entry) string {
	texts := make([]string, len(entries))
	for i, e := range entries {
		texts[i] = string(e.State)
	}
	return strings.Join(texts, " ")
}

func idsOf(claims []store.Claim) []posthaste.MessageID {
	ids := make([]posthaste.MessageID, len(claims))
	for i, c := range claims {
		ids[i] = c.Message.ID
	}
	return ids
}
