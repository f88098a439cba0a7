package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runWaitingPromises = []promise{
	{"a waiter is found by its event, its run and its place", func(tr *trial) {
		run, _ := tr.start()
		w := tr.await(run, withEveryWaiterField)
		if w.Position <= run.Position {
			tr.Errorf("the waiter's position is %d, its run's is %d", w.Position, run.Position)
		}
		tr.wantEventWaiters("event", w)
		tr.wantRunWaiters(run, w)
		tr.look(func(tx store.RunTx) error {
			got, err := tx.Waiter(run.Position, w.Position)
			tr.same("waiter", w, got)
			return err
		})
	}},
	{"waiters are found in the order in which they began", func(tr *trial) {
		first, _ := tr.start()
		second, _ := tr.start()
		waiters := []*posthaste.Waiter{tr.await(second), tr.await(first), tr.await(second), tr.await(first)}
		tr.wait(-time.Hour)
		waiters = append(waiters, tr.await(second))
		tr.wantEventWaiters("event", waiters...)
		tr.wantRunWaiters(first, waiters[1], waiters[3])
		tr.wantRunWaiters(second, waiters[0], waiters[2], waiters[4])
	}},
	{"each waits for its own topic", func(tr *trial) {
		run, _ := tr.start()
		other, _ := tr.start()
		byTopic := map[posthaste.Topic]*posthaste.Waiter{}
		for _, topic := range []posthaste.Topic{
			posthaste.EventTopic(""), posthaste.EventTopic("a"), posthaste.EventTopic("ab"), posthaste.EventTopic("a\x00"),
			posthaste.EventTopic("a\x00\x01b"), posthaste.EventTopic(strings.Repeat("a", 256)),
			posthaste.RunTopic(run.RunRef), posthaste.RunTopic(other.RunRef),
		} {
			byTopic[topic] = tr.await(run, waitingFor(topic))
		}
		for topic, w := range byTopic {
			if id, ok := topic.EventID(); ok {
				tr.wantEventWaiters(id, w)
			}
			tr.wantWaitersFor(topic, w)
		}
		tr.wantEventWaiters("b")
		tr.wantWaitersFor("event")
	}},
	{"a waiter that has ended is gone", func(tr *trial) {
		run, _ := tr.start()
		gone, left := tr.await(run, until(tr.now)), tr.await(run, until(tr.now))
		tr.transact(func(tx store.RunTx) error {
			w, err := tx.Waiter(run.Position, gone.Position)
			if err != nil {
				return err
			}
			tx.EndWait(w)
			return errors.Join(
				tr.wantWaiting(left)(tx.Waiters(w.Topic)),
				tr.wantWaiting(left)(tx.RunWaiters(run.Position)),
				wantGone(tx.Waiter(run.Position, gone.Position)),
			)
		})
		tr.wantEventWaiters("event", left)
		tr.wantRunWaiters(run, left)
		tr.wantDueWaiters(plenty, time.Time{}, left)
		tr.look(func(tx store.RunTx) error { return wantGone(tx.Waiter(run.Position, gone.Position)) })
	}},
	{"a waiter that is not there is not found", func(tr *trial) {
		run, _ := tr.start()
		other, _ := tr.start()
		w := tr.await(run)
		tr.look(func(tx store.RunTx) error {
			return errors.Join(
				wantGone(tx.Waiter(run.Position, w.Position+1)),
				wantGone(tx.Waiter(other.Position, w.Position)),
			)
		})
	}},
	{"waiters are due when their deadline comes", func(tr *trial) {
		run, _ := tr.start()
		tr.wantDueWaiters(plenty, time.Time{})
		tr.await(run)
		late := tr.await(run, until(tr.now.Add(2*time.Minute)))
		soon := tr.await(run, until(tr.now.Add(time.Minute)))
		tr.wantDueWaiters(plenty, soon.Deadline)
		tr.wait(time.Minute - time.Millisecond)
		tr.wantDueWaiters(plenty, soon.Deadline)
		tr.wait(time.Millisecond)
		tr.wantDueWaiters(plenty, late.Deadline, soon)
		tr.wait(time.Hour)
		tr.wantDueWaiters(plenty, time.Time{}, soon, late)
	}},
	{"waiters of all users are due", func(tr *trial) {
		mine, _ := tr.start()
		theirs, _ := tr.start(func(run *posthaste.Run) { run.User = anna })
		deadline := tr.now.Add(time.Minute)
		waiters := []*posthaste.Waiter{tr.await(mine, until(deadline)), tr.await(theirs, until(deadline)), tr.await(mine, until(deadline))}
		tr.wait(time.Minute)
		due, next, err := tr.store.DueWaiters(tr.Context(), tr.now, plenty)
		if err != nil || !next.IsZero() {
			tr.Errorf("DueWaiters: next %v, %v, want none", next, err)
		}
		sortDue(due)
		tr.same("due waiters", []store.DueWaiter{
			{User: ann, Run: mine.Position, Position: waiters[0].Position},
			{User: anna, Run: theirs.Position, Position: waiters[1].Position},
			{User: ann, Run: mine.Position, Position: waiters[2].Position},
		}, due)
	}},
	{"waiters of some users are left out", func(tr *trial) {
		mine, _ := tr.start()
		theirs, _ := tr.start(func(run *posthaste.Run) { run.User = anna })
		hers := []*posthaste.Waiter{tr.await(mine, until(tr.now)), tr.await(mine, until(tr.now))}
		other := tr.await(theirs, until(tr.now.Add(time.Minute)))
		for _, test := range []struct {
			except []string
			want   []store.DueWaiter
			next   time.Time
		}{
			{[]string{anna}, []store.DueWaiter{
				{User: ann, Run: mine.Position, Position: hers[0].Position},
				{User: ann, Run: mine.Position, Position: hers[1].Position},
			}, time.Time{}},
			{[]string{ann}, nil, other.Deadline},
			{[]string{ann, anna}, nil, time.Time{}},
		} {
			due, next, err := tr.store.DueWaiters(tr.Context(), tr.now, len(hers), test.except...)
			if err != nil || !next.Equal(test.next) {
				tr.Errorf("DueWaiters without %q: next %v, %v, want %v", test.except, next, err, test.next)
			}
			sortDue(due)
			tr.same("due waiters", test.want, due)
		}
	}},
	{"a limit holds waiters back that are due", func(tr *trial) {
		run, _ := tr.start()
		for n := range 5 {
			tr.await(run, until(tr.now.Add(time.Duration(n)*time.Minute)))
		}
		tr.wait(3 * time.Minute)
		for _, test := range []struct{ limit, due int }{{1, 1}, {3, 3}, {4, 4}, {5, 4}} {
			due, next, err := tr.store.DueWaiters(tr.Context(), tr.now, test.limit)
			heldBack := test.limit < 4
			if err != nil || len(due) != test.due || next.IsZero() || next.After(tr.now) == heldBack {
				tr.Errorf("with limit %d: %d are due, next %v, %v; want %d, and it is %v", test.limit, len(due), next, err, test.due, tr.now)
			}
		}
	}},
	{"events are kept in order until they are taken", func(tr *trial) {
		run, _ := tr.start()
		other, _ := tr.start()
		tr.transact(func(tx store.RunTx) error {
			tx.BufferEvent(run.Position, "a", []byte("1"))
			tx.BufferEvent(run.Position, "ab", []byte("of ab"))
			tx.BufferEvent(other.Position, "a", []byte("of another run"))
			tx.BufferEvent(run.Position, "a", []byte("2"))
			return nil
		})
		tr.wait(-time.Hour)
		tr.keepEvent(run, "a", "3")
		tr.wantKeptEvents(run, "a", "1", "2", "3")
		tr.wantKeptEvents(run, "ab", "of ab")
		tr.wantKeptEvents(run, "b")
		tr.transact(func(tx store.RunTx) error { return tr.wantTaken(tx, run, "a", "1") })
		tr.wantKeptEvents(run, "a", "2", "3")
		tr.transact(func(tx store.RunTx) error {
			return errors.Join(tr.wantTaken(tx, run, "a", "2"), tr.wantTaken(tx, run, "a", "3"))
		})
		tr.wantKeptEvents(run, "a")
		tr.wantKeptEvents(other, "a", "of another run")
	}},
	{"an event may be empty", func(tr *trial) {
		run, _ := tr.start()
		tr.keepEvent(run, "a", "")
		tr.wantKeptEvents(run, "a", "")
	}},
	{"a run's events are forgotten together", func(tr *trial) {
		run, _ := tr.start()
		other, _ := tr.start()
		for _, id := range []string{"a", "b", "a"} {
			tr.keepEvent(run, id, "of "+id)
		}
		tr.keepEvent(other, "a", "of another run")
		tr.transact(func(tx store.RunTx) error { return tx.DropEvents(run.Position) })
		tr.wantKeptEvents(run, "a")
		tr.wantKeptEvents(run, "b")
		tr.wantKeptEvents(other, "a", "of another run")
	}},
	{"a run's events are given to another one together, in their order", func(tr *trial) {
		run, _ := tr.start()
		heir, _ := tr.start()
		other, _ := tr.start()
		for _, id := range []string{"a", "b", "a"} {
			tr.keepEvent(run, id, "of "+id)
		}
		tr.keepEvent(other, "a", "of another run")
		tr.transact(func(tx store.RunTx) error { return tx.MoveEvents(run.Position, heir.Position) })
		tr.wantKeptEvents(run, "a")
		tr.wantKeptEvents(run, "b")
		tr.wantKeptEvents(heir, "a", "of a", "of a")
		tr.wantKeptEvents(heir, "b", "of b")
		tr.wantKeptEvents(other, "a", "of another run")
	}},
	{"events that were kept a moment before are forgotten too", func(tr *trial) {
		run, _ := tr.start()
		tr.transact(func(tx store.RunTx) error {
			tx.BufferEvent(run.Position, "a", []byte("too late"))
			return tx.DropEvents(run.Position)
		})
		tr.wantKeptEvents(run, "a")
	}},
}

