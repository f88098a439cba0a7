package storetest

import (
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runSettlePromises = []promise{
	{"what a settlement means for its run is one commit with it", func(tr *trial) {
		for _, end := range []func(store.Claim) store.Settlement{
			store.Delivered,
			func(c store.Claim) store.Settlement { return store.RetryAt(c, tr.now.Add(never), refused) },
			func(c store.Claim) store.Settlement { return store.Failed(c, refused) },
			store.Dropped,
		} {
			run, first := tr.start()
			second := tr.message()
			settlement := end(tr.claimOne(first))
			settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
				run, err := tx.Run(first.Run.Position)
				if err != nil {
					return err
				}
				tx.Log(first, posthaste.StateRunSuccess, "")
				return appendTo(tx, run, second)
			}
			tr.settle(settlement)
			want := statesOf(append([]posthaste.Event{{State: posthaste.StateCreated}, {State: posthaste.StateRunStarted}, {State: posthaste.StateActive}}, settlement.Events()...))
			tr.wantRunLog(run, textOf(append(want, posthaste.StateRunSuccess, posthaste.StateCreated)))
			tr.same("list", []posthaste.MessageID{first.ID, second.ID}, idsOfEntries(tr.entries(run)))
			tr.settle(store.Delivered(tr.claimOne(second)))
		}
	}},
	{"what is concluded sees the settlement", func(tr *trial) {
		_, first := tr.start()
		settlement := store.Failed(tr.claimOne(first), refused)
		var seen store.Settlement
		settlement.UpdateRun = func(_ store.RunTx, s *store.Settlement) error {
			seen = *s
			return nil
		}
		tr.settle(settlement)
		if seen.Claim.Message.ID != first.ID || seen.State != posthaste.StateFailed || seen.Error != refused.Error || seen.Response == nil {
			tr.Errorf("it sees %+v, want what was settled", seen)
		}
	}},
	{"what is concluded sees what a cancellation made of it", func(tr *trial) {
		run, first := tr.start()
		settlement := store.RetryAt(tr.claimOne(first), tr.now, refused)
		tr.cancelDeliveries(run, true)
		var seen posthaste.State
		settlement.UpdateRun = func(_ store.RunTx, s *store.Settlement) error {
			seen = s.State
			return nil
		}
		tr.settle(settlement)
		tr.same("state", posthaste.StateCancelled, seen)
	}},
	{"what is concluded sees the message as it was", func(tr *trial) {
		_, first := tr.start()
		settlement := store.Delivered(tr.claimOne(first))
		settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
			_, state, err := tx.Message(first.ID)
			tr.same("state", posthaste.StateActive, state)
			return err
		}
		tr.settle(settlement)
	}},
	{"what is concluded changes the settlement", func(tr *trial) {
		later := tr.now.Add(time.Hour)
		for _, change := range []struct {
			from, to store.Settlement
			log      string
		}{
			{store.Failed(store.Claim{}, refused), store.Delivered(store.Claim{}), "CREATED ACTIVE DELIVERED"},
			{store.Failed(store.Claim{}, refused), store.RetryAt(store.Claim{}, later, unreachable), "CREATED ACTIVE ERROR RETRY"},
			{store.RetryAt(store.Claim{}, later, refused), store.Dropped(store.Claim{}), "CREATED ACTIVE CANCELLED"},
			{store.Delivered(store.Claim{}), store.Failed(store.Claim{}, refused), "CREATED ACTIVE ERROR FAILED"},
		} {
			_, first := tr.start()
			settlement := change.from
			settlement.Claim = tr.claimOne(first)
			settlement.UpdateRun = func(_ store.RunTx, s *store.Settlement) error {
				was := *s
				*s = change.to
				s.Claim = was.Claim
				return nil
			}
			tr.wantSettled(settlement, change.to.State, change.to.NextAt)
			tr.wantLog(first, change.log)
			tr.same("next attempt", change.to.NextAt, tr.status(first).NextAttemptAt)
		}
	}},
	{"a settlement that cannot be concluded does not take place", func(tr *trial) {
		run, first := tr.start()
		broken := errors.New("no such rule")
		settlement := store.Failed(tr.claimOne(first), refused)
		settlement.Callbacks = callbacksOf(tr.neverAccepted())
		settlement.UpdateRun = func(tx store.RunTx, s *store.Settlement) error {
			run, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			run.State = posthaste.RunFailed
			tx.Save(run)
			s.State = posthaste.StateDelivered
			return broken
		}
		tr.wantErr(broken, errorOf(tr.store.Settle(tr.Context(), tr.now, settlement)))
		tr.wantRunLog(run, "CREATED RUN_STARTED ACTIVE")
		tr.same("run", run, tr.run(run))
		tr.wantNoClaims()
		settlement.Callbacks, settlement.UpdateRun = nil, nil
		tr.settle(settlement)
		tr.wantLog(first, "CREATED ACTIVE ERROR FAILED")
	}},
	{"a lost lease concludes nothing", func(tr *trial) {
		_, first := tr.start()
		claim := tr.claimOne(first)
		tr.settle(store.Delivered(claim))
		settlement := store.Delivered(claim)
		settlement.UpdateRun = func(store.RunTx, *store.Settlement) error {
			tr.Error("a settlement with a lost lease is concluded")
			return nil
		}
		tr.wantErr(store.ErrLeaseLost, errorOf(tr.store.Settle(tr.Context(), tr.now, settlement)))
	}},
	{"a dropped message ends without an attempt", func(tr *trial) {
		_, first := tr.start()
		tr.settle(store.Dropped(tr.claimOne(first)))
		tr.wantLog(first, "CREATED ACTIVE CANCELLED")
		tr.wantEnd(first, posthaste.StateCancelled)
	}},
	{"messages of runs are no dead letters", func(tr *trial) {
		run, first := tr.start()
		callback := tr.acceptOf(run)
		for _, claim := range tr.claimThese(first, callback) {
			tr.settle(store.Failed(claim, refused))
		}
		tr.wantDeadLetters()
		for _, e := range tr.logOf(first) {
			tr.wantErr(store.ErrNotFound, errorOf(tr.store.DeadLetter(tr.Context(), ann, posthaste.DeadLetterID(e.Position))))
		}
	}},
	{"the run of a settled message cancels its other deliveries", func(tr *trial) {
		run, first := tr.start()
		claimed, waits := tr.step(run), tr.step(run, delayed(never))
		claims := tr.claimThese(first, claimed)
		settlement := store.RetryAt(claims[0], tr.now.Add(time.Minute), refused)
		settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
			run, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			return tx.CancelDeliveries(run, true)
		}
		tr.settle(settlement)
		tr.wantLog(first, "CREATED ACTIVE ERROR RETRY")
		tr.wantLog(claimed, "CREATED ACTIVE CANCEL_REQUESTED")
		tr.wantLog(waits, "CREATED CANCEL_REQUESTED CANCELLED")
		tr.wait(time.Minute)
		tr.claimOne(first)
	}},
	{"the message that is being settled is cancelled if it is asked for", func(tr *trial) {
		later := tr.now.Add(time.Minute)
		for _, test := range []struct {
			end store.Settlement
			log string
		}{
			{store.RetryAt(store.Claim{}, later, refused), "CREATED ACTIVE ERROR RETRY CANCEL_REQUESTED CANCELLED"},
			{store.Delivered(store.Claim{}), "CREATED ACTIVE DELIVERED"},
		} {
			_, first := tr.start()
			settlement := test.end
			settlement.Claim = tr.claimOne(first)
			settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error { return errorOf(tx.Cancel(first.ID)) }
			tr.settle(settlement)
			tr.wantLog(first, test.log)
		}
		tr.wait(time.Hour)
		tr.wantNoClaims()
	}},
}

func textOf(states []posthaste.State) string {
	text := fmt.Sprint(states)
	return text[1 : len(text)-1]
}
