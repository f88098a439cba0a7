package main

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Some messages of a history are deliveries of workflow runs: each that succeeds leads to the
// next one, and the last to the end of its run.
const (
	runDeliveries = 3
	historyFlows  = 20
)

// begin begins runs and returns the id of one, "" if there is none.
func (h *history) begin(ctx context.Context, s store.Store, now time.Time, runs int, p *population) (id string, err error) {
	if runs == 0 {
		return "", nil
	}
	err = s.Transact(ctx, now, h.user, func(tx store.RunTx) error {
		for range runs {
			run := h.run(tx, p)
			m, err := h.delivery(tx, run)
			if err != nil {
				return err
			}
			run.FirstID, id = m.ID, run.ID
			tx.Start(run)
			h.logRun(tx, run)
			if err := h.goOn(tx, run, m); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
}

// run makes a run of one of the workflows.
func (h *history) run(tx store.RunTx, p *population) *posthaste.Run {
	at := tx.NextPosition(0)
	run := &posthaste.Run{
		RunRef:      posthaste.RunRef{ID: "wfr_" + rand.Text(), CreatedAt: at.Time(), Position: at, URL: h.url(p.one("flow", historyFlows))},
		User:        h.user,
		CallerIP:    p.caller(),
		Settings:    posthaste.Settings{Method: http.MethodPost, Retries: new(3), Header: http.Header{"Content-Type": {"application/json"}}},
		RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
	}
	if label := p.maybe(shareLabeled, "label", historyLabels); label != "" {
		run.Labels = []string{label}
	}
	return run
}

// delivery makes a message that calls the workflow of a run.
func (h *history) delivery(tx store.RunTx, run *posthaste.Run) (*posthaste.Message, error) {
	id, err := posthaste.NewMessageID(tx.Now(), rand.Reader)
	if err != nil {
		return nil, err
	}
	body := make([]byte, h.size)
	_, _ = rand.Read(body) // never fails
	return &posthaste.Message{
		ID: id, User: h.user, CreatedAt: tx.Now(), NotBefore: tx.Now(),
		URL: run.URL, CallerIP: run.CallerIP, Body: body, Settings: run.Settings,
		Run: &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep},
	}, nil
}

// goOn adds a delivery to a run.
func (h *history) goOn(tx store.RunTx, run *posthaste.Run, m *posthaste.Message) error {
	return tx.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: m.Run.CallType, Body: m.Body}, m)
}

// conclude writes what a delivery means for its run.
func (h *history) conclude(tx store.RunTx, settlement *store.Settlement) error {
	m := settlement.Claim.Message
	run, err := tx.Run(m.Run.Position)
	if err != nil {
		return err
	}
	switch {
	case settlement.State == posthaste.StateFailed:
		letter := &posthaste.DeadLetter{
			ID: posthaste.DeadLetterID(tx.NextPosition(0)), Message: m, Error: settlement.Error, Response: settlement.Response,
		}
		run.DeadLetterID, run.FailedID, run.FailedStatus = letter.ID, m.ID, settlement.Response.Status
		h.end(tx, run, posthaste.RunFailed)
		tx.AddToDLQ(run, letter)
	case settlement.State != posthaste.StateDelivered:
	case run.Entries == runDeliveries:
		h.end(tx, run, posthaste.RunSuccess)
	default:
		next, err := h.delivery(tx, run)
		if err != nil {
			return err
		}
		return h.goOn(tx, run, next)
	}
	return nil
}

// end ends a run.
func (h *history) end(tx store.RunTx, run *posthaste.Run, state posthaste.RunState) {
	run.State, run.CompletedAt = state, tx.Now()
	tx.Save(run)
	h.logRun(tx, run)
}

// logRun adds the state of a run to the log, as an event of its first message.
func (h *history) logRun(tx store.RunTx, run *posthaste.Run) {
	tx.Log(&posthaste.Message{
		ID: run.FirstID, User: h.user, URL: run.URL, CallerIP: run.CallerIP,
		Settings: posthaste.Settings{Labels: run.Labels},
		Run:      &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep},
	}, posthaste.State(run.State), "")
}
