package storetest

import (
	"errors"
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
					if err := tr.store.Settle(tr.Context(), tr.now, store.Delivered(c)); err != nil {
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
			err := tr.store.Settle(tr.Context(), tr.now, store.RetryAt(claim, tr.now, refused))
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
					err = errors.Join(err, tr.store.Settle(tr.Context(), tr.now, store.Failed(c, refused)))
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
				err = tr.store.Settle(tr.Context(), tr.now, store.Delivered(c))
			case 1:
				err = tr.store.Settle(tr.Context(), tr.now, store.RetryAt(c, tr.now, refused))
			case 2:
				err = tr.store.Settle(tr.Context(), tr.now, store.Failed(c, unreachable))
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

// together runs an action n times at once and reports what fails.
func (tr *trial) together(n int, action func(n int) error) {
	tr.Helper()
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			if err := action(i); err != nil {
				tr.Error(err)
			}
		})
	}
	running.Wait()
}

// except returns err unless it is the expected one.
func except(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
