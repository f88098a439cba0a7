package storetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runListPromises = []promise{
	{"entries are kept in order", func(tr *trial) {
		run, first := tr.start()
		want := []posthaste.RunEntry{{MessageID: first.ID, CallType: posthaste.CallStep, Body: first.Body}}
		for i, callType := range []posthaste.CallType{
			posthaste.CallStep, posthaste.CallRequest, posthaste.CallAnswer, "stepConfig",
		} {
			entry := posthaste.RunEntry{MessageID: posthaste.MessageID{byte(i)}, CallType: callType, Body: []byte(callType)}
			tr.append(run, entry)
			entry.Index = i + 1
			want = append(want, entry)
		}
		tr.same("entries", want, tr.entries(run))
		for count, n := range map[int]int{0: 0, 1: 1, 4: 4, 5: 5, 6: 5} {
			got, err := tr.store.RunEntries(tr.Context(), ann, run.Position, 0, count)
			if err != nil || !slices.Equal(idsOfEntries(got), idsOfEntries(want[:n])) {
				tr.Errorf("first %d entries: %v, %v, want %d", count, idsOfEntries(got), err, n)
			}
		}
		for from, n := range map[int]int{1: 2, 3: 2, 4: 1, 5: 0} {
			got, err := tr.store.RunEntries(tr.Context(), ann, run.Position, from, 2)
			if err != nil || !slices.Equal(idsOfEntries(got), idsOfEntries(want[from:from+n])) {
				tr.Errorf("two entries from %d on: %v, %v, want %d", from, idsOfEntries(got), err, n)
			}
		}
		if got := tr.run(run).Entries; got != len(want) {
			tr.Errorf("the run says it has %d entries, want %d", got, len(want))
		}
	}},
	{"a transaction adds several entries", func(tr *trial) {
		run, _ := tr.start()
		tr.append(run, posthaste.RunEntry{CallType: posthaste.CallStep}, posthaste.RunEntry{CallType: posthaste.CallStep})
		if got := tr.run(run).Entries; got != 3 || len(tr.entries(run)) != 3 {
			tr.Errorf("the run has %d entries and says %d, want 3", len(tr.entries(run)), got)
		}
	}},
	{"an entry is delivered by its message", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		second := tr.step(run, withEverything, func(m *posthaste.Message) { m.Queue = "" })
		if second.Run.Entry != 1 {
			tr.Errorf("the message says it delivers entry %d, want 1", second.Run.Entry)
		}
		tr.same("message read", store.Status{Message: second, State: posthaste.StateCreated, NextAttemptAt: second.NotBefore}, tr.status(second))
		tr.same("message logged", second, tr.logOf(second)[0].Message)
		tr.same("message claimed", second, tr.claimOne(second).Message)
		tr.same("entry", second.Body, tr.entries(run)[1].Body)
	}},
	{"a message gets the body of its entry", func(tr *trial) {
		run, _ := tr.start()
		m := tr.message()
		tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			m.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallAnswer, Entry: 77}
			return tx.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: m.Run.CallType, Body: []byte("entry")}, m)
		})
		if got := tr.status(m).Message; string(got.Body) != "entry" || got.Run.Entry != 1 {
			tr.Errorf("message delivers %q, entry %d, want %q, 1", got.Body, got.Run.Entry, "entry")
		}
	}},
	{"bodies of every size are kept", func(tr *trial) {
		for _, size := range []int{1, 4 << 10, 1 << 20} {
			run, first := tr.start()
			tr.settle(store.Delivered(tr.claimOne(first)))
			m := tr.step(run, func(m *posthaste.Message) { m.Body = bytes.Repeat([]byte{'x'}, size) })
			for where, got := range map[string][]byte{
				"entry": tr.entries(run)[1].Body, "message": tr.status(m).Message.Body, "claim": tr.claimOne(m).Message.Body,
			} {
				if !bytes.Equal(m.Body, got) {
					tr.Errorf("%s with a body of %d bytes, want %d", where, len(got), size)
				}
			}
		}
	}},
	{"an entry without a message delivers nothing", func(tr *trial) {
		run, first := tr.start()
		tr.append(run, posthaste.RunEntry{MessageID: posthaste.MessageID{1}, CallType: posthaste.CallStep})
		tr.claimOne(first)
	}},
	{"a new message wakes who waits for one", func(tr *trial) {
		tr.start()
		tr.wantWake()
	}},
	{"a transaction sees the list as it was before", func(tr *trial) {
		run, first := tr.start()
		tr.transact(func(tx store.RunTx) error {
			changed, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			if err := tx.Append(changed, posthaste.RunEntry{CallType: posthaste.CallStep}, nil); err != nil {
				return err
			}
			for _, count := range []int{-1, 1, 2} {
				entries, err := tx.Entries(run.Position, count)
				if err != nil || len(entries) != 1 || entries[0].MessageID != first.ID {
					tr.Errorf("first %d entries: %v, %v; want the one there was", count, entries, err)
				}
			}
			entries, err := tx.Entries(run.Position, 0)
			if len(entries) > 0 {
				tr.Errorf("first 0 entries: %v", entries)
			}
			return err
		})
	}},
	{"a run remembers message ids", func(tr *trial) {
		run, _ := tr.start()
		other, _ := tr.start()
		long := strings.Repeat("key", 1000)
		keys := map[string]posthaste.MessageID{"": {1}, "a": {2}, "ab": {3}, "a\x00": {4}, long: {5}, long + "y": {6}}
		tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			for key, id := range keys {
				tx.PutIdempotencyRecord(run, key, id)
				tr.wantRecall(tx, run, key, id)
			}
			return nil
		})
		tr.look(func(tx store.RunTx) error {
			for key, id := range keys {
				tr.wantRecall(tx, run, key, id)
				tr.wantRecall(tx, other, key, posthaste.MessageID{})
			}
			tr.wantRecall(tx, run, "b", posthaste.MessageID{})
			return nil
		})
	}},
	{"an entry is delivered again with the body it has", func(tr *trial) {
		run, first := tr.start()
		second := tr.step(run)
		again := tr.acceptOf(run, func(m *posthaste.Message) {
			m.Run.CallType, m.Run.Entry, m.Body = posthaste.CallStep, 1, second.Body
		})
		tr.same("message", again, tr.status(again).Message)
		tr.same("list", []posthaste.MessageID{first.ID, second.ID}, idsOfEntries(tr.entries(run)))
		tr.claimThese(first, second, again)
	}},
	{"a failure callback has a body of its own", func(tr *trial) {
		run, first := tr.start()
		callback := tr.acceptOf(run, withEverything, func(m *posthaste.Message) { m.Queue = "" })
		tr.same("message", callback, tr.status(callback).Message)
		tr.same("list", []posthaste.MessageID{first.ID}, idsOfEntries(tr.entries(run)))
		tr.claimThese(first, callback)
	}},
	{"a transaction sees messages as they were before", checkMessagesOfTransaction},
}

