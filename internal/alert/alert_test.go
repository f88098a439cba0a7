package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/alert"
	"posthaste/internal/engine"
)

// operator keeps what it is told, how long after the beginning, and how many of each.
type operator struct {
	*testing.T
	began  time.Time
	broken atomic.Bool // nothing can be published

	mu     sync.Mutex
	told   []told
	alerts []alert.Alert
}

type told struct {
	After                   time.Duration
	DeadLetters, FailedRuns int
}

func (o *operator) publish(_ context.Context, body []byte) error {
	if o.broken.Load() {
		return errors.New("disk on fire")
	}
	var a alert.Alert
	if err := json.Unmarshal(body, &a); err != nil {
		o.Error(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, told{time.Since(o.began), a.DeadLetters, a.FailedRuns})
	o.alerts = append(o.alerts, a)
	return nil
}

// watch runs a story in virtual time, whose operator is told under the options.
func watch(t *testing.T, options alert.Options, story func(a *alert.Alerter, o *operator)) {
	synctest.Test(t, func(t *testing.T) {
		o := &operator{T: t, began: time.Now()}
		options.Publish, options.Logger = o.publish, slog.New(slog.DiscardHandler)
		a := alert.New(options)
		a.Start()
		defer a.Stop()
		story(a, o)
	})
}

// fail lets messages fail, n of them, and what follows happen.
func fail(a *alert.Alerter, m *posthaste.Message, n int) {
	for range n {
		a.AttemptFinished(engine.AttemptReport{
			Message: m, State: posthaste.StateFailed, Outcome: posthaste.Outcome{Error: "no answer"},
		})
	}
	synctest.Wait()
}

func message() *posthaste.Message {
	return &posthaste.Message{ID: posthaste.MessageID{15: 1}, User: "ada", URL: "https://example.com/leak"}
}

func ofRun(callType posthaste.CallType) *posthaste.Message {
	m := message()
	m.Run = &posthaste.RunLink{RunRef: posthaste.RunRef{ID: "wfr_1"}, CallType: callType}
	return m
}

// ofAnsweredCall is a call whose run is told of a failure.
func ofAnsweredCall() *posthaste.Message {
	m := ofRun(posthaste.CallRequest)
	m.Run.Features = posthaste.FeatureNoDelete
	return m
}

// wants checks what was told so far.
func (o *operator) wants(want ...told) {
	o.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(want, o.told); diff != "" {
		o.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestThresholdAndQuiet(t *testing.T) {
	const quiet = 15 * time.Minute
	watch(t, alert.Options{Threshold: 3, Quiet: quiet}, func(a *alert.Alerter, o *operator) {
		fail(a, message(), 2)
		time.Sleep(time.Hour)
		o.wants() // below the threshold, however long it takes
		fail(a, ofRun(posthaste.CallStep), 1)
		first := told{time.Hour, 2, 1}
		o.wants(first)
		fail(a, message(), 10)
		o.wants(first) // quiet
		time.Sleep(quiet)
		synctest.Wait()
		second := told{time.Hour + quiet, 10, 0}
		o.wants(first, second)
		time.Sleep(time.Hour)
		o.wants(first, second) // nothing failed since
	})
}

func TestWhatCounts(t *testing.T) {
	tests := map[string]struct {
		report engine.AttemptReport
		counts bool
	}{
		"a message":                      {engine.AttemptReport{Message: message(), State: posthaste.StateFailed}, true},
		"a step":                         {engine.AttemptReport{Message: ofRun(posthaste.CallStep), State: posthaste.StateFailed}, true},
		"the answer of a call":           {engine.AttemptReport{Message: ofRun(posthaste.CallAnswer), State: posthaste.StateFailed}, true},
		"a call":                         {engine.AttemptReport{Message: ofAnsweredCall(), State: posthaste.StateFailed}, false},
		"a call whose run fails with it": {engine.AttemptReport{Message: ofRun(posthaste.CallRequest), State: posthaste.StateFailed}, true},
		"a failure callback":             {engine.AttemptReport{Message: ofRun(posthaste.CallFailure), State: posthaste.StateFailed}, false},
		"a retry":                        {engine.AttemptReport{Message: message(), State: posthaste.StateRetry}, false},
		"a delivery":                     {engine.AttemptReport{Message: message(), State: posthaste.StateDelivered}, false},
		"a cancellation":                 {engine.AttemptReport{Message: message(), State: posthaste.StateCancelled}, false},
		"an alert":                       {engine.AttemptReport{Message: &posthaste.Message{User: posthaste.ServerUser}, State: posthaste.StateFailed}, false},
		"a message with the label that alerts once had": {engine.AttemptReport{
			Message: &posthaste.Message{User: "ada", Settings: posthaste.Settings{Labels: []string{"posthaste-alert"}}}, State: posthaste.StateFailed,
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			watch(t, alert.Options{}, func(a *alert.Alerter, o *operator) {
				a.AttemptFinished(test.report)
				synctest.Wait()
				if got := len(o.told) == 1; got != test.counts {
					t.Errorf("told: %v, want %v", got, test.counts)
				}
			})
		})
	}
}

func TestBody(t *testing.T) {
	watch(t, alert.Options{}, func(a *alert.Alerter, o *operator) {
		fail(a, ofRun(posthaste.CallStep), 1)
		at := o.began.UnixMilli()
		want := alert.Alert{FailedRuns: 1, Since: at, Until: at, Latest: alert.Entry{
			MessageID: message().ID.String(), WorkflowRunID: "wfr_1", User: "ada", Host: "example.com", Error: "no answer",
		}}
		if diff := cmp.Diff([]alert.Alert{want}, o.alerts); diff != "" {
			t.Errorf("alert (-want +got):\n%s", diff)
		}
	})
}

// TestNothingIsForgotten checks that what cannot be told is told later, with the rest.
func TestNothingIsForgotten(t *testing.T) {
	watch(t, alert.Options{Quiet: time.Hour}, func(a *alert.Alerter, o *operator) {
		o.broken.Store(true)
		fail(a, message(), 2)
		fail(a, ofRun(posthaste.CallStep), 1)
		o.broken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(o.told) != 1 || o.told[0].DeadLetters != 2 || o.told[0].FailedRuns != 1 {
			t.Errorf("told %v, want all three at once", o.told)
		}
	})
}
