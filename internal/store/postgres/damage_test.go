package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// What is wrong with the messages of one user is told, and the others are served.
func TestAClaimOfOneUserThatFails(t *testing.T) {
	const bob = "bob"
	url := emptyDatabase(t)
	s := open(t, url)
	damaged := accept(t, s, start)
	m := newMessage(start)
	m.User = bob
	if err := acceptOne(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	execute(t, url, `UPDATE posthaste.messages SET record = '\xff' WHERE id = $1`, [16]byte(damaged.ID))
	claims, _, err := s.Claim(t.Context(), start, 10)
	if err == nil {
		t.Error("nothing is told of the message that cannot be read")
	}
	if len(claims) != 1 || claims[0].Message.ID != m.ID {
		t.Errorf("Claim = %v, want message %s of %s", claims, m.ID, bob)
	}
}

// Messages that cannot be read hold up nothing else of their user, not in their own lanes
// either. They are told of once, counted, and left as they are (contract, decision 35).
func TestAClaimBesideUnreadableMessages(t *testing.T) {
	for name, harm := range map[string]string{
		"a damaged record": `UPDATE posthaste.messages SET record = '\xff' WHERE id = $1`,
		"no record":        `DELETE FROM posthaste.messages WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			url := emptyDatabase(t)
			s := open(t, url)
			var want []string
			for n := range 40 { // more than a claim reads of a lane beyond its share
				m := newMessage(start)
				if n%2 == 1 {
					m.Queue = "q"
				}
				if err := acceptOne(t.Context(), s, m); err != nil {
					t.Fatal(err)
				}
				if n < 36 {
					execute(t, url, harm, [16]byte(m.ID))
				} else {
					want = append(want, m.ID.String())
				}
			}
			var got []string
			failed := 0
			for now := start; now.Before(start.Add(time.Minute)); now = now.Add(time.Second) {
				claims, _, err := s.Claim(t.Context(), now, 4)
				if err != nil {
					failed++
				}
				for _, claim := range claims {
					got = append(got, claim.Message.ID.String())
					if _, err := s.Settle(t.Context(), now, store.Delivered(claim)); err != nil {
						t.Fatal(err)
					}
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("claimed %v, want %v", got, want)
			}
			if failed == 0 || failed > 36 {
				t.Errorf("%d claims told of what cannot be read", failed)
			}
			stats, err := s.Stats(t.Context(), start)
			if err != nil || stats.SetAside != 36 || stats.InFlight != 0 {
				t.Errorf("Stats = %+v, %v; want 36 messages set aside, and nothing in flight", stats, err)
			}
		})
	}
}

// A queue and a flow-control key that cannot be read stand still, and no other lane of their
// user does; what they hold starts when they can be read (contract, decision 35).
func TestAClaimBesideDamagedLimits(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	var held, want []string
	for n, into := range []func(m *posthaste.Message){
		func(m *posthaste.Message) { m.Queue = "damaged" },
		func(m *posthaste.Message) { m.FlowControl.Key, m.FlowControl.Rate = "damaged", 9 },
		func(m *posthaste.Message) { m.Queue = "whole" },
		func(m *posthaste.Message) { m.FlowControl.Key, m.FlowControl.Rate = "whole", 9 },
		func(*posthaste.Message) {},
	} {
		m := newMessage(start)
		into(m)
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		if n < 2 {
			held = append(held, m.ID.String())
		} else {
			want = append(want, m.ID.String())
		}
	}
	claim := func(now time.Time) (ids []string) {
		claims, _, err := s.Claim(t.Context(), now, 10)
		if err != nil {
			t.Error(err)
		}
		for _, claim := range claims {
			ids = append(ids, claim.Message.ID.String())
		}
		slices.Sort(ids)
		return ids
	}
	slices.Sort(held)
	slices.Sort(want)
	execute(t, url, `CREATE TABLE whole AS SELECT * FROM posthaste.records WHERE key = 'damaged'`)
	execute(t, url, `UPDATE posthaste.records SET value = '\xff' WHERE key = 'damaged'`)
	if got := claim(start); !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	if stats, err := s.Stats(t.Context(), start); err != nil || stats.SetAside != 2 {
		t.Errorf("Stats = %+v, %v; want two documents set aside", stats, err)
	}
	m := newMessage(start)
	m.FlowControl.Key = "damaged"
	if err := acceptOne(t.Context(), s, m); err == nil || !strings.Contains(err.Error(), `flow-control key "damaged"`) {
		t.Errorf("a message under the damaged key: %v", err)
	}
	execute(t, url, `UPDATE posthaste.records r SET value = w.value FROM whole w WHERE r.user_id = w.user_id AND r.kind = w.kind AND r.key = w.key`)
	execute(t, url, fmt.Sprintf(`UPDATE posthaste.lanes SET ready = %d WHERE ready IS NULL`, start.UnixMilli()))
	if got := claim(start.Add(time.Second)); !slices.Equal(got, held) {
		t.Errorf("claimed %v when they could be read, want %v", got, held)
	}
}

// Schedules that cannot be read are told of, and the others are due, however many of those
// there are before them.
func TestDueSchedulesBesideDamagedOnes(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	later := start.Add(time.Minute)
	for id, next := range map[string]time.Time{"damaged 1": start, "damaged 2": start, "damaged 3": start, "later": later, "whole": start} {
		err := s.UpdateSchedule(t.Context(), start, "ann", id, func(schedule *posthaste.Schedule) error {
			schedule.NextAt = next
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	execute(t, url, `UPDATE posthaste.records SET value = '\xff' WHERE key LIKE 'damaged%'`)
	due, next, err := s.DueSchedules(t.Context(), start, 1)
	if len(due) != 1 || due[0].ID != "whole" || !next.Equal(later) {
		t.Errorf("due %v, next %v; want the schedule that is whole, then the later one", due, next)
	}
	for _, id := range []string{"damaged 1", "damaged 2", "damaged 3"} {
		if err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("DueSchedules = %v, want an error that names %q", err, id)
		}
	}
}

// Bulk actions that cannot be read are told of, and the others are taken up.
func TestUnfinishedActionsBesideDamagedOnes(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	for _, id := range []string{"damaged", "whole"} {
		if err := s.PutAction(t.Context(), &posthaste.BulkAction{User: "ann", ID: id, CreatedAt: start}); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, url, `UPDATE posthaste.records SET value = '\xff' WHERE key = 'damaged'`)
	found, err := s.UnfinishedActions(t.Context())
	if len(found) != 1 || found[0].ID != "whole" || err == nil || !strings.Contains(err.Error(), `"damaged" of user "ann"`) {
		t.Errorf("UnfinishedActions = %v, %v; want the one that is whole, and an error that names the other", found, err)
	}
}

// Retention that was broken off leaves events without their message. They are not copied.
func TestEventsWithoutTheirMessageAreNotExported(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	gone, kept := accept(t, s, start), accept(t, s, start)
	for range 2 {
		settleAll(t, s)
	}
	execute(t, url, `DELETE FROM posthaste.messages WHERE id = $1`, [16]byte(gone.ID))
	exported := 0
	err := s.Export(t.Context(), time.Time{}, func(item store.Item) error {
		if item.Kind == store.ItemEvent {
			exported++
		}
		return nil
	})
	if want := len(statesOf(t, s, kept)); err != nil || exported != want {
		t.Errorf("%d events are exported, %v, want the %d of the other message", exported, err, want)
	}
}

// Documents that cannot be read are named, by lists and by reads of one.
func TestDamagedDocumentsAreNamed(t *testing.T) {
	const user, name = "ann", "damaged"
	url := emptyDatabase(t)
	s := open(t, url)
	tests := map[string]struct {
		kind      int
		list, get func() (any, error)
	}{
		"queue": {
			2,
			func() (any, error) { return s.Queues(t.Context(), user, "") },
			func() (any, error) { return s.Queue(t.Context(), user, name) },
		},
		"URL group": {
			3,
			func() (any, error) { return s.URLGroups(t.Context(), user, "") },
			func() (any, error) { return s.URLGroup(t.Context(), user, name) },
		},
		"flow-control key": {
			4,
			func() (any, error) { return s.FlowKeys(t.Context(), start, user, "", "") },
			func() (any, error) { return s.FlowKey(t.Context(), start, user, name) },
		},
		"schedule": {
			5,
			func() (any, error) { return s.Schedules(t.Context(), user, "") },
			func() (any, error) { return s.Schedule(t.Context(), user, name) },
		},
		"bulk action": {
			6,
			func() (any, error) { return s.Actions(t.Context(), user) },
			func() (any, error) { return s.Action(t.Context(), user, name) },
		},
	}
	for thing, test := range tests {
		t.Run(thing, func(t *testing.T) {
			execute(t, url, `INSERT INTO posthaste.records (user_id, kind, key, value) VALUES ($1, $2, $3, '\xff')`,
				user, test.kind, []byte(name))
			want := fmt.Sprintf("%s %q of user %q", thing, name, user)
			for _, read := range []func() (any, error){test.list, test.get} {
				if found, err := read(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %v; want an error about %s", found, err, want)
				}
			}
		})
	}
}

// The log, a cancellation of many and the deletion of a queue do without a message that
// cannot be read, and set it aside.
func TestBesideADamagedMessage(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	var ids []posthaste.MessageID
	user := newMessage(start).User
	for _, queue := range []string{"q", "", "q"} {
		m := newMessage(start)
		m.Queue = queue
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	damaged, whole, queued := ids[0], ids[1], ids[2]
	execute(t, url, `UPDATE posthaste.messages SET record = '\xff' WHERE id = $1`, [16]byte(damaged))

	page, err := store.ReadEvents(t.Context(), s, user, store.EventQuery{High: math.MaxInt64, Limit: 10})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("Events = %d entries, %v; want those of the two others", len(page.Entries), err)
	}
	live, _, err := s.LiveMessages(t.Context(), user, store.LiveQuery{Limit: 10})
	if err != nil || len(live) != 2 || slices.Contains(live, damaged) {
		t.Errorf("LiveMessages = %v, %v; want the two others", live, err)
	}
	cancelled, err := s.Cancel(t.Context(), start, user, []posthaste.MessageID{damaged, whole}, nil)
	if err != nil || !slices.Equal(cancelled, []posthaste.MessageID{whole}) {
		t.Errorf("Cancel = %v, %v; want %v", cancelled, err, whole)
	}
	if err := s.DeleteQueue(t.Context(), start, user, "q"); err != nil {
		t.Error(err)
	}
	if status, err := s.Message(t.Context(), user, queued); err != nil || status.State != posthaste.StateCancelled {
		t.Errorf("the other message of the queue: %+v, %v", status, err)
	}
	if stats, err := s.Stats(t.Context(), start); err != nil || stats.SetAside != 1 {
		t.Errorf("Stats = %+v, %v; want one record set aside", stats, err)
	}
}

// Retention does without a message that cannot be read.
func TestRetentionBesideADamagedMessage(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	damaged, whole := newMessage(start), newMessage(start)
	for _, m := range []*posthaste.Message{damaged, whole} {
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		claims, _, err := s.Claim(t.Context(), start, 1)
		if err != nil || len(claims) != 1 {
			t.Fatalf("Claim = %v, %v", claims, err)
		}
		settle(t, s, store.Delivered(claims[0]))
	}
	execute(t, url, `UPDATE posthaste.messages SET record = '\xff' WHERE id = $1`, [16]byte(damaged.ID))
	if _, err := s.Trim(t.Context(), whole.User, store.Horizon{Log: start.Add(72 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Message(t.Context(), whole.User, whole.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other message: %v, want that it is gone", err)
	}
}
