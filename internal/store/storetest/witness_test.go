package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest/model"
)

// unreliable is a model whose stores are tampered with. crashes counts those so
// far.
type unreliable struct {
	model   *model.Model
	crashes int
	forgets bool // a crash takes no lease away
	tamper  func(s store.Store, crashes int) store.Store
}

func (u *unreliable) Open() (store.Store, error) { return u.tamper(u.model, u.crashes), nil }

func (u *unreliable) Crash(int64) {
	u.crashes++
	if !u.forgets {
		u.model = u.model.Crash()
	}
}

// lossy claims to have accepted or settled everything, and loses some of it.
type lossy struct {
	store.Store
	method string
	calls  *atomic.Int64
}

func (l lossy) loses(method string) bool {
	if method != l.method {
		return false
	}
	return l.calls.Add(1)%5 == 0
}

func (l lossy) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	if l.loses("Accept") {
		return []store.Accepted{{IDs: submissions[0].IDs()}}, nil
	}
	if messages := submissions[0].Messages; l.loses("half of Accept") && len(messages) > 1 {
		half := []store.Submission{{Messages: messages[:1]}}
		_, err := l.Store.Accept(ctx, now, half)
		return []store.Accepted{{IDs: submissions[0].IDs()}}, err
	}
	return l.Store.Accept(ctx, now, submissions)
}

func (l lossy) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	if l.loses("Settle") {
		return nil
	}
	if settlement.Callbacks != nil && l.loses("callbacks") {
		settlement.Callbacks = nil
	}
	if settlement.UpdateRun != nil && l.loses("conclusions") {
		settlement.UpdateRun = nil
	}
	return l.Store.Settle(ctx, now, settlement)
}

func (l lossy) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	if !l.loses("Transact") {
		forgets := func(method string) bool { return l.loses(method) }
		return l.Store.Transact(ctx, now, user, func(tx store.RunTx) error { return change(forgetful{tx, forgets}) })
	}
	errLost := errors.New("lost")
	err := l.Store.Transact(ctx, now, user, func(tx store.RunTx) error {
		if err := change(tx); err != nil {
			return err
		}
		return errLost
	})
	return except(err, errLost)
}

func (l lossy) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	changed, err := l.Store.Cancel(ctx, now, user, ids, step)
	if len(changed) > 0 && l.loses("count of Cancel") {
		changed = changed[1:]
	}
	return changed, err
}

func (l lossy) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	if l.loses("time of Claim") {
		now = now.Add(time.Hour)
	}
	claims, next, err := l.Store.Claim(ctx, now, limit)
	if len(claims) > 0 && l.loses("claims") {
		claims = claims[1:]
	}
	return claims, next, err
}

func (l lossy) Secret(ctx context.Context, key string) (string, error) {
	if l.loses("Secret") {
		return "", store.ErrNotFound
	}
	return l.Store.Secret(ctx, key)
}

func (l lossy) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	page, err := l.Store.DeadLetters(ctx, user, query)
	if len(page.DeadLetters) > 0 && l.loses("DeadLetters") {
		page.DeadLetters = page.DeadLetters[1:]
	}
	return page, err
}

// withoutSeen hides from the log what was read before a crash: its ACTIVE events.
func withoutSeen(s store.Store, crashes int) store.Store {
	if crashes == 0 {
		return s
	}
	return altered{Store: s, entries: func(entries []store.Entry) []store.Entry {
		return slices.DeleteFunc(entries, func(e store.Entry) bool { return e.State == posthaste.StateActive })
	}}
}

func TestCrashTestFindsDefects(t *testing.T) {
	losing := func(method string) func(store.Store, int) store.Store {
		calls := &atomic.Int64{}
		return func(s store.Store, _ int) store.Store { return lossy{s, method, calls} }
	}
	for _, test := range []struct {
		name    string
		tamper  func(store.Store, int) store.Store
		forgets bool
		want    string // in the error of some seed; "" for none
	}{
		{name: "none", tamper: func(s store.Store, _ int) store.Store { return s }},
		{name: "acceptances are lost", tamper: losing("Accept"), want: "an acknowledged change is lost"},
		{name: "acceptances are halved", tamper: losing("half of Accept"), want: "an acknowledged change is lost|parts of a change took place"},
		{name: "settlements are lost", tamper: losing("Settle"), want: "an acknowledged change is lost"},
		{name: "callbacks are lost", tamper: losing("callbacks"), want: "an acknowledged change is lost|parts of a change took place"},
		{name: "cancellations are miscounted", tamper: losing("count of Cancel"), want: "cancel"},
		{name: "messages are handed out early", tamper: losing("time of Claim"), want: "it is due at"},
		{name: "claims are lost", tamper: losing("claims"), want: "messages are leased"},
		{name: "secrets are lost", tamper: losing("Secret"), want: "secret"},
		{name: "dead letters are lost", tamper: losing("DeadLetters"), want: "dead letters of"},
		{name: "events that were read are lost", tamper: withoutSeen, want: "are gone|cannot follow"},
		{name: "transactions are lost", tamper: losing("Transact"), want: "run run-|log holds []|lost"},
		{name: "conclusions are lost", tamper: losing("conclusions"), want: "run run-|log holds []|lost|parts of a change took place"},
		{name: "runs are not saved", tamper: losing("Save"), want: "run run-|not the one known|parts"},
		{name: "waits do not begin", tamper: losing("Wait"), want: "run run-"},
		{name: "waits do not end", tamper: losing("EndWait"), want: "run run-"},
		{name: "events are not kept", tamper: losing("BufferEvent"), want: "run run-"},
		{name: "events are not forgotten", tamper: losing("DropEvents"), want: "run run-"},
		{name: "runs do not enter the DLQ", tamper: losing("AddToDLQ"), want: "run run-"},
		{name: "runs do not leave the DLQ", tamper: losing("RemoveFromDLQ"), want: "run run-"},
		{name: "deliveries are not cancelled", tamper: losing("CancelDeliveries"), want: "log holds|it does not live|parts|lost"},
		{
			name:    "leases survive",
			tamper:  func(s store.Store, _ int) store.Store { return s },
			forgets: true,
			want:    "want ErrLeaseLost|claimed: false",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var found error
			for seed := int64(1); seed <= 10; seed++ {
				err := crashTest(t.Context(), seed, &unreliable{model: model.New(), tamper: test.tamper, forgets: test.forgets})
				if err != nil && test.want != "" && saysOneOf(err, strings.Split(test.want, "|")) {
					return
				}
				found = errors.Join(found, err)
			}
			if test.want != "" || found != nil {
				t.Errorf("crashTest = %v, want an error that says %q", found, test.want)
			}
		})
	}
}

func saysOneOf(err error, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

func TestSeeds(t *testing.T) {
	for _, test := range []struct {
		name, seeds, seed string
		first             int64
		n                 int
	}{
		{"by default", "", "", 1, 10},
		{"more", "30", "", 1, 30},
		{"one alone", "30", "17", 17, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(seedsVariable, test.seeds)
			t.Setenv(seedVariable, test.seed)
			if got := seeds(t, 10); len(got) != test.n || got[0] != test.first {
				t.Errorf("seeds = %v, want %d from %d on", got, test.n, test.first)
			}
		})
	}
}
