package lsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// openInMemory opens a store that is closed when the test ends.
func openInMemory(t *testing.T) *Store {
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// damage writes under a key what cannot be read.
func (s *Store) damage(t *testing.T, key []byte) {
	t.Helper()
	if err := s.db.Set(key, []byte{0xff}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
}

var unreadableNow = time.UnixMilli(1_700_000_000_000)

// submitTo accepts a message of ann for a lane: a queue if it has a name, else the host.
func submitTo(t *testing.T, s *Store, queue, host string, n int) *posthaste.Message {
	t.Helper()
	m := &posthaste.Message{
		User: "ann", URL: "https://" + host + "/", Queue: queue, Body: []byte("b"), CreatedAt: unreadableNow, NotBefore: unreadableNow,
	}
	m.ID, _ = posthaste.NewMessageID(unreadableNow, strings.NewReader(fmt.Sprintf("%010d", n)))
	if _, err := ledger.New(s).Accept(t.Context(), unreadableNow, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
		t.Fatal(err)
	}
	return m
}

func waitingKeyOf(t *testing.T, s *Store, m *posthaste.Message) []byte {
	t.Helper()
	st, err := readStatus(s.db, m.User, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	return appendWaitingKey(nil, laneOf(m), lanes.Spot{Order: st.order, ID: m.ID})
}

// truncated is the key that an encoder with a 16-bit length made of a lane whose name has
// 65,536 bytes.
func truncated(m *posthaste.Message) []byte {
	name := strings.Repeat("k", 1<<16)
	key := append(appendUser([]byte{kindWaiting}, m.User), byte(posthaste.LaneFlow))
	key = binary.BigEndian.AppendUint16(key, 0)
	return append(binary.BigEndian.AppendUint64(append(key, name...), 7), m.ID[:]...)
}

// TestAStoreWithUnreadableRecordsServesTheOthers damages records in each way that a start or
// a claim can meet. The store opens, claims all that can be read, in the same lanes too,
// says once what it has set aside, keeps that where it is, and Check names it (contract,
// decision 35).
func TestAStoreWithUnreadableRecordsServesTheOthers(t *testing.T) {
	tests := map[string]struct {
		damage func(t *testing.T, s *Store, m *posthaste.Message) (key []byte)
		queue  string
		told   bool // by an error of Claim
	}{
		"the key of a place": {damage: func(t *testing.T, s *Store, m *posthaste.Message) []byte {
			key := truncated(m)
			replace(t, s, waitingKeyOf(t, s, m), key)
			return key
		}},
		"a place": {damage: func(t *testing.T, s *Store, m *posthaste.Message) []byte {
			key := waitingKeyOf(t, s, m)
			s.damage(t, key)
			return key
		}},
		"a place in a queue": {queue: "q", damage: func(t *testing.T, s *Store, m *posthaste.Message) []byte {
			key := waitingKeyOf(t, s, m)
			s.damage(t, key)
			return key
		}},
		"an envelope":            {told: true, damage: damageEnvelope},
		"an envelope in a queue": {queue: "q", told: true, damage: damageEnvelope},
		"no envelope": {told: true, damage: func(t *testing.T, s *Store, m *posthaste.Message) []byte {
			key := appendMessageKey(nil, segmentEnvelope, m.User, m.ID)
			if err := s.db.Delete(key, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			return key
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, place := range []int{0, 1, 2} { // the first of its lane, one between others, the last
				disk := vfs.NewMem()
				s := openLogged(t, disk, nil)
				var all []*posthaste.Message
				for n := range 3 {
					all = append(all, submitTo(t, s, test.queue, "same.example", n))
				}
				other := submitTo(t, s, "", "other.example", 3)
				key := test.damage(t, s, all[place])
				before := valueOf(s, key)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}

				var log bytes.Buffer
				s = openLogged(t, disk, &log)
				want := []posthaste.MessageID{other.ID}
				for n, m := range all {
					if n != place {
						want = append(want, m.ID)
					}
				}
				got, told := claimAll(t, s)
				slices.SortFunc(want, compareIDs)
				slices.SortFunc(got, compareIDs)
				if !slices.Equal(got, want) {
					t.Errorf("place %d: claimed %v, want %v", place, got, want)
				}
				if told != test.told {
					t.Errorf("place %d: Claim told of it: %v, want %v", place, told, test.told)
				}
				if n := strings.Count(log.String(), "store.set_aside"); n != 1 {
					t.Errorf("place %d: it was logged %d times:\n%.1000s", place, n, log.String())
				}
				stats, err := s.Stats(t.Context(), unreadableNow)
				if err != nil || stats.SetAside != 1 || stats.InFlight != 0 {
					t.Errorf("place %d: Stats = %+v, %v; want one record set aside and nothing in flight", place, stats, err)
				}
				if after := valueOf(s, key); !bytes.Equal(before, after) {
					t.Errorf("place %d: what was set aside has changed from %x to %x", place, before, after)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				report, err := Check("data", Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
				if err != nil || len(report.Problems) == 0 || !strings.Contains(strings.Join(report.Problems, "\n"), fmt.Sprintf("%x", all[place].ID[:])) {
					t.Errorf("place %d: Check = %.500q, %v; want a problem that names the record", place, report.Problems, err)
				}
			}
		})
	}
}

// valueOf returns what is under a key, nil if there is nothing.
func valueOf(s *Store, key []byte) (value []byte) {
	_ = get(s.db, key, func(data []byte) error {
		value = bytes.Clone(data)
		return nil
	})
	return value
}

func damageEnvelope(t *testing.T, s *Store, m *posthaste.Message) []byte {
	key := appendMessageKey(nil, segmentEnvelope, m.User, m.ID)
	s.damage(t, key)
	return key
}

// replace gives the value of a key to another one.
func replace(t *testing.T, s *Store, from, to []byte) {
	t.Helper()
	err := get(s.db, from, func(value []byte) error { return s.db.Set(to, value, pebble.Sync) })
	if err == nil {
		err = s.db.Delete(from, pebble.Sync)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func openLogged(t *testing.T, disk vfs.FS, log *bytes.Buffer) *Store {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	s, err := Open("data", Options{FS: disk, Logger: logger})
	if err != nil {
		t.Fatalf("the store does not open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// claimAll delivers what can be claimed until nothing can, and reports whether a claim
// returned an error, too.
func claimAll(t *testing.T, s *Store) (ids []posthaste.MessageID, told bool) {
	t.Helper()
	for now, idle := unreadableNow, 0; idle < 3; now = now.Add(2 * time.Second) {
		claims, _, err := s.Claim(t.Context(), now, 10)
		told = told || err != nil
		for _, claim := range claims {
			ids = append(ids, claim.Message.ID)
			if _, err := ledger.New(s).Settle(t.Context(), now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		if idle++; len(claims) > 0 {
			idle = 0
		}
	}
	return ids, told
}

// TestAnUnreadableQueue checks that the lane of a queue that cannot be read stands still, and
// no other one.
func TestAnUnreadableQueue(t *testing.T) {
	disk := vfs.NewMem()
	s := openLogged(t, disk, nil)
	submitTo(t, s, "damaged", "same.example", 1)
	want := []posthaste.MessageID{
		submitTo(t, s, "whole", "same.example", 2).ID, submitTo(t, s, "", "same.example", 3).ID,
	}
	queues := tableOf(store.ItemQueue)
	s.damage(t, queues.appendRecord(nil, "ann", []byte("damaged")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s = openLogged(t, disk, &log)
	got, told := claimAll(t, s)
	slices.SortFunc(got, compareIDs)
	if !slices.Equal(got, want) || !told {
		t.Errorf("claimed %v, %v; want %v, and an error", got, told, want)
	}
	if n := strings.Count(log.String(), "store.set_aside"); n != 1 || s.unreadable.count() != 1 {
		t.Errorf("logged %d times, counted %d", n, s.unreadable.count())
	}
}

// TestABackupWithAnUnreadableRecord checks that Restore refuses it and names the record, and
// that the backup serves everything else where it is opened as it is.
func TestABackupWithAnUnreadableRecord(t *testing.T) {
	disk := vfs.NewMem()
	s := openLogged(t, disk, nil)
	damaged, whole := submitTo(t, s, "", "same.example", 1), submitTo(t, s, "", "same.example", 2)
	damageEnvelope(t, s, damaged)
	if err := s.Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	report, err := Restore("backup", "restored", Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || len(report.Problems) == 0 {
		t.Errorf("Restore = %q, %v; want a problem", report.Problems, err)
	}
	copied, err := Open("backup", Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = copied.Close() })
	if got, _ := claimAll(t, copied); !slices.Equal(got, []posthaste.MessageID{whole.ID}) {
		t.Errorf("claimed %v, want %v", got, whole.ID)
	}
}

// TestDeadlinesBesideAnUnreadableOne checks that waiters of everybody reach their deadlines
// beside a key that cannot be read, and schedules their ticks.
func TestDeadlinesBesideAnUnreadableOne(t *testing.T) {
	s := openInMemory(t)
	ticks := tableOf(store.ItemSchedule)
	waiters, waiter := tableOf(store.ItemWaiter), make([]byte, 16)
	for _, key := range [][]byte{
		{kindRun, runDeadline, 0},
		waiters.appendDue(nil, unreadableNow, "ann", waiter),
		waiters.appendRecord(nil, "ann", waiter),
		{kindTick, 0},
		ticks.appendDue(nil, unreadableNow.Add(-time.Second), "ann", []byte("s")),
	} {
		if err := s.db.Set(key, nil, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	schedule := record.AppendSchedule(nil, &posthaste.Schedule{})
	if err := s.db.Set(ticks.appendRecord(nil, "ann", []byte("s")), schedule, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		due, _, err := ledger.New(s).DueWaiters(t.Context(), unreadableNow, 10)
		if err != nil || len(due) != 1 || due[0].User != "ann" {
			t.Errorf("DueWaiters = %+v, %v; want that of ann", due, err)
		}
		schedules, _, err := ledger.New(s).DueSchedules(t.Context(), unreadableNow, 10)
		if err != nil || len(schedules) != 1 || schedules[0].ID != "s" {
			t.Errorf("DueSchedules = %+v, %v; want the one that can be read", schedules, err)
		}
	}
	if n := s.unreadable.count(); n != 2 {
		t.Errorf("%d records are set aside, want 2", n)
	}
}

// TestBesideADamagedMessage checks that the log, a cancellation of many and the deletion of a
// queue do without a message that cannot be read, and set it aside.
func TestBesideADamagedMessage(t *testing.T) {
	s := openInMemory(t)
	damaged, whole, queued := submitTo(t, s, "q", "same.example", 1), submitTo(t, s, "", "same.example", 2), submitTo(t, s, "q", "same.example", 3)
	damageEnvelope(t, s, damaged)

	page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{High: math.MaxInt64, Limit: 10})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("Events = %d entries, %v; want those of the two others", len(page.Entries), err)
	}
	live, _, err := s.LiveMessages(t.Context(), "ann", store.LiveQuery{Limit: 10})
	slices.SortFunc(live, compareIDs)
	if want := []posthaste.MessageID{whole.ID, queued.ID}; err != nil || !slices.Equal(live, want) {
		t.Errorf("LiveMessages = %v, %v; want %v", live, err, want)
	}
	cancelled, err := ledger.New(s).Cancel(t.Context(), unreadableNow, "ann", []posthaste.MessageID{damaged.ID, whole.ID}, nil)
	if err != nil || !slices.Equal(cancelled, []posthaste.MessageID{whole.ID}) {
		t.Errorf("Cancel = %v, %v; want %v", cancelled, err, whole.ID)
	}
	if err := ledger.New(s).DeleteQueue(t.Context(), unreadableNow, "ann", "q"); err != nil {
		t.Error(err)
	}
	if status, err := ledger.New(s).Message(t.Context(), "ann", queued.ID); err != nil || status.State != posthaste.StateCancelled {
		t.Errorf("the other message of the queue: %+v, %v", status, err)
	}
	if n := s.unreadable.count(); n != 1 {
		t.Errorf("%d records are set aside, want 1", n)
	}
}