// withEveryWaiterField gives a waiter a value in each field but its run, its
// position and its topic.
func withEveryWaiterField(w *posthaste.Waiter) {
	var m posthaste.Message
	withEverything(&m)
	w.MessageID = posthaste.MessageID{1, 2, 3}
	w.After = 3
	w.Step = []byte{0, 1, 0xff}
	w.Invoked = &posthaste.RunRef{ID: "invoked", CreatedAt: start, Position: posthaste.FirstPosition(start), URL: "http://invoked.example/"}
	w.Delivery = m.Settings
	w.Deadline = start.Add(time.Hour)
	w.Timeout = "1h"
	w.TimeoutURL = "http://timeout.example/"
	w.TimeoutDelivery = posthaste.Settings{Method: http.MethodPut}
	w.Shown = posthaste.WaiterShown{
		URL:           "http://shown.example/",
		Header:        http.Header{"A": {"1", "2"}},
		TimeoutBody:   []byte("timeout"),
		TimeoutHeader: http.Header{"B": {"3"}},
	}
}

func (tr *trial) wantEventWaiters(eventID string, want ...*posthaste.Waiter) {
	tr.Helper()
	tr.wantWaitersFor(posthaste.EventTopic(eventID), want...)
	if err := tr.wantWaiting(want...)(tr.store.EventWaiters(tr.Context(), ann, eventID)); err != nil {
		tr.Error(err)
	}
}

