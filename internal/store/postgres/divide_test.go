package postgres_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

// grow has a node divide all users into so many partitions.
func grow(t *testing.T, s *ruled, partitions store.Partitions) {
	t.Helper()
	if err := s.Grow(t.Context(), partitions); err != nil {
		t.Fatal(err)
	}
	awaitDivided(t, s, partitions)
}

func awaitDivided(t *testing.T, s *ruled, partitions store.Partitions) {
	t.Helper()
	await(t, "all users are divided", func() bool {
		s.DivideAll()
		d := s.Division()
		return d.Partitions == partitions && !d.Growing
	})
}

// contents are the items that a store exports, which do not tell in how many partitions they are.
func contents(t *testing.T, s *ruled) (items []store.Item) {
	t.Helper()
	err := s.Ledger.Export(t.Context(), start, func(item store.Item) error {
		item.Key, item.Value = bytes.Clone(item.Key), bytes.Clone(item.Value)
		items = append(items, item)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(items, func(a, b store.Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.User, b.User), bytes.Compare(a.Key, b.Key))
	})
	return items
}

// Dividing users loses nothing, and adds nothing, whatever they have.
func TestDividingMovesEverything(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	fillAll(t, s)
	fillSlots(t, s, start.Add(time.Hour))
	before, used := contents(t, s), usage(t, s)
	for _, partitions := range []store.Partitions{2, 16} {
		grow(t, s, partitions)
		if diff := gocmp.Diff(before, contents(t, s)); diff != "" {
			t.Errorf("with %d partitions something else is stored (-before +after):\n%s", partitions, diff)
		}
		if diff := gocmp.Diff(used, usage(t, s)); diff != "" {
			t.Errorf("with %d partitions the usage differs (-before +after):\n%s", partitions, diff)
		}
		wantWhole(t, url)
	}
	served, _ := claimSlots(t, s, start.Add(2*time.Hour))
	if len(served) != posthaste.Slots {
		t.Errorf("after that, messages of %d slots are delivered, want all %d", len(served), posthaste.Slots)
	}
	wantWhole(t, url)
}