// append adds entries that nothing delivers to a run's list, in one transaction.
func (tr *trial) append(run *posthaste.Run, entries ...posthaste.RunEntry) {
	tr.Helper()
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) (err error) {
		for _, entry := range entries {
			err = errors.Join(err, tx.Append(run, entry, nil))
		}
		return err
	})
}

func (tr *trial) wantRecall(tx store.RunTx, run *posthaste.Run, key string, want posthaste.MessageID) {
	tr.Helper()
	if id, ok, err := tx.IdempotencyRecord(run, key); id != want || ok == want.IsZero() || err != nil {
		tr.Errorf("IdempotencyRecord(%.20q) = %s, %t, %v, want %s", key, id, ok, err, want)
	}
}

func idsOfEntries(entries []posthaste.RunEntry) []posthaste.MessageID {
	ids := make([]posthaste.MessageID, len(entries))
	for i, entry := range entries {
		ids[i] = entry.MessageID
	}
	return ids
}

func checkMessagesOfTransaction(tr *trial) {
	run, first := tr.start()
	tr.wantSeen(first, posthaste.StateCreated)
	claim := tr.claimOne(first)
	tr.wantSeen(first, posthaste.StateActive)
	tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), refused))
	tr.wantSeen(first, posthaste.StateRetry)
	tr.wait(time.Minute)
	tr.settle(store.Delivered(tr.claimOne(first)))
	tr.wantSeen(first, posthaste.StateDelivered)

	plain, unknown := tr.accept(delayed(time.Hour)), tr.message(delayed(time.Hour))
	tr.wantSeen(plain, posthaste.StateCreated)
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		if err := appendTo(tx, run, unknown); err != nil {
			return err
		}
		if _, _, err := tx.Message(unknown.ID); !errors.Is(err, store.ErrNotFound) {
			tr.Errorf("Message = %v, want ErrNotFound of one that this transaction accepts", err)
		}
		return nil
	})
	tr.wantSeen(unknown, posthaste.StateCreated)
}

// wantSeen requires a transaction to see a message in a state.
func (tr *trial) wantSeen(m *posthaste.Message, want posthaste.State) {
	tr.Helper()
	tr.look(func(tx store.RunTx) error {
		got, state, err := tx.Message(m.ID)
		if state != want {
			tr.Errorf("message %s is %s, want %s", m.ID, state, want)
		}
		tr.same("message", m, got)
		return err
	})
}
