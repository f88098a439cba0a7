package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var concurrencyPromises = []promise{
	{"each message is claimed once", func(tr *trial) {
		const workers, messages = 8, 200
		tr.acceptMany(messages)
		var mu sync.Mutex
		claimed := map[posthaste.MessageID]int{}
		tr.together(workers, func(int) error {
			for {
				claims, _, err := tr.store.Claim(tr.Context(), tr.now, 3)
				if err != nil || len(claims) == 0 {
					return err
				}
				mu.Lock()
				for _, c := range claims {
					claimed[c.Message.ID]++
				}
				mu.Unlock()
				for _, c := range claims {
					if _, err := tr.store.Settle(tr.Context(), tr.now, store.Delivered(c)); err != nil {
						return err
					}
				}
			}
		})
		for id, times := range claimed {
			if times != 1 {
				tr.Errorf("message %s was claimed %d times", id, times)
			}
		}
		if len(claimed) != messages {
			tr.Errorf("%d messages were claimed, want %d", len(claimed), messages)
		}
	}},
	{"a claim settles once", func(tr *trial) {
		claim := tr.claimOne(tr.accept())
		var settled atomic.Int32
		tr.together(8, func(int) error {
			_, err := tr.store.Settle(tr.Context(), tr.now, store.RetryAt(claim, tr.now, refused))
			if err == nil {
				settled.Add(1)
			}
			return except(err, store.ErrLeaseLost)
		})
		if settled.Load() != 1 {
			tr.Errorf("a claim was settled %d times, want once", settled.Load())
		}
		tr.wantLog(claim.Message, "CREATED ACTIVE ERROR RETRY")
	}},
	{"a cancellation counts once", func(tr *trial) {
		messages := tr.acceptMany(50, delayed(time.Hour))
		ids := make([]posthaste.MessageID, len(messages))
		for i, m := range messages {
			ids[i] = m.ID
		}
		var cancelled atomic.Int32
		tr.together(8, func(int) error {
			changed, err := tr.store.Cancel(tr.Context(), tr.now, ann, ids, nil)
			cancelled.Add(int32(len(changed)))
			return err
		})
		if int(cancelled.Load()) != len(ids) {
			tr.Errorf("%d cancellations of %d messages", cancelled.Load(), len(ids))
		}
	}},
	{"a message is cancelled or handed out", func(tr *trial) {
		messages := tr.acceptMany(100)
		tr.together(2, func(n int) error {
			if n == 0 {
				claims, _, err := tr.store.Claim(tr.Context(), tr.now, plenty)
				for _, c := range claims {
					err = errors.Join(err, errorOf(tr.store.Settle(tr.Context(), tr.now, store.Failed(c, refused))))
				}
				return err
			}
			for _, m := range messages {
				if _, err := tr.store.Cancel(tr.Context(), tr.now, ann, []posthaste.MessageID{m.ID}, nil); err != nil {
					return err
				}
			}
			return nil
		})
		for _, m := range messages {
			if got := tr.status(m).State; !got.Terminal() {
				tr.Errorf("message %s, cancelled or failed, stands at %s", m.ID, got)
			}
		}
	}},
	{"one value of a secret wins", func(tr *trial) {
		var kept [8]string
		tr.together(len(kept), func(n int) (err error) {
			kept[n], err = tr.store.PutSecretIfAbsent(tr.Context(), "token", string(rune('a'+n)))
			return err
		})
		for _, value := range kept {
			tr.wantSecret("token", value)
		}
	}},
	{"lives may cross as they like", func(tr *trial) {
		var makes [4]*maker
		tr.together(len(makes), func(n int) error {
			makes[n] = newMaker(uint64(300 + n))
			return liveOn(tr, makes[n])
		})
		for _, mk := range makes {
			tr.makes.ids[ann] = append(tr.makes.ids[ann], mk.ids[ann]...) // to be audited
		}
	}},
	{"a dead letter is retried once, by any caller", func(tr *trial) {
		d := tr.fail(tr.accept(), refused)
		messages := make([]*posthaste.Message, 8)
		for i := range messages {
			messages[i] = newMaker(uint64(400 + i)).message(tr.now)
		}
		tr.together(len(messages), func(n int) error {
			_, err := tr.store.RetryDeadLetters(tr.Context(), tr.now, ann, []posthaste.DeadLetterID{d.ID},
				func(*posthaste.DeadLetter) (*posthaste.Message, error) { return messages[n], nil }, nil)
			return err
		})
		if claims, _ := tr.claim(plenty); len(claims) != 1 {
			tr.Errorf("%d messages were made of one dead letter", len(claims))
		}
	}},
	{"a tick takes place once", func(tr *trial) {
		s := tr.schedule("s", tr.now)
		var ticks atomic.Int32
		tr.together(8, func(n int) error {
			m := newMaker(uint64(500 + n)).message(tr.now)
			err := tr.store.Tick(tr.Context(), tr.now, s, afterTick(s, m), []*posthaste.Message{m})
			if err == nil {
				ticks.Add(1)
			}
			return except(err, store.ErrConflict)
		})
		if claims, _ := tr.claim(plenty); ticks.Load() != 1 || len(claims) != 1 {
			tr.Errorf("%d ticks made %d messages, want one", ticks.Load(), len(claims))
		}
	}},
	{"a message that is accepted while its key is removed has its limits", func(tr *trial) {
		limit := posthaste.FlowLimit{Parallelism: 2}
		const rounds = 40
		var messages [2][]*posthaste.Message
		for range rounds {
			messages[0] = append(messages[0], tr.message(under("k", limit), delayed(time.Hour)))
			messages[1] = append(messages[1], tr.message(under("k", limit), delayed(time.Hour), through("q")))
		}
		var accepting sync.WaitGroup
		done := make(chan struct{})
		accepting.Add(2)
		go func() { accepting.Wait(); close(done) }()
		tr.together(4, func(n int) error {
			if n >= len(messages) { // these remove the key
				for {
					select {
					case <-done:
						return nil
					default:
					}
					var err error
					if n == 2 {
						err = tr.store.DeleteFlowKey(tr.Context(), ann, "k")
					} else {
						_, err = tr.store.Trim(tr.Context(), ann, store.Horizon{FlowKeys: tr.now.Add(day)})
					}
					if err != nil && !errors.Is(err, store.ErrNotFound) && posthaste.ErrorCode(err) != posthaste.CodeConflict {
						return err
					}
				}
			}
			defer accepting.Done()
			for _, m := range messages[n] {
				if err := accept(tr.Context(), tr.store, tr.now, m); err != nil {
					return err
				}
				k, err := tr.store.FlowKey(tr.Context(), tr.now, ann, "k")
				if err != nil {
					return fmt.Errorf("the key of a message that waits: %w", err)
				}
				if k.FlowLimit != limit {
					return fmt.Errorf("limits in force %+v, want %+v", k.FlowLimit, limit)
				}
				if _, err := tr.store.Cancel(tr.Context(), tr.now, ann, []posthaste.MessageID{m.ID}, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"transactions that race see each other", func(tr *trial) {
		const writers, each = 8, 10
		run, _ := tr.start()
		tr.together(writers, func(int) error {
			for range each {
				err := tr.change(ann, run, func(tx store.RunTx, run *posthaste.Run) error {
					run.FailedStatus++
					return tx.Append(run, posthaste.RunEntry{CallType: posthaste.CallStep, Body: fmt.Append(nil, run.Entries)}, nil)
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if got := tr.run(run); got.FailedStatus != writers*each || got.Entries != 1+writers*each {
			tr.Errorf("after %d changes the run counts %d, with %d entries", writers*each, got.FailedStatus, got.Entries)
		}
		for i, entry := range tr.entries(run)[1:] {
			if want := fmt.Sprint(i + 1); string(entry.Body) != want {
				tr.Errorf("entry %d was added as %s", i+1, entry.Body)
			}
		}
	}},
	{"of those who start a run at once one does", func(tr *trial) {
		firsts := tr.rivals(8)
		tr.together(len(firsts), func(n int) error {
			return tr.store.Transact(tr.Context(), tr.now, ann, func(tx store.RunTx) error {
				if _, err := tx.LatestRun("one"); !errors.Is(err, store.ErrNotFound) {
					return err
				}
				return errorOf(begin(tx, tr.runOf(withID("one")), firsts[n]))
			})
		})
		runs := tr.runs(ann, allRuns)
		claims, _ := tr.claim(plenty)
		if len(runs) != 1 || len(claims) != 1 || runs[0].FirstID != claims[0].Message.ID {
			tr.Errorf("%d runs, deliveries %v; want one of each", len(runs), idsOf(claims))
		}
	}},
	{"what is added while its run is being cancelled is cancelled in the end", func(tr *trial) {
		const pairs, each = 4, 10
		run, _ := tr.start()
		added := tr.rivals(pairs * each)
		tr.together(2*pairs, func(n int) error {
			for i := range each {
				err := tr.change(ann, run, func(tx store.RunTx, run *posthaste.Run) error {
					if n%2 == 0 {
						return tx.CancelDeliveries(run, true)
					}
					return appendTo(tx, run, added[n/2*each+i])
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		tr.cancelDeliveries(run, true)
		for _, m := range added {
			tr.wantLog(m, "CREATED CANCEL_REQUESTED CANCELLED")
		}
	}},
	{"settlements that race see each other", func(tr *trial) {
		const branches = 16
		run, first := tr.start()
		messages := []*posthaste.Message{first}
		for range branches - 1 {
			messages = append(messages, tr.step(run))
		}
		claims := tr.claimThese(messages...)
		var last atomic.Int32
		tr.together(branches, func(n int) error {
			settlement := store.Delivered(claims[n])
			var ended int
			settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
				run, err := tx.Run(run.Position)
				if err != nil {
					return err
				}
				run.FailedStatus++
				ended = run.FailedStatus
				tx.Save(run)
				return nil
			}
			_, err := tr.store.Settle(tr.Context(), tr.now, settlement)
			if ended == branches {
				last.Add(1)
			}
			return err
		})
		if got := tr.run(run).FailedStatus; got != branches || last.Load() != 1 {
			tr.Errorf("the run counts %d ends of %d deliveries, %d were the last", got, branches, last.Load())
		}
	}},
	{"an event meets a waiter or is kept, whoever comes first", func(tr *trial) {
		const pairs = 16
		run, _ := tr.start()
		tr.together(2*pairs, func(n int) error {
			return tr.store.Transact(tr.Context(), tr.now, ann, func(tx store.RunTx) error {
				if n%2 == 0 {
					return waitOrTake(tx, run)
				}
				return notifyOrKeep(tx, run)
			})
		})
		tr.wantRunWaiters(run)
		tr.wantKeptEvents(run, "event")
	}},
	{"a run is restarted once, by any caller", func(tr *trial) {
		failed, first := tr.start()
		letter := tr.addToDLQ(failed)
		tr.settle(store.Failed(tr.claimOne(first), refused))
		fresh := tr.rivals(8)
		tr.together(len(fresh), func(n int) error {
			err := tr.store.Transact(tr.Context(), tr.now, ann, func(tx store.RunTx) error {
				return restart(tx, letter.ID, tr.runOf(withID(fmt.Sprint("fresh-", n))), fresh[n])
			})
			return except(err, store.ErrNotFound)
		})
		if claims, _ := tr.claim(plenty); len(claims) != 1 || len(tr.runs(ann, allRuns)) != 2 {
			tr.Errorf("%d deliveries, %d runs; want one run made of one", len(claims), len(tr.runs(ann, allRuns)))
		}
	}},
	{"what begins meanwhile stays", func(tr *trial) {
		const writers, each = 4, 10
		id := func(n, i int) string { return fmt.Sprintf("run of %d-%d", n, i) }
		for n := range writers {
			for i := range each {
				old, _ := tr.start(withID(id(n, i)))
				tr.complete(old, posthaste.RunSuccess)
			}
		}
		tr.wait(day)
		horizon := store.Horizon{Runs: tr.now}
		fresh := tr.rivals(writers * each)
		tr.together(writers+1, func(n int) error {
			if n == writers {
				return errorOf(tr.trim(horizon))
			}
			for i := range each {
				err := tr.store.Transact(tr.Context(), tr.now, ann, func(tx store.RunTx) error {
					return errorOf(begin(tx, tr.runOf(withID(id(n, i))), fresh[n*each+i]))
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if left := tr.runs(ann, allRuns); len(left) != writers*each {
			tr.Errorf("%d runs are left, want the %d that began meanwhile", len(left), writers*each)
		}
		tr.wantTrimmed(horizon, store.Trimmed{})
	}},
}

// liveOn accepts messages and does one thing and another with whatever it claims.
func liveOn(tr *trial, mk *maker) error {
	const lane = "http://shared.example/"
	for range 20 {
		m := mk.message(tr.now, sentTo(lane))
		if err := accept(tr.Context(), tr.store, tr.now, m, mk.message(tr.now)); err != nil {
			return err
		}
		claims, _, err := tr.store.Claim(tr.Context(), tr.now, 10)
		if err != nil {
			return err
		}
		if _, err := tr.store.Cancel(tr.Context(), tr.now, ann, []posthaste.MessageID{m.ID}, nil); err != nil {
			return err
		}
		for i, c := range claims {
			switch i % 4 {
			case 0:
				_, err = tr.store.Settle(tr.Context(), tr.now, store.Delivered(c))
			case 1:
				_, err = tr.store.Settle(tr.Context(), tr.now, store.RetryAt(c, tr.now, refused))
			case 2:
				_, err = tr.store.Settle(tr.Context(), tr.now, store.Failed(c, unreachable))
			default:
				err = tr.store.Release(tr.Context(), tr.now, []store.Claim{c})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// waitOrTake takes an event that was kept, or waits for one.
func waitOrTake(tx store.RunTx, run *posthaste.Run) error {
	_, kept, err := tx.TakeEvent(run.Position, "event")
	if err == nil && !kept {
		tx.Wait(waiterOf(run))
	}
	return err
}

// notifyOrKeep ends the first waiter for an event, or keeps the event.
func notifyOrKeep(tx store.RunTx, run *posthaste.Run) error {
	waiters, err := tx.Waiters(posthaste.EventTopic("event"))
	switch {
	case err != nil:
		return err
	case len(waiters) > 0:
		tx.EndWait(waiters[0])
	default:
		tx.BufferEvent(run.Position, "event", nil)
	}
	return nil
}

// except returns err unless it is the expected one.
func except(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