func usage(t *testing.T, s *ruled) store.Usage {
	t.Helper()
	u, err := s.Ledger.Usage(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An attempt that was in flight while its user was divided ends as any other, and frees its slot.
func TestAttemptsGoOnWhileTheirUserIsDivided(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	fillSlots(t, s, start)
	claims, _, err := s.Claim(t.Context(), start, 4*posthaste.Slots)
	if err != nil || len(claims) == 0 {
		t.Fatalf("Claim = %d claims, %v, want some", len(claims), err)
	}
	grow(t, s, 16)
	for i, claim := range claims {
		if i%2 == 0 {
			settle(t, s, store.Delivered(claim))
		} else if err := s.Release(t.Context(), start, []store.Claim{claim}); err != nil {
			t.Error(err)
		}
	}
	if u := usage(t, s); u.InFlight != 0 || s.Held() != 0 {
		t.Errorf("%d messages are in flight, and %d claims are held, want none", u.InFlight, s.Held())
	}
	wantWhole(t, url)
	claimSlots(t, s, start.Add(time.Minute))
	if ids, _, err := s.Ledger.LiveMessages(t.Context(), ann, store.LiveQuery{Limit: 100}); err != nil || len(ids) > 0 {
		t.Errorf("LiveMessages = %d, %v, want that all were delivered", len(ids), err)
	}
}

// What was moved goes with its last event, wherever that is: also a message that has ended, but keeps its slot
// in a queue until its callback has.
func TestRetentionAfterADivision(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	lingers := newMessage(start)
	lingers.Queue = "q"
	lingers.SetSlot(keepSlot)
	if err := acceptOne(t.Context(), s, lingers); err != nil {
		t.Fatal(err)
	}
	callback := newMessage(start)
	callback.SourceID, callback.NotBefore = lingers.ID, start.Add(time.Hour)
	delivered := store.Delivered(claimOne(t, s, lingers))
	delivered.Callbacks = []store.Callback{{Message: callback}}
	settle(t, s, delivered)
	fillSlots(t, s, start.Add(time.Hour))
	grow(t, s, 16)
	wantWhole(t, url)
	if partition := s.Division().Of(ann, lingers.ID.Slot()); partition == ann {
		t.Fatal("the message is in the first partition, from which nothing is moved")
	}
	claimSlots(t, s, start.Add(2*time.Hour))
	if _, err := s.Trim(t.Context(), ann, store.Horizon{Log: start.Add(72 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, url)
	if left := contents(t, s); slices.ContainsFunc(left, func(i store.Item) bool { return i.Kind == store.ItemMessage }) {
		t.Errorf("after their days have gone, messages are left: %v", left)
	}
}

// A message that was moved twice stays as long as any partition has an event of it.
func TestRetentionAfterTwoDivisions(t *testing.T) {
	const day = 24 * time.Hour
	url := emptyDatabase(t)
	s := open(t, url)
	lingers := newMessage(start)
	lingers.Queue = "q"
	lingers.SetSlot(keepSlot)
	if err := acceptOne(t.Context(), s, lingers); err != nil {
		t.Fatal(err)
	}
	grow(t, s, 4)
	callback := newMessage(start.Add(day))
	callback.SourceID, callback.NotBefore = lingers.ID, start.Add(day)
	delivered := store.Delivered(claimOne(t, s, lingers))
	delivered.Callbacks = []store.Callback{{Message: callback}}
	if _, err := s.Settle(t.Context(), start.Add(day), delivered); err != nil {
		t.Fatal(err)
	}
	second := s.Division().Of(ann, lingers.ID.Slot())
	grow(t, s, 16)
	if third := s.Division().Of(ann, lingers.ID.Slot()); second == ann || third == second {
		t.Fatalf("the message was in %q, and is in %q", second, third)
	}
	claimSlots(t, s, start.Add(day))
	for i := range 3 {
		if _, err := s.Trim(t.Context(), ann, store.Horizon{Log: start.Add(time.Duration(i+1) * day)}); err != nil {
			t.Fatal(err)
		}
		wantWhole(t, url)
	}
	if left := contents(t, s); slices.ContainsFunc(left, func(i store.Item) bool { return i.Kind == store.ItemMessage }) {
		t.Errorf("after their days have gone, messages are left: %v", left)
	}
}

func keepSlot(_ string, slot posthaste.Slot) posthaste.Slot { return slot }

// A node that was frozen while users were divided writes nothing where it used to be.
func TestANodeThatMissedADivision(t *testing.T) {
	url := emptyDatabase(t)
	frozen := open(t, url)
	fillSlots(t, frozen, start)
	grow(t, frozen, 4)
	frozen.Forget()
	fillSlots(t, frozen, start) // divided before its first change
	frozen.Forget()
	if err := acceptOne(t.Context(), frozen, messageOf("other", start)); err != nil { // a user whom it makes
		t.Fatal(err)
	}
	awaitDivided(t, frozen, 4)
	wantWhole(t, url)
}

func messageOf(user string, at time.Time) *posthaste.Message {
	m := newMessage(at)
	m.User = user
	m.SetSlot(func(string, posthaste.Slot) posthaste.Slot { return posthaste.Slots - 1 })
	return m
}

// Nobody is divided before each node knows of it: it would look for things where they were.
func TestDividingWaitsForAllNodes(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	fillSlots(t, s, start)
	execute(t, url, `INSERT INTO posthaste.nodes (node, expires_at, lease, known) VALUES (12345, clock_timestamp() + '1 hour', '1 hour', 1)`)
	if err := s.Grow(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	s.DivideAll()
	if d, err := s.DivisionOf(t.Context(), ann, true); err != nil || d.Partitions != 1 {
		t.Errorf("DivisionOf = %+v, %v; want that the user is not divided while a node does not know of it", d, err)
	}
	if err := acceptOne(t.Context(), s, messageOf("new", start)); err != nil {
		t.Fatal(err)
	}
	if d, err := s.DivisionOf(t.Context(), "new", true); err != nil || d.Partitions != 1 {
		t.Errorf("DivisionOf = %+v, %v; want that a new user is not divided either", d, err)
	}
	fillSlots(t, s, start) // meanwhile all goes on
	if n := len(logged(t, s)); n != 2*posthaste.Slots {
		t.Errorf("the log has %d events, want %d", n, 2*posthaste.Slots)
	}
	fillSlots(t, s, start)
	wantWhole(t, url)
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = clock_timestamp() WHERE node = 12345`)
	awaitDivided(t, s, 4)
	wantWhole(t, url)
}

// A node that was frozen while users were divided finds out before it reads.
func TestAReaderThatMissedADivision(t *testing.T) {
	s := open(t, emptyDatabase(t))
	grow(t, s, 4)
	fillSlots(t, s, start)
	s.Forget()
	if n := len(logged(t, s)); n != posthaste.Slots {
		t.Errorf("it reads %d events, want %d", n, posthaste.Slots)
	}
	s.Forget()
	end, _, err := s.Ledger.Watch(t.Context(), ann)
	all := logged(t, s)
	if last := all[len(all)-1]; err != nil || end < last.Position {
		t.Errorf("Watch = %d, %v, want at least the last event at %d", end, err, last.Position)
	}
}

// logged reads the log of a user.
func logged(t *testing.T, s *ruled) (entries []store.Entry) {
	t.Helper()
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	_, more, err := s.Ledger.Events(t.Context(), ann, query, func(e *store.Entry) error { entries = append(entries, *e); return nil })
	if err != nil || more {
		t.Fatalf("Events: more = %t, %v", more, err)
	}
	return entries
}

// What is read while users are being divided is found, whether they are divided yet or not.
func TestReadingWhileUsersAreDivided(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	fillAll(t, s)
	fillSlots(t, s, start.Add(time.Hour))
	if err := s.Grow(t.Context(), 16); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reading := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			ids, _, err := s.Ledger.LiveMessages(ctx, ann, store.LiveQuery{Limit: 1000})
			if err == nil && len(ids) < posthaste.Slots {
				err = errors.New("a message that waits is missing")
			}
			if _, failed := s.Ledger.URLGroup(ctx, ann, "g"); failed != nil {
				err = errors.Join(err, failed)
			}
			if groups, failed := s.Ledger.URLGroups(ctx, ann, ""); failed != nil || len(groups.Items) != 1 {
				err = errors.Join(err, failed, errors.New("the list of groups has not the one"))
			}
			if err != nil && ctx.Err() == nil {
				reading <- err
				return
			}
		}
		reading <- nil
	}()
	awaitDivided(t, s, 16)
	stop()
	if err := <-reading; err != nil {
		t.Error(err)
	}
}