func (tr *trial) wantWaitersFor(topic posthaste.Topic, want ...*posthaste.Waiter) {
	tr.Helper()
	tr.look(func(tx store.RunTx) error { return tr.wantWaiting(want...)(tx.Waiters(topic)) })
}

func (tr *trial) wantRunWaiters(run *posthaste.Run, want ...*posthaste.Waiter) {
	tr.Helper()
	if err := tr.wantWaiting(want...)(tr.store.RunWaiters(tr.Context(), ann, run.Position)); err != nil {
		tr.Error(err)
	}
	tr.look(func(tx store.RunTx) error { return tr.wantWaiting(want...)(tx.RunWaiters(run.Position)) })
}

// wantWaiting returns a check that the waiters returned are these.
func (tr *trial) wantWaiting(want ...*posthaste.Waiter) func([]*posthaste.Waiter, error) error {
	return func(got []*posthaste.Waiter, err error) error {
		tr.Helper()
		tr.same("waiters", slices.Clone(want), append([]*posthaste.Waiter(nil), got...))
		return err
	}
}

// wantGone returns an error unless a waiter was not found.
func wantGone(_ *posthaste.Waiter, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("waiter: %v, want ErrNotFound", err)
	}
	return nil
}

// wantDueWaiters requires these waiters of ann to be due, and none else.
func (tr *trial) wantDueWaiters(limit int, wantNext time.Time, want ...*posthaste.Waiter) {
	tr.Helper()
	due, next, err := tr.store.DueWaiters(tr.Context(), tr.now, limit)
	if err != nil {
		tr.Fatalf("DueWaiters: %v", err)
	}
	if !next.Equal(wantNext) {
		tr.Errorf("DueWaiters: next %v, want %v", next, wantNext)
	}
	wanted := make([]store.DueWaiter, len(want))
	for i, w := range want {
		wanted[i] = store.DueWaiter{User: ann, Run: w.Run.Position, Position: w.Position}
	}
	sortDue(due)
	sortDue(wanted)
	if !slices.Equal(due, wanted) {
		tr.Errorf("DueWaiters = %v, want %v", due, wanted)
	}
}

func sortDue(due []store.DueWaiter) {
	slices.SortFunc(due, func(a, b store.DueWaiter) int { return cmp.Compare(a.Position, b.Position) })
}

func (tr *trial) keepEvent(run *posthaste.Run, eventID, body string) {
	tr.Helper()
	tr.transact(func(tx store.RunTx) error {
		tx.BufferEvent(run.Position, eventID, []byte(body))
		return nil
	})
}

// wantTaken takes the first event and requires it to have a body.
func (tr *trial) wantTaken(tx store.RunTx, run *posthaste.Run, eventID, want string) error {
	tr.Helper()
	body, ok, err := tx.TakeEvent(run.Position, eventID)
	if !ok || string(body) != want {
		tr.Errorf("TakeEvent = %q, %t, want %q", body, ok, want)
	}
	return err
}

// wantKeptEvents requires the bodies of the events that are kept under an id.
func (tr *trial) wantKeptEvents(run *posthaste.Run, eventID string, want ...string) {
	tr.Helper()
	tr.look(func(tx store.RunTx) error {
		for _, body := range want {
			if err := tr.wantTaken(tx, run, eventID, body); err != nil {
				return err
			}
		}
		body, more, err := tx.TakeEvent(run.Position, eventID)
		if more {
			tr.Errorf("another event %q is kept under %q", body, eventID)
		}
		return err
	})
}
