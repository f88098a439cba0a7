package storetest

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// TwoRuns returns changes that start a run which waits for an event, and one that has
// failed, each with all that a run may have. They are for tests that need something of
// every kind in a store.
func TwoRuns(user string, now time.Time, newMessage func(time.Time) *posthaste.Message) func(store.RunTx) error {
	return func(tx store.RunTx) error {
		for _, id := range []string{"wfr_waits", "wfr_fails"} {
			at := tx.NextPosition(posthaste.SlotOf(id))
			run := &posthaste.Run{RunRef: posthaste.RunRef{ID: id, URL: "http://w.example/", Position: at, CreatedAt: at.Time()}, User: user}
			run.State = posthaste.RunStarted
			m := newMessage(now)
			m.Run = &posthaste.RunLink{RunRef: run.RunRef}
			run.FirstID = m.ID
			tx.Start(run)
			if err := tx.Append(run, posthaste.RunEntry{CallType: posthaste.CallStep, Body: []byte("payload"), MessageID: m.ID}, m); err != nil {
				return err
			}
			tx.PutIdempotencyRecord(run, "key", m.ID)
			tx.BufferEvent(at, "early", []byte("event"))
			tx.CacheResponse(id, []byte("answer"))
			if id == "wfr_waits" {
				tx.Wait(&posthaste.Waiter{Run: run.RunRef, Topic: posthaste.EventTopic("e"), Deadline: now.Add(time.Hour)})
				continue
			}
			run.State, run.CompletedAt, run.DeadLetterID = posthaste.RunFailed, now, posthaste.DeadLetterID(tx.NextPosition(run.Slot()))
			tx.Save(run)
			tx.AddToDLQ(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: m})
		}
		return nil
	}
}
